/* section.c: how a visitor gets the section of another thread: section.h. */
#include "runtime/thread/section.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

void wm_section_init(wm_section *section, unsigned closed)
{
    wm_lock_init(&section->lock, WM_RANK_WINDOW);
    /* Relaxed: published with what holds the section. */
    atomic_store_explicit(&section->busy, 0, memory_order_relaxed);
    atomic_store_explicit(&section->closed, closed, memory_order_relaxed);
}

void wm_section_fini(wm_section *section)
{
    wm_lock_fini(&section->lock);
}

#if WM_SECTION_SEQ_CST
unsigned wm_section_birth(void)
{
    return 0;
}

bool wm_section_barrier(void)
{
    return true;
}
#else
static bool barrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

unsigned wm_section_birth(void)
{
    return barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) ? 0
                                                              : WM_CLOSED_SLOW;
}

bool wm_section_barrier(void)
{
    return barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}
#endif

void wm_section_take(wm_section *section)
{
    wm_lock_acquire(&section->lock);
    /* Acquire pairs with the release in wm_section_leave(); under
     * ThreadSanitizer sequentially consistent, see section.h. */
    for (unsigned turn = 0;
         atomic_load_explicit(&section->busy, memory_order_seq_cst) != 0;
         turn++) {
        wm_wait_turn(turn);
    }
}

void wm_section_wait(wm_section *section)
{
    /* Acquire pairs with the release in wm_section_open(). */
    for (unsigned turn = 0;
         (atomic_load_explicit(&section->closed, memory_order_acquire) &
          WM_CLOSED_STILL) != 0;
         turn++) {
        wm_lock_release(&section->lock);
        wm_wait_turn(turn);
        wm_lock_acquire(&section->lock);
    }
}
