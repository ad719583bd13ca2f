/* warmpool/cudnn.h: typed handles of cuDNN.
 *
 * Includes cuDNN's own header. The functions are inline: they add no symbol,
 * and nothing is linked or loaded before the first call that needs the
 * library. */
#ifndef WARMPOOL_CUDNN_H
#define WARMPOOL_CUDNN_H

#include "warmpool/handle.h"

#include <cudnn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The calling thread's cuDNN handle on a device, bound to a stream.
 * runtime: borrowed. device: 0 … count - 1. stream: borrowed, of the same
 * device, or a default stream (null is the legacy one). handle:
 * borrowed until the thread exits or warm_thread_release(); never destroy it
 * and never pass it to another thread. Written on success only.
 * Settings made on the handle last until it returns to the pool, which resets
 * them to cuDNN's defaults. If the handle is bound to the stream already, the
 * call takes no lock and calls no library. A first use may load cuDNN and
 * create a handle,
 * which takes milliseconds.
 * cuDNN requires the device to be current in the thread that calls it: with
 * several devices the caller calls cudaSetDevice(device), since warmpool never
 * changes a thread's current device.
 * Status: as warm_handle_reserve_on(): INVALID_ARGUMENT, INVALID_STREAM;
 * UNAVAILABLE (no CUDA device, or cuDNN is missing, named); UNSUPPORTED
 * (built without cuDNN); LIBRARY_ERROR with cuDNN's own code and text in
 * warm_last_error(); OUT_OF_MEMORY, DRIVER_ERROR, RUNTIME_GONE, FORKED,
 * EXITING. A failed call changes nothing. Any thread. */
static inline warm_status warm_cudnn_handle(warm_runtime *runtime, int device,
                                            warm_stream stream,
                                            cudnnHandle_t *handle)
{
    void *reserved = NULL;
    warm_status status =
        warm_handle_reserve_on(runtime, WARM_KIND_CUDNN, device, stream,
                               handle != NULL ? &reserved : NULL);

    if (status == WARM_OK && handle != NULL) {
        *handle = (cudnnHandle_t)reserved;
    }
    return status;
}

#ifdef __cplusplus
}
#endif
#endif
