/* maths_cuda.c: the maths of GPUs, by cuBLAS and cuDNN; see maths.h.
 *
 * Nothing is linked: warmpool loads a library with the first handle of its
 * kind, and this file then asks dlsym() for the few functions it calls. So
 * the same program starts on a machine without CUDA. A program that links
 * cuBLAS the ordinary way calls the functions by name and leaves out the
 * table. */
#include "examples/common/maths.h"

#ifdef WM_NO_CUDA

static bool no_begin(maths *m)
{
    return failed(&m->why, "the examples were built without CUDA's headers; "
                           "run with --device host");
}

const maths_ops maths_cuda = {.begin = no_begin, .begin_naive = no_begin};

#else

#include "warmpool/cublas.h"
#include "warmpool/cudnn.h"

#include <cuda_runtime_api.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

/* X(function) */
#define CUDART_CALLS(X)                                                        \
    X(cudaSetDevice)                                                           \
    X(cudaHostAlloc)                                                           \
    X(cudaFreeHost)
#define CUBLAS_CALLS(X)                                                        \
    X(cublasCreate_v2)                                                         \
    X(cublasDestroy_v2)                                                        \
    X(cublasSetStream_v2)                                                      \
    X(cublasSgemm_v2)                                                          \
    X(cublasSgemv_v2)                                                          \
    X(cublasSaxpy_v2)                                                          \
    X(cublasSscal_v2)
#define CUDNN_CALLS(X)                                                         \
    X(cudnnCreate)                                                             \
    X(cudnnDestroy)                                                            \
    X(cudnnSetStream)                                                          \
    X(cudnnCreateTensorDescriptor)                                             \
    X(cudnnSetTensor4dDescriptor)                                              \
    X(cudnnDestroyTensorDescriptor)                                            \
    X(cudnnCreateActivationDescriptor)                                         \
    X(cudnnSetActivationDescriptor)                                            \
    X(cudnnDestroyActivationDescriptor)                                        \
    X(cudnnAddTensor)                                                          \
    X(cudnnActivationForward)                                                  \
    X(cudnnActivationBackward)                                                 \
    X(cudnnSoftmaxForward)

#define POINTER(name) __typeof__(name) *name;

/* Written once, under once_loaded. */
static struct {
    CUDART_CALLS(POINTER)
    CUBLAS_CALLS(POINTER)
    CUDNN_CALLS(POINTER)
    message why; /* not empty: something is missing */
} cuda;
static pthread_once_t once_loaded = PTHREAD_ONCE_INIT;

/* A library that is loaded already is found by its soname. */
static void *open_library(const char *name, int major)
{
    char soname[64];
    void *library;

    snprintf(soname, sizeof soname, "%s.so.%d", name, major);
    library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        failed(&cuda.why, "%s", dlerror());
    }
    return library;
}

static void find(void *library, const char *name, void **slot)
{
    *slot = library != NULL ? dlsym(library, name) : NULL;
    if (*slot == NULL && cuda.why.text[0] == '\0') {
        failed(&cuda.why, "the function %s is missing", name);
    }
}

static void load(void)
{
    void *cudart = open_library("libcudart", CUDART_VERSION / 1000);
    void *cublas = open_library("libcublas", CUBLAS_VER_MAJOR);
    void *cudnn = open_library("libcudnn", CUDNN_MAJOR);

#define FIND_CUDART(name) find(cudart, #name, (void **)&cuda.name);
#define FIND_CUBLAS(name) find(cublas, #name, (void **)&cuda.name);
#define FIND_CUDNN(name)  find(cudnn, #name, (void **)&cuda.name);
    CUDART_CALLS(FIND_CUDART)
    CUBLAS_CALLS(FIND_CUBLAS)
    CUDNN_CALLS(FIND_CUDNN)
}

static void check(maths *m, const char *what, int code)
{
    if (code != 0) {
        maths_failed(m, "%s answered status %d", what, code);
    }
}

static void destroy_shapes(maths *m)
{
    if (m->shapes[0] != NULL) {
        cuda.cudnnDestroyTensorDescriptor(m->shapes[0]);
    }
    if (m->shapes[1] != NULL) {
        cuda.cudnnDestroyTensorDescriptor(m->shapes[1]);
    }
    if (m->shapes[2] != NULL) {
        cuda.cudnnDestroyActivationDescriptor(m->shapes[2]);
    }
}

/* Descriptors are small records of the host, read while a call is queued. */
static bool make_shapes(maths *m)
{
    cudnnTensorDescriptor_t matrix = NULL, row = NULL;
    cudnnActivationDescriptor_t relu = NULL;

    check(m, "cudnnCreateTensorDescriptor",
          (int)cuda.cudnnCreateTensorDescriptor(&matrix));
    check(m, "cudnnCreateTensorDescriptor",
          (int)cuda.cudnnCreateTensorDescriptor(&row));
    check(m, "cudnnCreateActivationDescriptor",
          (int)cuda.cudnnCreateActivationDescriptor(&relu));
    if (!m->bad) {
        check(m, "cudnnSetActivationDescriptor",
              (int)cuda.cudnnSetActivationDescriptor(
                  relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
    }
    m->shapes[0] = matrix;
    m->shapes[1] = row;
    m->shapes[2] = relu;
    if (m->bad) {
        destroy_shapes(m);
    }
    return !m->bad;
}

static bool cuda_begin(maths *m)
{
    cublasHandle_t blas = NULL;
    cudnnHandle_t dnn = NULL;

    if (!maths_check(
            m, warm_cublas_handle(m->runtime, m->device, m->stream, &blas)) ||
        !maths_check(
            m, warm_cudnn_handle(m->runtime, m->device, m->stream, &dnn))) {
        return false;
    }
    m->handle = blas;
    m->dnn = dnn;
    pthread_once(&once_loaded, load);
    if (cuda.why.text[0] != '\0') {
        return failed(&m->why, "%s", cuda.why.text);
    }
    return make_shapes(m);
}

static void destroy_handles(maths *m)
{
    if (m->dnn != NULL) {
        cuda.cudnnDestroy(m->dnn);
    }
    if (m->handle != NULL) {
        cuda.cublasDestroy_v2(m->handle);
    }
}

static bool cuda_begin_naive(maths *m)
{
    cublasHandle_t blas = NULL;
    cudnnHandle_t dnn = NULL;

    pthread_once(&once_loaded, load);
    if (cuda.why.text[0] != '\0') {
        return failed(&m->why, "%s", cuda.why.text);
    }
    check(m, "cudaSetDevice", (int)cuda.cudaSetDevice(m->device));
    check(m, "cublasCreate", (int)cuda.cublasCreate_v2(&blas));
    check(m, "cudnnCreate", (int)cuda.cudnnCreate(&dnn));
    m->handle = blas;
    m->dnn = dnn;
    if (!m->bad) {
        check(m, "cublasSetStream",
              (int)cuda.cublasSetStream_v2(blas, m->stream));
        check(m, "cudnnSetStream", (int)cuda.cudnnSetStream(dnn, m->stream));
    }
    if (m->bad || !make_shapes(m)) {
        destroy_handles(m);
        return false;
    }
    return true;
}

static void cuda_end(maths *m)
{
    destroy_shapes(m);
    if (m->naive) {
        destroy_handles(m);
    }
}

static void *cuda_pin(size_t bytes)
{
    void *pointer = NULL;

    return cuda.cudaHostAlloc(&pointer, bytes, cudaHostAllocPortable) ==
                   cudaSuccess
               ? pointer
               : NULL;
}

static void cuda_unpin(void *pointer, size_t bytes)
{
    (void)bytes;
    (void)cuda.cudaFreeHost(pointer);
}

/* cuBLAS keeps matrices column after column: what is a row-major c = a · b
 * to us is c' = b' · a' to it, and no element has to move. */
static void cuda_gemm(maths *m, const maths_product *p, const float *a,
                      const float *b, float *c)
{
    cublasOperation_t of_a = p->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t of_b = p->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    int row_a = p->a_transposed ? p->rows : p->inner;
    int row_b = p->b_transposed ? p->inner : p->columns;

    check(m, "cublasSgemm",
          (int)cuda.cublasSgemm_v2(m->handle, of_b, of_a, p->columns, p->rows,
                                   p->inner, &p->alpha, b, row_b, a, row_a,
                                   &p->beta, c, p->columns));
}

/* One image a row, one channel a column. */
static cudnnTensorDescriptor_t shape(maths *m, int which, int rows, int columns)
{
    cudnnTensorDescriptor_t tensor = m->shapes[which];

    check(m, "cudnnSetTensor4dDescriptor",
          (int)cuda.cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW,
                                               CUDNN_DATA_FLOAT, rows, columns,
                                               1, 1));
    return tensor;
}

static const float one = 1, zero = 0;

static void cuda_add_row(maths *m, int rows, int columns, const float *bias,
                         float *y)
{
    cudnnTensorDescriptor_t row = shape(m, 1, 1, columns);
    cudnnTensorDescriptor_t matrix = shape(m, 0, rows, columns);

    check(m, "cudnnAddTensor",
          (int)cuda.cudnnAddTensor(m->dnn, &one, row, bias, &one, matrix, y));
}

static void cuda_relu(maths *m, int rows, int columns, float *y)
{
    cudnnTensorDescriptor_t matrix = shape(m, 0, rows, columns);

    check(m, "cudnnActivationForward",
          (int)cuda.cudnnActivationForward(m->dnn, m->shapes[2], &one, matrix,
                                           y, &zero, matrix, y));
}

static void cuda_relu_back(maths *m, int rows, int columns, const float *y,
                           float *dy)
{
    cudnnTensorDescriptor_t matrix = shape(m, 0, rows, columns);

    check(m, "cudnnActivationBackward",
          (int)cuda.cudnnActivationBackward(m->dnn, m->shapes[2], &one, matrix,
                                            y, matrix, dy, matrix, y, &zero,
                                            matrix, dy));
}

static void cuda_softmax(maths *m, int rows, int columns, float *y)
{
    cudnnTensorDescriptor_t matrix = shape(m, 0, rows, columns);

    check(m, "cudnnSoftmaxForward",
          (int)cuda.cudnnSoftmaxForward(m->dnn, CUDNN_SOFTMAX_ACCURATE,
                                        CUDNN_SOFTMAX_MODE_CHANNEL, &one,
                                        matrix, y, &zero, matrix, y));
}

static void cuda_axpy(maths *m, int count, float alpha, const float *x,
                      float *y)
{
    check(m, "cublasSaxpy",
          (int)cuda.cublasSaxpy_v2(m->handle, count, &alpha, x, 1, y, 1));
}

static void cuda_scale(maths *m, int count, float alpha, float *y)
{
    check(m, "cublasSscal",
          (int)cuda.cublasSscal_v2(m->handle, count, &alpha, y, 1));
}

static void cuda_column_sums(maths *m, int rows, int columns, const float *ones,
                             const float *x, float *sums)
{
    check(m, "cublasSgemv",
          (int)cuda.cublasSgemv_v2(m->handle, CUBLAS_OP_N, columns, rows, &one,
                                   x, columns, ones, 1, &zero, sums, 1));
}

const maths_ops maths_cuda = {
    .begin = cuda_begin,
    .begin_naive = cuda_begin_naive,
    .end = cuda_end,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .gemm = cuda_gemm,
    .add_row = cuda_add_row,
    .relu = cuda_relu,
    .relu_back = cuda_relu_back,
    .softmax = cuda_softmax,
    .axpy = cuda_axpy,
    .scale = cuda_scale,
    .column_sums = cuda_column_sums,
};

#endif
