/* cuda_load.c: finds cudart and libcuda, and says in words why not. */
#include "runtime/driver/cuda.h"

#if WM_HAVE_CUDA
#include "runtime/base/status.h"
#include "runtime/driver/loader.h"

static const char *const cudart_names[] = {"libcudart.so.13", "libcudart.so.12",
                                           "libcudart.so", NULL};
static const char *const cuda_names[] = {"libcuda.so.1", NULL};

enum { OLDEST_RUNTIME = 12000 };

static warm_status load_cudart(const wm_options *options, wm_cuda *c)
{
    void *library = NULL;
#define ROW(name) {#name, (void **)(void *)&c->rt.name, 0},
    const wm_symbol symbols[] = {WM_CUDART_CALLS(ROW)};
    warm_status status = wm_library_open("the CUDA runtime", options->cudart,
                                         cudart_names, &library);

    if (status == WARM_OK) {
        status = wm_library_symbols("the CUDA runtime", library, symbols,
                                    sizeof symbols / sizeof symbols[0]);
    }
    return status;
}

static warm_status load_cuda(wm_cuda *c)
{
    void *library = NULL;
    const wm_symbol symbols[] = {
#undef ROW
#define ROW(name) {#name, (void **)(void *)&c->cu.name, 0},
        WM_CUDA_API_CALLS(ROW)
#undef ROW
    };
    warm_status status =
        wm_library_open("the CUDA driver", NULL, cuda_names, &library);

    if (status == WARM_OK) {
        status = wm_library_symbols("the CUDA driver", library, symbols,
                                    sizeof symbols / sizeof symbols[0]);
    }
    return status;
}

/* Asked of cudart before libcuda is looked for: it knows the better words
 * for a driver that is missing or too old. */
static warm_status count_devices(wm_cuda *c, int *devices)
{
    int count = 0;
    bool pending = c->rt.cudaPeekAtLastError() != cudaSuccess;
    cudaError_t code = c->rt.cudaGetDeviceCount(&count);

    if (code != cudaSuccess) {
        if (!pending) { /* else it is the program's to find */
            (void)c->rt.cudaGetLastError();
        }
        return wm_fail_code(WARM_UNAVAILABLE, "cudart", (int)code,
                            c->rt.cudaGetErrorString(code),
                            "CUDA cannot be used: %s",
                            c->rt.cudaGetErrorString(code));
    }
    if (count < 1) {
        return wm_fail(WARM_UNAVAILABLE, "CUDA cannot be used: no device");
    }
    *devices = count;
    return WARM_OK;
}

static warm_status check_version(wm_cuda *c)
{
    int version = 0;

    c->rt.cudaRuntimeGetVersion(&version);
    if (version < OLDEST_RUNTIME) {
        return wm_fail(WARM_UNAVAILABLE,
                       "the CUDA runtime is version %d.%d; 12.0 or later is "
                       "needed",
                       version / 1000, version % 1000 / 10);
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
    c->cu.cuGetErrorString(code, &text);
    return wm_fail_code(WARM_UNAVAILABLE, "cuda", (int)code, text,
                        "CUDA cannot be used: %s",
                        text != NULL ? text : "cuInit failed");
}

warm_status wm_cuda_load(const wm_options *options, wm_cuda *c, int *devices)
{
    warm_status status = load_cudart(options, c);

    if (status == WARM_OK) {
        status = check_version(c);
    }
    if (status == WARM_OK) {
        status = count_devices(c, devices);
    }
    if (status == WARM_OK) {
        status = load_cuda(c);
    }
    if (status == WARM_OK) {
        status = start_cuda(c);
    }
    return status;
}
#endif
