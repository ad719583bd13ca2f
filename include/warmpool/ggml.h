/* warmpool/ggml.h: a host buffer type for ggml, and so for llama.cpp and
 * whisper.cpp: tensors in page-locked memory of warmpool.
 *
 * Includes ggml-backend-impl.h, unless the program has included it before. That
 * header is internal to ggml: it must be of the very ggml that the program is
 * linked to (ggml/src/ in its sources and in llama.cpp's). The functions are
 * inline: they add no symbol.
 *
 *   static warm_ggml_host host;
 *   ggml_backend_buffer_type_t type;
 *   warm_ggml_host_init(&host, runtime, 0, &type);
 *   buffer = ggml_backend_alloc_ctx_tensors_from_buft(context, type);
 *   …
 *   ggml_backend_buffer_free(buffer);
 *
 * Freeing. ggml's own host buffers wait for the device when they are freed
 * (cudaFreeHost()). Those of this type do not wait: they are freed by
 * warm_free_deferred(), which knows of adopted streams, of default streams and
 * of those that wait for them. ggml's CUDA backend makes streams that wait for
 * none: call ggml_backend_synchronize() for backends that may still copy from
 * or to a buffer before you free it. */
#ifndef WARMPOOL_GGML_H
#define WARMPOOL_GGML_H

#include "warmpool/warmpool.h"

#ifndef GGML_BACKEND_API_VERSION
#include <ggml-backend-impl.h>
#endif

#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Must stay where it is, and live, as long as a buffer of the type lives. All
 * fields are read only for the program. */
typedef struct warm_ggml_host {
    struct ggml_backend_buffer_type type;
    warm_runtime *runtime;
    size_t largest; /* bytes of a buffer */
} warm_ggml_host;

static inline const char *warm_ggml_host_name(ggml_backend_buffer_type_t type)
{
    (void)type;
    return "warmpool";
}

/* A block whose free fails stays live, which the runtime reports. */
static inline void warm_ggml_host_free(ggml_backend_buffer_t buffer)
{
    (void)warm_free_deferred(buffer->context);
}

/* Null if the buffer is larger than the largest, or memory is short
 * (warm_last_error()). It is pageable when no more can be page-locked, as
 * ggml's own host buffers are. */
static inline ggml_backend_buffer_t
warm_ggml_host_alloc(ggml_backend_buffer_type_t type, size_t bytes)
{
    const warm_ggml_host *host = (const warm_ggml_host *)type->context;
    ggml_backend_buffer_t buffer;
    void *block = NULL;

    if (bytes > host->largest ||
        warm_pinned_alloc_on(host->runtime, bytes > 0 ? bytes : 1,
                             WARM_NODE_ANY, WARM_ALLOC_PAGEABLE_OK,
                             &block) != WARM_OK) {
        return NULL;
    }
    buffer = ggml_backend_cpu_buffer_from_ptr(block, bytes);
    if (buffer == NULL) {
        (void)warm_free(block);
        return NULL;
    }
    /* The memory is the host's: all but its end is as for the CPU's buffers. */
    buffer->buft = type;
    buffer->iface.free_buffer = warm_ggml_host_free;
    return buffer;
}

static inline size_t warm_ggml_host_alignment(ggml_backend_buffer_type_t type)
{
    (void)type;
    return ggml_backend_buft_get_alignment(ggml_backend_cpu_buffer_type());
}

static inline size_t warm_ggml_host_max(ggml_backend_buffer_type_t type)
{
    return ((const warm_ggml_host *)type->context)->largest;
}

static inline bool warm_ggml_host_is_host(ggml_backend_buffer_type_t type)
{
    (void)type;
    return true;
}

/* Reads option pin_chunk of a runtime. */
static inline warm_status warm_ggml_pin_chunk(warm_runtime *runtime,
                                              size_t *bytes)
{
    static const char name[] = "\npin_chunk:";
    char *text, *found;
    size_t needed = 0;
    warm_status status = warm_runtime_options(runtime, NULL, 0, &needed);

    if (status != WARM_OK) {
        return status;
    }
    text = (char *)malloc(needed);
    if (text == NULL) {
        return WARM_OUT_OF_MEMORY;
    }
    status = warm_runtime_options(runtime, text, needed, NULL);
    found = status == WARM_OK ? strstr(text, name) : NULL;
    if (found != NULL) {
        *bytes = (size_t)strtoull(found + sizeof name - 1, NULL, 10);
    }
    free(text);
    return status;
}

/* Whether ggml-backend-impl.h is of the ggml that is linked: ggml's own
 * functions find the fields where the header has them. */
static inline bool warm_ggml_fits(void)
{
    static char memory[64] __attribute__((aligned(64)));
    struct {
        struct ggml_backend_buffer_type type;
        void *more[8]; /* of a later version */
    } seen;
    ggml_backend_buffer_t buffer;
    bool fits;

    memset(&seen, 0, sizeof seen);
    seen.type.device = (ggml_backend_dev_t)(void *)memory;
    if (ggml_backend_buft_get_device(&seen.type) != seen.type.device) {
        return false;
    }
    buffer = ggml_backend_cpu_buffer_from_ptr(memory, sizeof memory);
    fits = buffer != NULL &&
           buffer->buft == ggml_backend_buffer_get_type(buffer) &&
           buffer->context == memory && buffer->size == sizeof memory &&
           buffer->iface.free_buffer == NULL;
    ggml_backend_buffer_free(buffer);
    return fits;
}

/* Makes the buffer type.
 * host: the caller's; needs no end. runtime: borrowed, must outlive the last
 * buffer. largest: bytes of a buffer; ggml makes several of them for more
 * tensors, and refuses a tensor that is larger. 0: option pin_chunk, which is
 * also the most that one call page-locks: a larger buffer would be in pieces
 * (memory.h), and CUDA copies no range that lies in two. If a model has larger
 * tensors, raise pin_chunk.
 * type: for ggml, written on success only.
 * Status: as warm_runtime_options(); UNSUPPORTED, without a message:
 * ggml-backend-impl.h is of another version than the ggml that is linked. A
 * failed call changes nothing. */
static inline warm_status warm_ggml_host_init(warm_ggml_host *host,
                                              warm_runtime *runtime,
                                              size_t largest,
                                              ggml_backend_buffer_type_t *type)
{
    size_t chunk = 0;
    warm_status status = warm_ggml_pin_chunk(runtime, &chunk);

    if (status != WARM_OK) {
        return status;
    }
    if (!warm_ggml_fits()) {
        return WARM_UNSUPPORTED;
    }
    memset(host, 0, sizeof *host);
    host->runtime = runtime;
    host->largest = largest > 0 ? largest : chunk;
    host->type.iface.get_name = warm_ggml_host_name;
    host->type.iface.alloc_buffer = warm_ggml_host_alloc;
    host->type.iface.get_alignment = warm_ggml_host_alignment;
    host->type.iface.get_max_size = warm_ggml_host_max;
    host->type.iface.is_host = warm_ggml_host_is_host;
    host->type.device =
        ggml_backend_buft_get_device(ggml_backend_cpu_buffer_type());
    host->type.context = host;
    *type = &host->type;
    return WARM_OK;
}

#ifdef __cplusplus
}
#endif
#endif
