/* copy.h: copies between memory of any kind, which record their stream. */
#ifndef WM_COPY_H
#define WM_COPY_H

#include "warmpool/memory.h"

/* warm_copy_async() between memory of any kind. CAPTURE_ERROR for a default
 * stream that a capture blocks; the capture stays valid. */
warm_status wm_copy_any(warm_runtime *runtime, void *destination,
                        const void *source, size_t bytes, warm_stream stream);

/* INVALID_ARGUMENT if bytes from pointer on pass the end of the block that
 * holds it. what: "source" or "destination". */
warm_status wm_copy_check(const void *pointer, size_t bytes, const char *what);

/* warm_copy_async() whose side of the host is a slice of a staging ring, on
 * which the stream is not recorded. */
warm_status wm_copy_staged(warm_runtime *runtime, void *destination,
                           const void *source, size_t bytes,
                           warm_copy_direction direction, warm_stream stream);

/* A copy between a block of page-locked memory and any memory of a device, of
 * which no use is recorded: the caller waits for it. */
warm_status wm_copy_unrecorded(warm_runtime *runtime, void *destination,
                               const void *source, size_t bytes,
                               warm_copy_direction direction,
                               warm_stream stream);

#endif
