/* private_int.h: shared by the files of private pools. */
#ifndef WM_PRIVATE_INT_H
#define WM_PRIVATE_INT_H

#include "alloc/private_pool/private_pool.h"

/* Lock private. */
typedef struct wm_private_pool {
    uint64_t number; /* const; from 1 on */
    bool user;       /* const: WARM_POOL_USER */
    bool pausable;   /* const: WARM_POOL_PAUSABLE */
    enum wm_pause pause;
    struct wm_paused *paused; /* if it is PAUSED */
    uint64_t references;
    bool recording, warned;
    warm_pool_filter_fn filter; /* null: the allocations of thread */
    void *context;
    uint64_t thread; /* wm_window_thread() of the thread that began it */
    struct wm_private_pool *next, *next_recording;
} wm_private_pool;

typedef struct wm_private_pools {
    wm_lock lock;
    wm_private_pool *list;      /* lock private */
    wm_private_pool *recording; /* lock private; innermost first */
    uint64_t last;              /* lock private: number */
    _Atomic unsigned dead;      /* arenas in that state; relaxed: a hint */
    /* Every arena ever made; release and acquire: new ones are added at the
     * head. */
    _Atomic(wm_private_arena *) arenas;
} wm_private_pools;

static inline wm_private_arena *wm_private_arenas(wm_private_pools *pools)
{
    return atomic_load_explicit(&pools->arenas, memory_order_acquire);
}

/* The pool of that number, or null; and the error for null. */
wm_private_pool *wm_private_find_locked(wm_private_pools *pools,
                                        uint64_t number);
warm_status wm_private_unknown(uint64_t number);

/* The pool's arena that replaces arena `beside`; null: no memory for its
 * record. */
wm_private_arena *wm_private_arena_locked(wm_private_pools *pools,
                                          const wm_private_pool *pool,
                                          wm_space *space, int device,
                                          wm_arena *beside);

/* Ends the arenas of a pool that was removed from the list. No lock held. */
void wm_private_end_arenas(wm_private_pools *pools, uint64_t number);

/* Frees their records. The spaces have ended. */
void wm_private_fini_arenas(wm_private_pools *pools);

#endif
