/* pool_pause.c: the state of pools whose memory can be paused (row C11); what
 * is done to the memory stands in alloc/api/pause.c. Takes lock private. */
#include "alloc/private_pool/private_int.h"

#include "runtime/base/status.h"

#include <inttypes.h>

/* Relaxed: lock private is held, under which it changes. */
static enum wm_pause pause_of(const wm_private_pool *pool)
{
    return atomic_load_explicit(&pool->pause, memory_order_relaxed);
}

static void set_locked(wm_private_pool *pool, enum wm_pause pause)
{
    /* Sequentially consistent: private_int.h. */
    atomic_store_explicit(&pool->pause, pause, memory_order_seq_cst);
}

static warm_status check(const wm_private_pool *pool, uint64_t number,
                         bool resume)
{
    if (pool == NULL) {
        return wm_private_unknown(number);
    }
    if (!pool->pausable) {
        return wm_fail(WARM_UNSUPPORTED,
                       "the memory of private pool %" PRIu64
                       " cannot be paused: begin the pool with "
                       "WARM_POOL_USER | WARM_POOL_PAUSABLE",
                       number);
    }
    if (pause_of(pool) == WM_CHANGING) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "another thread pauses or resumes private pool %" PRIu64,
                       number);
    }
    if (resume != (pause_of(pool) == WM_PAUSED)) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "the memory of private pool %" PRIu64 " is %s", number,
                       resume ? "not paused" : "paused already");
    }
    return WARM_OK;
}

warm_status wm_private_pause_begin(warm_runtime *runtime, uint64_t number,
                                   bool resume, struct wm_paused **paused)
{
    wm_private_pools *pools = runtime->private_pools;
    wm_private_pool *pool;
    warm_status status;

    wm_lock_acquire(&pools->lock);
    pool = wm_private_find_locked(pools, number);
    status = check(pool, number, resume);
    if (status == WARM_OK) {
        set_locked(pool, WM_CHANGING);
        *paused = pool->paused;
        pool->paused = NULL;
    }
    wm_lock_release(&pools->lock);
    if (status == WARM_OK && !resume) {
        /* A request that read RUNNING counts as in flight from then on. */
        wm_private_await_readers(pools);
    }
    return status;
}

void wm_private_pause_end(warm_runtime *runtime, uint64_t number,
                          struct wm_paused *paused)
{
    wm_private_pools *pools = runtime->private_pools;
    wm_private_pool *pool;

    wm_lock_acquire(&pools->lock);
    pool = wm_private_find_locked(pools, number); /* its reference stays */
    pool->paused = paused;
    set_locked(pool, paused != NULL ? WM_PAUSED : WM_RUNNING);
    wm_lock_release(&pools->lock);
}

struct wm_paused *wm_private_take_paused(warm_runtime *runtime)
{
    wm_private_pools *pools = runtime->private_pools;
    struct wm_paused *paused = NULL;

    wm_lock_acquire(&pools->lock);
    for (wm_private_pool *p = pools->list; p != NULL && paused == NULL;
         p = p->next) {
        paused = p->paused;
        p->paused = NULL;
        set_locked(p, WM_RUNNING);
    }
    wm_lock_release(&pools->lock);
    return paused;
}

/* Turns of wm_wait_turn(): most sleep for 50 us, so that these are about ten
 * seconds. */
enum { TURNS = 200000 };

bool wm_private_await_requests(const wm_private_arena *arena)
{
    unsigned turn = 0;

    /* Acquire pairs with the release in wm_private_routed(): this thread sees
     * the effects of the requests. */
    while (atomic_load_explicit(&arena->routed, memory_order_acquire) != 0) {
        if (turn == TURNS) {
            return false;
        }
        wm_wait_turn(turn++);
    }
    return true;
}
