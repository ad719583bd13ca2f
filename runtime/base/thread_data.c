/* thread_data.c: see thread_data.h. No locks. */
#include "runtime/base/thread_data.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

_Thread_local wm_thread_marks wm_thread_marks_now;
static _Thread_local wm_thread_data *mine;

static pthread_key_t key;
static int key_error;
static _Atomic bool refused;

/* If a later destructor of the thread makes the data again, this destructor
 * runs once more, in the next round. */
static void thread_exits(void *value)
{
    mine = NULL;
    wm_thread_marks_now.rounds++;
    free(value);
}

static void make_key(void)
{
    key_error = pthread_key_create(&key, thread_exits);
}

static wm_thread_data *make(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    wm_thread_data *data;

    pthread_once(&once, make_key);
    /* Relaxed: only a test sets it. */
    if (key_error != 0 ||
        atomic_load_explicit(&refused, memory_order_relaxed)) {
        return NULL;
    }
    data = calloc(1, sizeof *data);
    if (data != NULL && pthread_setspecific(key, data) != 0) {
        free(data);
        data = NULL;
    }
    return data;
}

wm_thread_data *wm_thread_data_get(void)
{
    return mine;
}

wm_thread_data *wm_thread_data_make(void)
{
    int before = errno;

    if (mine == NULL &&
        wm_thread_marks_now.rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
        mine = make();
        errno = before;
    }
    return mine;
}

void wm_thread_data_refuse(bool refuse)
{
    atomic_store_explicit(&refused, refuse, memory_order_relaxed);
}
