/* window.c: windows of the calling thread, and how they end with it.
 *
 * Takes the windows lock to link and unlink. At thread exit the runtime is
 * pinned while its window is released, so that destroy cannot take the pools
 * away meanwhile; if it is not live any more only the record goes. */
#include "runtime/thread/window.h"

#include "runtime/base/meta.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"

#include <limits.h>
#include <stdatomic.h>

static const wm_window no_window = {.runtime = WM_WINDOW_GONE};

_Thread_local const wm_window *wm_window_current = &no_window;

static _Thread_local struct {
    wm_window *list;
    unsigned rounds; /* how often our destructor ran */
} mine __attribute__((tls_model("initial-exec")));

static pthread_key_t key;
static int key_error;

/* Takes the window off its runtime's list, if destroy has not. */
static void unlink_window(warm_runtime *runtime, wm_window *window)
{
    wm_lock_acquire(&runtime->windows_lock);
    if (window->link != NULL) {
        *window->link = window->next;
        if (window->next != NULL) {
            window->next->link = window->link;
        }
        window->link = NULL;
    }
    wm_lock_release(&runtime->windows_lock);
}

static void end_window(wm_window *window)
{
    /* Acquire, partner of the store in wm_window_cut_all(): destroy is done
     * with the window when its link is seen to be cut. */
    warm_runtime *runtime =
        atomic_load_explicit(&window->runtime, memory_order_acquire);

    if (runtime != WM_WINDOW_GONE) {
        if (wm_runtime_pin(runtime)) {
            runtime->window_release(runtime, window);
            wm_runtime_unpin(runtime);
        }
        unlink_window(runtime, window);
    }
    wm_meta_free(window);
}

static void thread_exits(void *value)
{
    int cancel = wm_cancel_off();

    (void)value;
    mine.rounds++;
    wm_window_current = &no_window;
    /* While the process exits nothing is given back: it is leaked, and has
     * been counted as such (row A6). */
    while (!wm_process_exiting() && mine.list != NULL) {
        wm_window *window = mine.list;

        mine.list = window->next_of_thread;
        end_window(window);
    }
    wm_cancel_restore(cancel);
}

static void make_key(void)
{
    key_error = pthread_key_create(&key, thread_exits);
}

/* Makes the destructor run when the thread exits. */
static warm_status arm_destructor(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_key);
    if (mine.rounds >= PTHREAD_DESTRUCTOR_ITERATIONS) {
        return wm_fail(WARM_EXITING,
                       "the thread has been through its last destructor");
    }
    if (key_error != 0 || pthread_setspecific(key, &mine) != 0) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no thread-specific key for the thread's window");
    }
    return WARM_OK;
}

/* The thread's window of the runtime; ends those of gone runtimes it meets. */
static wm_window *find(warm_runtime *runtime)
{
    wm_window **at = &mine.list;

    while (*at != NULL) {
        wm_window *window = *at;
        /* Acquire: as in end_window(). */
        warm_runtime *owner =
            atomic_load_explicit(&window->runtime, memory_order_acquire);

        if (owner == runtime) {
            return window;
        }
        if (owner == WM_WINDOW_GONE) {
            *at = window->next_of_thread;
            if (wm_window_current == window) {
                wm_window_current = &no_window;
            }
            wm_meta_free(window);
        } else {
            at = &window->next_of_thread;
        }
    }
    return NULL;
}

static wm_window *make(warm_runtime *runtime)
{
    size_t devices = (size_t)runtime->devices;
    size_t slots = devices * (size_t)WARM_KIND_MAX;
    wm_window *window = wm_meta_alloc(
        sizeof *window + slots * (sizeof(void *) + sizeof(wm_binding)) +
        devices * sizeof(uint32_t));

    if (window == NULL) {
        return NULL;
    }
    window->devices = (unsigned)devices;
    window->bindings = (wm_binding *)(void *)(window->handles + slots);
    window->held = (uint32_t *)(void *)(window->bindings + slots);
    /* Relaxed: published to destroy by the windows lock. */
    atomic_store_explicit(&window->runtime, runtime, memory_order_relaxed);
    wm_lock_acquire(&runtime->windows_lock);
    window->next = runtime->windows;
    window->link = &runtime->windows;
    if (window->next != NULL) {
        window->next->link = &window->next;
    }
    runtime->windows = window;
    wm_lock_release(&runtime->windows_lock);
    window->next_of_thread = mine.list;
    mine.list = window;
    return window;
}

warm_status wm_window_get(warm_runtime *runtime, wm_window **window)
{
    wm_window *found = find(runtime);
    warm_status status;

    if (found == NULL) {
        status = arm_destructor();
        if (status != WARM_OK) {
            return status;
        }
        found = make(runtime);
    }
    if (found == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no memory for the window of a thread");
    }
    wm_window_current = found;
    *window = found;
    return WARM_OK;
}

warm_status wm_window_drop(warm_runtime *runtime)
{
    wm_window *window = find(runtime);
    wm_window **at = &mine.list;

    if (window == NULL) {
        return WARM_OK;
    }
    if (window->call != NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "a callback cannot release what the thread is about "
                       "to use");
    }
    while (*at != window) {
        at = &(*at)->next_of_thread;
    }
    *at = window->next_of_thread;
    wm_window_current = &no_window;
    end_window(window);
    return WARM_OK;
}

bool wm_window_in_call(warm_runtime *runtime)
{
    const wm_window *window = find(runtime);

    return window != NULL && window->call != NULL;
}

void wm_window_cut_all(warm_runtime *runtime)
{
    wm_lock_acquire(&runtime->windows_lock);
    while (runtime->windows != NULL) {
        wm_window *window = runtime->windows;

        runtime->windows = window->next;
        window->link = NULL;
        /* Release, last: the owner may free the window once it sees this. */
        atomic_store_explicit(&window->runtime, WM_WINDOW_GONE,
                              memory_order_release);
    }
    wm_lock_release(&runtime->windows_lock);
}

void wm_window_forked(void)
{
    /* The records stay: they hang on the list of a runtime whose lock another
     * thread may have held when the process forked. */
    mine.list = NULL;
    wm_window_current = &no_window;
}
