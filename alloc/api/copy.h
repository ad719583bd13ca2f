/* copy.h: copies between memory of any kind, which record their stream. */
#ifndef WM_COPY_H
#define WM_COPY_H

#include "warmpool/memory.h"

/* warm_copy_async() between memory of any kind. wm_copy_to_host() copies to
 * memory that the host can read and waits if no work was queued on the stream,
 * so that a program without streams can read the copy on return. Status: also
 * CAPTURE_ERROR. */
warm_status wm_copy_any(warm_runtime *runtime, void *destination,
                        const void *source, size_t bytes, warm_stream stream);
warm_status wm_copy_to_host(warm_runtime *runtime, void *destination,
                            const void *source, size_t bytes,
                            warm_stream stream);

#endif
