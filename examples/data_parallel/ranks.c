/* ranks.c: the processes of one training, by MPI (ranks.h). */
#include "examples/data_parallel/ranks.h"

#include <mpi.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All segments are attached to one window, in which other ranks read by
 * address. With one rank there is none. */
static struct {
    MPI_Win window;
    bool open;
    pthread_mutex_t mutex;
    unsigned refused; /* mutex: segments that MPI did not attach */
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- begin and end --------------------------------------------------------
 */

bool ranks_begin(ranks *r, int *argc, char ***argv, message *why)
{
    int threads = 0;

    *r = (ranks){.rank = 0, .count = 1};
    /* Segments are obtained by whichever thread needs one. */
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &threads);
    MPI_Comm_rank(MPI_COMM_WORLD, &r->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r->count);
    if (threads < MPI_THREAD_MULTIPLE) {
        (void)failed(why, "--mpi: this MPI does not let several threads call");
        ranks_abort(r);
        return false;
    }
    if (r->count > 1) {
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &shared.window);
        MPI_Win_lock_all(MPI_MODE_NOCHECK, shared.window);
        shared.open = true;
    }
    return true;
}

void ranks_end(ranks *r)
{
    if (shared.open) {
        MPI_Win_unlock_all(shared.window);
        MPI_Win_free(&shared.window);
        shared.open = false;
    }
    (void)r;
    MPI_Finalize();
}

void ranks_abort(ranks *r)
{
    (void)r;
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

/* ---- registrations ---------------------------------------------------------
 */

/* No call of warmpool is made under the mutex. */
static void on_segment(void *context, warm_memory_event event,
                       const warm_segment *segment)
{
    ranks *r = context;

    if (segment->device >= 0) {
        return; /* memory of a device: for an MPI that knows CUDA */
    }
    pthread_mutex_lock(&shared.mutex);
    if (event == WARM_MEMORY_RETURNING) {
        MPI_Win_detach(shared.window, segment->base);
    } else if (MPI_Win_attach(shared.window, segment->base,
                              (MPI_Aint)segment->bytes) == MPI_SUCCESS) {
        r->registered++;
    } else {
        shared.refused++;
    }
    pthread_mutex_unlock(&shared.mutex);
}

bool ranks_register(ranks *r, warm_runtime *runtime, message *why)
{
    warm_memory_callback callback = WARM_INIT(warm_memory_callback);

    if (!shared.open) {
        return true;
    }
    /* What MPI refuses comes back as a code, instead of ending the process. */
    MPI_Win_set_errhandler(shared.window, MPI_ERRORS_RETURN);
    callback.name = "mpi";
    callback.events = WARM_MEMORY_OBTAINED | WARM_MEMORY_RETURNING;
    callback.segment = on_segment;
    callback.context = r;
    return warm_memory_callback_add(runtime, &callback) == WARM_OK ||
           failed(why, "%s", warm_last_error_message());
}

/* ---- the sum ---------------------------------------------------------------
 */

/* What a rank adds up: [from, to) of count values. */
static int begin_of(const ranks *r, int rank, int count)
{
    return (int)((int64_t)count * rank / r->count);
}

/* Where each rank has its values, and where it will have its sums. */
typedef struct places {
    MPI_Aint values, sums;
} places;

static bool get(void *to, int floats, int rank, MPI_Aint from)
{
    return MPI_Get(to, floats, MPI_FLOAT, rank, from, floats, MPI_FLOAT,
                   shared.window) == MPI_SUCCESS;
}

/* Waits for what this rank reads; all have come so far. */
static bool meet(void)
{
    return MPI_Win_flush_all(shared.window) == MPI_SUCCESS &&
           MPI_Win_sync(shared.window) == MPI_SUCCESS &&
           MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS;
}

/* What one sum needs beside the values. New for each: a buffer costs nothing
 * here, and a registration would. */
typedef struct scratch {
    float *sums;  /* page-locked: this rank's part of the sums, */
    float *parts; /* and the same part of the values of each rank */
    int stride;   /* floats from one of these to the next */
    places *at;   /* of each rank */
} scratch;

static float *part_of(const scratch *s, int rank)
{
    return s->parts + (size_t)rank * (size_t)s->stride;
}

/* The sum of all parts is in the first one. */
static void add_up(const ranks *r, const scratch *s, int floats)
{
    for (int step = 1; step < r->count; step *= 2) {
        for (int i = 0; i + step < r->count; i += 2 * step) {
            float *to = part_of(s, i);
            const float *from = part_of(s, i + step);

            for (int k = 0; k < floats; k++) {
                to[k] += from[k];
            }
        }
    }
}

/* Reads this rank's part of all, adds it up where others read it, and reads
 * theirs. Each rank begins with itself: else all would read from rank 0 first,
 * whose card would have to send to all at once. */
static bool reduce(const ranks *r, float *values, int count, const scratch *s)
{
    int mine = begin_of(r, r->rank, count);
    int floats = begin_of(r, r->rank + 1, count) - mine;
    bool good = true;

    for (int i = 0; i < r->count && good; i++) {
        int k = (r->rank + i) % r->count;

        good = get(part_of(s, k), floats, k,
                   s->at[k].values + (MPI_Aint)mine * (MPI_Aint)sizeof(float));
    }
    if (!good || MPI_Win_flush_all(shared.window) != MPI_SUCCESS) {
        return false;
    }
    add_up(r, s, floats);
    memcpy(s->sums, s->parts, (size_t)floats * sizeof(float));
    good = meet();
    for (int i = 0; i < r->count && good; i++) {
        int k = (r->rank + i) % r->count;
        int begin = begin_of(r, k, count);

        good = get(values + begin, begin_of(r, k + 1, count) - begin, k,
                   s->at[k].sums);
    }
    return good && meet();
}

static bool begin_scratch(const ranks *r, warm_runtime *runtime, int count,
                          scratch *s, message *why)
{
    size_t bytes;
    void *room = NULL;

    s->stride = count / r->count + 1;
    bytes = (size_t)s->stride * (size_t)(r->count + 1) * sizeof(float);
    s->at = calloc((size_t)r->count, sizeof *s->at);
    if (s->at == NULL) {
        (void)failed(why, "out of memory");
        return false;
    }
    if (warm_pinned_alloc(runtime, bytes, &room) != WARM_OK) {
        (void)failed(why, "%s", warm_last_error_message());
        return false;
    }
    s->sums = room;
    s->parts = s->sums + s->stride;
    return true;
}

static bool exchange(const ranks *r, float *values, int count, scratch *s)
{
    places mine;

    MPI_Get_address(values, &mine.values);
    MPI_Get_address(s->sums, &mine.sums);
    return MPI_Win_sync(shared.window) == MPI_SUCCESS &&
           MPI_Allgather(&mine, sizeof mine, MPI_BYTE, s->at, sizeof mine,
                         MPI_BYTE, MPI_COMM_WORLD) == MPI_SUCCESS &&
           reduce(r, values, count, s);
}

static bool all_attached(void)
{
    bool all;

    pthread_mutex_lock(&shared.mutex);
    all = shared.refused == 0;
    pthread_mutex_unlock(&shared.mutex);
    return all;
}

bool ranks_sum(ranks *r, warm_runtime *runtime, float *values, int count,
               message *why)
{
    scratch s = {.sums = NULL};
    bool good;

    if (r->count == 1) {
        return true;
    }
    good = begin_scratch(r, runtime, count, &s, why);
    if (good && (!exchange(r, values, count, &s) || !all_attached())) {
        good = failed(why, "MPI: a transfer or a registration failed");
    }
    warm_free(s.sums);
    free(s.at);
    r->sums++;
    return good;
}

double ranks_total(double value)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return value;
}
