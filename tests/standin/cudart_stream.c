/* cudart_stream.c: the stand-in libcudart: streams as they are made, and what a
 * stream and an event can tell. */
#include "cudart.h"

#include <pthread.h>
#include <stdlib.h>

/* What each stream was made with. */
typedef struct made {
    struct made *next;
    cudaStream_t stream;
    unsigned flags;
    int priority;
} made;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static made *all_made; /* mutex */

/* As on most GPUs: from low to high. */
enum { LEAST = 0, GREATEST = -5 };

static int create(cudaStream_t *stream, unsigned flags, int priority)
{
    int code = (int)cuStreamCreate(stream, flags);
    made *m;

    if (code == cudaSuccess) {
        m = calloc(1, sizeof *m);
        *m = (made){.stream = *stream, .flags = flags};
        m->priority = priority > LEAST      ? LEAST
                      : priority < GREATEST ? GREATEST
                                            : priority;
        pthread_mutex_lock(&mutex);
        m->next = all_made;
        all_made = m;
        pthread_mutex_unlock(&mutex);
    }
    return code;
}

static int destroy(cudaStream_t stream)
{
    made **at = &all_made, *m;

    pthread_mutex_lock(&mutex);
    while (*at != NULL && (*at)->stream != stream) {
        at = &(*at)->next;
    }
    m = *at;
    if (m != NULL) {
        *at = m->next;
    }
    pthread_mutex_unlock(&mutex);
    free(m);
    return (int)cuStreamDestroy_v2(stream);
}

static made get(cudaStream_t stream)
{
    made found = {0};

    pthread_mutex_lock(&mutex);
    for (const made *m = all_made; m != NULL; m = m->next) {
        if (m->stream == stream) {
            found = *m;
        }
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

FUNCTION(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags),
         create(stream, flags, LEAST))
FUNCTION(cudaStreamCreate, (cudaStream_t * stream),
         create(stream, CU_STREAM_DEFAULT, LEAST))
FUNCTION(cudaStreamCreateWithPriority,
         (cudaStream_t * stream, unsigned flags, int priority),
         create(stream, flags, priority))
FUNCTION(cudaStreamDestroy, (cudaStream_t stream), destroy(stream))
FUNCTION(cudaStreamGetFlags, (cudaStream_t stream, unsigned *flags),
         (*flags = get(stream).flags, cudaSuccess))
FUNCTION(cudaStreamGetPriority, (cudaStream_t stream, int *priority),
         (*priority = get(stream).priority, cudaSuccess))
FUNCTION(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest),
         (*least = LEAST, *greatest = GREATEST, cudaSuccess))

typedef struct callback {
    cudaStreamCallback_t function;
    cudaStream_t stream;
    void *data;
} callback;

static void run(void *argument)
{
    const callback *c = argument;

    c->function(c->stream, cudaSuccess, c->data);
}

static int call(cudaStream_t stream, cudaStreamCallback_t function, void *data)
{
    callback c = {function, stream, data};

    return standin_launch(stream, run, &c, sizeof c);
}

FUNCTION(cudaStreamAddCallback,
         (cudaStream_t stream, cudaStreamCallback_t function, void *data,
          unsigned flags),
         flags == 0 ? call(stream, function, data) : (int)cudaErrorInvalidValue)
FUNCTION(cudaEventRecordWithFlags,
         (cudaEvent_t event, cudaStream_t stream, unsigned flags),
         flags <= cudaEventRecordExternal ? cuEventRecord(event, stream)
                                          : CUDA_ERROR_INVALID_VALUE)
FUNCTION(cudaEventElapsedTime, (float *ms, cudaEvent_t from, cudaEvent_t to),
         cuEventElapsedTime(ms, from, to))

PER_THREAD(cudaStreamSynchronize_ptsz, (cudaStream_t stream),
           cuStreamSynchronize(OWN(stream)))
PER_THREAD(cudaStreamQuery_ptsz, (cudaStream_t stream),
           cuStreamQuery(OWN(stream)))
PER_THREAD(cudaStreamWaitEvent_ptsz,
           (cudaStream_t stream, cudaEvent_t event, unsigned flags),
           cuStreamWaitEvent(OWN(stream), event, flags))
PER_THREAD(cudaEventRecord_ptsz, (cudaEvent_t event, cudaStream_t stream),
           cuEventRecord(event, OWN(stream)))
PER_THREAD(cudaLaunchHostFunc_ptsz,
           (cudaStream_t stream, cudaHostFn_t function, void *argument),
           cuLaunchHostFunc(OWN(stream), function, argument))
PER_THREAD(cudaGraphLaunch_ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
           cuGraphLaunch(exec, OWN(stream)))
