/* kind_cusolver.c: cuSOLVER handles for dense matrices. The logger belongs to
 * the process and is left alone. */
#include "handles/kinds/kind_cuda.h"

#if WM_HAVE_CUDA && __has_include(<cusolverDn.h>)
#include <cusolverDn.h>

/* X(name, type): settings that only later libraries have are optional at run
 * time, and left out of a build with older headers. */
#if CUSOLVER_VERSION >= 11600
#define DETERMINISM(X) X(DeterministicMode, cusolverDeterministicMode_t)
#else
#define DETERMINISM(X)
#endif
#if CUSOLVER_VERSION >= 12004
#define EMULATION(X)                                                           \
    X(MathMode, cusolverMathMode_t)                                            \
    X(EmulationStrategy, cudaEmulationStrategy_t)
#else
#define EMULATION(X)
#endif

#define FUNCTIONS(X)                                                           \
    X(cusolverDnCreate)                                                        \
    X(cusolverDnDestroy)                                                       \
    X(cusolverDnSetStream)                                                     \
    X(cusolverGetProperty)

typedef struct table {
    FUNCTIONS(WM_CUDA_FIELD)
#define FIELD(name, type) WM_CUDA_SETTING_FIELD(cusolverDn, name, type)
    DETERMINISM(FIELD)
    EMULATION(FIELD)
} table;

#define OPTIONAL(name, type) WM_CUDA_SETTING_ENTRIES(table, cusolverDn, name, 1)
static const wm_cuda_entry entries[] = {
    FUNCTIONS(WM_CUDA_ENTRY) DETERMINISM(OPTIONAL) EMULATION(OPTIONAL)};

static const wm_cuda_soname sonames[] = {{13, "libcusolver.so.12"},
                                         {12, "libcusolver.so.11"},
                                         {0, "libcusolver.so"},
                                         {0, NULL}};

/* CUDA 11 and 12 have libraries of the same soname: up to 11.4.1, and 11.4.2
 * or later. */
static int cuda_major(const void *functions)
{
    const table *t = functions;
    int major, minor, patch;

    if (t->cusolverGetProperty(MAJOR_VERSION, &major) !=
            CUSOLVER_STATUS_SUCCESS ||
        t->cusolverGetProperty(MINOR_VERSION, &minor) !=
            CUSOLVER_STATUS_SUCCESS ||
        t->cusolverGetProperty(PATCH_LEVEL, &patch) !=
            CUSOLVER_STATUS_SUCCESS) {
        return 0;
    }
    return major * 10000 + minor * 100 + patch < 110402 ? 11 : major + 1;
}

WM_CUDA_CREATE_DESTROY(cusolverDnCreate, cusolverDnDestroy, cusolverDnHandle_t)
WM_CUDA_BIND(cusolverDnSetStream)

static wm_cuda_answer learn(void *functions, void *handle)
{
    table *t = functions;
    wm_cuda_answer answer = {"", 0};

    (void)t;
    (void)handle;
#define TRY(name, type) WM_CUDA_SETTING_TRY(cusolverDn, name)
    DETERMINISM(TRY)
    EMULATION(TRY)
    return answer;
}

static wm_cuda_answer reset(const void *functions, void *handle)
{
    const table *t = functions;
    wm_cuda_answer answer = bind(functions, handle, NULL, NULL, 0);

    (void)t;
#define RESET(name, type) WM_CUDA_SETTING_RESET(cusolverDn, name)
    DETERMINISM(RESET)
    EMULATION(RESET)
    return answer;
}

/* cuSOLVER is the one library that has no texts of its own. */
static const char *text(const void *functions, int code)
{
    static const char *const names[] = {
        "CUSOLVER_STATUS_SUCCESS",
        "CUSOLVER_STATUS_NOT_INITIALIZED",
        "CUSOLVER_STATUS_ALLOC_FAILED",
        "CUSOLVER_STATUS_INVALID_VALUE",
        "CUSOLVER_STATUS_ARCH_MISMATCH",
        "CUSOLVER_STATUS_MAPPING_ERROR",
        "CUSOLVER_STATUS_EXECUTION_FAILED",
        "CUSOLVER_STATUS_INTERNAL_ERROR",
        "CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED",
        "CUSOLVER_STATUS_NOT_SUPPORTED",
        "CUSOLVER_STATUS_ZERO_PIVOT",
        "CUSOLVER_STATUS_INVALID_LICENSE",
    };

    (void)functions;
    return code >= 0 && code < (int)(sizeof names / sizeof names[0])
               ? names[code]
               : NULL;
}

static const wm_cuda_library library = {
    WM_CUDA_LIBRARY(cusolver, "cuSOLVER"),
    .learn = learn,
    .bind = bind,
    .reset = reset,
};

WM_CUDA_KIND(cusolver, .bind = wm_cuda_kind_bind,
             .rebind = wm_cuda_kind_rebind);
#else
WM_CUDA_KIND_LEFT_OUT(cusolver, "cuSOLVER", .bind = wm_cuda_kind_bind);
#endif
