/* copy.h: copies between memory of any kind, which record their stream. */
#ifndef WM_COPY_H
#define WM_COPY_H

#include "warmpool/memory.h"

/* warm_copy_async() between memory of any kind. CAPTURE_ERROR for a default
 * stream that a capture blocks; the capture stays valid. */
warm_status wm_copy_any(warm_runtime *runtime, void *destination,
                        const void *source, size_t bytes, warm_stream stream);

#endif
