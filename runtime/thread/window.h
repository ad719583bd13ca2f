/* window.h: what one thread holds of one runtime.
 *
 *   TLS ── wm_window_current ─► the window used last, for the hot path
 *       └─ list ─► window ─► window ─► …   one for each runtime it used
 *                    │ runtime (weak: GONE once destroyed)
 *   runtime ─► windows ─► window ─► …      all of them, lock windows
 *           └► ready_window, spare_windows ─► …   those that no thread has
 *
 * Only the owner thread uses rows. What the section guards others may take as
 * well: they reach a window through the runtime's list, under the windows lock.
 *
 * The memory belongs to the runtime, which keeps a window whose thread has gone
 * for the next one: threads come and go without malloc, whose first and last
 * call in a thread cost more than all the rest. There are as many as threads
 * were alive at once. Destroy empties the sections, frees what no thread has
 * and cuts the other windows' link to the runtime: their memory is their
 * thread's from then on (row A5).
 *
 *   SPARE ──── first call of a thread ────► USED ── destroy ─► cut
 *     └◄─ the thread exits or releases ──────┘ └─ exits while the runtime
 *                                                 closes ─► LEFT
 *
 * Windows go when the thread exits, by one destructor of one pthread key; one
 * that is made again by a later destructor is released in the next round of
 * them. In the last round it is refused, if ours ran in each: a destructor that
 * kept quiet until then is not told from the thread itself, and what it
 * reserves stays in use. */
#ifndef WM_WINDOW_H
#define WM_WINDOW_H

#include "runtime/thread/control.h"
#include "runtime/thread/section.h"

/* The link of a window whose runtime is gone. Not null: a caller's null
 * runtime must not compare equal to it. */
#define WM_WINDOW_GONE ((warm_runtime *)(uintptr_t)1)

/* The state of no block. */
#define WM_NO_TAG UINT64_MAX

struct wm_block;          /* alloc/block/block.h */
struct wm_pending_stream; /* alloc/cache/pending.h */
struct wm_magazine_set;   /* alloc/cache/magazine.h */
struct wm_trace_buffer;   /* runtime/base/trace.h */

/* A word each for every kind on four devices: four of one sort and then four
 * of another, for kind after kind. One index, kind × 8 + device, which x86 adds
 * up in one instruction, finds both, and what a thread has of one kind lies in
 * one line of the cache. */
enum {
    WM_ROW_DEVICES = 4,
    WM_ROW_SECOND = WM_ROW_DEVICES, /* from the first sort to the second */
    WM_ROW_WORDS = 2 * WM_ROW_DEVICES
};
typedef uint64_t wm_words[WARM_KIND_MAX * WM_ROW_WORDS];

_Static_assert(sizeof(uintptr_t) == sizeof(uint64_t), "words hold pointers");

typedef struct wm_rows {
    wm_words held;  /* 0, or all ones: none held | the handle, or null */
    wm_words bound; /* the stream it is bound to | the runtime's stream_epoch
                     * before it was bound, or 0: to none */
    wm_words with;  /* that stream's id, never used twice | the workspace */
} wm_rows;

/* A call that works on the window; on the stack of its owner, which may be in
 * several at once: a callback of one makes the next. */
typedef struct wm_window_call {
    const struct wm_window_call *outer;
    warm_kind kind; /* that it wants a handle of */
    int device;
} wm_window_call;

/* Whose a window is, until it is cut. */
enum wm_window_state {
    WM_WINDOW_SPARE, /* nobody's, and empty */
    WM_WINDOW_USED,  /* its thread's */
    WM_WINDOW_LEFT   /* nobody's; its thread found the runtime closing */
};

/* One of the sets of magazines for memory of devices, each of one device in the
 * order of one stream (alloc/cache/stream_slot.h). With the section. */
enum { WM_STREAM_SLOTS = 8 };
typedef struct wm_stream_slot {
    _Alignas(64) warm_stream stream;
    /* The runtime's stream_epoch before the stream was looked up last; 0: it is
     * not to be trusted. */
    uint64_t epoch;
    int device; /* -1: there is no set */
    /* As those below. */
    _Atomic uint64_t live_tag;
    _Atomic(struct wm_magazine_set *) set;
} wm_stream_slot;

/* Places for blocks that hits handed out: as many as keep most of some dozen
 * apart. */
enum { WM_POINTER_CACHE_BITS = 9 };

struct wm_window {
    /* For the hot path: whose window it is, const; and how many devices its
     * first rows have, 0 once it is cut or the process exits. Relaxed: a
     * reserve beside the exit handler may come before it. */
    warm_runtime *owner;
    union {
        _Atomic unsigned near_devices;
        unsigned near_plain; /* the same, for hits alone */
    };
    unsigned devices; /* const */
    /* The same as owner, or GONE. Atomic: read by a thread that looks for its
     * window of another runtime; stored under the windows lock. */
    _Atomic(warm_runtime *) runtime;
    const wm_window_call *call; /* owner thread: the innermost, or null */
    wm_window *next_of_thread;  /* owner thread */
    uint32_t *kinds_held;       /* owner thread; [device], bit = kind */
    wm_section section;         /* guards what is cached */
    /* Of the blocks that magazines handed out, or WM_NO_TAG. Atomic, relaxed:
     * compared by the owner outside of the section, which has the last word. */
    _Atomic uint64_t live_tag;
    /* With the section; null: none. Atomic: peeked at under lock windows. */
    _Atomic(struct wm_magazine_set *) magazines;
    /* Owner thread: looked for last; not null where there are magazines. */
    struct wm_pending_stream *pending_last;
    /* With the section: used last; sets there are, which only the owner begins;
     * to go first. */
    wm_stream_slot *slot_last;
    unsigned slots_used, slot_next;
    wm_stream_slot slot[WM_STREAM_SLOTS];
    wm_window *next;       /* lock windows */
    wm_window *next_spare; /* lock windows */
    _Atomic int state;     /* enum wm_window_state; see window.c */
    /* Owner thread: what it traces; null: nothing so far. */
    struct wm_trace_buffer *trace;
    warm_stream stream; /* owner thread: see warm_thread_set_stream() */
    int home; /* owner thread: device of the handle it got last, -1: none */
    /* Owner thread: blocks that hits handed out, where their first addresses
     * say, or null. A guess: see wm_pointer_cache_entry(). */
    struct wm_block *pointer_cache[1 << WM_POINTER_CACHE_BITS];
    /* Owner thread; for four devices each. */
    _Alignas(64) wm_rows rows[];
};

/* Never null. Initial-exec: one load through the GOT and no call; 8 bytes of
 * the space that the C library keeps for libraries loaded late. */
extern _Thread_local const wm_window *wm_window_current
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* The calling thread's current window, to enter its section: one that hits, or
 * has a guess, is never the constant one of no runtime. */
static inline wm_window *wm_window_mine(void)
{
    return (wm_window *)(uintptr_t)wm_window_current;
}

/* For hits. Relaxed: see the field. Not as an atomic, which gcc 12 loads by an
 * instruction of its own before it compares: the exit handler's 0 is all that
 * another thread ever stores beside a hit, and one load of an aligned word sees
 * it or does not. */
static inline unsigned wm_window_near_devices(const wm_window *window)
{
#if WM_SECTION_SEQ_CST
    return atomic_load_explicit(&window->near_devices, memory_order_relaxed);
#else
    return window->near_plain;
#endif
}

static inline struct wm_block **wm_window_pointer_slot(wm_window *window,
                                                       const void *base)
{
    return &window->pointer_cache[((uint64_t)(uintptr_t)base *
                                   UINT64_C(0x9E3779B97F4A7C15)) >>
                                  (64 - WM_POINTER_CACHE_BITS)];
}

/* There is no set. */
static inline void wm_window_clear_slot(wm_stream_slot *slot)
{
    slot->stream = NULL;
    slot->epoch = 0;
    slot->device = -1;
    /* Relaxed: see wm_window. */
    atomic_store_explicit(&slot->live_tag, WM_NO_TAG, memory_order_relaxed);
    atomic_store_explicit(&slot->set, NULL, memory_order_relaxed);
}

/* The owner uses another device from now on. */
static inline void wm_window_set_home(wm_window *window, int device)
{
    /* Relaxed: its own. */
    if (window->home != device &&
        atomic_load_explicit(&window->magazines, memory_order_relaxed) !=
            NULL) {
        wm_section_close(&window->section, WM_CLOSED_HOME);
    }
    window->home = device;
}

/* Makes the key of the destructor, once; before a runtime is made. Status:
 * OUT_OF_MEMORY: the process has no key left. */
warm_status wm_window_init(void);

/* The words of a device in a window, and where in them those of a kind are. */
static inline wm_rows *wm_window_rows(wm_window *window, int device)
{
    return &window->rows[(unsigned)device / WM_ROW_DEVICES];
}

static inline size_t wm_window_index(warm_kind kind, int device)
{
    return (unsigned)kind * WM_ROW_WORDS + (unsigned)device % WM_ROW_DEVICES;
}

/* What the first word of held is. An address above it is that of a place for
 * the handle, and there is a handle for it: one comparison for both. */
static const uint64_t wm_window_none = UINT64_MAX;

/* The handle that the window holds, or null. Kind and device in range. */
static inline void *wm_window_held(wm_window *window, warm_kind kind,
                                   int device)
{
    const wm_rows *rows = wm_window_rows(window, device);

    return (void *)(uintptr_t)
        rows->held[wm_window_index(kind, device) + WM_ROW_SECOND];
}

/* The calling thread's window of a live runtime, made if there is none; it is
 * the current one then. Status: OUT_OF_MEMORY; EXITING (the thread has been
 * through its last destructor). */
warm_status wm_window_get(warm_runtime *runtime, wm_window **window);

/* The same, if there is one; or null. */
wm_window *wm_window_find(warm_runtime *runtime);

/* The calling thread's number in the process, never 0, and no other's ever:
 * what pthread_self() says may be the next thread's. */
uint64_t wm_window_thread(void);

/* Gives back all that the calling thread holds of the runtime.
 * Status: INVALID_ARGUMENT (called back from a call that uses the window). */
warm_status wm_window_drop(warm_runtime *runtime);

/* A visit to the windows of other threads, and of the calling one; not to
 * spare ones. */
typedef struct wm_visit {
    /* Whether a window is worth it; reads atomics only. Null: all are. */
    bool (*wanted)(const wm_window *window, void *context);
    /* With the window's section, and under the windows lock. */
    void (*visit)(wm_window *window, void *context);
    /* Null, or called once after all visits, also where the barrier is refused,
     * while every visited window is closed and still: its owner waits, on the
     * slow path, too, and what it has is as the visit left it. Under the
     * windows lock. */
    void (*finish)(void *context);
    void *context;
} wm_visit;

/* Visits the windows of a runtime that are wanted, one by one, after a single
 * barrier for all of them. False: the barrier is refused, nothing was done.
 * The caller holds no lock from WM_RANK_WINDOWS on, and is in no hit. */
bool wm_window_visit(warm_runtime *runtime, const wm_visit *visit);

/* Closes every window of the runtime for ever, since the process exits, and
 * those that are made from now on: hits are refused, of handles too. Takes the
 * windows lock; waits for nobody's hit. */
void wm_window_close_all(warm_runtime *runtime);

/* Empties every window of the runtime, and cuts it off or frees it; for
 * destroy. */
void wm_window_cut_all(warm_runtime *runtime);

/* With the section: what the window caches goes back. And its end, once nobody
 * knows it. */
void wm_window_empty(warm_runtime *runtime, wm_window *window);
void wm_window_free(wm_window *window);

/* In the child of a fork: the thread has no windows any more. */
void wm_window_forked(void);

#endif
