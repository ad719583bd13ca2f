/* maths.h: the few operations that the examples need, queued on a stream.
 *
 *   maths_begin ── upload, gemm, relu, … download ── maths_finish ─┐
 *        │               ▲                                │        │
 *   the thread's         └────────── again ───────────────┘    maths_end
 *   pooled handles
 *
 * On "cuda" cuBLAS and cuDNN do the work, on "host" oneDNN, run in stream
 * order by the host device. Matrices are dense, row after row, in memory of
 * the device. An error sticks: what follows it does nothing, and
 * maths_finish() answers false with the reason of the first one. */
#ifndef EXAMPLE_MATHS_H
#define EXAMPLE_MATHS_H

#include "examples/common/images.h"
#include "warmpool/warmpool.h"

#include <stdatomic.h>

typedef struct maths_ops maths_ops;

/* What a graph needs for as long as it lives: the head of a record on the heap
 * that whoever keeps it knows. */
typedef struct maths_kept {
    struct maths_kept *next;
} maths_kept;

/* Operations that were queued once, to be run as often as wanted. */
typedef struct maths_graph {
    warm_graph graph; /* null: there is none */
    maths_kept *kept;
} maths_graph;

/* What a thread computes with, on that thread's stack or in its care. */
typedef struct maths {
    const maths_ops *ops;
    warm_runtime *runtime;
    int device;
    warm_stream stream;
    void *handle;     /* cublasHandle_t, or dnnl_engine_t */
    void *dnn;        /* cudnnHandle_t, or null */
    void *shapes[3];  /* descriptors of cuDNN */
    bool naive;       /* stream and handles were made by maths_begin_naive() */
    bool bad;         /* an operation could not be queued */
    bool captures;    /* operations go to a graph, and do not run */
    maths_kept *kept; /* by those, so far */
    atomic_int fault; /* what a queued operation of the host device answered */
    message why;
} maths;

/* Takes the calling thread's stream and handles from the pools of warmpool:
 * in a thread that has them, or that finds idle ones, nothing is created. */
bool maths_begin(maths *m, warm_runtime *runtime, int device);

/* What programs without warmpool do: makes a stream and handles here, and
 * destroys them in maths_end(). */
bool maths_begin_naive(maths *m, warm_runtime *runtime, int device);

/* Waits for the queued work. */
bool maths_finish(maths *m);
/* After maths_finish(). */
void maths_end(maths *m);

/* Memory of the device, in the order of the stream: to be given back as soon
 * as the work that uses it is queued. Whoever gets it next does so behind that
 * work. Null: an error. The naive way asks the driver each time. */
float *maths_alloc(maths *m, size_t count);
/* Null does nothing. */
void maths_free(maths *m, float *memory);

/* What is queued between the two becomes a graph; its arguments stay in use,
 * and m in its place, until maths_graph_destroy(). Libraries load code when it
 * is first used, which a capture may not allow: run the same once before. */
void maths_capture_begin(maths *m);
/* After an error *graph is empty. */
void maths_capture_end(maths *m, maths_graph *graph);
/* Queues everything in it, by one call of the driver. */
void maths_replay(maths *m, const maths_graph *graph);
/* After maths_finish(). An empty one needs it not. */
void maths_graph_destroy(maths *m, maths_graph *graph);

/* Page-locked memory straight from the system, for the naive way. */
void *maths_pin(maths *m, size_t bytes);
void maths_unpin(maths *m, void *pointer, size_t bytes);

/* Copies; the buffer may be given to warm_free() at once. */
void maths_upload(maths *m, float *to, const float *from, size_t count);
void maths_download(maths *m, float *to, const float *from, size_t count);

/* A product c = alpha · a' · b' + beta · c, where c is rows × columns; a' is
 * rows × inner, b' is inner × columns, each stored the other way round if
 * said so. */
typedef struct maths_product {
    int rows, columns, inner;
    bool a_transposed, b_transposed;
    float alpha, beta;
} maths_product;
void maths_gemm(maths *m, const maths_product *p, const float *a,
                const float *b, float *c);

/* y += bias in every row. */
void maths_add_row(maths *m, int rows, int columns, const float *bias,
                   float *y);
void maths_relu(maths *m, int rows, int columns, float *y);
/* dy = 0 where y, which came out of maths_relu(), is 0. */
void maths_relu_back(maths *m, int rows, int columns, const float *y,
                     float *dy);
/* Each row becomes a distribution. */
void maths_softmax(maths *m, int rows, int columns, float *y);
/* y += alpha · x */
void maths_axpy(maths *m, int count, float alpha, const float *x, float *y);
void maths_scale(maths *m, int count, float alpha, float *y);
/* sums[c] = sum of column c; ones: at least rows times 1.0. */
void maths_column_sums(maths *m, int rows, int columns, const float *ones,
                       const float *x, float *sums);

/* Each implementation fills one. Operations set m->bad when they fail. */
struct maths_ops {
    bool (*begin)(maths *m); /* stream is there already */
    bool (*begin_naive)(maths *m);
    void (*end)(maths *m);
    void *(*pin)(size_t bytes);
    void (*unpin)(void *pointer, size_t bytes);
    void (*gemm)(maths *m, const maths_product *p, const float *a,
                 const float *b, float *c);
    void (*add_row)(maths *m, int rows, int columns, const float *bias,
                    float *y);
    void (*relu)(maths *m, int rows, int columns, float *y);
    void (*relu_back)(maths *m, int rows, int columns, const float *y,
                      float *dy);
    void (*softmax)(maths *m, int rows, int columns, float *y);
    void (*axpy)(maths *m, int count, float alpha, const float *x, float *y);
    void (*scale)(maths *m, int count, float alpha, float *y);
    void (*column_sums)(maths *m, int rows, int columns, const float *ones,
                        const float *x, float *sums);
};
extern const maths_ops maths_host;
extern const maths_ops maths_cuda; /* answers false where left out */

/* For operations that are captured. */
void maths_keep(maths *m, maths_kept *kept);

/* Whether the status is WARM_OK; any other is an error, with warmpool's reason.
 */
bool maths_check(maths *m, warm_status status);

/* The first error stays. */
void maths_failed(maths *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
