/* process.c: exit and fork handlers, and the process lock. */
#include "runtime/base/process.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

wm_lock wm_process_lock = WM_LOCK_INIT(WM_RANK_PROCESS);

struct wm_process wm_process;

/* Libraries after whose start the exit handler was registered again. When the
 * table is full, each runtime registers the handler again. */
enum { STARTED = 32 };
static const void *started_before[STARTED]; /* process lock */

static void (*_Atomic fork_hook)(void);
static void (*_Atomic before_exit_hook)(void);
static void (*_Atomic exit_hook)(void);

static void run(void (*_Atomic *hook)(void))
{
    void (*fn)(void) = atomic_load_explicit(hook, memory_order_relaxed);

    if (fn != NULL) {
        fn();
    }
}

/* Runs once for each registration; only the first run acts. */
static void at_exit(void)
{
    /* Relaxed: exit() runs its handlers one after another. */
    bool first =
        !atomic_exchange_explicit(&wm_process.left, true, memory_order_relaxed);

    if (first) {
        run(&before_exit_hook);
    }
    wm_process_set_exiting();
    if (first) {
        run(&exit_hook);
    }
}

/* A random number; without a source of randomness, a mix of pid and time. */
static void identify(void)
{
    uint64_t identity = 0;

    if (getrandom(&identity, sizeof identity, GRND_NONBLOCK) !=
        (ssize_t)sizeof identity) {
        struct timespec now = {0};

        clock_gettime(CLOCK_REALTIME, &now);
        identity = ((uint64_t)getpid() << 40) ^ ((uint64_t)now.tv_sec << 30) ^
                   (uint64_t)now.tv_nsec;
    }
    atomic_store_explicit(&wm_process.identity, identity, memory_order_relaxed);
}

static void before_fork(void)
{
    wm_lock_acquire(&wm_process_lock);
}

static void after_fork_parent(void)
{
    wm_lock_release(&wm_process_lock);
}

static void after_fork_child(void)
{
    void (*hook)(void);

    WM_CANCEL_OFF(); /* the hook closes files */
    wm_lock_release(&wm_process_lock);
    atomic_fetch_add_explicit(&wm_process.forks, 1, memory_order_relaxed);
    identify();
    hook = atomic_load_explicit(&fork_hook, memory_order_relaxed);
    if (hook != NULL) {
        hook();
    }
}

/* A plugin that has the library inside stays loaded though it is closed: exit
 * handlers, destructors of threads and threads of the library run its code. If
 * the library is part of the program itself, nothing can be opened, or
 * unloaded.
 */
static void stay_loaded(void)
{
    Dl_info of;

    if (dladdr(&wm_process, &of) != 0 && of.dli_fname != NULL &&
        dlopen(of.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == NULL) {
        (void)dlerror(); /* it is not the program's */
    }
}

static void init_once(void)
{
    identify();
    stay_loaded();
    wm_process_exit_first();
    (void)at_quick_exit(at_exit);
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

void wm_process_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    WM_CANCEL_OFF(); /* getrandom() and dlopen() */
    pthread_once(&once, init_once);
}

/* If atexit() is out of room, the earlier registration stands. */
void wm_process_exit_first(void)
{
    atomic_fetch_add_explicit(&wm_process.handlers, 1, memory_order_relaxed);
    (void)atexit(at_exit);
}

void wm_process_exit_after(const void *started)
{
    bool known = false;
    int i = 0;

    wm_lock_acquire(&wm_process_lock);
    while (i < STARTED && started_before[i] != NULL && !known) {
        known = started_before[i++] == started;
    }
    if (!known && i < STARTED) {
        started_before[i] = started;
    }
    wm_lock_release(&wm_process_lock);
    if (!known) {
        wm_process_exit_first();
    }
}

void wm_process_set_exiting(void)
{
    atomic_store_explicit(&wm_process.leaving, true, memory_order_relaxed);
}

void wm_process_on_fork(void (*fn)(void))
{
    atomic_store_explicit(&fork_hook, fn, memory_order_relaxed);
}

void wm_process_before_exit(void (*fn)(void))
{
    atomic_store_explicit(&before_exit_hook, fn, memory_order_relaxed);
}

void wm_process_on_exit(void (*fn)(void))
{
    atomic_store_explicit(&exit_hook, fn, memory_order_relaxed);
}

unsigned wm_process_cpus(void)
{
    cpu_set_t set;
    int count = 1;

    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        count = CPU_COUNT(&set);
    }
    return count < 1 ? 1 : (unsigned)count;
}
