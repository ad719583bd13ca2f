/* process.h: exit and fork of the process, and the process lock.
 *
 * The lock is acquired before a fork and released in parent and child, so that
 * the data it guards is consistent in the child. */
#ifndef WM_PROCESS_H
#define WM_PROCESS_H

#include "runtime/base/lock.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Installs the handlers of exit(), quick_exit() and fork(), once. */
void wm_process_init(void);

/* State of the process; use the functions below. leaving is written once, from
 * false to true; forks and identity are written in a child while it has a
 * single thread. All relaxed: a call that races with exit() cannot be
 * distinguished from one that began before it. */
extern struct wm_process {
    _Atomic bool leaving;
    _Atomic bool left; /* the exit hooks run, or have run */
    _Atomic unsigned forks;
    _Atomic uint64_t identity;
    _Atomic unsigned handlers; /* registrations at exit, for tests */
} wm_process __attribute__((visibility("hidden")));

/* True once exit() or quick_exit() has run our handler, or a driver has
 * reported that it is unloading: no driver may be called any more. */
static inline bool wm_process_exiting(void)
{
    return atomic_load_explicit(&wm_process.leaving, memory_order_relaxed);
}

void wm_process_set_exiting(void);

/* Registers the exit handler again, so that it runs before all handlers that
 * are registered by now (handlers run in reverse order). Call it after a
 * library was started that shuts down in an exit handler of its own: our
 * handler must run first, since the library must not be called afterwards. */
void wm_process_exit_first(void);
/* wm_process_exit_first(), once in the process for each library; started is the
 * address of one of its functions. Takes the process lock. */
void wm_process_exit_after(const void *started);

/* CPUs that the calling thread may run on; at least 1. */
unsigned wm_process_cpus(void);

/* The number of forks that led to this process. A runtime made under another
 * number belongs to an ancestor. */
static inline unsigned wm_process_generation(void)
{
    return atomic_load_explicit(&wm_process.forks, memory_order_relaxed);
}

/* A random number that identifies this process, unlike its pid never reused;
 * the child of a fork gets a new one. */
static inline uint64_t wm_process_identity(void)
{
    return atomic_load_explicit(&wm_process.identity, memory_order_relaxed);
}

/* Runs fn in the child of every fork, in the thread that forked. One fn only:
 * wm_runtime_forked(). */
void wm_process_on_fork(void (*fn)(void));

/* Runs fn once when exit() has begun and drivers may still be called. One fn
 * only: runtime.c's, which writes statistics. */
void wm_process_before_exit(void (*fn)(void));

/* Runs fn once when exit() has begun and wm_process_exiting() is true. One fn
 * only: runtime.c's, which counts what the runtimes leak. */
void wm_process_on_exit(void (*fn)(void));

extern wm_lock wm_process_lock;

#endif
