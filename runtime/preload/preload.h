/* preload.h: what the files of libwarmpool-preload.so share.
 *
 *   program ──► cublasCreate_v2() of this library ──► warmpool: a lease
 *                     │ not started, re-entered, not ours, refused
 *                     ▼
 *               the real one (RTLD_NEXT, or of the library that is loaded)
 *
 * Public headers of warmpool only. CUDA's headers are not needed: what is
 * replaced takes and returns pointers, sizes and ints (README.md has the list).
 *
 * warmpool starts with the second call: the first one that succeeds in the real
 * library shows that CUDA works here. While a thread is inside warmpool, or
 * inside a real function that is called for it, everything it calls is real. */
#ifndef WP_PRELOAD_H
#define WP_PRELOAD_H

#include <warmpool/warmpool.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define WP_EXPORT __attribute__((visibility("default")))

/* Codes of CUDA's runtime. */
enum {
    WP_INVALID_VALUE = 1,
    WP_OUT_OF_MEMORY = 2,
    WP_UNLOADING = 4,
    WP_NO_FUNCTION = 500
};

/* ---- real functions: real.c ---------------------------------------------- */

enum wp_library {
    WP_CUDART,
    WP_CUBLAS,
    WP_CUBLASLT,
    WP_CUDNN,
    WP_CUSPARSE,
    WP_CUSOLVER,
    WP_LIBRARIES
};

/* X(name, library): everything that is replaced. */
#define WP_FUNCTIONS(X)                                                        \
    X(cublasCreate_v2, WP_CUBLAS)                                              \
    X(cublasDestroy_v2, WP_CUBLAS)                                             \
    X(cublasSetStream_v2, WP_CUBLAS)                                           \
    X(cublasLtCreate, WP_CUBLASLT)                                             \
    X(cublasLtDestroy, WP_CUBLASLT)                                            \
    X(cudnnCreate, WP_CUDNN)                                                   \
    X(cudnnDestroy, WP_CUDNN)                                                  \
    X(cudnnSetStream, WP_CUDNN)                                                \
    X(cusparseCreate, WP_CUSPARSE)                                             \
    X(cusparseDestroy, WP_CUSPARSE)                                            \
    X(cusparseSetStream, WP_CUSPARSE)                                          \
    X(cusolverDnCreate, WP_CUSOLVER)                                           \
    X(cusolverDnDestroy, WP_CUSOLVER)                                          \
    X(cusolverDnSetStream, WP_CUSOLVER)                                        \
    X(cudaHostAlloc, WP_CUDART)                                                \
    X(cudaMallocHost, WP_CUDART)                                               \
    X(cudaFreeHost, WP_CUDART)                                                 \
    X(cudaMalloc, WP_CUDART)                                                   \
    X(cudaFree, WP_CUDART)                                                     \
    X(cudaMallocAsync, WP_CUDART)                                              \
    X(cudaMallocAsync_ptsz, WP_CUDART)                                         \
    X(cudaFreeAsync, WP_CUDART)                                                \
    X(cudaFreeAsync_ptsz, WP_CUDART)                                           \
    X(cudaStreamCreate, WP_CUDART)                                             \
    X(cudaStreamCreateWithFlags, WP_CUDART)                                    \
    X(cudaStreamCreateWithPriority, WP_CUDART)                                 \
    X(cudaStreamDestroy, WP_CUDART)                                            \
    X(cudaStreamBeginCapture, WP_CUDART)                                       \
    X(cudaStreamBeginCapture_ptsz, WP_CUDART)                                  \
    X(cudaStreamBeginCaptureToGraph, WP_CUDART)                                \
    X(cudaStreamBeginCaptureToGraph_ptsz, WP_CUDART)                           \
    X(cudaStreamEndCapture, WP_CUDART)                                         \
    X(cudaStreamEndCapture_ptsz, WP_CUDART)                                    \
    X(cudaDeviceReset, WP_CUDART)                                              \
    X(cudaIpcGetMemHandle, WP_CUDART)                                          \
    X(cudaIpcOpenMemHandle, WP_CUDART)                                         \
    X(cudaIpcCloseMemHandle, WP_CUDART)

/* X(name, library): what is called here, and not replaced. */
#define WP_CALLED(X)                                                           \
    X(cudaDeviceSynchronize, WP_CUDART)                                        \
    X(cudaStreamIsCapturing, WP_CUDART)                                        \
    X(cudaThreadExchangeStreamCaptureMode, WP_CUDART)

enum wp_index {
#define WP_INDEX(name, library) WP_AT_##name,
    WP_FUNCTIONS(WP_INDEX) WP_REPLACED,
    WP_BEFORE_CALLED = WP_REPLACED - 1,
    WP_CALLED(WP_INDEX)
#undef WP_INDEX
        WP_COUNT
};

/* Any function; cast to what it is before it is called. */
typedef void wp_function(void);

/* The real function, or null if no library that is loaded has it. caller: an
 * address in the code that calls the function: where no library has it, the
 * caller's own may. Null: not looked at. */
wp_function *wp_real(enum wp_index index, const void *caller);
/* cudaDeviceSynchronize(), of the thread's device. False: it failed, or a
 * stream captures: the call would break the capture, as CUDA's frees do not. */
bool wp_synchronize(void);
bool wp_any_captures(void);
/* Whether a stream captures, also since it waits for one that does. NULL: none
 * of CUDA's default streams that can. */
bool wp_captures(void *stream);
/* Ends the function, which the program has called, with what the real one
 * answers, or `none` without one. A helper of that function is inlined into it.
 */
#define WP_INLINED static inline __attribute__((always_inline))
#define WP_RETURN_REAL(name, type, none, ...)                                  \
    do {                                                                       \
        type *real_ =                                                          \
            (type *)wp_real(WP_AT_##name, __builtin_return_address(0));        \
        int code_ = (none);                                                    \
                                                                               \
        if (real_ != NULL) {                                                   \
            wp_in();                                                           \
            code_ = real_(__VA_ARGS__);                                        \
            wp_out();                                                          \
        }                                                                      \
        return wp_answered(code_);                                             \
    } while (0)

/* For dlsym(), which has found `real` for the name: ours instead, unless the
 * code that asks, at address caller, is warmpool. Null where no library that is
 * loaded has the function, as without this one. */
void *wp_substitute(const char *name, void *real, const void *caller);
/* False: no function of that name is replaced. */
bool wp_replaces(const char *name);
typedef void *wp_dlsym_fn(void *handle, const char *name);
wp_dlsym_fn *wp_real_dlsym(void);

/* ---- whether warmpool serves a call: start.c ------------------------------
 */

enum wp_part { WP_HANDLES = 1, WP_PINNED = 2, WP_DEVICE = 4 };

/* Whether warmpool serves one of the parts (joined by |) in this call. True:
 * the thread is inside until wp_leave(), and wp_runtime() is there. */
bool wp_enter(unsigned parts);
void wp_leave(void);
bool wp_has_started(void);
/* Whether one of the parts may have been served. True: wp_runtime() is there.
 * For threads that are inside as well. */
bool wp_has_served(unsigned parts);
bool wp_is_inside(void);
/* Around a real function: what that calls is real. The thread may be inside. */
void wp_in(void);
void wp_out(void);
/* A real function has answered code to the program: if that is success,
 * warmpool may start with the next call. Returns code. */
int wp_answered(int code);

/* warmpool answers a call of the program with code: if that is an error, a call
 * of CUDA's own fails with the same one, for cudaGetLastError(). Other values
 * do nothing. Returns code. In last_error.c. */
int wp_failed(int code);

/* The device was reset: from now on warmpool serves nothing. Its memory there,
 * and page-locked memory if that was of its context, is no more; CUDA may use
 * the addresses again, and so their frees are CUDA's. */
void wp_reset(int device);
bool wp_has_reset(void);
/* Memory of a device, or page-locked memory (device -1), is no more. */
bool wp_is_lost(int device);
/* Page-locked memory was allocated: by the first, its context is known. */
void wp_pinned_served(void);
/* The stream is about to be destroyed: frees will wait for its work as well:
 * destroyed.c. False: they will not, and the stream must stay. The caller is
 * inside. */
bool wp_carry(void *stream);

/* The block is about to be freed: no other process can open it from now on:
 * ipc.c. */
void wp_unshare(const void *block);

warm_runtime *wp_runtime(void);
/* Prints one line on standard error. */
void wp_say(const char *what);
/* Option free:wait. */
bool wp_free_waits(void);
/* Page-locked memory of more bytes is real: warmpool would cut it into pieces,
 * which the program's own copies cannot cross. */
size_t wp_pinned_most(void);

#endif
