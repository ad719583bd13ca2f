/* staging.c: the public functions of staging rings (warmpool/staging.h): what
 * is gathered, what is split, and the ring's life. Takes no lock: one thread at
 * a time is inside a ring. */
#include "alloc/api/staging_ring.h"

#include "alloc/api/copy.h"
#include "alloc/kinds/pinned.h"
#include "runtime/base/bytes.h"
#include "runtime/base/meta.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"

#include <string.h>

enum {
    LEAST_SLICE = 4 << 10,
    MOST_SLICE = 1 << 30,
    USUAL_SLICE = 4 << 20,
    MOST_SLICES = 256,
    USUAL_SLICES = 4,
    USUAL_WAIT_MS = 10000,
    ALIGN = 64, /* where a run begins in a slice */
    UNSPLIT = 8 /* copies of up to 1 / UNSPLIT of a slice are not split */
};

static warm_status enter(warm_staging *s)
{
    warm_status status;

    if (s == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "staging is null");
    }
    status = wm_runtime_check(s->runtime);
    if (status == WARM_OK &&
        atomic_exchange_explicit(&s->busy, true, memory_order_acquire)) {
        status = wm_fail(WARM_INVALID_ARGUMENT,
                         "another thread is inside a call with staging ring "
                         "%p: one thread at a time may use it",
                         (void *)s);
    }
    return status;
}

static void leave(warm_staging *s)
{
    atomic_store_explicit(&s->figures.gathered_bytes, s->run.bytes,
                          memory_order_relaxed);
    atomic_store_explicit(&s->figures.busy_slices,
                          s->closed + s->slice[s->open].queued,
                          memory_order_relaxed);
    atomic_store_explicit(&s->busy, false, memory_order_release);
}

/* ---- create ---------------------------------------------------------------
 */

/* Fills in the defaults. */
static warm_status check_options(const warm_runtime *runtime,
                                 warm_staging_options *o)
{
    size_t most = runtime->pinned->space.chunk_bytes;

    most = most < MOST_SLICE ? most : MOST_SLICE;
    if (o->slice_bytes == 0) {
        o->slice_bytes = most < USUAL_SLICE ? most : USUAL_SLICE;
    }
    o->slices = o->slices == 0 ? USUAL_SLICES : o->slices;
    o->wait_ms = o->wait_ms == 0 ? USUAL_WAIT_MS : o->wait_ms;
    if (o->slice_bytes < LEAST_SLICE || o->slice_bytes > most) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "warm_staging_options.slice_bytes is %s: a slice has "
                       "%s to %s (option pin_chunk, and at most 1 GiB)",
                       wm_bytes(o->slice_bytes).text,
                       wm_bytes(LEAST_SLICE).text, wm_bytes(most).text);
    }
    if (o->slices < 2 || o->slices > MOST_SLICES) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "warm_staging_options.slices is %u: a ring has 2 to %d "
                       "slices",
                       o->slices, MOST_SLICES);
    }
    o->slice_bytes &= ~(size_t)(ALIGN - 1);
    return WARM_OK;
}

/* A block for a slice, next to the device if that node has room. */
static warm_status alloc_base(warm_staging *s, wm_slice *slice)
{
    int node = wm_driver_device_node(s->runtime->driver, s->device);
    void *base = NULL;
    warm_status status =
        wm_pinned_alloc_apart(s->runtime, s->slice_bytes, node, &base);

    if (status == WARM_OK) {
        slice->base = base;
    }
    return status;
}

/* Whether a copy may still use a slice. */
static bool is_in_use(const warm_staging *s, const wm_slice *slice)
{
    return slice->queued && (!slice->marked || slice->stuck ||
                             wm_driver_event_passed(s->runtime->driver,
                                                    slice->event) != WARM_OK);
}

/* Frees what there is of the slices, and the ring. keeps: not the memory of
 * slices that are in use. */
static void end_ring(warm_staging *s, bool keeps)
{
    for (unsigned i = 0; i < s->slices; i++) {
        wm_slice *slice = &s->slice[i];

        if (!keeps || !is_in_use(s, slice)) {
            (void)warm_free(slice->base);
        }
        if (slice->event != NULL) {
            wm_event_pool_put(&s->runtime->pinned->events, s->device,
                              slice->event);
        }
    }
    wm_meta_free(s->parts);
    wm_meta_free(s);
}

static warm_status make_slices(warm_staging *s)
{
    warm_status status = WARM_OK;

    for (unsigned i = 0; i < s->slices && status == WARM_OK; i++) {
        wm_slice *slice = &s->slice[i];

        slice->part = &s->parts[(size_t)i * WM_STAGED_PARTS];
        if ((status = alloc_base(s, slice)) == WARM_OK) {
            status = wm_event_pool_take(&s->runtime->pinned->events, s->device,
                                        &slice->event);
        }
    }
    return status;
}

static warm_status create(warm_runtime *runtime, int device,
                          const warm_staging_options *o, warm_staging **staging)
{
    warm_staging *s = wm_meta_alloc(sizeof *s + o->slices * sizeof s->slice[0]);
    warm_status status;

    if (s == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a staging ring");
    }
    s->runtime = runtime;
    s->device = device;
    s->slices = o->slices;
    s->wait_ms = o->wait_ms;
    s->slice_bytes = o->slice_bytes;
    s->parts =
        wm_meta_alloc((size_t)o->slices * WM_STAGED_PARTS * sizeof s->parts[0]);
    if (s->parts != NULL) {
        status = make_slices(s);
    } else {
        status = wm_fail(WARM_OUT_OF_MEMORY, "no memory for a staging ring");
    }
    if (status != WARM_OK) {
        WM_KEEP_ERROR();
        end_ring(s, false);
        return status;
    }
    *staging = s;
    return WARM_OK;
}

warm_status warm_staging_create(warm_runtime *runtime, int device,
                                const warm_staging_options *options,
                                warm_staging **staging)
{
    warm_staging_options all = {.size = sizeof all};
    warm_status status = wm_runtime_check_device(runtime, device);

    if (options != NULL) {
        status =
            wm_check_out(status, options, sizeof all, "warm_staging_options");
    }
    status = wm_check_given(status, staging, "staging");
    if (status != WARM_OK) {
        return status;
    }
    if (options != NULL) {
        wm_sized_in(&all, options, sizeof all);
    }
    status = check_options(runtime, &all);
    return status != WARM_OK ? status : create(runtime, device, &all, staging);
}

/* ---- copy -----------------------------------------------------------------
 */

/* What is left of a copy. */
struct rest {
    char *device, *host;
    size_t bytes;
    warm_copy_direction direction;
    bool more; /* WARM_STAGING_MORE */
};

/* What gather() changes, to undo it. */
struct before {
    wm_staged_run run;
    size_t used, last_bytes;
    unsigned count;
};

static wm_slice *open_of(warm_staging *s)
{
    return &s->slice[s->open];
}

static void save(warm_staging *s, struct before *before)
{
    const wm_slice *slice = open_of(s);

    before->run = s->run;
    before->used = s->used;
    before->count = slice->count;
    before->last_bytes =
        slice->count > 0 ? slice->part[slice->count - 1].bytes : 0;
}

static void undo(warm_staging *s, const struct before *before)
{
    wm_slice *slice = open_of(s);

    s->run = before->run;
    s->used = before->used;
    slice->count = before->count;
    if (slice->count > 0) {
        slice->part[slice->count - 1].bytes = before->last_bytes;
    }
}

/* The part may end where the one before it does, on both sides. */
static void add_part(wm_slice *slice, char *to, const char *from, size_t bytes)
{
    wm_staged_part *last =
        slice->count > 0 ? &slice->part[slice->count - 1] : NULL;

    if (last != NULL && last->to + last->bytes == to &&
        last->from + last->bytes == from) {
        last->bytes += bytes;
    } else {
        slice->part[slice->count++] = (wm_staged_part){to, from, bytes};
    }
}

/* Adds the next bytes of a copy to the run. */
static void gather(warm_staging *s, const struct rest *rest, size_t bytes)
{
    char *at = open_of(s)->base + s->used;

    if (s->run.bytes == 0) {
        s->run = (wm_staged_run){
            .device = rest->device, .slice = at, .direction = rest->direction};
    }
    if (rest->direction == WARM_COPY_TO_DEVICE) {
        memcpy(at, rest->host, bytes);
    } else {
        add_part(open_of(s), rest->host, at, bytes);
    }
    s->run.bytes += bytes;
    s->used += bytes;
}

static bool continues_run(const warm_staging *s, const struct rest *rest)
{
    return s->run.bytes > 0 && s->run.direction == rest->direction &&
           s->run.device + s->run.bytes == rest->device;
}

/* The open slice has room for the next bytes of a copy, in a run of their own
 * or the one that they continue; *room: for how many. */
static warm_status make_room(warm_staging *s, const struct rest *rest,
                             wm_staging_wait *wait, size_t *room)
{
    warm_status status = WARM_OK;

    if (!continues_run(s, rest)) {
        if ((status = wm_staging_queue(s)) == WARM_OK) {
            s->used = (s->used + ALIGN - 1) & ~(size_t)(ALIGN - 1);
        }
    }
    *room = open_of(s)->count < WM_STAGED_PARTS ? s->slice_bytes - s->used : 0;
    if (status == WARM_OK && *room < rest->bytes &&
        (*room == 0 || rest->bytes <= s->slice_bytes / UNSPLIT)) {
        if ((status = wm_staging_queue(s)) == WARM_OK) {
            status = wm_staging_turn(s, wait);
        }
        *room = s->slice_bytes;
    }
    return status;
}

/* The next bytes of a copy, as many as go into one slice. */
static warm_status copy_some(warm_staging *s, struct rest *rest,
                             wm_staging_wait *wait)
{
    struct before before;
    size_t bytes = 0;
    warm_status status = make_room(s, rest, wait, &bytes);

    if (status != WARM_OK) {
        return status;
    }
    bytes = bytes < rest->bytes ? bytes : rest->bytes;
    save(s, &before);
    gather(s, rest, bytes);
    if (s->used == s->slice_bytes || (bytes == rest->bytes && !rest->more)) {
        status = wm_staging_queue(s);
    }
    if (status != WARM_OK) {
        undo(s, &before);
        return status;
    }
    rest->device += bytes;
    rest->host += bytes;
    rest->bytes -= bytes;
    return WARM_OK;
}

static warm_status check_copy(const warm_staging *s, void *destination,
                              const void *source, size_t bytes,
                              warm_copy_direction direction, unsigned flags)
{
    bool to_device = direction == WARM_COPY_TO_DEVICE;
    warm_status status;

    if ((flags & ~(WARM_STAGING_MORE | WARM_STAGING_TRY)) != 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "staging copy: unknown flags %#x: the flags are "
                       "WARM_STAGING_MORE and WARM_STAGING_TRY",
                       flags);
    }
    if (!to_device && direction != WARM_COPY_TO_HOST) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "staging copy: direction %d is neither "
                       "WARM_COPY_TO_DEVICE nor WARM_COPY_TO_HOST",
                       (int)direction);
    }
    if (bytes > 0 && (destination == NULL || source == NULL)) {
        return wm_fail(WARM_INVALID_ARGUMENT, "staging copy: %s is null",
                       destination == NULL ? "destination" : "source");
    }
    if (bytes == 0) {
        return WARM_OK;
    }
    /* Now, since what is gathered is refused only when it is queued. */
    status = wm_driver_check_lost(s->runtime->driver, s->device);
    if (status != WARM_OK ||
        (status = wm_copy_check(source, bytes, "source")) != WARM_OK) {
        return status;
    }
    return wm_copy_check(destination, bytes, "destination");
}

static warm_status copy(warm_staging *s, struct rest *rest, warm_stream stream,
                        wm_staging_wait *wait)
{
    size_t bytes = rest->bytes;
    warm_status status = wm_staging_use_stream(s, stream, wait);

    if (status != WARM_OK) {
        return status;
    }
    if (wm_stream_is_default(stream)) {
        rest->more = false;
    }
    while (rest->bytes > 0 && status == WARM_OK) {
        status = copy_some(s, rest, wait);
    }
    if (wm_stream_is_default(stream)) {
        warm_status marked = wm_staging_mark_default(s);

        status = status == WARM_OK ? marked : status;
    }
    if (status == WARM_OK) {
        wm_staged_count(&s->figures.copies, 1);
        wm_staged_count(&s->figures.bytes, bytes);
    }
    return status;
}

warm_status warm_staging_copy(warm_staging *staging, void *destination,
                              const void *source, size_t bytes,
                              warm_copy_direction direction, warm_stream stream,
                              unsigned flags)
{
    wm_staging_wait wait = {.never = (flags & WARM_STAGING_TRY) != 0};
    bool to_device = direction == WARM_COPY_TO_DEVICE;
    /* A host source is only read: see gather(). */
    struct rest rest = {
        .device = to_device ? destination : (char *)(uintptr_t)source,
        .host = to_device ? (char *)(uintptr_t)source : destination,
        .bytes = bytes,
        .direction = direction,
        .more = (flags & WARM_STAGING_MORE) != 0};
    warm_status status = enter(staging);

    if (status != WARM_OK) {
        return status;
    }
    status = check_copy(staging, destination, source, bytes, direction, flags);
    if (status == WARM_OK && bytes > 0) {
        status = copy(staging, &rest, stream, &wait);
    }
    leave(staging);
    return status;
}

/* ---- flush and finish -----------------------------------------------------
 */

static warm_status flush(warm_staging *s)
{
    warm_status status = wm_staging_queue(s);

    if (status == WARM_OK && (status = wm_staging_mark(s)) == WARM_OK) {
        s->known = false; /* the stream may be destroyed now */
    }
    return status;
}

static warm_status finish(warm_staging *s)
{
    wm_staging_wait wait = {.never = false};
    warm_status status = flush(s);

    return status == WARM_OK ? wm_staging_await_all(s, &wait) : status;
}

warm_status warm_staging_flush(warm_staging *staging)
{
    warm_status status = enter(staging);

    if (status == WARM_OK) {
        status = flush(staging);
        leave(staging);
    }
    return status;
}

warm_status warm_staging_finish(warm_staging *staging)
{
    warm_status status = enter(staging);

    if (status == WARM_OK) {
        status = finish(staging);
        leave(staging);
    }
    return status;
}

warm_status warm_staging_get_stats(warm_staging *staging,
                                   warm_staging_stats *stats)
{
    warm_staging_stats all = {.size = sizeof all};
    warm_status status =
        wm_check_given(wm_sized_check(stats, sizeof all, "warm_staging_stats"),
                       staging, "staging");

    if (status != WARM_OK ||
        (status = wm_runtime_check_read(staging->runtime)) != WARM_OK) {
        return status;
    }
#define READ(name, unit, meaning)                                              \
    all.name =                                                                 \
        atomic_load_explicit(&staging->figures.name, memory_order_relaxed);
    WARM_STAGING_STAT_MAP(READ)
#undef READ
    wm_sized_out(stats, &all, sizeof all);
    return WARM_OK;
}

/* ---- destroy --------------------------------------------------------------
 */

static warm_status destroy(warm_staging *s)
{
    warm_error cause;
    warm_status status;

    wm_driver_notice_reset(s->runtime->driver, s->device);
    status = finish(s);
    if (status == WARM_NOT_READY || status == WARM_CAPTURE_ERROR) {
        leave(s);
        return status;
    }
    cause = wm_error_save();
    /* No work runs on a device that was reset. */
    end_ring(s, !wm_driver_is_lost(s->runtime->driver, s->device));
    if (status == WARM_INVALID_ARGUMENT) { /* would mean that the ring lives */
        return wm_fail(WARM_INVALID_POINTER, "copies were dropped: %s",
                       cause.message);
    }
    if (status != WARM_OK) {
        wm_error_restore(&cause);
    }
    return status;
}

warm_status warm_staging_destroy(warm_staging *staging)
{
    warm_status status = staging == NULL ? WARM_OK : enter(staging);

    if (staging != NULL && status == WARM_OK) {
        status = destroy(staging);
    } else if (status == WARM_RUNTIME_GONE) {
        wm_meta_free(staging->parts);
        wm_meta_free(staging);
    }
    return status;
}
