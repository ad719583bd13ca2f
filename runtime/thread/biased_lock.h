/* biased_lock.h: a lock that is biased to one thread, its owner.
 *
 * A hit of the owner must not lock, fence or read-modify-write; yet another
 * thread, a visitor, must be able to use the content for a while (memory is
 * short, a stream retires, the runtime ends). This is Dekker's protocol with
 * all of its cost on the visitor's side:
 *
 *   owner, hit          busy = 1 │ revoked?  ─ no ─► content ─► busy = 0
 *                                └─ yes ─► busy = 0, slow path
 *   owner, slow path    lock ─► content ─► unlock
 *   visitor             revoked |= reason, barrier in every thread, then
 *                       lock, wait until busy is 0 ─► content
 *                       ─► restore, unlock
 *
 * If a visitor works on several biased locks as one, it unlocks each after its
 * visit but leaves it revoked and STILL, and restores all of them at the end.
 *
 * The owner's processor may reorder its store of busy and its load of revoked.
 * The barrier (membarrier(2)) makes every running thread execute a fence
 * between the two, or around both: either the visitor sees busy = 1, or the
 * owner sees the reason. Inside a biased lock a thread takes only locks of
 * ranks above WM_RANK_WINDOW and calls neither drivers nor user code.
 *
 * If the kernel refuses the barrier, biased locks are revoked from birth: the
 * owner always takes the lock. ThreadSanitizer does not know the barrier; under
 * it both sides are sequentially consistent. */
#ifndef WM_BIASED_LOCK_H
#define WM_BIASED_LOCK_H

#include "runtime/base/lock.h"
#include "runtime/base/status.h"

#include <sched.h>
#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#define WM_BIASED_SEQ_CST 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WM_BIASED_SEQ_CST 1
#endif
#endif
#ifndef WM_BIASED_SEQ_CST
#define WM_BIASED_SEQ_CST 0
#endif

/* Why a biased lock is revoked; 0: its owner may hit. */
enum wm_revoked {
    WM_REVOKED_VISIT = 1, /* a visitor uses the content, for a moment */
    WM_REVOKED_SLOW = 2,  /* for ever: every call takes its slow path */
    WM_REVOKED_EXIT = 4,  /* for ever: the process exits */
    WM_REVOKED_CUT = 8,   /* for ever: no content, the runtime is destroyed */
    WM_REVOKED_HOME = 16, /* by the owner: its thread now uses another node, and
                            its cached blocks have to be exchanged */
    WM_REVOKED_STILL =
        32 /* with VISIT: the visitor works on several biased locks as
             one; owners wait for its end on the slow path too */
};

/* Reasons of a visit, which ends soon. */
enum { WM_REVOKED_BRIEFLY = WM_REVOKED_VISIT | WM_REVOKED_STILL };

typedef struct wm_biased_lock {
    _Atomic unsigned revoked; /* reasons; set and cleared by any thread */
    _Atomic unsigned busy;    /* 1: the owner is in a hit; stored by it alone */
    wm_lock lock;             /* rank WINDOW */
} wm_biased_lock;

void wm_biased_init(wm_biased_lock *biased, unsigned revoked);

/* The owner begins a hit: if true it may use the content until it calls
 * wm_biased_leave(), and does nothing in between that could block, fail or
 * jump. If false it has to take the slow path. also: reasons of the caller to
 * refuse (0: none), so that one test covers all. */
static inline __attribute__((always_inline)) bool
wm_biased_enter_unless(wm_biased_lock *biased, unsigned also)
{
#if WM_BIASED_SEQ_CST
    const memory_order store = memory_order_seq_cst;
    const memory_order load = memory_order_seq_cst;
#else
    /* Relaxed: the visitor's barrier orders the store before the load of
     * revoked. Acquire pairs with the release in wm_biased_restore(). */
    const memory_order store = memory_order_relaxed;
    const memory_order load = memory_order_acquire;
#endif

    atomic_store_explicit(&biased->busy, 1, store);
    atomic_signal_fence(memory_order_seq_cst); /* for the compiler */
    if (wm_likely((atomic_load_explicit(&biased->revoked, load) | also) == 0)) {
        return true;
    }
    atomic_store_explicit(&biased->busy, 0, memory_order_release);
    return false;
}

static inline __attribute__((always_inline)) bool
wm_biased_enter(wm_biased_lock *biased)
{
    return wm_biased_enter_unless(biased, 0);
}

static inline __attribute__((always_inline)) void
wm_biased_leave(wm_biased_lock *biased)
{
    /* Release pairs with the acquire in wm_biased_visit(). */
    atomic_store_explicit(&biased->busy, 0, memory_order_release);
}

/* Adds reasons. Hits that began before may continue: see wm_biased_barrier().
 */
static inline void wm_biased_revoke(wm_biased_lock *biased, unsigned reasons)
{
    atomic_fetch_or_explicit(&biased->revoked, reasons, memory_order_seq_cst);
}

/* Clears reasons. The caller holds the lock and no longer uses the content. */
static inline void wm_biased_restore(wm_biased_lock *biased, unsigned reasons)
{
    atomic_fetch_and_explicit(&biased->revoked, ~reasons, memory_order_release);
}

static inline bool wm_biased_is_revoked(wm_biased_lock *biased,
                                        unsigned reasons)
{
    /* Relaxed: the caller set the reason itself, or holds the lock under which
     * the visitor left it; without either the answer is a hint. */
    return (atomic_load_explicit(&biased->revoked, memory_order_relaxed) &
            reasons) != 0;
}

/* Whether the biased lock is not revoked, or revoked by a visit alone. The
 * owner, which holds the lock, may then use the content as in a hit. */
static inline bool wm_biased_is_hittable(wm_biased_lock *biased)
{
    /* Relaxed: a visitor that sets a reason now takes the lock first. */
    return (atomic_load_explicit(&biased->revoked, memory_order_relaxed) &
            ~(unsigned)WM_REVOKED_BRIEFLY) == 0;
}

/* The reason that revokes biased locks from birth: WM_REVOKED_SLOW if the
 * kernel refuses barriers, else 0. */
unsigned wm_biased_birth(void);

/* After the barrier no hit begins under a biased lock that was revoked before
 * it. False: the kernel refuses the barrier, because a filter of system calls
 * was installed meanwhile. Then a biased lock whose owner ever could hit must
 * not be visited, unless its owner is known to be in no hit. */
bool wm_biased_barrier(void);

/* The owner holds the lock of a biased lock that is STILL: waits, with the lock
 * released, until it is not. */
void wm_biased_wait(wm_biased_lock *biased);

/* Locks a biased lock of the calling thread and waits until it is not STILL. If
 * a visitor has revoked the biased lock, the visitor may have been preempted by
 * this thread while many biased locks are revoked: yields once so that it can
 * finish. */
static inline void wm_biased_acquire(wm_biased_lock *biased)
{
    if (wm_unlikely(wm_biased_is_revoked(biased, WM_REVOKED_VISIT))) {
        sched_yield();
    }
    wm_lock_acquire(&biased->lock);
    if (wm_unlikely(wm_biased_is_revoked(biased, WM_REVOKED_STILL))) {
        wm_biased_wait(biased);
    }
}

/* Locks a biased lock of another thread, after revoking it and the barrier:
 * waits until its owner has left its hit. */
void wm_biased_visit(wm_biased_lock *biased);

static inline void wm_biased_release(wm_biased_lock *biased)
{
    wm_lock_release(&biased->lock);
}

#endif
