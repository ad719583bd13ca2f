/* counter.c: which shard a thread adds to. */
#include "runtime/base/counter.h"

#include <sched.h>

unsigned wm_counter_shard(void)
{
    /* By processor, so that a cache line changes processors only when a thread
     * does. -1, for an unknown processor, yields a valid shard too. */
    return (unsigned)sched_getcpu() % WM_COUNTER_SHARDS;
}
