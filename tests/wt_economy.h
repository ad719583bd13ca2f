/* wt_economy.h: for tests of the library's insides, a space that has been in
 * use (alloc/arena/economy.h). */
#ifndef WT_ECONOMY_H
#define WT_ECONOMY_H

#include "alloc/arena/group.h"

/* As if so much had been needed a moment ago; the peak decays from then on, by
 * an eighth in a second. With option keep:1000 all threads together may cache
 * that much. */
static inline void wt_peak_at(wm_arena_group *group, size_t bytes)
{
    wm_economy_look(group); /* the next decay is in a second */
    atomic_store_explicit(&group->economy.peak, bytes, memory_order_relaxed);
}

#endif
