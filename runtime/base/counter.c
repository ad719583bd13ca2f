/* counter.c: which shard a thread adds to. */
#include "runtime/base/counter.h"

#include <sched.h>

unsigned wm_counter_shard(void)
{
    /* Of the processor, so that no line goes from one to another but with a
     * thread that moves. -1 where it is not known is a shard as well. */
    return (unsigned)sched_getcpu() % WM_COUNTER_SHARDS;
}
