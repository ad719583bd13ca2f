/* device_space.h: the memory of devices, for runtime/.
 *
 * Each device has one space, whose arenas are siblings; its lanes are the
 * streams (stream_lane.h). The public functions of device_memory.h reach it
 * through runtime->device_spaces. */
#ifndef WM_DEVICE_SPACE_H
#define WM_DEVICE_SPACE_H

#include "alloc/arena/arena.h"
#include "alloc/kinds/ipc_import.h"
#include "alloc/stream/stream_lane.h"
#include "alloc/space/space.h"

typedef struct wm_device_space {
    wm_space space; /* first: a space leads to it */
    wm_lane_registry registry;
    bool waits;         /* const: its streams may wait for others */
    wm_imports imports; /* of other processes */
    /* Unit of the ranges that segments of pausable private pools are; 0: not
     * asked yet, or the device has none. Relaxed: the thread that begins such a
     * pool has asked. */
    _Atomic size_t unit;
} wm_device_space;

/* The largest small request, and the unit in which memory is obtained. Requests
 * of 512 KiB to 1 MiB count as large: tests/bench/PROFILE.md has the figures.
 */
enum { WM_DEVICE_SMALL = 512 << 10, WM_DEVICE_GRAIN = 2 << 20 };

/* Opens a space for each device; the pinned space is open. Makes no context
 * (row B13). Status: OUT_OF_MEMORY. */
warm_status wm_device_spaces_open(warm_runtime *runtime,
                                  const wm_options *options);
/* At the end of a runtime, before the last trim of device and pinned memory:
 * collects pending frees where the driver waits for their work (CUDA does when
 * memory is returned, the host device in wm_driver_drain()). */
void wm_device_spaces_drain(warm_runtime *runtime);
/* stop(), before the pinned space is closed: returns idle memory and reports
 * memory in use. close(), after that: frees the records. */
void wm_device_spaces_stop(warm_runtime *runtime, warm_destroy_report *report);
void wm_device_spaces_close(warm_runtime *runtime);

/* Called when a stream will be destroyed, before its timeline is retired. */
void wm_device_spaces_retire(warm_runtime *runtime, warm_stream stream,
                             const wm_stream_info *info);

/* Asks the driver for the units of all devices. */
warm_status wm_device_find_unit(warm_runtime *runtime);

/* Obtains a segment of a device's memory from the driver, for the device's
 * space or another one. managed: memory that the host may touch as well.
 * Status: the driver's, UNSUPPORTED (not the start of a page). No lock held. */
warm_status wm_device_obtain(wm_space *space, int device, bool managed,
                             size_t bytes, void **base);

/* wm_space_claim() of a device, for workspaces of handles. */
bool wm_device_space_claim(warm_runtime *runtime, int device, size_t bytes);
void wm_device_space_unclaim(warm_runtime *runtime, int device, size_t bytes);

/* The device of a block, or -1 if it is memory of the host. */
static inline int wm_device_of_block(const wm_block *block)
{
    const wm_arena_group *group = block->segment->arena->group;

    return group->device >= 0 && !group->shared ? group->device : -1;
}

#endif
