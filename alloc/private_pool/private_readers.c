/* private_readers.c: readers of the list of recording pools, and the writer
 * that waits until none reads an older list (private_int.h).
 *
 *   turn 0  ─┬─ readers of shard 0, 1, 2, …     entered while turn was even
 *   turn 1  ─┴─ readers of shard 0, 1, 2, …     while it was odd
 *
 * A thread counts itself in its shard, so that threads seldom share a cache
 * line. A writer changes the turn and waits for the count of the last one to be
 * 0, which it becomes because later readers use the other one; and once more,
 * for readers that had read the turn before it changed and counted themselves
 * afterwards. */
#include "alloc/private_pool/private_int.h"

static wm_private_readers *readers_of(wm_private_pools *pools)
{
    return &pools->readers[wm_window_thread() % WM_PRIVATE_SHARDS];
}

_Atomic unsigned *wm_private_read_begin(wm_private_pools *pools)
{
    /* Relaxed: any turn will do, see above. */
    unsigned turn = atomic_load_explicit(&pools->turn, memory_order_relaxed);
    _Atomic unsigned *count = &readers_of(pools)->inside[turn & 1];

    /* Sequentially consistent, as the reader's loads of the list, and the
     * writer's store to it and its loads of the count: the writer sees the
     * reader, or the reader the new list. */
    atomic_fetch_add_explicit(count, 1, memory_order_seq_cst);
    return count;
}

void wm_private_read_end(_Atomic unsigned *count)
{
    /* Release: the writer's load of 0 sees what the reader did. */
    atomic_fetch_sub_explicit(count, 1, memory_order_release);
}

void wm_private_await_readers(wm_private_pools *pools)
{
    wm_lock_acquire(&pools->writer);
    for (int i = 0; i < 2; i++) {
        /* Relaxed: only this thread changes it, under the lock. */
        unsigned old =
            atomic_fetch_add_explicit(&pools->turn, 1, memory_order_relaxed);

        for (int k = 0; k < WM_PRIVATE_SHARDS; k++) {
            unsigned waited = 0;

            while (atomic_load_explicit(&pools->readers[k].inside[old & 1],
                                        memory_order_seq_cst) != 0) {
                wm_wait_turn(waited++);
            }
        }
    }
    wm_lock_release(&pools->writer);
}
