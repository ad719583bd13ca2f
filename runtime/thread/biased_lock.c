/* biased_lock.c: how a visitor gets the biased lock of another thread:
 * biased_lock.h. */
#include "runtime/thread/biased_lock.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

void wm_biased_init(wm_biased_lock *biased, unsigned revoked)
{
    wm_lock_init(&biased->lock, WM_RANK_WINDOW);
    /* Relaxed: published with what holds the biased lock. */
    atomic_store_explicit(&biased->busy, 0, memory_order_relaxed);
    atomic_store_explicit(&biased->revoked, revoked, memory_order_relaxed);
}

#if WM_BIASED_SEQ_CST
unsigned wm_biased_birth(void)
{
    return 0;
}

bool wm_biased_barrier(void)
{
    return true;
}
#else
static bool barrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

unsigned wm_biased_birth(void)
{
    return barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) ? 0
                                                              : WM_REVOKED_SLOW;
}

bool wm_biased_barrier(void)
{
    return barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}
#endif

void wm_biased_visit(wm_biased_lock *biased)
{
    wm_lock_acquire(&biased->lock);
    /* Acquire pairs with the release in wm_biased_leave(); under
     * ThreadSanitizer sequentially consistent, see biased_lock.h. */
    for (unsigned turn = 0;
         atomic_load_explicit(&biased->busy, memory_order_seq_cst) != 0;
         turn++) {
        wm_wait_turn(turn);
    }
}

void wm_biased_wait(wm_biased_lock *biased)
{
    /* Acquire pairs with the release in wm_biased_restore(). */
    for (unsigned turn = 0;
         (atomic_load_explicit(&biased->revoked, memory_order_acquire) &
          WM_REVOKED_STILL) != 0;
         turn++) {
        wm_lock_release(&biased->lock);
        wm_wait_turn(turn);
        wm_lock_acquire(&biased->lock);
    }
}
