/* process.h: what holds for the whole process: exit, fork, and its one lock.
 *
 * The process lock is taken before a fork and released on both sides, so that
 * what it guards is whole in the child. */
#ifndef WM_PROCESS_H
#define WM_PROCESS_H

#include "runtime/base/lock.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Installs the handlers of exit(), quick_exit() and fork(); cheap when done
 * already. */
void wm_process_init(void);

/* Of the process; through the functions below only. leaving: written once, from
 * false to true. forks, identity: written in a child while it has one thread
 * only. All relaxed: a call that races with exit() was under way before it, as
 * far as anyone can tell. */
extern struct wm_process {
    _Atomic bool leaving;
    _Atomic bool left; /* what is to be done at exit was done */
    _Atomic unsigned forks;
    _Atomic uint64_t identity;
    _Atomic unsigned handlers; /* how often at exit; for tests */
} wm_process __attribute__((visibility("hidden")));

/* True once exit() or quick_exit() has run our handler, or a driver said it is
 * unloading: no driver may be called any more (row A6). */
static inline bool wm_process_exiting(void)
{
    return atomic_load_explicit(&wm_process.leaving, memory_order_relaxed);
}

void wm_process_set_exiting(void);

/* Registers the exit handler once more, so that it runs before those that were
 * registered until now. To be called when a library was started that shuts down
 * at exit: nothing of it may be called from then on, and handlers run in
 * reverse order. */
void wm_process_exit_first(void);
/* The same, once in the process for each library: started is the address of a
 * function of it. Takes the process lock. */
void wm_process_exit_after(const void *started);

/* CPUs that the calling thread may run on; at least 1. */
unsigned wm_process_cpus(void);

/* Counts the forks that led to this process; a runtime made under another
 * number belongs to an ancestor (row G5). */
static inline unsigned wm_process_generation(void)
{
    return atomic_load_explicit(&wm_process.forks, memory_order_relaxed);
}

/* A number that no other process has, nor a later one that gets this one's
 * pid; another one in the child of a fork. */
static inline uint64_t wm_process_identity(void)
{
    return atomic_load_explicit(&wm_process.identity, memory_order_relaxed);
}

/* Runs fn in the child of every fork, in the thread that forked. There is
 * room for one: the thread module clears its window there. */
void wm_process_on_fork(void (*fn)(void));

/* Runs fn once exit() has begun and wm_process_exiting() is true. There is
 * room for one: the runtimes count there what they leak. */
void wm_process_on_exit(void (*fn)(void));

extern wm_lock wm_process_lock;

#endif
