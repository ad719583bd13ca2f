/* counter.c: which shard a thread adds to. */
#include "runtime/base/counter.h"

unsigned wm_counter_shard(void)
{
    static _Thread_local char here;

    /* Thread stacks and TLS blocks lie pages apart; fold the page number. */
    uintptr_t page = (uintptr_t)&here >> 12;

    return (unsigned)((page ^ (page >> 3) ^ (page >> 9)) % WM_COUNTER_SHARDS);
}
