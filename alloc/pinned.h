/* pinned.h: the pinned space of a runtime, for runtime.c.
 *
 * The public functions of memory.h and stats.h that work on pinned memory are
 * in pinned.c; they reach the space through runtime->pinned. */
#ifndef WM_PINNED_H
#define WM_PINNED_H

#include "alloc/space.h"

typedef struct wm_pinned {
    wm_event_pool events;
    wm_timelines timelines;
    wm_space space;
} wm_pinned;

/* Makes the pinned space of a runtime whose driver is set. Calls no driver.
 * Status: OUT_OF_MEMORY. */
warm_status wm_pinned_open(warm_runtime *runtime, const wm_options *options,
                           wm_pinned **pinned);

/* Ends it (null is ignored): idle segments go back to the driver; what is live,
 * pending or lost stays where it is, and the first two are added to report. */
void wm_pinned_close(wm_pinned *pinned, warm_destroy_report *report);

/* The stream will be destroyed; see wm_space_retire(). */
void wm_pinned_retire(wm_pinned *pinned, warm_stream stream,
                      const wm_stream_info *info);

#endif
