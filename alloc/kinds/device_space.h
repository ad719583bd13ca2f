/* device_space.h: the memory of devices, for runtime.c and what is beside it.
 *
 * One space a device, of arenas that are siblings: its lanes are the streams
 * (stream_lane.h). The public functions of device_memory.h reach it through
 * runtime->device_spaces.
 */
#ifndef WM_DEVICE_SPACE_H
#define WM_DEVICE_SPACE_H

#include "alloc/arena/arena_stats.h"
#include "alloc/kinds/ipc_import.h"
#include "alloc/stream/stream_lane.h"
#include "alloc/space/space.h"

typedef struct wm_device_space {
    wm_space space; /* first: a space leads to it */
    wm_lane_registry orders;
    int device;                 /* const */
    bool waits;                 /* const: its streams, for each other */
    double fraction, threshold; /* lock growth */
    /* What is held at most before idle segments go, 0: no matter. Relaxed: set
     * at any time. */
    _Atomic size_t collect_bytes;
    wm_sorted sorted[WM_SIBLINGS]; /* of the arenas */
    wm_imports imports;            /* of other processes */
} wm_device_space;

/* What small requests are, and the least that is obtained. Those of half a MiB
 * to one are to the others as large ones: tests/bench/PROFILE.md. */
enum { WM_DEVICE_SMALL = 512 << 10, WM_DEVICE_GRAIN = 2 << 20 };

/* One for each device; pinned memory is open. Makes no context (row B13).
 * Status: OUT_OF_MEMORY, or what the driver says when it is asked for option
 * expandable_segments. */
warm_status wm_device_spaces_open(warm_runtime *runtime,
                                  const wm_options *options);
/* At the end of a runtime, before these and pinned memory are trimmed for the
 * last time: what is pending is waited for where the driver does so anyway. */
void wm_device_spaces_drain(warm_runtime *runtime);
/* Before pinned memory is closed: gives back what is idle, reports what is in
 * use. And after: ends the records. */
void wm_device_spaces_stop(warm_runtime *runtime, warm_destroy_report *report);
void wm_device_spaces_close(warm_runtime *runtime);

/* The stream will be destroyed: before its timeline is retired. */
void wm_device_spaces_retire(warm_runtime *runtime, warm_stream stream,
                             const wm_stream_info *info);

/* Memory of the device for something that is no block, and counts below the
 * limit as if it were held here: idle segments go back where that makes room
 * for it. False: there is none. And the end of it. */
bool wm_device_space_claim(warm_runtime *runtime, int device, size_t bytes);
void wm_device_space_unclaim(warm_runtime *runtime, int device, size_t bytes);

/* The device of a block, or -1 if it is memory of the host. */
static inline int wm_device_of_block(const wm_block *block)
{
    int device = block->segment->arena->group->device;

    return device >= 0 ? device : -1;
}

#endif
