/* shared.c: the public functions of private and shared buffers (shared.h). */
#include "alloc/kinds/pinned.h"
#include "alloc/kinds/shared.h"

#include "alloc/arena/arena.h"
#include "alloc/block/page_map.h"
#include "runtime/base/bytes.h"
#include "runtime/base/meta.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"
#include "warmpool/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

/* ---- allocation ---------------------------------------------------------- */

static warm_status check_usage(warm_status status, warm_usage usage)
{
    if (status == WARM_OK && usage != WARM_USAGE_PRIVATE &&
        usage != WARM_USAGE_SHARED) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "usage %d is no value of enum warm_usage", (int)usage);
    }
    return status;
}

static warm_status check_alloc(warm_runtime *runtime, int device,
                               void *const *pointer)
{
    return wm_check_given(wm_runtime_check_device(runtime, device), pointer,
                          "pointer");
}

warm_status warm_shared_alloc(warm_runtime *runtime, int device, size_t bytes,
                              warm_usage usage, void **pointer)
{
    warm_status status =
        check_usage(check_alloc(runtime, device, pointer), usage);

    if (status != WARM_OK) {
        return status;
    }
    if (bytes == 0) {
        *pointer = NULL;
        return WARM_OK;
    }
    return wm_buffer_alloc(runtime->shared, device,
                           usage == WARM_USAGE_PRIVATE ? WM_SHARED_PRIVATE
                                                       : WM_SHARED_BOTH,
                           bytes, pointer);
}

warm_status warm_shared_alloc_scalar(warm_runtime *runtime, int device,
                                     const void *value, size_t bytes,
                                     void **pointer)
{
    warm_status status =
        wm_check_given(check_alloc(runtime, device, pointer), value, "value");
    void *got = NULL;

    if (status != WARM_OK) {
        return status;
    }
    if (bytes == 0 || bytes > WARM_SCALAR_MAX) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "a scalar of %s: it has 1 B to %s", wm_bytes(bytes).text,
                       wm_bytes(WARM_SCALAR_MAX).text);
    }
    status = wm_buffer_alloc(runtime->shared, device, WM_SHARED_SCALARS, bytes,
                             &got);
    if (status == WARM_OK) {
        memcpy(got, value, bytes);
        *pointer = got;
    }
    return status;
}

warm_status warm_shared_free_inactive(warm_runtime *runtime, int device,
                                      size_t *freed)
{
    warm_status status = wm_runtime_check_device(runtime, device);
    size_t bytes;

    if (status != WARM_OK) {
        return status;
    }
    bytes = wm_buffers_free_inactive(runtime->shared, device);
    if (freed != NULL) {
        *freed = bytes;
    }
    return WARM_OK;
}

warm_status warm_shared_trim(warm_runtime *runtime, int device, size_t target,
                             size_t *released)
{
    warm_status status = wm_runtime_check_device(runtime, device);
    size_t sum = 0, held = 0; /* of the device's spaces together */

    if (status != WARM_OK) {
        return status;
    }
    (void)wm_buffers_free_inactive(runtime->shared, device);
    wm_driver_notice_reset(runtime->driver, WM_DEVICE_UNKNOWN);
    for (int kind = 0; kind < WM_SHARED_KINDS; kind++) {
        held +=
            wm_growth_held(&runtime->shared->spaces[device][kind].space.growth);
    }
    for (int kind = 0; kind < WM_SHARED_KINDS; kind++) {
        wm_space *space = &runtime->shared->spaces[device][kind].space;
        size_t own = wm_growth_held(&space->growth), bytes = 0;
        size_t above = held > target ? held - target : 0;

        status = wm_space_trim(space, own > above ? own - above : 0, &bytes);
        if (status != WARM_OK) {
            return status;
        }
        held -= bytes < held ? bytes : held;
        sum += bytes;
    }
    wm_event_pool_trim(&runtime->pinned->events);
    if (released != NULL) {
        *released = sum;
    }
    return WARM_OK;
}

warm_status warm_shared_get_stats(warm_runtime *runtime, int device,
                                  warm_usage usage, warm_space_stats *stats)
{
    warm_space_stats sum = {.size = sizeof sum}, scalars = sum;
    warm_status status = wm_check_out(
        check_usage(wm_runtime_check_device(runtime, device), usage), stats,
        sizeof sum, "warm_space_stats");

    if (status != WARM_OK) {
        return status;
    }
    wm_shared_space *spaces = runtime->shared->spaces[device];
    if (usage == WARM_USAGE_PRIVATE) {
        wm_space_stats(&spaces[WM_SHARED_PRIVATE].space, &sum);
    } else {
        wm_space_stats(&spaces[WM_SHARED_BOTH].space, &sum);
        wm_space_stats(&spaces[WM_SHARED_SCALARS].space, &scalars);
        wm_stats_add(&sum, &scalars);
    }
    wm_sized_out(stats, &sum, sizeof sum);
    return WARM_OK;
}

warm_status warm_shared_get_histograms(warm_runtime *runtime, int device,
                                       warm_usage usage,
                                       warm_space_histograms *histograms)
{
    warm_space_histograms sum = {.size = sizeof sum};
    warm_status status = wm_check_out(
        check_usage(wm_runtime_check_device(runtime, device), usage),
        histograms, sizeof sum, "warm_space_histograms");

    if (status != WARM_OK) {
        return status;
    }
    for (int kind = 0; kind < WM_SHARED_KINDS; kind++) {
        if ((kind == WM_SHARED_PRIVATE) == (usage == WARM_USAGE_PRIVATE)) {
            wm_space_histograms(&runtime->shared->spaces[device][kind].space,
                                &sum);
        }
    }
    wm_sized_out(histograms, &sum, sizeof sum);
    return WARM_OK;
}

/* ---- one buffer ---------------------------------------------------------- */

/* runtime: whose buffer it should be; null: any. */
static warm_status not_a_buffer(const warm_runtime *runtime,
                                const void *pointer)
{
    const wm_block *block = wm_space_find(pointer);

    if (block == NULL) {
        return wm_space_not_found(pointer, "");
    }
    return wm_fail(WARM_NOT_FOUND,
                   runtime == NULL ||
                           wm_space_of(block)->group.runtime == runtime
                       ? "%p is part of a block that is no buffer of "
                         "warm_shared_alloc()"
                       : "%p is part of a block of another runtime",
                   pointer);
}

/* Finds the live buffer that holds pointer, and returns with lock shared. Null,
 * with *status and no lock: NOT_FOUND, or the runtime's. */
static wm_shared *lock_buffer(const void *pointer, wm_buffer **buffer,
                              warm_status *status)
{
    const wm_block *block = wm_space_find(pointer);
    warm_runtime *runtime;

    if (block == NULL) {
        *status = not_a_buffer(NULL, pointer);
        return NULL;
    }
    runtime = wm_space_of(block)->group.runtime;
    *status = wm_runtime_check(runtime);
    if (*status != WARM_OK) {
        return NULL;
    }
    wm_lock_acquire(&runtime->shared->lock);
    *buffer = wm_buffer_find_locked(runtime->shared, pointer);
    if (*buffer == NULL) {
        wm_lock_release(&runtime->shared->lock);
        *status = not_a_buffer(NULL, pointer);
        return NULL;
    }
    return runtime->shared;
}

warm_status warm_shared_retain(const void *pointer)
{
    wm_buffer *buffer;
    warm_status status;
    wm_shared *shared = lock_buffer(pointer, &buffer, &status);
    bool full;

    if (shared == NULL) {
        return status;
    }
    full = buffer->users == UINT_MAX;
    buffer->users += !full;
    wm_lock_release(&shared->lock);
    return full ? wm_fail(WARM_INVALID_ARGUMENT,
                          "the buffer at %p has %u users, and no more are "
                          "counted",
                          pointer, UINT_MAX)
                : WARM_OK;
}

warm_status warm_shared_release(const void *pointer)
{
    wm_block *block = wm_block_at(pointer);
    warm_runtime *runtime;
    warm_status status;

    /* A slot that was never used has no segment. */
    if (block == NULL || block->segment == NULL) {
        return not_a_buffer(NULL, pointer);
    }
    runtime = wm_space_of(block)->group.runtime;
    status = wm_runtime_check(runtime);
    if (status != WARM_OK) {
        return status;
    }
    switch (wm_buffer_release(runtime->shared, block, pointer)) {
    case WM_RELEASE_DONE:
        return WARM_OK;
    case WM_RELEASE_NO_USER:
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "the buffer at %p has no user: it was not retained, or "
                       "was released as often",
                       pointer);
    case WM_RELEASE_NO_BUFFER:
        break;
    }
    return not_a_buffer(NULL, pointer);
}

warm_status warm_shared_get_info(const void *pointer, warm_shared_info *info)
{
    warm_shared_info all = {.size = sizeof all};
    warm_status status = wm_sized_check(info, sizeof all, "warm_shared_info");
    wm_buffer *buffer;
    wm_shared *shared =
        status == WARM_OK ? lock_buffer(pointer, &buffer, &status) : NULL;

    if (shared == NULL) {
        return status;
    }
    wm_buffer_describe_locked(buffer, &all);
    wm_lock_release(&shared->lock);
    status = wm_driver_check_lost(shared->runtime->driver,
                                  all.shared && !all.managed ? WM_DEVICE_HOST
                                                             : all.device);
    if (status == WARM_OK && all.shared && !all.managed) {
        status = wm_driver_device_address(shared->runtime->driver, all.device,
                                          all.host, &all.address);
    }
    if (status == WARM_OK) {
        wm_sized_out(info, &all, sizeof all);
    }
    return status;
}

/* ---- shapes -------------------------------------------------------------- */

static warm_status check_shape(const int64_t *extents, size_t dimensions)
{
    if (extents == NULL && dimensions > 0) {
        return wm_fail(WARM_INVALID_ARGUMENT, "extents is null");
    }
    for (size_t i = 0; i < dimensions; i++) {
        if (extents[i] < 0) {
            return wm_fail(WARM_INVALID_ARGUMENT,
                           "extent %" PRIu64 " is %" PRId64, (uint64_t)i,
                           extents[i]);
        }
    }
    return WARM_OK;
}

/* A copy; for 0 dimensions too it is not null. Null: no memory. */
static int64_t *copy_shape(const int64_t *extents, size_t dimensions)
{
    int64_t *shape = NULL;

    if (dimensions <= SIZE_MAX / sizeof *shape - 1) {
        shape = wm_meta_alloc((dimensions + 1) * sizeof *shape);
    }
    if (shape != NULL && dimensions > 0) {
        memcpy(shape, extents, dimensions * sizeof *shape);
    }
    return shape;
}

warm_status warm_shared_set_shape(const void *pointer, const int64_t *extents,
                                  size_t dimensions)
{
    warm_status status = check_shape(extents, dimensions);
    int64_t *shape, *before;
    wm_shared *shared;
    wm_buffer *buffer;

    if (status != WARM_OK) {
        return status;
    }
    shape = copy_shape(extents, dimensions);
    if (shape == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a shape of %s",
                       wm_counted(dimensions, "dimension").text);
    }
    shared = lock_buffer(pointer, &buffer, &status);
    if (shared == NULL) {
        wm_meta_free(shape);
        return status;
    }
    before = buffer->shape;
    buffer->shape = shape;
    buffer->dimensions = dimensions;
    wm_lock_release(&shared->lock);
    wm_meta_free(before);
    return WARM_OK;
}

static warm_status check_shape_out(const int64_t *extents, size_t room,
                                   const size_t *dimensions)
{
    return dimensions != NULL && (extents != NULL || room == 0)
               ? WARM_OK
               : wm_fail(WARM_INVALID_ARGUMENT, "%s is null",
                         dimensions == NULL ? "dimensions" : "extents");
}

warm_status warm_shared_get_shape(const void *pointer, int64_t *extents,
                                  size_t room, size_t *dimensions)
{
    warm_status status = check_shape_out(extents, room, dimensions);
    wm_buffer *buffer;
    wm_shared *shared =
        status == WARM_OK ? lock_buffer(pointer, &buffer, &status) : NULL;
    bool has_shape;

    if (shared == NULL) {
        return status;
    }
    has_shape = buffer->shape != NULL;
    if (has_shape) {
        *dimensions = buffer->dimensions;
        room = room < buffer->dimensions ? room : buffer->dimensions;
        if (room > 0) {
            memcpy(extents, buffer->shape, room * sizeof *extents);
        }
    }
    wm_lock_release(&shared->lock);
    return has_shape ? WARM_OK
                     : wm_fail(WARM_NOT_FOUND,
                               "the buffer at %p was given no shape", pointer);
}

/* ---- a list of buffers --------------------------------------------------- */

static warm_status check_list(warm_runtime *runtime, void *const *pointers,
                              size_t count)
{
    warm_status status = wm_runtime_check(runtime);

    return count > 0 ? wm_check_given(status, pointers, "pointers") : status;
}

/* Counts the shared buffers of the list. */
static warm_status count_shared(wm_shared *shared, void *const *pointers,
                                size_t count, size_t *found)
{
    const wm_buffer *buffer = NULL;
    size_t i = 0;

    *found = 0;
    wm_lock_acquire(&shared->lock);
    for (; i < count; i++) {
        buffer = wm_buffer_find_locked(shared, pointers[i]);
        if (buffer == NULL) {
            break;
        }
        *found += !wm_buffer_is_private(buffer);
    }
    wm_lock_release(&shared->lock);
    return i == count ? WARM_OK : not_a_buffer(shared->runtime, pointers[i]);
}

static bool is_shared(wm_shared *shared, const void *pointer)
{
    const wm_buffer *buffer;
    bool is;

    wm_lock_acquire(&shared->lock);
    buffer = wm_buffer_find_locked(shared, pointer);
    is = buffer != NULL && !wm_buffer_is_private(buffer);
    wm_lock_release(&shared->lock);
    return is;
}

/* The event first: if the stream captures, no buffer shall belong to the graph.
 */
static warm_status record(wm_shared *shared, void *const *pointers,
                          size_t count, warm_stream stream)
{
    wm_mark *mark = NULL;
    warm_status status = wm_mark_begin(shared, stream, &mark);

    if (status != WARM_OK) {
        return status;
    }
    for (size_t i = 0; i < count && status == WARM_OK; i++) {
        if (is_shared(shared, pointers[i])) {
            status = warm_record_stream(pointers[i], stream);
        }
    }
    if (status != WARM_OK) {
        (void)wm_mark_put(shared, NULL, 0, mark);
        return status;
    }
    return wm_mark_put(shared, pointers, count, mark);
}

warm_status warm_shared_record(warm_runtime *runtime, void *const *pointers,
                               size_t count, warm_stream stream,
                               size_t *recorded)
{
    warm_status status = check_list(runtime, pointers, count);
    size_t found;

    if (status != WARM_OK ||
        (status = count_shared(runtime->shared, pointers, count, &found)) !=
            WARM_OK) {
        return status;
    }
    if (found > 0) {
        status = record(runtime->shared, pointers, count, stream);
    }
    if (status == WARM_OK && recorded != NULL) {
        *recorded = found;
    }
    return status;
}

warm_status warm_shared_wait(warm_runtime *runtime, void *const *pointers,
                             size_t count, size_t *waited)
{
    warm_status status = check_list(runtime, pointers, count);
    size_t found, buffers = 0;

    if (status == WARM_OK) {
        status = count_shared(runtime->shared, pointers, count, &found);
    }
    for (size_t i = 0; i < count && status == WARM_OK; i++) {
        bool any = false;

        status = wm_buffer_await(runtime->shared, pointers[i], &any);
        buffers += any;
    }
    if (status == WARM_OK && waited != NULL) {
        *waited = buffers;
    }
    return status;
}
