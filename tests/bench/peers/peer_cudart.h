/* peer_cudart.h: what C++ subjects see of the bench: bench.h, and of the
 * bench's cudart (peer_cudart.c) its counts and its events (event.h), without
 * C11 atomics. */
#ifndef BENCH_PEER_CUDART_H
#define BENCH_PEER_CUDART_H

#ifdef __cplusplus
extern "C" {
#endif

#include "tests/bench/bench.h"

void bench_cudart_counts(bench_counts *counts);

#ifdef __cplusplus
void bench_event_price(unsigned record_ns, unsigned query_ns, unsigned lag,
                       bool aging);
void bench_event_clock(uint64_t (*clock)(void));
void *bench_stream_new(void);
void bench_stream_use(void *stream);
}
#endif

#endif
