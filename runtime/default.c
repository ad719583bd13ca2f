/* default.c: the runtime that those share who have none of their own. Takes the
 * process lock. */
#include "runtime/runtime.h"

#include "runtime/base/process.h"
#include "runtime/base/status.h"

#include <stdatomic.h>

/* The default runtime, or null; busy while a thread makes it. */
static struct {
    warm_runtime *runtime; /* lock wm_process_lock */
    bool busy;             /* lock wm_process_lock */
    wm_cond made;
} standard = {.made = {PTHREAD_COND_INITIALIZER}};

/* The thread that was making it may not exist here, and the runtime of the
 * parent is of no use. */
void wm_runtime_default_forked(void)
{
    standard.runtime = NULL;
    standard.busy = false;
    wm_cond_init(&standard.made);
}

/* True if the caller is to make the default runtime; else *runtime is it. */
static bool claim_default(warm_runtime **runtime)
{
    bool claimed;

    wm_lock_acquire(&wm_process_lock);
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

static void settle_default(warm_runtime *runtime)
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
        settle_default(made);
    }
    wm_cancel_restore(cancel);
    if (status == WARM_OK) {
        *runtime = made;
    }
    return status;
}
