/* ipc.c: the public functions of ipc.h and the contents of an IPC handle. */
#include "warmpool/ipc.h"

#include "alloc/kinds/device_space.h"
#include "alloc/space/space_int.h"
#include "runtime/base/process.h"
#include "runtime/base/sized.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(((warm_ipc_handle *)0)->segment) == sizeof(wm_ipc_name),
               "the driver's handle");
_Static_assert(sizeof(((warm_ipc_handle *)0)->device) == sizeof(wm_device_id),
               "the driver's id");
_Static_assert(sizeof(warm_ipc_handle) ==
                   offsetof(warm_ipc_handle, check) + sizeof(uint64_t),
               "every byte is checked: there are none between the fields");

/* FNV-1a checksum. */
static uint64_t check_of(const warm_ipc_handle *handle)
{
    const unsigned char *bytes = (const unsigned char *)handle;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < offsetof(warm_ipc_handle, check); i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* A handle has one size: a shorter struct could not name a block. */
static warm_status check_size(const warm_ipc_handle *handle)
{
    warm_status status =
        wm_sized_check(handle, sizeof *handle, "warm_ipc_handle");

    if (status == WARM_OK && handle->size != sizeof *handle) {
        status = wm_fail(WARM_INVALID_ARGUMENT,
                         "warm_ipc_handle.size is %zu, here %zu", handle->size,
                         sizeof *handle);
    }
    return status;
}

/* ---- exporting --------------------------------------------------------- */

/* A number per exported segment of this process, by which the importing process
 * maps each segment once: the driver's own handle of a segment may differ from
 * call to call. The caller has a live block in the segment. */
static uint64_t number_of(wm_segment *segment)
{
    static _Atomic uint64_t last_exported;
    uint64_t number =
        atomic_load_explicit(&segment->shared_as, memory_order_relaxed);

    if (number != 0) {
        return number;
    }
    /* Relaxed: the number orders nothing, and all threads use the winner's. */
    uint64_t next =
        atomic_fetch_add_explicit(&last_exported, 1, memory_order_relaxed) + 1;
    return atomic_compare_exchange_strong_explicit(&segment->shared_as, &number,
                                                   next, memory_order_relaxed,
                                                   memory_order_relaxed)
               ? next
               : number;
}

static warm_status name_segment(wm_space *space, wm_segment *segment,
                                warm_ipc_handle *handle)
{
    int device = space->group.device;
    wm_device_id id;
    wm_ipc_name name;
    wm_space_work work;
    warm_status status = wm_space_work_begin(space, &work);

    if (status != WARM_OK) {
        return status;
    }
    status = wm_driver_device_id(space->driver, device, &id);
    if (status == WARM_OK) {
        status =
            wm_driver_ipc_export(space->driver, device, segment->base, &name);
    }
    wm_space_work_end(space, &work, false);
    if (status == WARM_OK) {
        memcpy(handle->device, id.bytes, sizeof id);
        memcpy(handle->segment, name.bytes, sizeof name);
        handle->segment_number = number_of(segment);
    }
    return status;
}

warm_status warm_ipc_export(const void *pointer, warm_ipc_handle *handle)
{
    const char *start = pointer;
    wm_block *block = wm_space_find(pointer);

    if (block == NULL || wm_device_of_block(block) < 0) {
        return wm_space_not_found(pointer, " of a device");
    }
    wm_segment *segment = block->segment;
    wm_space *space = wm_space_of(block);
    warm_ipc_handle made = {
        .size = sizeof made,
        .bytes = wm_block_usable_from(block, start),
        .offset = (uint64_t)(start - segment->base),
        .segment_bytes = segment->bytes,
        .process = wm_process_identity(),
        .pid = (uint64_t)getpid(),
    };
    warm_status status = wm_runtime_check(space->group.runtime);
    if (status != WARM_OK || (status = check_size(handle)) != WARM_OK) {
        return status;
    }
    if (segment->arena->ranged) {
        return wm_fail(WARM_UNSUPPORTED,
                       "%p cannot be exported: CUDA shares no memory of "
                       "pausable pools by handles",
                       pointer);
    }
    status = name_segment(space, segment, &made);
    if (status == WARM_OK) {
        made.check = check_of(&made);
        *handle = made;
    }
    return status;
}

/* ---- opening ----------------------------------------------------------- */

static warm_status check_handle(const warm_ipc_handle *handle)
{
    warm_status status = check_size(handle);

    if (status != WARM_OK) {
        return status;
    }
    if (handle->check != check_of(handle) || handle->bytes == 0 ||
        handle->segment_bytes > WM_REQUEST_MAX ||
        handle->offset >= handle->segment_bytes ||
        handle->bytes > handle->segment_bytes - handle->offset) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "the handle is damaged, or was not made by "
                       "warm_ipc_export()");
    }
    if (handle->process == wm_process_identity()) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "this very process exported the handle: use the "
                       "exported pointer");
    }
    return WARM_OK;
}

static warm_status find_device(warm_runtime *runtime,
                               const warm_ipc_handle *handle,
                               wm_device_space **d)
{
    char text[2 * sizeof handle->device + 1];
    wm_device_id id;

    for (int i = 0; i < runtime->devices; i++) {
        warm_status status = wm_driver_device_id(runtime->driver, i, &id);

        if (status != WARM_OK) {
            return status;
        }
        if (memcmp(id.bytes, handle->device, sizeof id) == 0) {
            *d = &runtime->device_spaces[i];
            return WARM_OK;
        }
    }
    for (size_t i = 0; i < sizeof handle->device; i++) {
        snprintf(text + 2 * i, 3, "%02x", handle->device[i]);
    }
    return wm_fail(WARM_UNAVAILABLE,
                   "process %" PRIu64 " exported memory of a device that this "
                   "runtime does not have, id %s",
                   handle->pid, text);
}

warm_status warm_ipc_open(warm_runtime *runtime, const warm_ipc_handle *handle,
                          void **pointer)
{
    wm_device_space *d = NULL;
    wm_space_work work;
    warm_status status =
        wm_check_given(wm_runtime_check(runtime), pointer, "pointer");

    if (status != WARM_OK || (status = check_handle(handle)) != WARM_OK ||
        (status = find_device(runtime, handle, &d)) != WARM_OK ||
        (status = wm_space_work_begin(&d->space, &work)) != WARM_OK) {
        return status;
    }
    status = wm_imports_open(&d->imports, handle, pointer);
    wm_space_work_end(&d->space, &work, false);
    return status;
}

/* ---- closing ----------------------------------------------------------- */

warm_status warm_ipc_close(warm_runtime *runtime, void *pointer)
{
    wm_space_work work;
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK || pointer == NULL) {
        return status;
    }
    status = wm_space_work_begin(&runtime->device_spaces[0].space, &work);
    if (status != WARM_OK) {
        return status;
    }
    status = WARM_NOT_FOUND; /* the pointer does not identify its device */
    for (int i = 0; i < runtime->devices && status == WARM_NOT_FOUND; i++) {
        status = wm_imports_close(&runtime->device_spaces[i].imports, pointer);
    }
    if (status == WARM_NOT_FOUND) {
        status = wm_fail(WARM_INVALID_POINTER,
                         "%p is not open: it was closed already, or is not "
                         "from warm_ipc_open() of this runtime",
                         pointer);
    }
    wm_space_work_end(&runtime->device_spaces[0].space, &work, false);
    return status;
}

warm_status warm_ipc_get_stats(warm_runtime *runtime, warm_ipc_stats *stats)
{
    warm_ipc_stats all = {.size = sizeof all};
    warm_status status = wm_check_out(wm_runtime_check(runtime), stats,
                                      sizeof all, "warm_ipc_stats");

    if (status != WARM_OK) {
        return status;
    }
    for (int i = 0; i < runtime->devices; i++) {
        wm_imports_add_stats(&runtime->device_spaces[i].imports, &all);
    }
    wm_sized_out(stats, &all, sizeof all);
    return WARM_OK;
}
