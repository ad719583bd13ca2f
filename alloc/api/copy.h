/* copy.h: copies between memory of any kind, which record their stream. */
#ifndef WM_COPY_H
#define WM_COPY_H

#include "warmpool/memory.h"

/* As warm_copy_async(), between memory of any kind; see copy.c. The second one
 * to memory that the host can read: where nothing is queued on stream it waits,
 * so that a program without streams finds what it copied. Status: also
 * CAPTURE_ERROR. */
warm_status wm_copy_any(warm_runtime *runtime, void *destination,
                        const void *source, size_t bytes, warm_stream stream);
warm_status wm_copy_to_host(warm_runtime *runtime, void *destination,
                            const void *source, size_t bytes,
                            warm_stream stream);

#endif
