/* private_int.h: shared by the files of private pools. */
#ifndef WM_PRIVATE_INT_H
#define WM_PRIVATE_INT_H

#include "alloc/private_pool/private_pool.h"

/* Lock private, if nothing else is said.
 *
 * Requests read the list of recording pools, and call the filters, without a
 * lock: as readers. The thread that ends a recording removes the pool from the
 * list and waits for the readers; until then the pool counts as recording, and
 * so keeps its last reference. */
typedef struct wm_private_pool {
    uint64_t number; /* const; from 1 on */
    bool user;       /* const: WARM_POOL_USER */
    bool pausable;   /* const: WARM_POOL_PAUSABLE */
    /* Lock private to change. Sequentially consistent, as the count of readers:
     * the pause that waits for readers sees one, or the reader sees the pause.
     */
    _Atomic enum wm_pause pause;
    struct wm_paused *paused; /* if it is PAUSED */
    uint64_t references;
    bool recording, ending;
    _Atomic bool warned; /* relaxed: a hint; lock private to set */
    /* const while it records */
    warm_pool_filter_fn filter; /* null: the allocations of thread */
    void *context;
    uint64_t thread; /* wm_window_thread() of the thread that began it */
    struct wm_private_pool *next;
    /* Lock private to change; sequentially consistent: private_readers.c. */
    _Atomic(struct wm_private_pool *) next_recording;
} wm_private_pool;

enum { WM_PRIVATE_SHARDS = 16 };

/* Readers by turn. A cache line of its own. */
typedef struct wm_private_readers {
    _Atomic unsigned inside[2];
} __attribute__((aligned(64))) wm_private_readers;

typedef struct wm_private_pools {
    wm_private_readers readers[WM_PRIVATE_SHARDS];
    wm_lock writer;        /* held while a thread waits for readers */
    _Atomic unsigned turn; /* lock writer to change */
    wm_lock lock;
    wm_private_pool *list; /* lock private */
    /* Innermost first. As next_recording. */
    _Atomic(wm_private_pool *) recording;
    uint64_t last;         /* lock private: number */
    _Atomic unsigned dead; /* arenas in that state; relaxed: a hint */
    /* Every arena ever made; release and acquire: new ones are added at the
     * head. */
    _Atomic(wm_private_arena *) arenas;
} wm_private_pools;

static inline wm_private_arena *wm_private_arenas(wm_private_pools *pools)
{
    return atomic_load_explicit(&pools->arenas, memory_order_acquire);
}

/* Around a reading of the list of recording pools; the result of begin() is
 * end()'s argument. Takes no lock, and may be long: filters run inside. */
_Atomic unsigned *wm_private_read_begin(wm_private_pools *pools);
void wm_private_read_end(_Atomic unsigned *count);
/* Waits until every thread that was inside has left. Takes lock writer; lock
 * private is not held, for which a reader may wait. */
void wm_private_await_readers(wm_private_pools *pools);

/* The pool of that number, or null; and the error for null. */
wm_private_pool *wm_private_find_locked(wm_private_pools *pools,
                                        uint64_t number);
warm_status wm_private_unknown(uint64_t number);

/* The pool's arena that replaces arena `beside`; null: it has none yet. By a
 * reader. */
wm_private_arena *wm_private_arena_find(wm_private_pools *pools,
                                        const wm_private_pool *pool,
                                        wm_space *space, int device,
                                        const wm_arena *beside);
/* The same; null: no memory for its record. */
wm_private_arena *wm_private_arena_locked(wm_private_pools *pools,
                                          const wm_private_pool *pool,
                                          wm_space *space, int device,
                                          wm_arena *beside);

/* Ends the arenas of a pool that was removed from the list. No lock held. */
void wm_private_end_arenas(wm_private_pools *pools, uint64_t number);

/* Frees their records. The spaces have ended. */
void wm_private_fini_arenas(wm_private_pools *pools);

#endif
