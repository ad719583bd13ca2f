/* maths_host.c: the maths of the host device, by oneDNN; see maths.h.
 *
 * Every operation is one piece of work on the stream: warm_stream_host_func()
 * runs it on a thread of the host device, after what was queued before it.
 * The operation's record is made here and freed by whoever runs it, or by the
 * graph that it became part of. */
#include "examples/common/maths.h"

#include "warmpool/onednn.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

/* oneDNN's parallel loops are OpenMP's. The streams are this program's
 * threads; teams under them would only fight for the same cores. */
extern void omp_set_num_threads(int count);

typedef struct operation {
    maths_kept kept; /* first: freed as that */
    bool captured;   /* runs as often as its graph does */
    void (*run)(struct operation *o);
    maths *m;
    maths_product p; /* rows, columns and alpha also for the simple ones */
    const float *a, *b;
    float *c;
} operation;

static void run_operation(void *argument)
{
    operation *o = argument;

    o->run(o);
    if (!o->captured) {
        free(o);
    }
}

static void queue(maths *m, const operation *given)
{
    operation *o = malloc(sizeof *o);
    warm_status status;

    if (o == NULL) {
        maths_failed(m, "out of memory");
        return;
    }
    *o = *given;
    o->m = m;
    o->captured = m->captures;
    status = warm_stream_host_func(m->runtime, m->stream, run_operation, o);
    if (!maths_check(m, status)) {
        free(o);
    } else if (m->captures) {
        maths_keep(m, &o->kept);
    }
}

/* A matrix of rows × columns, stored the other way round if transposed. */
static dnnl_status_t describe(dnnl_memory_desc_t *d, int rows, int columns,
                              bool transposed)
{
    dnnl_dims_t size = {rows, columns};
    dnnl_dims_t step = {transposed ? 1 : columns, transposed ? rows : 1};

    return dnnl_memory_desc_init_by_strides(d, 2, size, dnnl_f32, step);
}

/* The product's attributes: alpha, and the sum with beta times c. */
static dnnl_status_t attribute(const maths_product *p,
                               dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attr);

    if (status == dnnl_success && p->alpha != 1) {
        status = dnnl_primitive_attr_set_output_scales(*attr, 1, 0, &p->alpha);
    }
    if (status == dnnl_success && p->beta != 0) {
        status = dnnl_post_ops_create(&ops);
        if (status == dnnl_success) {
            status = dnnl_post_ops_append_sum(ops, p->beta);
        }
        if (status == dnnl_success) {
            status = dnnl_primitive_attr_set_post_ops(*attr, ops);
        }
        dnnl_post_ops_destroy(ops);
    }
    return status;
}

/* oneDNN keeps what it compiled in a cache of its own: after the first of a
 * shape this takes some microseconds. */
static dnnl_status_t make_product(const operation *o, dnnl_memory_desc_t d[3],
                                  dnnl_primitive_t *primitive)
{
    const maths_product *p = &o->p;
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status = attribute(p, &attr);

    if (status == dnnl_success) {
        status = describe(&d[0], p->rows, p->inner, p->a_transposed);
    }
    if (status == dnnl_success) {
        status = describe(&d[1], p->inner, p->columns, p->b_transposed);
    }
    if (status == dnnl_success) {
        status = describe(&d[2], p->rows, p->columns, false);
    }
    if (status == dnnl_success) {
        status = dnnl_matmul_desc_init(&matmul, &d[0], &d[1], NULL, &d[2]);
    }
    if (status == dnnl_success) {
        status = dnnl_primitive_desc_create(&desc, &matmul, attr, o->m->handle,
                                            NULL);
    }
    if (status == dnnl_success) {
        status = dnnl_primitive_create(primitive, desc);
    }
    dnnl_primitive_desc_destroy(desc);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

static void run_gemm(operation *o)
{
    const int what[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    void *memory[3] = {(void *)(uintptr_t)o->a, (void *)(uintptr_t)o->b, o->c};
    dnnl_memory_desc_t desc[3];
    dnnl_exec_arg_t arguments[3] = {{0, NULL}, {0, NULL}, {0, NULL}};
    dnnl_primitive_t primitive = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t status;

    omp_set_num_threads(1);
    status = make_product(o, desc, &primitive);
    for (int i = 0; i < 3 && status == dnnl_success; i++) {
        arguments[i].arg = what[i];
        status = dnnl_memory_create(&arguments[i].memory, &desc[i],
                                    o->m->handle, memory[i]);
    }
    if (status == dnnl_success) {
        status = dnnl_stream_create(&stream, o->m->handle,
                                    dnnl_stream_default_flags);
    }
    if (status == dnnl_success) {
        status = dnnl_primitive_execute(primitive, stream, 3, arguments);
    }
    if (status == dnnl_success) {
        status = dnnl_stream_wait(stream);
    }
    for (int i = 0; i < 3; i++) {
        dnnl_memory_destroy(arguments[i].memory);
    }
    dnnl_stream_destroy(stream);
    dnnl_primitive_destroy(primitive);
    if (status != dnnl_success) {
        /* Relaxed: read after the stream has been waited for. */
        atomic_store_explicit(&o->m->fault, (int)status, memory_order_relaxed);
    }
}

static void host_gemm(maths *m, const maths_product *p, const float *a,
                      const float *b, float *c)
{
    queue(m, &(operation){.run = run_gemm, .p = *p, .a = a, .b = b, .c = c});
}

static void run_add_row(operation *o)
{
    for (int r = 0; r < o->p.rows; r++) {
        float *row = o->c + (size_t)r * (size_t)o->p.columns;

        for (int c = 0; c < o->p.columns; c++) {
            row[c] += o->a[c];
        }
    }
}

static void host_add_row(maths *m, int rows, int columns, const float *bias,
                         float *y)
{
    queue(m, &(operation){.run = run_add_row,
                          .p = {.rows = rows, .columns = columns},
                          .a = bias,
                          .c = y});
}

static void run_relu(operation *o)
{
    int count = o->p.rows * o->p.columns;

    for (int i = 0; i < count; i++) {
        o->c[i] = o->c[i] > 0 ? o->c[i] : 0;
    }
}

static void host_relu(maths *m, int rows, int columns, float *y)
{
    queue(m, &(operation){.run = run_relu,
                          .p = {.rows = rows, .columns = columns},
                          .c = y});
}

static void run_relu_back(operation *o)
{
    int count = o->p.rows * o->p.columns;

    for (int i = 0; i < count; i++) {
        o->c[i] = o->a[i] > 0 ? o->c[i] : 0;
    }
}

static void host_relu_back(maths *m, int rows, int columns, const float *y,
                           float *dy)
{
    queue(m, &(operation){.run = run_relu_back,
                          .p = {.rows = rows, .columns = columns},
                          .a = y,
                          .c = dy});
}

static void softmax_row(float *row, int columns)
{
    float most = row[0], sum = 0;

    for (int c = 1; c < columns; c++) {
        most = row[c] > most ? row[c] : most;
    }
    for (int c = 0; c < columns; c++) {
        row[c] = expf(row[c] - most);
        sum += row[c];
    }
    for (int c = 0; c < columns; c++) {
        row[c] /= sum;
    }
}

static void run_softmax(operation *o)
{
    for (int r = 0; r < o->p.rows; r++) {
        softmax_row(o->c + (size_t)r * (size_t)o->p.columns, o->p.columns);
    }
}

static void host_softmax(maths *m, int rows, int columns, float *y)
{
    queue(m, &(operation){.run = run_softmax,
                          .p = {.rows = rows, .columns = columns},
                          .c = y});
}

static void run_axpy(operation *o)
{
    for (int i = 0; i < o->p.columns; i++) {
        o->c[i] += o->p.alpha * o->a[i];
    }
}

static void host_axpy(maths *m, int count, float alpha, const float *x,
                      float *y)
{
    queue(m, &(operation){.run = run_axpy,
                          .p = {.columns = count, .alpha = alpha},
                          .a = x,
                          .c = y});
}

static void run_scale(operation *o)
{
    for (int i = 0; i < o->p.columns; i++) {
        o->c[i] *= o->p.alpha;
    }
}

static void host_scale(maths *m, int count, float alpha, float *y)
{
    queue(m, &(operation){.run = run_scale,
                          .p = {.columns = count, .alpha = alpha},
                          .c = y});
}

static void run_column_sums(operation *o)
{
    for (int c = 0; c < o->p.columns; c++) {
        o->c[c] = 0;
    }
    for (int r = 0; r < o->p.rows; r++) {
        for (int c = 0; c < o->p.columns; c++) {
            o->c[c] += o->a[(size_t)r * (size_t)o->p.columns + (size_t)c];
        }
    }
}

static void host_column_sums(maths *m, int rows, int columns, const float *ones,
                             const float *x, float *sums)
{
    (void)ones;
    queue(m, &(operation){.run = run_column_sums,
                          .p = {.rows = rows, .columns = columns},
                          .a = x,
                          .c = sums});
}

static bool host_begin(maths *m)
{
    dnnl_engine_t engine = NULL;

    if (!maths_check(m, warm_onednn_engine(m->runtime, &engine))) {
        return false;
    }
    m->handle = engine;
    return true;
}

static bool host_begin_naive(maths *m)
{
    dnnl_engine_t engine;

    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) {
        return failed(&m->why, "oneDNN could not make an engine");
    }
    m->handle = engine;
    return true;
}

static void host_end(maths *m)
{
    if (m->naive) {
        dnnl_engine_destroy(m->handle);
    }
}

/* As a driver does for cudaHostAlloc: map, touch and lock. Where the limit
 * on locked memory is reached the pages stay unlocked, in our disfavour. */
static void *host_pin(size_t bytes)
{
    void *pointer = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (pointer == MAP_FAILED) {
        return NULL;
    }
    (void)mlock(pointer, bytes);
    return pointer;
}

static void host_unpin(void *pointer, size_t bytes)
{
    munmap(pointer, bytes);
}

const maths_ops maths_host = {
    .begin = host_begin,
    .begin_naive = host_begin_naive,
    .end = host_end,
    .pin = host_pin,
    .unpin = host_unpin,
    .gemm = host_gemm,
    .add_row = host_add_row,
    .relu = host_relu,
    .relu_back = host_relu_back,
    .softmax = host_softmax,
    .axpy = host_axpy,
    .scale = host_scale,
    .column_sums = host_column_sums,
};
