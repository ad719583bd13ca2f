/* recommended.h: the recommended maximum of each memory, and the watermarks
 * that the options set (row F7). */
#ifndef WM_RECOMMENDED_H
#define WM_RECOMMENDED_H

#include "alloc/space/space.h"
#include "warmpool/pressure.h"

/* The space whose memory it is, or for all memory the poller. memory: a device,
 * WARM_MEMORY_OF_HOST or WARM_MEMORY_OF_ALL. */
wm_space *wm_memory_owner(warm_runtime *runtime, int memory);
wm_watermarks *wm_memory_marks(warm_runtime *runtime, int memory);

/* 0: unknown, of all memory if it is unknown of a part. Status: DRIVER_ERROR.
 */
warm_status wm_recommended(warm_runtime *runtime, int memory, uint64_t *bytes);

/* Whether a watermark in bytes is within range: at most WARM_WATERMARK_MOST
 * times the recommended maximum (0: unknown, then any is). refusal: the status
 * otherwise. */
warm_status wm_watermark_check(warm_status refusal, const char *name,
                               uint64_t bytes, uint64_t recommended);

/* The bytes of a ratio of all memory, which do not follow: the devices' part of
 * the recommended maximum does not change. */
wm_watermark_set wm_watermark_fixed(double ratio, uint64_t recommended);

/* Sets the watermarks of every memory when the runtime is made. Status:
 * INVALID_OPTION (named). */
warm_status wm_watermarks_begin(warm_runtime *runtime,
                                const wm_options *options);

#endif
