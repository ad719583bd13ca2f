/* pinned_prewarm.c: obtains pinned memory ahead of demand (rows B9, B17); the
 * public functions of memory.h. */
#include "warmpool/memory.h"

#include "alloc/kinds/pinned.h"
#include "alloc/space/prewarm_jobs.h"
#include "runtime/base/bytes.h"
#include "runtime/base/callback.h"
#include "runtime/base/status.h"
#include "runtime/thread/home_node.h"

static warm_status check_node(warm_runtime *runtime, int *node)
{
    if (*node == WARM_NODE_ANY) {
        *node = wm_node_home(runtime);
        return WARM_OK;
    }
    return wm_node_check(runtime, *node);
}

static warm_status check_prewarm(warm_runtime *runtime, size_t bytes, int *node,
                                 unsigned flags)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK && (flags & ~WARM_PREWARM_BACKGROUND)) {
        status = wm_fail(
            WARM_INVALID_ARGUMENT,
            "flags %#x are not known; known is WARM_PREWARM_BACKGROUND", flags);
    }
    if (status == WARM_OK && bytes > WM_REQUEST_MAX) {
        status = wm_fail(WARM_OUT_OF_MEMORY,
                         "%s of pinned memory are more than any machine has",
                         wm_bytes(bytes).text);
    }
    return status == WARM_OK ? check_node(runtime, node) : status;
}

warm_status warm_pinned_prewarm(warm_runtime *runtime, size_t bytes, int node,
                                unsigned flags)
{
    int cancel = wm_cancel_off();
    warm_status status = check_prewarm(runtime, bytes, &node, flags);

    if (status == WARM_OK) {
        wm_space *space = &runtime->pinned->space;

        status = (flags & WARM_PREWARM_BACKGROUND) != 0
                     ? wm_prewarm_queue(&space->background, node, bytes)
                     : wm_prewarm_now(space, node, bytes);
    }
    wm_cancel_restore(cancel);
    return status;
}

/* Refuses a wait inside a callback: it could wait for the thread that runs it,
 * or for the growth that it is part of. */
static warm_status check_wait(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK && wm_callback_inside()) {
        status = wm_fail(WARM_INVALID_ARGUMENT,
                         "warm_pinned_prewarm_wait() was called by a callback "
                         "of the library, which could wait for itself there");
    }
    return status;
}

warm_status warm_pinned_prewarm_wait(warm_runtime *runtime)
{
    int cancel = wm_cancel_off();
    warm_status status = check_wait(runtime);

    if (status == WARM_OK) {
        status = wm_prewarm_await(&runtime->pinned->space.background);
    }
    wm_cancel_restore(cancel);
    return status;
}

warm_status warm_pinned_prewarm_cancel(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        wm_background *b = &runtime->pinned->space.background;

        wm_lock_acquire(&b->waker.lock);
        wm_prewarm_cancel_locked(b);
        wm_lock_release(&b->waker.lock);
    }
    return status;
}

warm_status warm_pinned_prewarm_progress(warm_runtime *runtime, uint64_t *done,
                                         uint64_t *wanted)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK && (done == NULL || wanted == NULL)) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "done or wanted is null");
    }
    if (status == WARM_OK) {
        wm_background *b = &runtime->pinned->space.background;

        wm_lock_acquire(&b->waker.lock);
        *done = b->had;
        *wanted = b->asked;
        wm_lock_release(&b->waker.lock);
    }
    return status;
}
