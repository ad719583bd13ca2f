/* copy.c: copies that record their stream on both blocks (row B16). */
#include "alloc/api/copy.h"

#include "alloc/arena/arena.h"
#include "alloc/kinds/adopt.h"
#include "alloc/space/space.h"
#include "runtime/base/bytes.h"

/* *block: the block that the range lies in; null: it is not our memory. */
static warm_status find_range(const void *pointer, size_t bytes,
                              const char *what, wm_block **block)
{
    size_t left = SIZE_MAX;

    *block = wm_space_find(pointer);
    if (*block != NULL) {
        left =
            (size_t)((*block)->base + (*block)->bytes - (const char *)pointer);
    }
    if (bytes <= left) {
        return WARM_OK;
    }
    return wm_fail(
        WARM_INVALID_ARGUMENT,
        "a copy of %s passes the end of its %s: the block that holds "
        "%p ends %s before it",
        wm_bytes(bytes).text, what, pointer, wm_bytes(bytes - left).text);
}

/* Of a staging ring's slice no use is recorded: its ring knows when its copies
 * have passed. */
enum slice { NO_SLICE = -1, SOURCE_SLICE, DESTINATION_SLICE };

/* CUDA may refuse a copy that lies in two registrations. block: of source and
 * destination. */
static warm_status copy_pieces(warm_runtime *runtime, wm_block *const block[2],
                               char *destination, const char *source,
                               size_t bytes, warm_copy_direction direction,
                               warm_stream stream)
{
    warm_status status = WARM_OK;

    for (size_t done = 0; done < bytes && status == WARM_OK;) {
        size_t from = wm_adopt_to_cut(block[0], source + done);
        size_t to = wm_adopt_to_cut(block[1], destination + done);
        size_t part = from < to ? from : to;

        part = part < bytes - done ? part : bytes - done;
        status = wm_driver_copy(runtime->driver, destination + done,
                                source + done, part, direction, stream);
        done += part;
    }
    return status;
}

/* Checks both ranges before it records the stream on either block. */
static warm_status queue(warm_runtime *runtime, void *destination,
                         const void *source, size_t bytes,
                         warm_copy_direction direction, warm_stream stream,
                         enum slice slice)
{
    wm_block *block[2];
    warm_status status = find_range(source, bytes, "source", &block[0]);

    if (status == WARM_OK) {
        status = find_range(destination, bytes, "destination", &block[1]);
    }
    if (status == WARM_OK && block[1] != NULL &&
        block[1]->segment->arena->read_only) {
        status = wm_fail(WARM_INVALID_ARGUMENT,
                         "a copy to %p: the memory was adopted with "
                         "WARM_ADOPT_READ_ONLY",
                         destination);
    }
    for (int i = 0; i < 2 && status == WARM_OK; i++) {
        if (block[i] == NULL || i == (int)slice) {
            continue;
        }
        wm_space *space = wm_space_of(block[i]);
        status = wm_space_record(space, block[i], stream);
        if (status == WARM_OK && wm_unlikely(space->group.runtime->traced)) {
            wm_traced_use(space->group.runtime, block[i], stream,
                          WM_TRACE_COPY);
        }
    }
    return status == WARM_OK ? copy_pieces(runtime, block, destination, source,
                                           bytes, direction, stream)
                             : status;
}

/* CUDA refuses work on a default stream that a capture blocks, and invalidates
 * that capture. */
static warm_status check_blocked(warm_runtime *runtime, warm_stream stream)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status = WARM_OK;

    if (wm_stream_is_default(stream)) {
        status = wm_driver_stream_capture(runtime->driver, stream, &capture);
    }
    if (capture == WM_CAPTURE_BLOCKED) {
        status = wm_fail(WARM_CAPTURE_ERROR,
                         "nothing can be queued on a default stream while a "
                         "stream beside it captures; use another stream, or "
                         "end the capture first");
    }
    return status;
}

warm_status wm_copy_any(warm_runtime *runtime, void *destination,
                        const void *source, size_t bytes, warm_stream stream)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        status = check_blocked(runtime, stream);
    }
    return status == WARM_OK ? queue(runtime, destination, source, bytes,
                                     WM_COPY_ANY, stream, NO_SLICE)
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
    return queue(runtime, destination, source, bytes, direction, stream,
                 NO_SLICE);
}

warm_status wm_copy_check(const void *pointer, size_t bytes, const char *what)
{
    wm_block *block;

    return find_range(pointer, bytes, what, &block);
}

warm_status wm_copy_staged(warm_runtime *runtime, void *destination,
                           const void *source, size_t bytes,
                           warm_copy_direction direction, warm_stream stream)
{
    return queue(runtime, destination, source, bytes, direction, stream,
                 direction == WARM_COPY_TO_DEVICE ? SOURCE_SLICE
                                                  : DESTINATION_SLICE);
}
