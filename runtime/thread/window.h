/* window.h: what one thread holds of one runtime.
 *
 *   TLS ── wm_window_current ─► the window used last, for the hot path
 *       └─ list ─► window ─► window ─► …   one for each runtime it used
 *                    │ runtime (weak: GONE once destroyed)
 *   runtime ─► windows ─► window ─► …      lock windows
 *
 * Only the owner thread uses handles, bindings and held; destroy reaches a
 * window through the runtime's list, under the windows lock, and does nothing
 * but cut its link to the runtime. The memory belongs to the thread. Windows
 * go when the thread exits, by one destructor of one pthread key; one that is
 * made again by a later destructor is released in the next round of them. In
 * the last round it is refused, if ours ran in each: a destructor that kept
 * quiet until then is not told from the thread itself, and what it reserves
 * stays in use. */
#ifndef WM_WINDOW_H
#define WM_WINDOW_H

#include "runtime/thread/control.h"

/* The link of a window whose runtime is gone. Not null: a caller's null
 * runtime must not compare equal to it. */
#define WM_WINDOW_GONE ((warm_runtime *)(uintptr_t)1)

/* What a handle in the window is bound to. */
typedef struct wm_binding {
    warm_stream stream;
    uint64_t stream_id; /* the driver's, never used twice */
    uint64_t epoch;     /* runtime's stream_epoch before it was bound, or 0 */
    void *workspace;    /* that it was bound with, or null */
} wm_binding;

/* A call that works on the window; on the stack of its owner, which may be in
 * several at once: a callback of one makes the next. */
typedef struct wm_window_call {
    const struct wm_window_call *outer;
    size_t index; /* of the handle that it wants */
} wm_window_call;

struct wm_window {
    /* Relaxed loads by the owner (a pointer that is compared, and followed
     * only by threads that may call the runtime); stored under the windows
     * lock. */
    _Atomic(warm_runtime *) runtime;
    unsigned devices;           /* const; 0 in the window of no runtime */
    const wm_window_call *call; /* owner thread: the innermost, or null */
    wm_window *next_of_thread;  /* owner thread */
    wm_window *next, **link;    /* lock windows */
    wm_binding *bindings;       /* const; as handles */
    uint32_t *held;             /* const; [device], bit = kind */
    void *handles[];            /* owner thread; [device][kind], null: none */
};

/* Never null. Initial-exec: one load through the GOT and no call; 8 bytes of
 * the space that the C library keeps for libraries loaded late. */
extern _Thread_local const wm_window *wm_window_current
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

_Static_assert(WARM_KIND_MAX == 1 << 5, "wm_window_index() shifts by it");

static inline unsigned wm_window_index(warm_kind kind, int device)
{
    return ((unsigned)device << 5) | (unsigned)kind;
}

/* The calling thread's window of a live runtime, made if there is none; it is
 * the current one then. Status: OUT_OF_MEMORY; EXITING (the thread has been
 * through its last destructor). */
warm_status wm_window_get(warm_runtime *runtime, wm_window **window);

/* Gives back all that the calling thread holds of the runtime.
 * Status: INVALID_ARGUMENT (called back from a call that uses the window). */
warm_status wm_window_drop(warm_runtime *runtime);

/* Whether the calling thread is in a callback of a call that uses its window
 * of the runtime. */
bool wm_window_in_call(warm_runtime *runtime);

/* Cuts every window of the runtime off; for destroy. */
void wm_window_cut_all(warm_runtime *runtime);

/* In the child of a fork: the thread has no windows any more. */
void wm_window_forked(void);

#endif
