/* timing.c: the stand-in libcuda.so.1: when events passed. An event that was
 * made for timing has a record; work before it in its stream writes the time.
 */
#include "standin.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* Never freed, since work may still write there; used again by a later event.
 */
typedef struct timed {
    struct timed *next;         /* const */
    _Atomic(CUevent) event;     /* null: none */
    _Atomic uint64_t passed_ns; /* 0: not recorded */
} timed;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static timed *all_timed; /* mutex */

static timed *find_locked(CUevent event)
{
    timed *t = all_timed;

    while (t != NULL && t->event != event) {
        t = t->next;
    }
    return t;
}

static timed *find(CUevent event)
{
    timed *t;

    pthread_mutex_lock(&mutex);
    t = find_locked(event);
    pthread_mutex_unlock(&mutex);
    return t;
}

void standin_time_event(CUevent event)
{
    timed *t;

    pthread_mutex_lock(&mutex);
    t = find_locked(NULL);
    if (t == NULL) {
        t = calloc(1, sizeof *t);
        t->next = all_timed;
        all_timed = t;
    }
    t->passed_ns = 0;
    t->event = event;
    pthread_mutex_unlock(&mutex);
}

void standin_untime_event(CUevent event)
{
    timed *t = find(event);

    if (t != NULL) {
        t->event = NULL;
    }
}

static void stamp(void *argument)
{
    timed *t = *(timed **)argument;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    t->passed_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* In a capture there is no time to write. */
int standin_stamp(CUevent event, CUstream stream)
{
    timed *t = find(event);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (t == NULL || cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
        status != CU_STREAM_CAPTURE_STATUS_NONE) {
        return 0;
    }
    return standin_launch(stream, stamp, &t, sizeof t);
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    timed *first = find(from), *last = find(to);
    CUresult code;
    STANDIN_ENTER(CUresult, cuEventElapsedTime)

    code = cuEventQuery(from);
    code = code == CUDA_SUCCESS ? cuEventQuery(to) : code;
    if (code == CUDA_SUCCESS && (first == NULL || first->passed_ns == 0 ||
                                 last == NULL || last->passed_ns == 0)) {
        code = CUDA_ERROR_INVALID_HANDLE; /* not recorded, or not for timing */
    }
    if (code == CUDA_SUCCESS) {
        *ms =
            (float)((double)last->passed_ns - (double)first->passed_ns) / 1e6f;
    }
    return code;
}
