/* maths.c: what the two implementations share; see maths.h. */
#include "examples/common/maths.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void maths_failed(maths *m, const char *format, ...)
{
    va_list arguments;

    if (m->bad) {
        return;
    }
    m->bad = true;
    va_start(arguments, format);
    vsnprintf(m->why.text, sizeof m->why.text, format, arguments);
    va_end(arguments);
}

bool maths_check(maths *m, warm_status status)
{
    if (status != WARM_OK && !m->bad) {
        maths_failed(m, "%s: %s", warm_status_name(status),
                     warm_last_error_message());
        m->why.out_of_memory = status == WARM_OUT_OF_MEMORY;
    }
    return status == WARM_OK;
}

static void prepare(maths *m, warm_runtime *runtime, int device)
{
    memset(m, 0, sizeof *m);
    m->ops = strcmp(warm_runtime_driver(runtime), "cuda") == 0 ? &maths_cuda
                                                               : &maths_host;
    m->runtime = runtime;
    m->device = device;
}

bool maths_begin(maths *m, warm_runtime *runtime, int device)
{
    prepare(m, runtime, device);
    maths_check(m, warm_stream_reserve(runtime, device, &m->stream));
    if (!m->bad && !m->ops->begin(m)) {
        m->bad = true;
    }
    return !m->bad;
}

bool maths_begin_naive(maths *m, warm_runtime *runtime, int device)
{
    prepare(m, runtime, device);
    m->naive = true;
    maths_check(m, warm_stream_create(runtime, device, &m->stream));
    if (!m->bad && !m->ops->begin_naive(m)) {
        m->bad = true;
        warm_stream_destroy(runtime, m->stream);
    }
    return !m->bad;
}

bool maths_finish(maths *m)
{
    int fault;

    if (m->stream != NULL) {
        maths_check(m, warm_stream_synchronize(m->runtime, m->stream));
    }
    /* Relaxed: the stream has been waited for, which orders everything. */
    fault = atomic_load_explicit(&m->fault, memory_order_relaxed);
    if (fault != 0) {
        maths_failed(m, "oneDNN answered status %d", fault);
    }
    return !m->bad;
}

void maths_end(maths *m)
{
    m->ops->end(m);
    if (m->naive) {
        warm_stream_destroy(m->runtime, m->stream);
    }
}

float *maths_alloc(maths *m, size_t count)
{
    void *memory = NULL;

    if (!m->bad) {
        size_t bytes = count * sizeof(float);

        maths_check(m, m->naive ? warm_device_alloc_uncached(
                                      m->runtime, m->device, bytes, &memory)
                                : warm_device_alloc(m->runtime, m->device,
                                                    m->stream, bytes, &memory));
    }
    return memory;
}

void maths_free(maths *m, float *memory)
{
    if (m->naive) {
        warm_device_free_uncached(m->runtime, m->device, memory);
    } else {
        warm_free(memory);
    }
}

void maths_capture_begin(maths *m)
{
    if (!m->bad) {
        maths_check(m, warm_capture_begin(m->runtime, m->stream));
        m->captures = !m->bad;
    }
}

void maths_keep(maths *m, maths_kept *kept)
{
    kept->next = m->kept;
    m->kept = kept;
}

/* The capture is ended whatever has gone wrong in it. */
void maths_capture_end(maths *m, maths_graph *graph)
{
    graph->graph = NULL;
    graph->kept = m->kept;
    m->kept = NULL;
    if (m->captures) {
        maths_check(m, warm_capture_end(m->runtime, m->stream, &graph->graph));
        m->captures = false;
    }
    if (m->bad) {
        maths_graph_destroy(m, graph);
    }
}

void maths_replay(maths *m, const maths_graph *graph)
{
    if (!m->bad) {
        maths_check(m, warm_graph_launch(m->runtime, graph->graph, m->stream));
    }
}

void maths_graph_destroy(maths *m, maths_graph *graph)
{
    if (graph->graph != NULL) {
        warm_graph_destroy(m->runtime, graph->graph);
        graph->graph = NULL;
    }
    while (graph->kept != NULL) {
        maths_kept *kept = graph->kept;

        graph->kept = kept->next;
        free(kept);
    }
}

void *maths_pin(maths *m, size_t bytes)
{
    return m->ops->pin(bytes);
}

void maths_unpin(maths *m, void *pointer, size_t bytes)
{
    m->ops->unpin(pointer, bytes);
}

void maths_upload(maths *m, float *to, const float *from, size_t count)
{
    if (!m->bad) {
        maths_check(m, warm_copy_async(m->runtime, to, from, count * sizeof *to,
                                       WARM_COPY_TO_DEVICE, m->stream));
    }
}

void maths_download(maths *m, float *to, const float *from, size_t count)
{
    if (!m->bad) {
        maths_check(m, warm_copy_async(m->runtime, to, from, count * sizeof *to,
                                       WARM_COPY_TO_HOST, m->stream));
    }
}

void maths_gemm(maths *m, const maths_product *p, const float *a,
                const float *b, float *c)
{
    if (!m->bad) {
        m->ops->gemm(m, p, a, b, c);
    }
}

void maths_add_row(maths *m, int rows, int columns, const float *bias, float *y)
{
    if (!m->bad) {
        m->ops->add_row(m, rows, columns, bias, y);
    }
}

void maths_relu(maths *m, int rows, int columns, float *y)
{
    if (!m->bad) {
        m->ops->relu(m, rows, columns, y);
    }
}

void maths_relu_back(maths *m, int rows, int columns, const float *y, float *dy)
{
    if (!m->bad) {
        m->ops->relu_back(m, rows, columns, y, dy);
    }
}

void maths_softmax(maths *m, int rows, int columns, float *y)
{
    if (!m->bad) {
        m->ops->softmax(m, rows, columns, y);
    }
}

void maths_axpy(maths *m, int count, float alpha, const float *x, float *y)
{
    if (!m->bad) {
        m->ops->axpy(m, count, alpha, x, y);
    }
}

void maths_scale(maths *m, int count, float alpha, float *y)
{
    if (!m->bad) {
        m->ops->scale(m, count, alpha, y);
    }
}

void maths_column_sums(maths *m, int rows, int columns, const float *ones,
                       const float *x, float *sums)
{
    if (!m->bad) {
        m->ops->column_sums(m, rows, columns, ones, x, sums);
    }
}
