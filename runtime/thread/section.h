/* section.h: a lock that is biased to one thread, its owner.
 *
 * A hit of the owner must not lock, fence or read-modify-write; yet another
 * thread, a visitor, must be able to use the content for a while (memory is
 * short, a stream retires, the runtime ends). This is Dekker's protocol with
 * all of its cost on the visitor's side:
 *
 *   owner, hit          busy = 1 │ closed?  ─ no ─► content ─► busy = 0
 *                                └─ yes ─► busy = 0, slow path
 *   owner, slow path    lock ─► content ─► unlock
 *   visitor             closed |= reason, barrier in every thread, then
 *                       lock, wait until busy is 0 ─► content ─► open, unlock
 *
 * If a visitor works on several sections as one, it unlocks each after its
 * visit but leaves it closed and STILL, and opens all of them at the end.
 *
 * The owner's processor may reorder its store of busy and its load of closed.
 * The barrier (membarrier(2)) makes every running thread execute a fence
 * between the two, or around both: either the visitor sees busy = 1, or the
 * owner sees the reason. Inside a section a thread takes only locks of ranks
 * above WM_RANK_WINDOW and calls neither drivers nor user code.
 *
 * If the kernel refuses the barrier, sections are closed from birth: the owner
 * always takes the lock. ThreadSanitizer does not know the barrier; under it
 * both sides are sequentially consistent. */
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
    WM_CLOSED_VISIT = 1, /* a visitor uses the content, for a moment */
    WM_CLOSED_SLOW = 2,  /* from birth: every call takes its slow path */
    WM_CLOSED_EXIT = 4,  /* for ever: the process exits */
    WM_CLOSED_CUT = 8,   /* for ever: no content, the runtime is destroyed */
    WM_CLOSED_HOME = 16, /* by the owner: its thread now uses another node, and
                            its cached blocks have to be exchanged */
    WM_CLOSED_STILL = 32 /* with VISIT: the visitor works on several sections as
                            one; owners wait for its end on the slow path too */
};

/* Reasons of a visit, which ends soon. */
enum { WM_CLOSED_BRIEFLY = WM_CLOSED_VISIT | WM_CLOSED_STILL };

typedef struct wm_section {
    _Atomic unsigned closed; /* reasons; set and cleared by any thread */
    _Atomic unsigned busy;   /* 1: the owner is in a hit; stored by it alone */
    wm_lock lock;            /* rank WINDOW */
} wm_section;

void wm_section_init(wm_section *section, unsigned closed);
void wm_section_fini(wm_section *section);

/* The owner begins a hit: if true it may use the content until it calls
 * wm_section_leave(), and does nothing in between that could block, fail or
 * jump. If false it has to take the slow path. also: more reasons of the caller
 * to refuse, so that one test covers all. */
static inline __attribute__((always_inline)) bool
wm_section_enter_unless(wm_section *section, unsigned also)
{
#if WM_SECTION_SEQ_CST
    const memory_order store = memory_order_seq_cst;
    const memory_order load = memory_order_seq_cst;
#else
    /* Relaxed: the visitor's barrier orders the store before the load of
     * closed. Acquire pairs with the release in wm_section_open(). */
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

/* Adds reasons. Hits that began before may continue: see wm_section_barrier().
 */
static inline void wm_section_close(wm_section *section, unsigned reasons)
{
    atomic_fetch_or_explicit(&section->closed, reasons, memory_order_seq_cst);
}

/* Clears reasons. The caller holds the lock and no longer uses the content. */
static inline void wm_section_open(wm_section *section, unsigned reasons)
{
    atomic_fetch_and_explicit(&section->closed, ~reasons, memory_order_release);
}

static inline bool wm_section_is_closed(wm_section *section, unsigned reasons)
{
    /* Relaxed: the caller is the thread that set the reasons. */
    return (atomic_load_explicit(&section->closed, memory_order_relaxed) &
            reasons) != 0;
}

/* Whether the section is open, or closed by a visit alone. The owner, which
 * holds the lock, may then use the content as in a hit. */
static inline bool wm_section_is_hittable(wm_section *section)
{
    /* Relaxed: a visitor that sets a reason now takes the lock first. */
    return (atomic_load_explicit(&section->closed, memory_order_relaxed) &
            ~(unsigned)WM_CLOSED_BRIEFLY) == 0;
}

/* The reason that closes sections from birth: WM_CLOSED_SLOW if the kernel
 * refuses barriers, else 0. */
unsigned wm_section_birth(void);

/* After it no hit begins in a section that was closed before it. False: the
 * kernel refuses the barrier, because a filter of system calls was installed
 * meanwhile. Then a section that was ever open must not be visited, unless its
 * owner is known to be in no hit. */
bool wm_section_barrier(void);

/* The owner holds the lock of a section that is STILL: waits, with the lock
 * released, until it is not. */
void wm_section_wait(wm_section *section);

/* Locks a section of the calling thread and waits until it is not STILL. If a
 * visitor has closed the section, the visitor may have been preempted by this
 * thread while many sections are closed: yields once so that it can finish. */
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

/* Locks a section of another thread, after closing it and the barrier: waits
 * until its owner has left its hit. */
void wm_section_take(wm_section *section);

static inline void wm_section_unlock(wm_section *section)
{
    wm_lock_release(&section->lock);
}

#endif
