/* copy.c: copies that record their stream on both blocks (row B16). */
#include "alloc/api/copy.h"
#include "alloc/space/space.h"
#include "alloc/arena/arena.h"

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"
#include "warmpool/memory.h"

/* *block: the block that contains the range; null: the memory is not ours. */
static warm_status find_range(const void *pointer, size_t bytes,
                              const char *what, wm_block **found)
{
    wm_block *block = wm_space_find(pointer);
    size_t offset;

    *found = block;
    if (block == NULL) {
        return WARM_OK;
    }
    offset = (size_t)((const char *)pointer - block->base);
    if (bytes > block->bytes - offset) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "a copy of %s goes beyond its %s: the block that %p is "
                       "in ends %s before it",
                       wm_bytes(bytes).text, what, pointer,
                       wm_bytes(bytes - (block->bytes - offset)).text);
    }
    return WARM_OK;
}

static warm_status use(wm_block *block, warm_stream stream)
{
    warm_status status =
        block != NULL ? wm_space_record(wm_space_of(block), block, stream)
                      : WARM_OK;

    if (block != NULL && status == WARM_OK &&
        wm_unlikely(wm_space_of(block)->group.runtime->traced)) {
        wm_traced_use(wm_space_of(block)->group.runtime, block, stream,
                      WM_TRACE_COPY);
    }
    return status;
}

/* Both ranges are checked before a stream is recorded on either block. */
static warm_status use_ranges(const void *destination, const void *source,
                              size_t bytes, warm_stream stream)
{
    wm_block *from = NULL;
    wm_block *to = NULL;
    warm_status status = find_range(source, bytes, "source", &from);

    if (status == WARM_OK) {
        status = find_range(destination, bytes, "destination", &to);
    }
    if (status == WARM_OK) {
        status = use(from, stream);
    }
    return status == WARM_OK ? use(to, stream) : status;
}

static warm_status check_copy(const void *destination, const void *source,
                              warm_copy_direction direction)
{
    if (destination == NULL || source == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "copy: %s is null",
                       destination == NULL ? "destination" : "source");
    }
    if (direction != WARM_COPY_TO_DEVICE && direction != WARM_COPY_TO_HOST) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "copy: direction %d is neither WARM_COPY_TO_DEVICE "
                       "nor WARM_COPY_TO_HOST",
                       (int)direction);
    }
    return WARM_OK;
}

static warm_status queue(warm_runtime *runtime, void *destination,
                         const void *source, size_t bytes,
                         warm_copy_direction direction, warm_stream stream)
{
    warm_status status = use_ranges(destination, source, bytes, stream);

    return status == WARM_OK ? wm_driver_copy(runtime->driver, destination,
                                              source, bytes, direction, stream)
                             : status;
}

warm_status wm_copy_any(warm_runtime *runtime, void *destination,
                        const void *source, size_t bytes, warm_stream stream)
{
    warm_status status = wm_runtime_check(runtime);

    return status == WARM_OK
               ? queue(runtime, destination, source, bytes, WM_COPY_ANY, stream)
               : status;
}

warm_status warm_copy_async(warm_runtime *runtime, void *destination,
                            const void *source, size_t bytes,
                            warm_copy_direction direction, warm_stream stream)
{
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK || bytes == 0) {
        return status;
    }
    status = check_copy(destination, source, direction);
    return status == WARM_OK
               ? queue(runtime, destination, source, bytes, direction, stream)
               : status;
}
