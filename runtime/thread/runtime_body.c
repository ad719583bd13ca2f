/* runtime_body.c: the state of a runtime (live, closing, gone), its pins, and
 * the list of all runtimes.
 *
 * Takes the process lock for the list only. Pins and state follow Dekker's
 * protocol: a thread raises pinned_threads and then reads state; destroy sets
 * state and then reads pinned_threads. Both sides are sequentially consistent:
 * otherwise both could miss the other, and a thread would use freed pools. */
#include "runtime/thread/runtime_body.h"

#include "runtime/base/process.h"
#include "runtime/base/status.h"

#include <stdatomic.h>

/* lock: wm_process_lock */
static warm_runtime *runtimes;

warm_status wm_runtime_check_read(warm_runtime *runtime)
{
    if (wm_unlikely(runtime == NULL)) {
        return wm_fail(WARM_INVALID_ARGUMENT, "the runtime is null");
    }
    /* Acquire: as in wm_runtime_check(). */
    if (wm_unlikely(
            atomic_load_explicit(&runtime->state, memory_order_acquire) !=
            WM_RUNTIME_LIVE)) {
        return wm_fail(WARM_RUNTIME_GONE, "the runtime has been destroyed");
    }
    if (wm_unlikely(runtime->generation != wm_process_generation())) {
        return wm_fail(WARM_FORKED,
                       "the runtime was made before this process was forked; "
                       "make a new one with device:host");
    }
    return WARM_OK;
}

warm_status wm_runtime_refuse(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check_read(runtime);

    if (status == WARM_OK && wm_unlikely(wm_process_exiting())) {
        return wm_fail(WARM_EXITING, "the process is exiting");
    }
    return status;
}

warm_status wm_runtime_check_range(const warm_runtime *runtime, int device)
{
    if (device < 0 || device >= runtime->devices) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "device %d is out of range; the last one is %d", device,
                       runtime->devices - 1);
    }
    return WARM_OK;
}

warm_status wm_runtime_check_device(warm_runtime *runtime, int device)
{
    warm_status status = wm_runtime_check(runtime);

    return status == WARM_OK ? wm_runtime_check_range(runtime, device) : status;
}

bool wm_runtime_begin_close(warm_runtime *runtime)
{
    int live = WM_RUNTIME_LIVE;

    /* Sequentially consistent: see the top of the file. */
    if (!atomic_compare_exchange_strong_explicit(
            &runtime->state, &live, WM_RUNTIME_CLOSING, memory_order_seq_cst,
            memory_order_seq_cst)) {
        return false;
    }
    for (unsigned turn = 0; atomic_load_explicit(&runtime->pinned_threads,
                                                 memory_order_seq_cst) != 0;
         turn++) {
        wm_wait_turn(turn);
    }
    return true;
}

void wm_runtime_end_close(warm_runtime *runtime)
{
    /* Release: a thread that sees GONE sees all of destroy's stores. */
    atomic_store_explicit(&runtime->state, WM_RUNTIME_GONE,
                          memory_order_release);
}

void wm_runtime_enlist(warm_runtime *runtime)
{
    wm_lock_acquire(&wm_process_lock);
    runtime->next_runtime = runtimes;
    runtimes = runtime;
    wm_lock_release(&wm_process_lock);
}

void wm_runtime_each(void (*fn)(warm_runtime *runtime, void *argument),
                     void *argument)
{
    wm_lock_acquire(&wm_process_lock);
    for (warm_runtime *r = runtimes; r != NULL; r = r->next_runtime) {
        if (r->generation == wm_process_generation() && wm_runtime_pin(r)) {
            fn(r, argument);
            wm_runtime_unpin(r);
        }
    }
    wm_lock_release(&wm_process_lock);
}

warm_runtime *wm_runtime_next(const warm_runtime *after)
{
    warm_runtime *r;

    wm_lock_acquire(&wm_process_lock);
    r = after != NULL ? after->next_runtime : runtimes;
    while (r != NULL &&
           (r->generation != wm_process_generation() || !wm_runtime_pin(r))) {
        r = r->next_runtime;
    }
    wm_lock_release(&wm_process_lock);
    return r;
}

void wm_runtime_each_inherited(void (*fn)(warm_runtime *runtime,
                                          void *argument),
                               void *argument)
{
    wm_lock_acquire(&wm_process_lock);
    for (warm_runtime *r = runtimes; r != NULL; r = r->next_runtime) {
        if (r->generation != wm_process_generation()) {
            fn(r, argument);
        }
    }
    wm_lock_release(&wm_process_lock);
}
