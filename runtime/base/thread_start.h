/* thread_start.h: starts a thread of the library. It blocks all signals: the
 * program's handlers run on the program's threads. */
#ifndef WM_THREAD_START_H
#define WM_THREAD_START_H

#include <pthread.h>
#include <stdbool.h>

/* attr: or null. False: no thread could be started. */
bool wm_thread_start(pthread_t *thread, const pthread_attr_t *attr,
                     void *(*main)(void *argument), void *argument);

#endif
