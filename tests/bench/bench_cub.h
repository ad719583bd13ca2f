/* bench_cub.h: what of the bench C++ can see: bench.h, and event.h without
 * its C11 atomics. */
#ifndef BENCH_CUB_H
#define BENCH_CUB_H

#ifdef __cplusplus
extern "C" {
#endif

#include "tests/bench/bench.h"

void bench_event_price(unsigned record_ns, unsigned query_ns, unsigned lag,
                       bool aging);
void bench_event_clock(uint64_t (*clock)(void));
void *bench_stream_new(void);
void *bench_event_new(void);
void bench_stream_use(void *stream);
void bench_event_record(void *event, void *stream);
bool bench_event_done(void *event);

#ifdef __cplusplus
}
#endif

#endif
