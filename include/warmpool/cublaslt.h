/* warmpool/cublaslt.h: typed handles of cuBLASLt.
 *
 * Includes cuBLASLt's own header. The functions are inline: they add no symbol,
 * and nothing is linked or loaded before the first call that needs the
 * library. */
#ifndef WARMPOOL_CUBLASLT_H
#define WARMPOOL_CUBLASLT_H

#include "warmpool/handle.h"

#include <cublasLt.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The calling thread's cuBLASLt handle on a device. It has no stream and no
 * settings: both are arguments of cuBLASLt's calls, and so is the workspace.
 * The value may be that of other threads' handles: cublasLtCreate() of CUDA
 * 13.0 gives all its callers on a device one (seen on an H200).
 * runtime: borrowed. device: 0 … count - 1. handle: borrowed until the thread
 * exits or warm_thread_release(); never destroy it and never pass it to
 * another thread. Written on success only. If the thread holds the handle
 * already, the call takes no lock and calls no library; a first use may load
 * cuBLASLt and create a handle.
 * cuBLASLt requires the device to be current in the thread that calls it: with
 * several devices the caller calls cudaSetDevice(device), since warmpool never
 * changes a thread's current device.
 * Status: as warm_handle_reserve(): INVALID_ARGUMENT; UNAVAILABLE (no CUDA
 * device, or cuBLASLt is missing, named); UNSUPPORTED (built without cuBLASLt);
 * LIBRARY_ERROR with cuBLASLt's own code and text in warm_last_error();
 * OUT_OF_MEMORY, DRIVER_ERROR, RUNTIME_GONE, FORKED, EXITING. A failed call
 * changes nothing. Any thread. */
static inline warm_status warm_cublaslt_handle(warm_runtime *runtime,
                                               int device,
                                               cublasLtHandle_t *handle)
{
    void *reserved = NULL;
    warm_status status = warm_handle_reserve(
        runtime, WARM_KIND_CUBLASLT, device, handle != NULL ? &reserved : NULL);

    if (status == WARM_OK && handle != NULL) {
        *handle = (cublasLtHandle_t)reserved;
    }
    return status;
}

#ifdef __cplusplus
}
#endif
#endif
