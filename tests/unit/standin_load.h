/* standin_load.h: the stand-in CUDA libraries, loaded by a test program that
 * links none of them. They lie in ../../standin beside the program. */
#ifndef STANDIN_LOAD_H
#define STANDIN_LOAD_H

#include "wt.h"

#include "runtime/base/options.h"
#include "tests/standin/standin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A call of CUDA or one of its libraries: they all return 0 for success. */
#define cuda_ok(call_)                                                         \
    do {                                                                       \
        int cuda_code_ = (int)(call_);                                         \
        wt_require(cuda_code_ == 0, "%s: %d", #call_, cuda_code_);             \
    } while (0)

/* X(function): the control functions of standin.h */
#define STANDIN_CONTROL(X)                                                     \
    X(standin_calls)                                                           \
    X(standin_fail)                                                            \
    X(standin_flags)                                                           \
    X(standin_misuse)                                                          \
    X(standin_contexts)                                                        \
    X(standin_context_ids)                                                     \
    X(standin_references)                                                      \
    X(standin_meet)                                                            \
    X(cuCtxCreate_v4)                                                          \
    X(cuCtxPushCurrent_v2)                                                     \
    X(cuGreenCtxCreate)                                                        \
    X(cuCtxFromGreenCtx)                                                       \
    X(cuThreadExchangeStreamCaptureMode)                                       \
    X(cuStreamCreate)                                                          \
    X(cuStreamEndCapture)                                                      \
    X(cuGraphDestroy)                                                          \
    X(standin_devices)                                                         \
    X(standin_compute)                                                         \
    X(standin_ranges)                                                          \
    X(standin_register_most)                                                   \
    X(standin_registers)                                                       \
    X(standin_host_tables)                                                     \
    X(standin_managed)                                                         \
    X(standin_read_only)                                                       \
    X(standin_peers)                                                           \
    X(standin_host_shift)                                                      \
    X(standin_stick)                                                           \
    X(standin_driver_version)                                                  \
    X(standin_handle_state)                                                    \
    X(standin_handles_live)                                                    \
    X(cuCtxGetCurrent)                                                         \
    X(cuCtxPopCurrent_v2)

#define STANDIN_RUNTIME(X)                                                     \
    X(cudaSetDevice)                                                           \
    X(cudaDeviceReset)                                                         \
    X(cudaGetDevice)                                                           \
    X(cudaStreamQuery)                                                         \
    X(cudaStreamBeginCapture)                                                  \
    X(cudaGetLastError)                                                        \
    X(cudaPeekAtLastError)                                                     \
    X(cudaThreadExchangeStreamCaptureMode)

/* Filled by standin_load(), before any thread of a test. */
static struct {
#define STANDIN_POINTER(name) __typeof__(name) *name;
    STANDIN_CONTROL(STANDIN_POINTER)
    STANDIN_RUNTIME(STANDIN_POINTER)
#undef STANDIN_POINTER
    char directory[160];
    char cudart[200], libraries[220]; /* option libraries */
    void *cuda_library, *cudart_library;
} standin;

static inline bool standin_find(void)
{
    ssize_t length = readlink("/proc/self/exe", standin.directory,
                              sizeof standin.directory - 20);
    char *end;

    if (length <= 0) {
        return false;
    }
    standin.directory[length] = '\0';
    end = strstr(standin.directory, "/tests/unit/");
    if (end == NULL) {
        return false;
    }
    strcpy(end, "/standin");
    return access(standin.directory, F_OK) == 0;
}

/* dir/soname of a stand-in. */
static inline const char *standin_path(const char *soname)
{
    static char path[8][260];
    static unsigned next;
    char *text = path[next++ % 8];

    snprintf(text, sizeof path[0], "%s/%s", standin.directory, soname);
    return text;
}

/* A fixture twice: unchecked, so that the processes of all tests have the
 * libraries from their parent (to load them costs more than most tests do),
 * and checked. */
static inline void standin_load(void)
{
    char cudart[32];

    ck_assert(standin_find());
    standin.cuda_library = dlopen(standin_path("libcuda.so.1"), RTLD_NOW);
    ck_assert_msg(standin.cuda_library != NULL, "%s", dlerror());
    snprintf(cudart, sizeof cudart, "libcudart.so.%d", CUDART_VERSION / 1000);
    snprintf(standin.cudart, sizeof standin.cudart, "%s/%s", standin.directory,
             cudart);
    snprintf(standin.libraries, sizeof standin.libraries, "cudart=%s",
             standin.cudart);
    standin.cudart_library = dlopen(standin.cudart, RTLD_NOW);
    ck_assert_msg(standin.cudart_library != NULL, "%s", dlerror());
#define STANDIN_FIND(name)                                                     \
    *(void **)(void *)&standin.name = dlsym(standin.cudart_library, #name);    \
    ck_assert_msg(standin.name != NULL, #name);
    STANDIN_CONTROL(STANDIN_FIND)
    STANDIN_RUNTIME(STANDIN_FIND)
#undef STANDIN_FIND
}

static inline void standin_options(wm_options *options)
{
    wt_ok(wm_options_resolve(NULL, NULL, options));
    strcpy(options->libraries, standin.libraries);
}

static inline warm_status standin_open(wm_driver **d)
{
    static wm_options options;

    standin_options(&options);
    return wm_cuda_open(&options, d);
}

#endif
