/* wt_order.h: a device with a single segment, most of which is idle for a
 * stream whose work waits at a gate. For every backend. Include it once in a
 * program.
 */
#ifndef WT_ORDER_H
#define WT_ORDER_H

#include "wt.h"

#define MIB ((size_t)1 << 20)

/* Bytes of a block, and of the segment. */
enum { BLOCK = 16 << 20, HELD = 32 << 20 };

static warm_runtime *runtime;
static warm_stream first, second;
static wt_gate *gate;
static void *kept, *idle; /* of `first`: in use; freed by the test */

/* The caller queues work on other streams if needed, then frees `idle`. */
static inline void wt_order_begin(warm_options options)
{
    options.size = sizeof options;
    options.segment = HELD;
    runtime = wt_runtime(&options);
    wt_ok(warm_stream_create(runtime, 0, &first));
    wt_ok(warm_stream_create(runtime, 0, &second));
    kept = wt_device(runtime, first, BLOCK / 2);
    idle = wt_device(runtime, first, BLOCK);
    gate = wt_gate_close(runtime, first);
    wt_gate_await(gate);
}

/* Leaves no room for a second segment. */
static inline void wt_order_limit(void)
{
    wt_limit(runtime, HELD + 0.5 * MIB);
}

#endif
