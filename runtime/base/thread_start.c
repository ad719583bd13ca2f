/* thread_start.c: starts a thread with all signals blocked. No locks. */
#include "runtime/base/thread_start.h"

#include <signal.h>

bool wm_thread_start(pthread_t *thread, const pthread_attr_t *attr,
                     void *(*main)(void *argument), void *argument)
{
    sigset_t all, old;
    bool started;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    started = pthread_create(thread, attr, main, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}
