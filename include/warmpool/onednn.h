/* warmpool/onednn.h: typed handles of oneDNN.
 *
 * Includes oneDNN's own header. The functions are inline: they add no symbol,
 * and nothing is linked or loaded before the first call that needs the
 * library. */
#ifndef WARMPOOL_ONEDNN_H
#define WARMPOOL_ONEDNN_H

#include "warmpool/handle.h"

#include <dnnl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The calling thread's oneDNN engine for the CPU, on host device 0.
 * runtime: borrowed. engine: borrowed until the thread exits or
 * warm_thread_release(); never destroy it. The caller owns primitives, memory
 * and oneDNN streams made from it, and destroys them before the thread exits.
 * Written on success only. If the thread holds the engine already, the call
 * takes no lock and calls no library.
 * Status: as warm_handle_reserve(): INVALID_ARGUMENT; UNAVAILABLE (the runtime
 * is not on the host device); UNSUPPORTED (built without oneDNN); LIBRARY_ERROR
 * with oneDNN's own code in warm_last_error(); OUT_OF_MEMORY, RUNTIME_GONE,
 * FORKED, EXITING. A failed call changes nothing. Any thread. */
static inline warm_status warm_onednn_engine(warm_runtime *runtime,
                                             dnnl_engine_t *engine)
{
    void *reserved = NULL;
    warm_status status = warm_handle_reserve(runtime, WARM_KIND_ONEDNN, 0,
                                             engine != NULL ? &reserved : NULL);

    if (status == WARM_OK && engine != NULL) {
        *engine = (dnnl_engine_t)reserved;
    }
    return status;
}

#ifdef __cplusplus
}
#endif
#endif
