/* kind_cublas.c: cuBLAS handles, their workspace and all their settings.
 *
 * cublasSetStream() resets the workspace to the library's own: the workspace is
 * set after the stream, and unbinding the stream detaches the workspace (row
 * A10). The logger belongs to the process and is not touched. */
#include "handles/kinds/kind_cuda.h"

#if WM_HAVE_CUDA && __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#include <errno.h>
#include <stdlib.h>

#define SETTINGS(X)                                                            \
    X(PointerMode_v2, cublasPointerMode_t)                                     \
    X(MathMode, cublasMath_t)                                                  \
    X(AtomicsMode, cublasAtomicsMode_t)                                        \
    X(SmCountTarget, int)

/* Optional at run time, and left out where the headers are older. */
#if CUBLAS_VERSION >= 130100
#define EMULATION(X)                                                           \
    X(EmulationStrategy, cublasEmulationStrategy_t)                            \
    X(EmulationSpecialValuesSupport, cudaEmulationSpecialValuesSupport)        \
    X(FixedPointEmulationMantissaControl, cudaEmulationMantissaControl)        \
    X(FixedPointEmulationMaxMantissaBitCount, int)                             \
    X(FixedPointEmulationMantissaBitOffset, int)                               \
    X(FixedPointEmulationMantissaBitCountPointer, int *)
#else
#define EMULATION(X)
#endif

#define FUNCTIONS(X)                                                           \
    X(cublasCreate_v2)                                                         \
    X(cublasDestroy_v2)                                                        \
    X(cublasSetStream_v2)                                                      \
    X(cublasGetStream_v2)                                                      \
    X(cublasSetWorkspace_v2)                                                   \
    X(cublasGetStatusString)                                                   \
    X(cublasGetCudartVersion)

typedef struct table {
    FUNCTIONS(WM_CUDA_FIELD)
#define FIELD(name, type) WM_CUDA_SETTING_FIELD(cublas, name, type)
    SETTINGS(FIELD)
    EMULATION(FIELD)
    /* CUBLAS_WORKSPACE_CONFIG, read once. */
    bool workspace_given;
    size_t workspace_bytes;
} table;

#define REQUIRED(name, type) WM_CUDA_SETTING_ENTRIES(table, cublas, name, 0)
#define OPTIONAL(name, type) WM_CUDA_SETTING_ENTRIES(table, cublas, name, 1)
static const wm_cuda_entry entries[] = {
    FUNCTIONS(WM_CUDA_ENTRY) SETTINGS(REQUIRED) EMULATION(OPTIONAL)};

static const wm_cuda_soname sonames[] = {{13, "libcublas.so.13"},
                                         {12, "libcublas.so.12"},
                                         {0, "libcublas.so"},
                                         {0, NULL}};

WM_CUDA_CREATE_DESTROY(cublasCreate_v2, cublasDestroy_v2, cublasHandle_t)
WM_CUDA_TEXT(cublasGetStatusString, cublasStatus_t)
WM_CUDA_CUDART(cublasGetCudartVersion)

static const unsigned long long most_config = 1ULL << 40;

/* ":digits"; strtoull alone would accept blanks and signs. */
static bool read_number(const char **text, unsigned long long *value)
{
    const char *digits = *text + 1;
    char *end;

    if (**text != ':' || *digits < '0' || *digits > '9') {
        return false;
    }
    errno = 0;
    *value = strtoull(digits, &end, 10);
    *text = end;
    return errno == 0 && *value <= most_config;
}

/* Reads ":KiB:count[:KiB:count …]" and sums KiB × 1024 × count into *bytes.
 * False, and nothing is written, if the text is anything else or the sum is
 * beyond 1 TiB. ":0:0" means no workspace. */
static bool parse_config(const char *text, size_t *bytes)
{
    unsigned long long sum = 0, kib, count;

    do {
        if (!read_number(&text, &kib) || !read_number(&text, &count)) {
            return false;
        }
        /* Divided, since the product could exceed 64 bits. */
        if (count != 0 && kib > (most_config - sum) / 1024 / count) {
            return false;
        }
        sum += kib * 1024 * count;
    } while (*text != '\0');
    *bytes = (size_t)sum;
    return true;
}

static const char *config(void)
{
    return secure_getenv("CUBLAS_WORKSPACE_CONFIG");
}

static void prepare(void *functions)
{
    table *t = functions;
    const char *text = config();

    if (text == NULL) {
        return;
    }
    t->workspace_given = parse_config(text, &t->workspace_bytes);
    if (!t->workspace_given) {
        wm_log(WARM_LOG_WARNING,
               "CUBLAS_WORKSPACE_CONFIG is \"%s\", not :KiB:count…; the "
               "recommended size is used",
               text);
    }
}

static wm_cuda_answer learn(void *functions, void *handle)
{
    table *t = functions;
    wm_cuda_answer answer = {"", 0};

#define LEARN(name, type) WM_CUDA_SETTING_LEARN(cublas, name)
    SETTINGS(LEARN)
#define TRY(name, type) WM_CUDA_SETTING_TRY(cublas, name)
    EMULATION(TRY)
    return answer;
}

static wm_cuda_answer rebind(const void *functions, const wm_rebind *to)
{
    const table *t = functions;
    wm_cuda_answer answer =
        WM_CUDA_ANSWER(cublasSetStream_v2, to->handle, to->stream);

    if (answer.code == 0 && to->workspace != NULL) {
        answer = WM_CUDA_ANSWER(cublasSetWorkspace_v2, to->handle,
                                to->workspace, to->bytes);
        if (answer.code != 0) {
            (void)t->cublasSetStream_v2(to->handle, to->before);
        }
    }
    return answer;
}

static wm_cuda_answer bind(const void *functions, void *handle,
                           warm_stream stream, void *workspace, size_t bytes)
{
    const table *t = functions;
    wm_rebind to = {.handle = handle,
                    .stream = stream,
                    .workspace = workspace,
                    .bytes = bytes};
    cudaStream_t before = NULL;
    wm_cuda_answer answer = WM_CUDA_ANSWER(cublasGetStream_v2, handle, &before);

    to.before = before;
    return answer.code == 0 ? rebind(functions, &to) : answer;
}

static wm_cuda_answer reset(const void *functions, void *handle)
{
    const table *t = functions;
    wm_cuda_answer answer = WM_CUDA_ANSWER(cublasSetStream_v2, handle, NULL);

#define RESET(name, type) WM_CUDA_SETTING_RESET(cublas, name)
    SETTINGS(RESET)
    EMULATION(RESET)
    return answer;
}

/* Without CUBLAS_WORKSPACE_CONFIG, the sizes that NVIDIA's documentation of
 * cublasSetWorkspace() recommends: 32 MiB on Hopper (compute capability 9.x)
 * and data-center Blackwell (10.x), 12 MiB on 12.x, 4 MiB on others. */
static size_t workspace_bytes(wm_kind *kind, int device)
{
    const table *t = wm_cuda_kind_functions(kind);
    size_t bytes = 0;

    if (!wm_cuda_is(kind->driver)) {
        return 0;
    }
    if (t != NULL && t->workspace_given) {
        return t->workspace_bytes;
    }
    /* Option workspace_limit is checked before the library is loaded. */
    if (t == NULL && config() != NULL && parse_config(config(), &bytes)) {
        return bytes;
    }
    switch (wm_cuda_compute_major(kind->driver, device)) {
    case 9:
    case 10:
        return 32 << 20;
    case 12:
        return 12 << 20;
    default:
        return 4 << 20;
    }
}

static const wm_cuda_library library = {
    WM_CUDA_LIBRARY(cublas, "cuBLAS"),
    .prepare = prepare,
    .learn = learn,
    .bind = bind,
    .rebind = rebind,
    .reset = reset,
};

WM_CUDA_KIND(cublas, .bind = wm_cuda_kind_bind, .rebind = wm_cuda_kind_rebind,
             .workspace_bytes = workspace_bytes);
#else
WM_CUDA_KIND_LEFT_OUT(cublas, "cuBLAS", .bind = wm_cuda_kind_bind);
#endif
