/* section.h: what one thread uses without a lock, and others may still take.
 *
 * A hit of the owner may neither lock nor fence nor read-modify-write; yet
 * another thread must be able to own the content for a while (memory is short,
 * a stream retires, the runtime goes). A Dekker pair with all of its cost on
 * the rare side:
 *
 *   owner, hit          busy = 1 │ closed?  ─ no ─► content ─► busy = 0
 *                                └─ yes ─► busy = 0, slow path
 *   owner, slow path    lock ─► content ─► unlock
 *   another thread      closed |= reason, barrier in every thread, then
 *                       lock, wait until busy is 0 ─► content ─► open, unlock
 *
 * Where the other thread works on several sections at once it unlocks each as
 * it goes on, but leaves them closed and still, and opens all at the end.
 *
 * The owner's store and load may pass each other in its processor. The barrier
 * (membarrier(2)) makes every running thread execute a fence between them or
 * around both: either the owner's 1 is seen, or the owner sees the reason.
 * Whoever is in has no lock above WM_RANK_WINDOW, calls no driver and no user.
 *
 * Where the kernel has no such barrier sections are closed from birth: the
 * owner's calls take the lock then. ThreadSanitizer does not know the barrier;
 * under it both sides are sequentially consistent. */
#ifndef WM_SECTION_H
#define WM_SECTION_H

#include "runtime/base/lock.h"
#include "runtime/base/status.h"

#include <sched.h>
#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#define WM_SECTION_SEQ_CST 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WM_SECTION_SEQ_CST 1
#endif
#endif
#ifndef WM_SECTION_SEQ_CST
#define WM_SECTION_SEQ_CST 0
#endif

/* Why a section is closed to the owner's hits; 0: it is open. */
enum wm_closed {
    WM_CLOSED_VISIT = 1, /* another thread has the content, for a moment */
    WM_CLOSED_SLOW = 2,  /* from birth: every call shall take its slow path */
    WM_CLOSED_EXIT = 4,  /* for ever: the process exits (row A6) */
    WM_CLOSED_CUT = 8,   /* for ever: no content, its runtime has gone */
    WM_CLOSED_HOME = 16, /* by its owner: the thread has moved to another node,
                            and what it keeps is to follow */
    WM_CLOSED_STILL = 32 /* with VISIT: another thread works on what several
                            sections guard; their owners wait until it is
                            done, on the slow path, too */
};

/* Reasons that are over in a moment. */
enum { WM_CLOSED_BRIEFLY = WM_CLOSED_VISIT | WM_CLOSED_STILL };

typedef struct wm_section {
    _Atomic unsigned closed; /* reasons; raised and cleared by any thread */
    _Atomic unsigned busy;   /* stored by the owner: it is in a hit */
    wm_lock lock;            /* rank WINDOW */
} wm_section;

void wm_section_init(wm_section *section, unsigned closed);
void wm_section_fini(wm_section *section);

/* The owner may use the content, until it leaves; it does nothing that could
 * block, fail or jump meanwhile. False: the slow path. also: other reasons not
 * to, of the caller's own; one test does for all. */
static inline __attribute__((always_inline)) bool
wm_section_enter_unless(wm_section *section, unsigned also)
{
#if WM_SECTION_SEQ_CST
    const memory_order store = memory_order_seq_cst;
    const memory_order load = memory_order_seq_cst;
#else
    /* Relaxed: ordered before the load of closed by the barrier of whoever
     * closes. Acquire pairs with the release in wm_section_open(). */
    const memory_order store = memory_order_relaxed;
    const memory_order load = memory_order_acquire;
#endif

    atomic_store_explicit(&section->busy, 1, store);
    atomic_signal_fence(memory_order_seq_cst); /* for the compiler */
    if (wm_likely((atomic_load_explicit(&section->closed, load) | also) == 0)) {
        return true;
    }
    atomic_store_explicit(&section->busy, 0, memory_order_release);
    return false;
}

static inline __attribute__((always_inline)) bool
wm_section_enter(wm_section *section)
{
    return wm_section_enter_unless(section, 0);
}

static inline __attribute__((always_inline)) void
wm_section_leave(wm_section *section)
{
    /* Release pairs with the acquire in wm_section_take(). */
    atomic_store_explicit(&section->busy, 0, memory_order_release);
}

/* Raises reasons. Hits that began before may go on; see wm_section_barrier().
 */
static inline void wm_section_close(wm_section *section, unsigned reasons)
{
    atomic_fetch_or_explicit(&section->closed, reasons, memory_order_seq_cst);
}

/* Clears reasons; the caller has the lock, and has left the content. */
static inline void wm_section_open(wm_section *section, unsigned reasons)
{
    atomic_fetch_and_explicit(&section->closed, ~reasons, memory_order_release);
}

static inline bool wm_section_is_closed(wm_section *section, unsigned reasons)
{
    /* Relaxed: asked by who raised them. */
    return (atomic_load_explicit(&section->closed, memory_order_relaxed) &
            reasons) != 0;
}

/* Whether nothing but a visit closes it; asked by the owner, who has the lock
 * and may go on as in a hit then. */
static inline bool wm_section_is_hittable(wm_section *section)
{
    /* Relaxed: a reason that comes now finds what the owner did by the lock. */
    return (atomic_load_explicit(&section->closed, memory_order_relaxed) &
            ~(unsigned)WM_CLOSED_BRIEFLY) == 0;
}

/* WM_CLOSED_SLOW where barriers are not to be had, else 0: what sections are
 * closed for from birth. */
unsigned wm_section_birth(void);

/* After it no hit begins in sections that were closed before it. False: the
 * kernel refuses, since a filter of system calls came between; nobody may take
 * a section of another thread then that was ever open, unless that thread is
 * known to be in no hit. */
bool wm_section_barrier(void);

/* The owner has the lock of a section that is still: waits until it is not, and
 * has the lock again. */
void wm_section_wait(wm_section *section);

/* Locks a section of the calling thread, which is not still then. Who is about
 * to visit it has closed those of many threads, and may have lost the
 * processor: to one of them, which makes way for it. */
static inline void wm_section_lock(wm_section *section)
{
    if (wm_unlikely(wm_section_is_closed(section, WM_CLOSED_VISIT))) {
        sched_yield();
    }
    wm_lock_acquire(&section->lock);
    if (wm_unlikely(wm_section_is_closed(section, WM_CLOSED_STILL))) {
        wm_section_wait(section);
    }
}

/* Locks a section of another thread, closed and past the barrier: waits until
 * its owner is out of its hit. */
void wm_section_take(wm_section *section);

static inline void wm_section_unlock(wm_section *section)
{
    wm_lock_release(&section->lock);
}

#endif
