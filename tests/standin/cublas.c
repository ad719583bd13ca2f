/* cublas.c: the stand-in libcublas.so.13: handles with all their state, and
 * the four routines that the examples call, asynchronous on their stream. */
#include <cublas_v2.h>

#define LIBRARY "cublas"
#define STATUS  cublasStatus_t
#define BAD     CUBLAS_STATUS_NOT_INITIALIZED
#define MEMORY  CUBLAS_STATUS_ALLOC_FAILED

#include "gemm.h"
#include "handle.h"

#include <stdlib.h>

const char *cublasGetStatusString(cublasStatus_t status)
{
    switch ((int)status) {
    case CUBLAS_STATUS_SUCCESS:
        return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "an invalid value was used as an argument";
    default:
        return "an error of the stand-in";
    }
}

const char *cublasGetStatusName(cublasStatus_t status)
{
    return cublasGetStatusString(status);
}

size_t cublasGetCudartVersion(void)
{
    return (size_t)standin_version();
}

CREATE_DESTROY(cublasHandle_t, cublasCreate_v2, cublasDestroy_v2)
SET_STREAM(cublasHandle_t, cublasSetStream_v2, cublasGetStream_v2)
SETTING(cublasHandle_t, cublas, PointerMode_v2, cublasPointerMode_t, 0, 0)
SETTING(cublasHandle_t, cublas, MathMode, cublasMath_t, 1, 0)
SETTING(cublasHandle_t, cublas, AtomicsMode, cublasAtomicsMode_t, 2, 0)
SETTING(cublasHandle_t, cublas, SmCountTarget, int, 3, 0)
#if CUBLAS_VERSION >= 130100
SETTING(cublasHandle_t, cublas, EmulationStrategy, cublasEmulationStrategy_t, 4,
        0)
SETTING(cublasHandle_t, cublas, EmulationSpecialValuesSupport,
        cudaEmulationSpecialValuesSupport, 5, 0xFFFF)
SETTING(cublasHandle_t, cublas, FixedPointEmulationMantissaControl,
        cudaEmulationMantissaControl, 6, 0)
SETTING(cublasHandle_t, cublas, FixedPointEmulationMaxMantissaBitCount, int, 7,
        79)
SETTING(cublasHandle_t, cublas, FixedPointEmulationMantissaBitOffset, int, 8, 0)
SETTING(cublasHandle_t, cublas, FixedPointEmulationMantissaBitCountPointer,
        int *, 9, 0)
#endif

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace,
                                     size_t bytes)
{
    ENTER(cublasSetWorkspace_v2, handle)
    if ((uintptr_t)workspace % 256 != 0) {
        standin_note_misuse("cublasSetWorkspace: not aligned to 256 bytes");
    }
    h->workspace = workspace;
    h->workspace_bytes = bytes;
    LEAVE(CUBLAS_STATUS_SUCCESS);
}

static cublasStatus_t status_of(int code)
{
    return code == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* The values of alpha and beta are taken at the call; in the device's pointer
 * mode they are read when the work runs. */
struct work {
    standin_gemm gemm;
    const float *alpha, *beta; /* null: taken already */
    float *y, *workspace;
    int incx, incy;
};

static void take_scalars(struct work *w, const standin_handle *h,
                         const float *alpha, const float *beta)
{
    static const float zero = 0;

    beta = beta != NULL ? beta : &zero;
    if (h->setting[0] == CUBLAS_POINTER_MODE_DEVICE) {
        w->alpha = alpha;
        w->beta = beta;
    } else {
        w->gemm.alpha = *alpha;
        w->gemm.beta = *beta;
    }
}

static struct work *read_scalars(void *argument)
{
    struct work *w = argument;

    if (w->alpha != NULL) {
        w->gemm.alpha = *w->alpha;
        w->gemm.beta = *w->beta;
    }
    return w;
}

static void run_gemm(void *argument)
{
    standin_gemm_run(&read_scalars(argument)->gemm);
}

static void run_partial(void *argument)
{
    const struct work *w = read_scalars(argument);

    standin_gemm_partial(&w->gemm, w->workspace);
}

static void run_reduce(void *argument)
{
    const struct work *w = read_scalars(argument);

    standin_gemm_reduce(&w->gemm, w->workspace);
}

/* In two pieces of work, through the workspace, as many columns at a time as
 * it has room for. */
static int launch_split(const standin_handle *h, struct work *w)
{
    size_t room = h->workspace_bytes / sizeof(float) / (size_t)w->gemm.m;
    int left = w->gemm.n, code = 0;

    w->workspace = h->workspace;
    while (code == 0 && left > 0) {
        w->gemm.n = (size_t)left < room ? left : (int)room;
        code = standin_launch(h->stream, run_partial, w, sizeof *w);
        standin_between_steps();
        if (code == 0) {
            code = standin_launch(h->stream, run_reduce, w, sizeof *w);
        }
        left -= w->gemm.n;
        w->gemm.b += w->gemm.transpose_b ? (long)w->gemm.n
                                         : (long)w->gemm.n * w->gemm.ldb;
        w->gemm.c += (long)w->gemm.n * w->gemm.ldc;
    }
    return code;
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t of_a,
                              cublasOperation_t of_b, int m, int n, int k,
                              const float *alpha, const float *a, int lda,
                              const float *b, int ldb, const float *beta,
                              float *c, int ldc)
{
    struct work w = {.gemm = {.transpose_a = of_a != CUBLAS_OP_N,
                              .transpose_b = of_b != CUBLAS_OP_N,
                              .m = m,
                              .n = n,
                              .k = k,
                              .a = a,
                              .b = b,
                              .c = c,
                              .lda = lda,
                              .ldb = ldb,
                              .ldc = ldc}};
    int code;

    ENTER(cublasSgemm_v2, handle)
    if (m < 0 || n < 0 || k < 0 || ldc < m ||
        lda < (w.gemm.transpose_a ? k : m) ||
        ldb < (w.gemm.transpose_b ? n : k)) {
        LEAVE(CUBLAS_STATUS_INVALID_VALUE);
    }
    take_scalars(&w, h, alpha, beta);
    if (m > 0 && h->workspace_bytes / sizeof(float) >= (size_t)m) {
        code = launch_split(h, &w);
    } else {
        code = standin_launch(h->stream, run_gemm, &w, sizeof w);
    }
    LEAVE(status_of(code));
}

/* A vector may run backwards, as in all of BLAS. */
static long first(int n, int increment)
{
    return increment < 0 ? (1 - (long)n) * increment : 0;
}

static void run_gemv(void *argument)
{
    const struct work *w = read_scalars(argument);
    const standin_gemm *g = &w->gemm;
    int outputs = g->transpose_a ? g->n : g->m;
    int inputs = g->transpose_a ? g->m : g->n;
    const float *x = g->b + first(inputs, w->incx);
    float *y = w->y + first(outputs, w->incy);

    for (int i = 0; i < outputs; i++) {
        float sum = 0;
        float *out = &y[(long)i * w->incy];

        for (int l = 0; l < inputs; l++) {
            long at =
                g->transpose_a ? l + (long)i * g->lda : i + (long)l * g->lda;

            sum += g->a[at] * x[(long)l * w->incx];
        }
        *out = g->alpha * sum + (g->beta != 0 ? g->beta * *out : 0);
    }
}

cublasStatus_t cublasSgemv_v2(cublasHandle_t handle, cublasOperation_t of_a,
                              int m, int n, const float *alpha, const float *a,
                              int lda, const float *x, int incx,
                              const float *beta, float *y, int incy)
{
    struct work w = {.gemm = {.transpose_a = of_a != CUBLAS_OP_N,
                              .m = m,
                              .n = n,
                              .a = a,
                              .b = x,
                              .lda = lda},
                     .y = y,
                     .incx = incx,
                     .incy = incy};
    int code;

    ENTER(cublasSgemv_v2, handle)
    if (m < 0 || n < 0 || lda < m || incx == 0 || incy == 0) {
        LEAVE(CUBLAS_STATUS_INVALID_VALUE);
    }
    take_scalars(&w, h, alpha, beta);
    code = standin_launch(h->stream, run_gemv, &w, sizeof w);
    LEAVE(status_of(code));
}

static void run_axpy(void *argument)
{
    const struct work *w = read_scalars(argument);
    int n = w->gemm.n;
    const float *x = w->gemm.a + first(n, w->incx);
    float *y = w->y + first(n, w->incy);

    for (int i = 0; i < n; i++) {
        y[(long)i * w->incy] += w->gemm.alpha * x[(long)i * w->incx];
    }
}

cublasStatus_t cublasSaxpy_v2(cublasHandle_t handle, int n, const float *alpha,
                              const float *x, int incx, float *y, int incy)
{
    struct work w = {
        .gemm = {.n = n, .a = x}, .y = y, .incx = incx, .incy = incy};
    int code;

    ENTER(cublasSaxpy_v2, handle)
    take_scalars(&w, h, alpha, NULL);
    code = standin_launch(h->stream, run_axpy, &w, sizeof w);
    LEAVE(status_of(code));
}

static void run_scal(void *argument)
{
    const struct work *w = read_scalars(argument);

    for (int i = 0; i < w->gemm.n; i++) {
        w->y[(long)i * w->incy] *= w->gemm.alpha;
    }
}

cublasStatus_t cublasSscal_v2(cublasHandle_t handle, int n, const float *alpha,
                              float *x, int incx)
{
    struct work w = {.gemm = {.n = n}, .y = x, .incy = incx};
    int code;

    ENTER(cublasSscal_v2, handle)
    if (incx <= 0) {
        LEAVE(CUBLAS_STATUS_SUCCESS); /* as the BLAS says: nothing */
    }
    take_scalars(&w, h, alpha, NULL);
    code = standin_launch(h->stream, run_scal, &w, sizeof w);
    LEAVE(status_of(code));
}
