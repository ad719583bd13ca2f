/* pinned.h: the memory of the host: page-locked, and pageable for requests with
 * WARM_ALLOC_PAGEABLE_OK that no page-locked memory can serve (row B18). The
 * public functions (alloc/api) reach both through runtime->pinned.
 *
 * Pageable memory is a space of its own, so that its blocks are freed, recorded
 * and found like others while its figures stay apart. It caches nothing: a
 * region is mapped for the request that needs it, and unmapped once no block in
 * it is live or pending. No driver is called for either. */
#ifndef WM_PINNED_H
#define WM_PINNED_H

#include "alloc/kinds/adopt.h"
#include "alloc/kinds/huge_bytes.h"
#include "alloc/kinds/pin.h"
#include "alloc/space/space.h"

typedef struct wm_pinned {
    wm_event_pool events;
    wm_timelines timelines;
    wm_pin pin;
    wm_huge_bytes huge_bytes;
    wm_space space;
    wm_space pageable;
    wm_space combined; /* write-combined memory (combined.h) */
    wm_adopted adopted;
} wm_pinned;

/* Opens the host memory of a runtime whose driver is set; pinned is a field of
 * that runtime. Status: OUT_OF_MEMORY. */
warm_status wm_pinned_open(warm_runtime *runtime, const wm_options *options,
                           wm_pinned **pinned);

/* Sets the watermarks of host and all memory, and obtains the reserve, or
 * starts the thread that does, which works on all spaces: after all are open.
 * Status: OUT_OF_MEMORY; with a reserve, also another of the driver's. */
warm_status wm_pinned_begin(warm_runtime *runtime);
/* Ends the background thread; before any other part of the runtime ends. */
void wm_pinned_stop(wm_pinned *pinned);

/* Closes the host memory: returns idle segments to the driver. Live, pending
 * and lost blocks stay mapped, and are added to report. */
void wm_pinned_close(wm_pinned *pinned, warm_destroy_report *report);

/* At the end of a runtime, adds a space's live, pending and lost memory, and
 * lost workspaces of handles, to the report. Also for spaces of devices. */
void wm_pinned_report_left(wm_space *space, warm_destroy_report *report);

/* Allocates from the pageable space. Status: OUT_OF_MEMORY. */
warm_status wm_pageable_alloc(wm_space *space, size_t bytes, void **pointer);

/* Allocates page-locked memory of a node, or, if that is full, of any, for the
 * library's own use: never from a private pool. Ended with warm_free(), or with
 * free_apart(), also while the runtime ends. Status: as warm_pinned_alloc(). */
warm_status wm_pinned_alloc_apart(warm_runtime *runtime, size_t bytes, int node,
                                  void **pointer);
void wm_pinned_free_apart(void *pointer);

/* wm_timelines_over(), and frees the memory of private pools that waited for
 * the end of the capture. */
bool wm_pinned_capture_over(wm_pinned *pinned, warm_stream stream);

#endif
