/* copy.c: copies that record their stream on the blocks (row B16). CUDA refuses
 * a copy whose range of host memory was page-locked by several calls: each
 * range is cut where that may be so, and the copy is split at the cuts (row
 * B19). */
#include "alloc/api/copy.h"

#include "alloc/arena/arena.h"
#include "alloc/block/page_map.h"
#include "alloc/kinds/adopt.h"
#include "alloc/space/space.h"
#include "runtime/base/bytes.h"

/* ---- ranges ------------------------------------------------------------- */

/* What is left of a range of one side. */
typedef struct range {
    const char *at;
    size_t bytes;
    wm_block *block; /* that holds the first byte; null: none does */
    size_t part;     /* bytes up to the next cut, or all */
} range;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void look(range *r)
{
    r->block = wm_space_find(r->at);
    if (r->block == NULL) {
        r->part = wm_page_map_reach(r->at, r->bytes);
        return;
    }
    const wm_block *block = r->block;
    size_t from = (size_t)(r->at - block->base);

    r->part = smaller(r->bytes, block->bytes - from);
    if (wm_unlikely(wm_block_is_cut(block))) {
        r->part = smaller(r->part, wm_block_to_cut(block, r->at));
    }
    r->part = smaller(r->part, wm_adopt_to_cut(block, r->at));
}

static void advance(range *r, size_t bytes)
{
    r->at += bytes;
    r->bytes -= bytes;
    r->part -= bytes;
    if (r->part == 0 && r->bytes > 0) {
        look(r);
    }
}

/* A range that begins in a block must end there. One that begins outside may
 * run into blocks. */
static warm_status begin(range *r, const void *pointer, size_t bytes,
                         const char *what)
{
    size_t left = SIZE_MAX;

    *r = (range){.at = pointer, .bytes = bytes};
    look(r);
    if (r->block != NULL) {
        left = wm_block_usable_from(r->block, r->at);
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

static warm_status record_block(wm_block *block, warm_stream stream)
{
    wm_space *space = wm_space_of(block);
    warm_status status = wm_space_record(space, block, stream);

    if (status == WARM_OK && wm_runtime_is_traced(space->group.runtime)) {
        wm_traced_use(space->group.runtime, block, stream, WM_TRACE_COPY);
    }
    return status;
}

/* Records the stream on each block of the range. */
static warm_status record(range r, warm_stream stream)
{
    warm_status status = WARM_OK;

    if (r.block != NULL) {
        return record_block(r.block, stream);
    }
    while (r.part < r.bytes && status == WARM_OK) {
        const wm_block *last = r.block;

        advance(&r, r.part);
        if (r.block != NULL && r.block != last) {
            status = record_block(r.block, stream);
        }
    }
    return status;
}

/* Nothing is copied to what was adopted for reading alone. */
static warm_status check_writable(range r)
{
    const char *at = r.at;

    for (;;) {
        if (r.block != NULL && r.block->segment->arena->read_only) {
            return wm_fail(WARM_INVALID_ARGUMENT,
                           "a copy to %p: the memory was adopted with "
                           "WARM_ADOPT_READ_ONLY",
                           (const void *)at);
        }
        if (r.part == r.bytes) {
            return WARM_OK;
        }
        advance(&r, r.part);
    }
}

/* Checks both ranges before it records the stream on any block. */
static warm_status begin_both(range *to, range *from, const void *destination,
                              size_t to_bytes, const void *source,
                              size_t from_bytes, warm_stream stream,
                              enum slice slice)
{
    warm_status status = begin(from, source, from_bytes, "source");

    if (status != WARM_OK ||
        (status = begin(to, destination, to_bytes, "destination")) != WARM_OK ||
        (status = check_writable(*to)) != WARM_OK) {
        return status;
    }
    if (slice != SOURCE_SLICE) {
        status = record(*from, stream);
    }
    return status == WARM_OK && slice != DESTINATION_SLICE ? record(*to, stream)
                                                           : status;
}

/* ---- copies ------------------------------------------------------------- */

/* Copies bytes, and moves both ranges on. */
static warm_status copy(warm_runtime *runtime, range *to, range *from,
                        size_t bytes, warm_copy_direction direction,
                        warm_stream stream)
{
    warm_status status = WARM_OK;

    while (bytes > 0 && status == WARM_OK) {
        size_t part = smaller(bytes, smaller(to->part, from->part));

        status = wm_driver_copy(runtime->driver, (void *)(uintptr_t)to->at,
                                from->at, part, direction, stream);
        bytes -= part;
        advance(to, part);
        advance(from, part);
    }
    return status;
}

static warm_status queue(warm_runtime *runtime, void *destination,
                         const void *source, size_t bytes,
                         warm_copy_direction direction, warm_stream stream,
                         enum slice slice)
{
    range to, from;
    warm_status status = begin_both(&to, &from, destination, bytes, source,
                                    bytes, stream, slice);

    return status == WARM_OK
               ? copy(runtime, &to, &from, bytes, direction, stream)
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

    if (status != WARM_OK ||
        (status = check_blocked(runtime, stream)) != WARM_OK) {
        return status;
    }
    return queue(runtime, destination, source, bytes, WM_COPY_ANY, stream,
                 NO_SLICE);
}

static warm_status check_pointers(const void *destination, const void *source)
{
    if (destination != NULL && source != NULL) {
        return WARM_OK;
    }
    return wm_fail(WARM_INVALID_ARGUMENT, "copy: %s is null",
                   destination == NULL ? "destination" : "source");
}

warm_status warm_copy_async(warm_runtime *runtime, void *destination,
                            const void *source, size_t bytes,
                            warm_copy_direction direction, warm_stream stream)
{
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK || bytes == 0) {
        return status;
    }
    status = check_pointers(destination, source);
    if (status != WARM_OK) {
        return status;
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
    range r;

    return begin(&r, pointer, bytes, what);
}

warm_status wm_copy_staged(warm_runtime *runtime, void *destination,
                           const void *source, size_t bytes,
                           warm_copy_direction direction, warm_stream stream)
{
    return queue(runtime, destination, source, bytes, direction, stream,
                 direction == WARM_COPY_TO_DEVICE ? SOURCE_SLICE
                                                  : DESTINATION_SLICE);
}

warm_status wm_copy_unrecorded(warm_runtime *runtime, void *destination,
                               const void *source, size_t bytes,
                               warm_copy_direction direction,
                               warm_stream stream)
{
    range to = {.at = destination, .bytes = bytes, .part = bytes};
    range from = {.at = source, .bytes = bytes, .part = bytes};

    look(direction == WARM_COPY_TO_HOST ? &to : &from);
    return copy(runtime, &to, &from, bytes, direction, stream);
}

/* ---- rows --------------------------------------------------------------- */

/* Rows, from the start of a range on, that lie before the next cut. */
static size_t rows_in(const range *r, size_t width, size_t pitch)
{
    return r->part < width ? 0 : (r->part - width) / pitch + 1;
}

/* Moves a range by whole rows, of which the last may have no rest of its pitch
 * in the range. */
static void skip(range *r, size_t bytes)
{
    while (bytes > 0 && r->bytes > 0) {
        size_t part = smaller(smaller(bytes, r->bytes), r->part);

        bytes -= part;
        advance(r, part);
    }
}

/* Copies as many rows as lie before the next cut of either side by one call; a
 * row that is cut itself in parts. */
static warm_status queue_rows(warm_runtime *runtime, wm_copy_2d rows, range *to,
                              range *from, warm_stream stream)
{
    size_t left = rows.height;
    warm_status status = WARM_OK;

    while (left > 0 && status == WARM_OK) {
        size_t some = smaller(rows_in(to, rows.width, rows.destination_pitch),
                              rows_in(from, rows.width, rows.source_pitch));

        if (some == 0) {
            status = copy(runtime, to, from, rows.width, WM_COPY_ANY, stream);
            skip(to, rows.destination_pitch - rows.width);
            skip(from, rows.source_pitch - rows.width);
            left--;
            continue;
        }
        rows.height = smaller(some, left);
        rows.destination = (void *)(uintptr_t)to->at;
        rows.source = from->at;
        status = wm_driver_copy_2d(runtime->driver, &rows, stream);
        skip(to, rows.height * rows.destination_pitch);
        skip(from, rows.height * rows.source_pitch);
        left -= rows.height;
    }
    return status;
}

/* The extent in bytes must not overflow either. */
static warm_status check_pitch(const char *what, size_t pitch, size_t width,
                               size_t height)
{
    if (pitch >= width && height <= (SIZE_MAX - width) / pitch) {
        return WARM_OK;
    }
    return wm_fail(WARM_INVALID_ARGUMENT, "copy: the pitch of the %s, %s, %s",
                   what, wm_bytes(pitch).text,
                   pitch < width ? "is smaller than a row"
                                 : "and the height are beyond any memory");
}

warm_status warm_copy_2d_async(warm_runtime *runtime, void *destination,
                               size_t destination_pitch, const void *source,
                               size_t source_pitch, size_t width, size_t height,
                               warm_stream stream)
{
    const wm_copy_2d rows = {.destination = destination,
                             .destination_pitch = destination_pitch,
                             .source = source,
                             .source_pitch = source_pitch,
                             .width = width,
                             .height = height};
    warm_status status = wm_runtime_check(runtime);
    range to, from;

    if (status != WARM_OK || width == 0 || height == 0) {
        return status;
    }
    if ((status = check_pointers(destination, source)) != WARM_OK ||
        (status = check_pitch("destination", destination_pitch, width,
                              height)) != WARM_OK ||
        (status = check_pitch("source", source_pitch, width, height)) !=
            WARM_OK) {
        return status;
    }
    status = begin_both(
        &to, &from, destination, wm_copy_2d_extent(&rows, destination_pitch),
        source, wm_copy_2d_extent(&rows, source_pitch), stream, NO_SLICE);
    return status == WARM_OK ? queue_rows(runtime, rows, &to, &from, stream)
                             : status;
}
