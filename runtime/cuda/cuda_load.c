/* cuda_load.c: finds cudart and libcuda, or explains why it cannot. */
#include "runtime/cuda/cuda.h"

#if WM_HAVE_CUDA
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/thread_start.h"
#include "runtime/driver/loader.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Sonames of cudart: the newest first, or the one before it first. */
static const char *const cudart_names[] = {"libcudart.so.13", "libcudart.so.12",
                                           "libcudart.so", NULL};
static const char *const older_first[] = {"libcudart.so.12", "libcudart.so.13",
                                          "libcudart.so", NULL};
static const char *const cuda_names[] = {"libcuda.so.1", NULL};

enum { OLDEST_RUNTIME = 12000 };

/* Major and minor number of a CUDA version (12040). */
#define MAJOR(version) ((version) / 1000)
#define MINOR(version) ((version) % 1000 / 10)

static warm_status check_version(wm_cuda *c)
{
    cudaError_t code;

    c->version = 0;
    code = c->rt.cudaRuntimeGetVersion(&c->version);
    if (code == cudaErrorCudartUnloading) {
        return wm_cuda_unloading("cudart", (int)code, "cudaRuntimeGetVersion");
    }
    if (c->version < OLDEST_RUNTIME) {
        return wm_fail(WARM_UNAVAILABLE,
                       "the CUDA runtime is version %d.%d; 12.0 or later is "
                       "needed",
                       MAJOR(c->version), MINOR(c->version));
    }
    return WARM_OK;
}

/* Fails: the driver is missing, or too old for this cudart. text: cudart's. */
static warm_status too_new(wm_cuda *c, const char *text)
{
    int driver = 0;
    char found[32] = "there is none";

    if (c->rt.cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0) {
        snprintf(found, sizeof found, "it is %d.%d", MAJOR(driver),
                 MINOR(driver));
    }
    return wm_fail_code(WARM_UNAVAILABLE, "cudart",
                        (int)cudaErrorInsufficientDriver, text,
                        "CUDA runtime %d.%d: %s (%s)", MAJOR(c->version),
                        MINOR(c->version), text, found);
}

/* Counts the devices. A failure stays in cudart's last error of the thread only
 * if it has overwritten an error of the program there. */
static void *count(void *cuda)
{
    wm_cuda *c = cuda;
    bool pending = c->rt.cudaPeekAtLastError() != cudaSuccess;

    c->counted = c->rt.cudaGetDeviceCount(&c->base.devices);
    if (c->counted != cudaSuccess && !pending) {
        (void)c->rt.cudaGetLastError();
    }
    return NULL;
}

/* Counts in a new thread: a failure would overwrite an error of the program
 * that is pending in this thread, and nothing could restore it. False if no
 * thread can be started. */
static bool ask_elsewhere(wm_cuda *c)
{
    pthread_t thread;
    bool started = wm_thread_start(&thread, NULL, count, c);

    if (started) {
        pthread_join(thread, NULL);
    }
    return started;
}

/* Calls cudart before libcuda is searched: it explains best that a driver is
 * missing or too old. Only if the driver is too old may an older cudart work,
 * and is tried; any other failure would be the same there and is kept for
 * count_devices(). */
static warm_status ask_cudart(wm_cuda *c)
{
    if (c->rt.cudaPeekAtLastError() == cudaSuccess || !ask_elsewhere(c)) {
        (void)count(c);
    }
    return c->counted == cudaErrorInsufficientDriver
               ? too_new(c, c->rt.cudaGetErrorString(c->counted))
               : WARM_OK;
}

static warm_status cudart_fits(void *context, void *library)
{
    wm_cuda *c = context;
#define ROW(name) {#name, (void **)(void *)&c->rt.name, 0},
    const wm_symbol symbols[] = {WM_CUDART_CALLS(ROW)};
#undef ROW
    warm_status status =
        wm_library_symbols("the CUDA runtime", library, symbols,
                           sizeof symbols / sizeof symbols[0]);

    if (status != WARM_OK || (status = check_version(c)) != WARM_OK ||
        (status = ask_cudart(c)) != WARM_OK) {
        wm_log(WARM_LOG_INFO, "%s", warm_last_error_message());
    }
    return status;
}

/* A program may contain a static cudart, of the version of the cuBLAS that it
 * has loaded: it must get handles of that cuBLAS. */
static const char *const *names(void)
{
    return !wm_library_is_loaded("libcublasLt.so.13") &&
                   wm_library_is_loaded("libcublasLt.so.12")
               ? older_first
               : cudart_names;
}

/* A file in a folder that may have the cudart of the cuBLAS that the program
 * has loaded, since the loader may know that folder no other way: packages of
 * Python have cudart beside cuBLAS, or in cuda_runtime/lib beside cublas/lib.
 * Empty if no cuBLAS is loaded. */
static void find_near_cublas(char *path, size_t bytes)
{
    static const char *const cublas[] = {"libcublas.so.13", "libcublas.so.12"};
    static const char folder[] = "../../cuda_runtime/lib/";
    char other[PATH_MAX];
    const char *end;
    int length;

    if (!wm_library_loaded_file(cublas[0], path, bytes) &&
        !wm_library_loaded_file(cublas[1], path, bytes)) {
        return;
    }
    end = strrchr(path, '/');
    length = snprintf(other, sizeof other, "%.*s/%s",
                      end != NULL ? (int)(end - path) : 0, path, folder);
    if (end != NULL && (size_t)length < bytes && access(other, F_OK) == 0) {
        memcpy(path, other, (size_t)length + 1);
    }
}

static warm_status load_cudart(const wm_options *options, wm_cuda *c)
{
    char beside[PATH_MAX], path[WM_OPTION_LIST_MAX] = "";
    const wm_library_search search = {.what = "the CUDA runtime",
                                      .path = path,
                                      .beside = beside,
                                      .sonames = names(),
                                      .fits = cudart_fits,
                                      .context = c};
    void *library = NULL;
    warm_status status;

    find_near_cublas(beside, sizeof beside);
    (void)wm_options_part(options->libraries, "cudart", path, sizeof path);
    status = wm_library_find(&search, &library);
    if (status == WARM_OK) {
        wm_library_file(library, c->file, sizeof c->file);
    }
    return status;
}

static warm_status load_cuda(wm_cuda *c)
{
    void *library = NULL;
    const wm_symbol symbols[] = {
#define ROW(name) {#name, (void **)(void *)&c->cu.name, 0},
        WM_CUDA_API_CALLS(ROW)
#undef ROW
    };
    warm_status status =
        wm_library_open("the CUDA driver", NULL, cuda_names, &library);

    return status != WARM_OK
               ? status
               : wm_library_symbols("the CUDA driver", library, symbols,
                                    sizeof symbols / sizeof symbols[0]);
}

static warm_status count_devices(const wm_cuda *c)
{
    const char *text = c->rt.cudaGetErrorString(c->counted);

    if (c->counted == cudaErrorCudartUnloading) {
        return wm_cuda_unloading("cudart", (int)c->counted,
                                 "cudaGetDeviceCount");
    }
    if (c->counted != cudaSuccess) {
        return wm_fail_code(WARM_UNAVAILABLE, "cudart", (int)c->counted, text,
                            "CUDA cannot be used: %s", text);
    }
    if (c->base.devices < 1) {
        return wm_fail(WARM_UNAVAILABLE, "CUDA cannot be used: no device");
    }
    return WARM_OK;
}

static warm_status start_cuda(wm_cuda *c)
{
    CUresult code = c->cu.cuInit(0);
    const char *text = NULL;

    if (code == CUDA_SUCCESS) {
        return WARM_OK;
    }
    if (code == CUDA_ERROR_DEINITIALIZED) {
        return wm_cuda_unloading("cuda", (int)code, "cuInit");
    }
    c->cu.cuGetErrorString(code, &text);
    return wm_fail_code(WARM_UNAVAILABLE, "cuda", (int)code, text,
                        "CUDA cannot be used: %s",
                        text != NULL ? text : "cuInit failed");
}

static void log_choice(const wm_cuda *c)
{
    int driver = 0;

    (void)c->rt.cudaDriverGetVersion(&driver);
    wm_log(WARM_LOG_INFO, "CUDA runtime %d.%d (%s) on a driver for CUDA %d.%d",
           MAJOR(c->version), MINOR(c->version), c->file, MAJOR(driver),
           MINOR(driver));
}

warm_status wm_cuda_load(const wm_options *options, wm_cuda *c)
{
    warm_status status = load_cudart(options, c);

    if (status == WARM_OK && (status = count_devices(c)) == WARM_OK &&
        (status = load_cuda(c)) == WARM_OK &&
        (status = start_cuda(c)) == WARM_OK) {
        log_choice(c);
    }
    return status;
}
#endif
