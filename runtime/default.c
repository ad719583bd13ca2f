/* default.c: the default runtime of the process. Takes the process lock. */
#include "runtime/runtime.h"

#include "runtime/base/process.h"
#include "runtime/base/status.h"

#include <stdatomic.h>

/* The default runtime, or null; busy while a thread makes it. */
static struct {
    warm_runtime *runtime; /* lock wm_process_lock */
    bool busy;             /* lock wm_process_lock */
    unsigned generation;   /* lock wm_process_lock: the process of both */
    wm_cond made;
} standard = {.made = {PTHREAD_COND_INITIALIZER}};

/* In the child of a fork the runtime belongs to the parent, and a thread that
 * was making it does not exist. */
static void reset_if_forked_locked(void)
{
    if (standard.generation != wm_process_generation()) {
        standard.generation = wm_process_generation();
        standard.runtime = NULL;
        standard.busy = false;
        wm_cond_init(&standard.made);
    }
}

/* True if the caller is to make the default runtime; else *runtime is it. */
static bool claim_default(warm_runtime **runtime)
{
    bool claimed;

    wm_lock_acquire(&wm_process_lock);
    reset_if_forked_locked();
    while (standard.busy) {
        wm_cond_wait(&standard.made, &wm_process_lock);
    }
    /* Acquire: one that was destroyed is replaced. */
    claimed = standard.runtime == NULL ||
              atomic_load_explicit(&standard.runtime->state,
                                   memory_order_acquire) != WM_RUNTIME_LIVE;
    standard.busy = claimed;
    if (!claimed) {
        *runtime = standard.runtime;
    }
    wm_lock_release(&wm_process_lock);
    return claimed;
}

/* Ends what claim_default() began; runtime is null if none could be made. */
static void publish_default(warm_runtime *runtime)
{
    wm_lock_acquire(&wm_process_lock);
    standard.busy = false;
    if (runtime != NULL) {
        standard.runtime = runtime;
    }
    wm_cond_broadcast(&standard.made);
    wm_lock_release(&wm_process_lock);
}

warm_status warm_runtime_default(warm_runtime **runtime)
{
    warm_runtime *made = NULL;
    warm_status status = WARM_OK;
    int cancel;

    if (runtime == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "runtime is null");
    }
    cancel = wm_cancel_off();
    /* Before the first use of the lock that the fork handlers take. */
    wm_process_init();
    wm_process_on_fork(wm_runtime_forked);
    if (claim_default(&made)) {
        status = wm_runtime_create_on(NULL, NULL, &made);
        publish_default(made);
    }
    wm_cancel_restore(cancel);
    if (status == WARM_OK) {
        *runtime = made;
    }
    return status;
}
