/* window.h: what one thread holds of one runtime.
 *
 *   TLS ── wm_window_current ─► the window used last, for the hot path
 *       └─ list ─► window ─► window ─► …   one for each runtime it used
 *                    │ runtime (weak: GONE once destroyed)
 *   runtime ─► windows ─► window ─► …      all of them, lock windows
 *           └► ready_window, spare_windows ─► …   windows without a thread
 *
 * Only the owner thread uses rows. Visitors may use the content of the biased
 * lock too: they find windows in the runtime's list, under the windows lock.
 *
 * Windows belong to the runtime, which keeps the window of a thread that exits
 * for the next thread: threads start and end without malloc(), whose first and
 * last call in a thread cost more than all the rest. There are as many windows
 * as threads were alive at once. Destroy flushes all biased locks, frees the
 * windows without a thread and cuts the other windows' link to the runtime:
 * their memory then belongs to their thread.
 *
 * The window of the thread that exited last is ready for the next thread, with
 * its magazines as they are: a thread that begins finds blocks and the records
 * of a cache. Whoever needs that memory, or reads figures of it, flushes them
 * first (wm_window_empty_ready()).
 *
 *   SPARE ──── first call of a thread ────► USED ── destroy ─► cut
 *     └◄─ the thread exits or releases ──────┘ └─ exits while the runtime
 *                                                 closes ─► LEFT
 *
 * A thread's windows end when the thread exits, by the destructor of one
 * pthread key. If a later destructor of the thread makes a window again, that
 * window ends in the next round of destructors. If ours ran in every round, the
 * thread gets no window any more. A foreign destructor that first calls the
 * library in the last round cannot be distinguished from the thread itself:
 * what it reserves stays in use. */
#ifndef WM_WINDOW_H
#define WM_WINDOW_H

#include "runtime/thread/runtime_body.h"
#include "runtime/thread/biased_lock.h"

/* The link of a window whose runtime is gone. Not null: a caller's null
 * runtime must not compare equal to it. */
#define WM_WINDOW_GONE ((warm_runtime *)(uintptr_t)1)

/* A tag that no block has. */
#define WM_NO_TAG UINT64_MAX

struct wm_block;          /* alloc/block/block.h */
struct wm_pending_stream; /* alloc/cache/pending.h */
struct wm_magazine_set;   /* alloc/cache/magazine.h */
struct wm_trace_buffer;   /* runtime/base/trace.h */

/* Two words for every kind on each of four devices: the first words of the four
 * devices, then their second words, for kind after kind. One index, kind × 8 +
 * device, which x86 computes in one instruction, finds both words, and all that
 * a thread has of one kind lies in one cache line. */
enum {
    WM_ROW_DEVICES = 4,
    WM_ROW_SECOND = WM_ROW_DEVICES, /* offset from first to second word */
    WM_ROW_WORDS = 2 * WM_ROW_DEVICES
};
typedef uint64_t wm_words[WARM_KIND_MAX * WM_ROW_WORDS];

_Static_assert(sizeof(uintptr_t) == sizeof(uint64_t), "words hold pointers");

typedef struct wm_rows {
    wm_words held;  /* 0, or all ones: no handle | the handle, or null */
    wm_words bound; /* the stream it is bound to | the runtime's stream_epoch
                     * before it was bound; 0: not bound */
    /* What the handle is bound to, and was before (handles/pool.h); null: it
     * was not bound yet. Kind × 4 + device. */
    struct wm_binding *binding[WARM_KIND_MAX * WM_ROW_DEVICES];
} wm_rows;

/* Offset from a word of held to that of bound. */
enum { WM_ROW_BOUND = WARM_KIND_MAX * WM_ROW_WORDS };

/* A call that works on the window, on the stack of the owner thread. Calls
 * nest: a callback inside one call may make another one. */
typedef struct wm_window_call {
    const struct wm_window_call *outer;
    warm_kind kind; /* of the handle that the call gets */
    int device;
} wm_window_call;

/* Whether a thread has the window; meaningless once it is cut. */
enum wm_window_state {
    WM_WINDOW_SPARE, /* no thread; empty, but for the ready one's magazines */
    WM_WINDOW_USED,  /* its owner thread */
    WM_WINDOW_LEFT   /* no thread: it exited while the runtime was closing */
};

/* A set of magazines for memory of one device in the order of one stream
 * (alloc/cache/stream_slot.h). Guarded by the biased lock.
 *
 * These slots, and magazines, pending_last and pointer_cache below, belong to
 * alloc/cache. They lie in the window, against the order of floors, so that a
 * hit needs a single load from thread-local storage; this folder only
 * initialises them. */
enum { WM_STREAM_SLOTS = 8 };
typedef struct wm_stream_slot {
    _Alignas(64) warm_stream stream;
    /* The runtime's stream_epoch before the stream was last looked up; 0:
     * invalid. */
    uint64_t epoch;
    int device; /* -1: no set */
    /* As the fields of the same names in wm_window. */
    _Atomic uint64_t live_tag;
    _Atomic(struct wm_magazine_set *) set;
} wm_stream_slot;

/* What wm_kind_ops.rebind makes again (handles/rebind.c). */
typedef struct wm_rebind {
    struct wm_kind *kind;
    void *handle;
    warm_stream stream;
    void *workspace; /* null: the library's own */
    size_t bytes;
    int device;
    bool is_current;    /* the device's context is the thread's current one */
    warm_stream before; /* the handle is bound to it now */
} wm_rebind;

/* log2 of the entries of wm_window.pointer_cache: enough that some dozen live
 * blocks seldom share an entry. */
enum { WM_POINTER_CACHE_BITS = 9 };

struct wm_window {
    /* For the hot path. owner: the runtime, const. near_devices: how many
     * devices rows[0] holds; 0 once the window is cut or the process exits.
     * Relaxed: a reserve concurrent with exit may come before it. */
    warm_runtime *owner;
    union {
        _Atomic unsigned near_devices;
        unsigned near_plain; /* the same word, for hits alone */
    };
    unsigned devices; /* const */
    /* owner, or GONE. Atomic: the owner thread reads it while it looks for its
     * window of another runtime; destroy stores it under the windows lock. */
    _Atomic(warm_runtime *) runtime;
    const wm_window_call *call; /* owner thread: the innermost, or null */
    wm_window *next_of_thread;  /* owner thread */
    uint32_t *kinds_held;       /* owner thread; [device], bit = kind */
    wm_biased_lock biased;      /* guards the caches below */
    /* Tag of the blocks that magazines handed out, or WM_NO_TAG. Atomic,
     * relaxed: the owner compares it outside of the biased lock as a hint, then
     * enters the biased lock. */
    _Atomic uint64_t live_tag;
    /* Guarded by the biased lock; null: none. Atomic: visitors peek at it under
     * the windows lock. */
    _Atomic(struct wm_magazine_set *) magazines;
    /* Owner thread: the stream looked up last; not null if there are magazines.
     */
    struct wm_pending_stream *pending_last;
    /* Guarded by the biased lock: the slot used last; the number of used slots,
     * which only the owner raises; how often a stream found none for it. */
    wm_stream_slot *slot_last;
    unsigned slots_used, slot_wanted;
    wm_stream_slot slot[WM_STREAM_SLOTS];
    bool has_bound;        /* owner thread: a held handle may be bound */
    bool uses_default;     /* owner thread: its per-thread default stream has a
                              workspace */
    wm_window *next;       /* lock windows */
    wm_window *next_spare; /* lock windows */
    _Atomic int state;     /* enum wm_window_state; see window.c */
    /* Owner thread: its trace buffer; null: none so far. */
    struct wm_trace_buffer *trace;
    warm_stream stream; /* owner thread: see warm_thread_set_stream() */
    int home; /* owner thread: device of the handle it got last; -1: none */
    /* Owner thread: blocks that hits handed out, by a hash of their address, or
     * null. A guess: see wm_pointer_cache_entry(). */
    struct wm_block *pointer_cache[1 << WM_POINTER_CACHE_BITS];
    /* Owner thread: handles, one element for four devices. */
    _Alignas(64) wm_rows rows[];
};

/* Never null. Initial-exec: one load through the GOT and no call, for 8 bytes
 * of the static TLS that the C library reserves for libraries loaded late. */
extern _Thread_local const wm_window *wm_window_current
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* The calling thread's current window, writable, to enter its biased lock. Only
 * after a hit or a guess: then it is not the constant window of no runtime. */
static inline wm_window *wm_window_mine(void)
{
    return (wm_window *)(uintptr_t)wm_window_current;
}

/* near_devices, for hits. Not loaded as an atomic, because gcc 12 then needs an
 * extra instruction before the comparison. Safe: during a hit another thread
 * stores only the exit handler's 0, and a load of an aligned word sees either
 * the old or the new value. */
static inline unsigned wm_window_near_devices(const wm_window *window)
{
#if WM_BIASED_SEQ_CST
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

/* Sets a slot to empty. */
static inline void wm_window_clear_slot(wm_stream_slot *slot)
{
    slot->stream = NULL;
    slot->epoch = 0;
    slot->device = -1;
    /* Relaxed: see wm_window. */
    atomic_store_explicit(&slot->live_tag, WM_NO_TAG, memory_order_relaxed);
    atomic_store_explicit(&slot->set, NULL, memory_order_relaxed);
}

/* The owner thread uses this device from now on. */
static inline void wm_window_set_home(wm_window *window, int device)
{
    /* Relaxed: the owner reads its own store. */
    if (window->home != device &&
        atomic_load_explicit(&window->magazines, memory_order_relaxed) !=
            NULL) {
        wm_biased_revoke(&window->biased, WM_REVOKED_HOME);
    }
    window->home = device;
}

/* Makes the pthread key of the destructor, once in the process, before a
 * runtime is made. Status: OUT_OF_MEMORY (the process has no key left). */
warm_status wm_window_init(void);

/* The rows of a device in a window, and the index of a kind's first word in
 * them. */
static inline wm_rows *wm_window_rows(wm_window *window, int device)
{
    return &window->rows[(unsigned)device / WM_ROW_DEVICES];
}

static inline size_t wm_window_index(warm_kind kind, int device)
{
    return (unsigned)kind * WM_ROW_WORDS + (unsigned)device % WM_ROW_DEVICES;
}

static inline struct wm_binding **wm_window_binding(wm_window *window,
                                                    warm_kind kind, int device)
{
    return &wm_window_rows(window, device)
                ->binding[(unsigned)kind * WM_ROW_DEVICES +
                          (unsigned)device % WM_ROW_DEVICES];
}

/* A kind's words of a device: see WM_ROW_BOUND. */
static inline uint64_t *wm_window_words(wm_window *window, warm_kind kind,
                                        int device)
{
    return &wm_window_rows(window, device)->held[wm_window_index(kind, device)];
}

/* The first word of held if there is no handle; it is 0 if there is one. A hit
 * makes a single comparison, output address > word: true only if a handle is
 * held and the address is not null. */
static const uint64_t wm_window_none = UINT64_MAX;

/* The handle that the window holds, or null. Kind and device in range. */
static inline void *wm_window_held(wm_window *window, warm_kind kind,
                                   int device)
{
    const wm_rows *rows = wm_window_rows(window, device);

    return (void *)(uintptr_t)
        rows->held[wm_window_index(kind, device) + WM_ROW_SECOND];
}

/* The kinds of which the owner thread holds a handle of the device. */
static inline uint32_t *wm_window_kinds(const wm_window *window, int device)
{
    wm_assert((unsigned)device < window->devices);
    return &window->kinds_held[device];
}

/* Finds or makes the calling thread's window of a live runtime and makes it the
 * current one. Status: OUT_OF_MEMORY; EXITING (the thread has run its last
 * destructors). get_quietly() leaves the thread's last error as it is. */
warm_status wm_window_get(warm_runtime *runtime, wm_window **window);
warm_status wm_window_get_quietly(warm_runtime *runtime, wm_window **window);

/* The calling thread's window of the runtime, or null. */
wm_window *wm_window_find(warm_runtime *runtime);

/* The calling thread's number in the process: never 0 and never reused, unlike
 * pthread_self(). */
uint64_t wm_window_thread(void);

/* Returns all that the calling thread holds of the runtime.
 * Status: INVALID_ARGUMENT (called back from a call that uses the window). */
warm_status wm_window_drop(warm_runtime *runtime);

/* A visit to the windows of all threads, the calling one included; spare
 * windows are left out. */
typedef struct wm_visit {
    /* Whether to visit a window; reads atomics only. Null: visit all. */
    bool (*wanted)(const wm_window *window, void *context);
    /* Called with the window's biased lock held, under the windows lock. */
    void (*visit)(wm_window *window, void *context);
    /* Null, or called once after all visits, even if the barrier is refused,
     * under the windows lock. Every visited window is still revoked and STILL:
     * its owner waits, on the slow path too, and its content is as the visit
     * left it. */
    void (*finish)(void *context);
    void *context;
} wm_visit;

/* Visits the wanted windows of a runtime one by one, after a single barrier for
 * all of them. False: the kernel refused the barrier, no window was visited.
 * The caller holds no lock of rank WM_RANK_WINDOWS or above and is in no hit.
 */
bool wm_window_visit(warm_runtime *runtime, const wm_visit *visit);

/* From then on every call of every thread takes its slow path; hits under way
 * end as such. False: the kernel refused the barrier, and nothing changed. The
 * caller holds no lock of rank WM_RANK_WINDOWS or above and is in no hit. */
bool wm_window_slow_all(warm_runtime *runtime);

/* Flushes what the last thread that exited left in its window. True: there were
 * magazines. No lock of rank WM_RANK_WINDOWS or above is held. */
bool wm_window_empty_ready(warm_runtime *runtime);

/* At exit of the process: closes every window of the runtime for ever, and
 * windows that are made later, so that all hits fail, those of handles too.
 * Takes the windows lock; does not wait for hits under way. */
void wm_window_close_all(warm_runtime *runtime);

/* For destroy: flushes every window of the runtime, then cuts or frees it. */
void wm_window_cut_all(warm_runtime *runtime);

/* In the child of a fork: the thread drops its windows. */
void wm_window_forked(void);

#endif
