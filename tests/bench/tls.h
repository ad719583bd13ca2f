/* tls.h: the yardstick of the handle rows: a thread-local read, by a call. */
#ifndef BENCH_TLS_H
#define BENCH_TLS_H

void *bench_tls_read(void);

#endif
