/* grow.c: a request for which the space grows, until it is served or refused.
 */
#include "alloc/space/grow_int.h"

#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

/* ---- growing ---------------------------------------------------------- */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t whole(size_t bytes, size_t grain)
{
    return (bytes + grain - 1) / grain * grain;
}

/* Obtains *bytes; if they are refused half of that, and so on, down to least.
 * *bytes: what was requested last. */
static warm_status step_down(wm_space *space, struct wm_grow_request *request,
                             size_t least, size_t *bytes)
{
    /* Expandable segments claim whole units themselves. */
    size_t grain = request->arena->unit == 0 ? request->arena->grain : WM_PAGE;
    warm_status status;

    least = whole(least, grain);
    *bytes = whole(*bytes, grain);
    request->tried = 0;
    status = wm_growth_obtain(space, request, *bytes);
    while (status == WARM_OUT_OF_MEMORY && *bytes > least) {
        /* The limit may have left less than *bytes. */
        if (request->tried > least && request->tried < *bytes) {
            *bytes = request->tried;
        }
        *bytes = larger(whole(*bytes / 2, grain), least);
        request->tried = 0;
        status = wm_growth_obtain(space, request, *bytes);
    }
    return status;
}

/* A new segment has at least a HELD_PARTS-th of the bytes held: so segments
 * stay few, and little of the last one stays unused. */
enum { HELD_PARTS = 64 };

static size_t growth_bytes(wm_space *space,
                           const struct wm_grow_request *request)
{
    size_t part = wm_growth_held_beside(request->arena) / HELD_PARTS;

    part = part < space->chunk_bytes ? part : space->chunk_bytes;
    if (request->arena->unit > 0) {
        return request->needed + part - part % request->arena->unit;
    }
    part -= part % space->group.segment_bytes;
    return larger(larger(space->group.segment_bytes, part), request->needed);
}

/* Obtains a whole segment, or less, but at least what the request needs. */
static warm_status grow(wm_space *space, struct wm_grow_request *request)
{
    size_t bytes = growth_bytes(space, request);

    request->wanted = bytes;
    return step_down(space, request, request->needed, &bytes);
}

warm_status wm_growth_ahead(wm_space *space, wm_arena *arena, size_t bytes,
                            size_t least, size_t *obtained)
{
    struct wm_grow_request request = {.arena = arena};
    warm_status status = step_down(space, &request, least, &bytes);

    wm_growth_say(space);
    *obtained = status == WARM_OK ? bytes : 0;
    return status;
}

/* A call whose end may help a refused request: one that returns segments; if
 * the limit refused, any. */
static struct wm_growth_call *find_hope_locked(wm_growth *growth, bool by_limit)
{
    struct wm_growth_call *e = growth->calls;

    while (e != NULL && e->bytes > 0 && !by_limit) {
        e = e->next;
    }
    return e;
}

/* Waits until something has changed for a refused request; false: nothing in
 * flight can. Requests that the driver refuses do not wait for each other, or
 * they would retry forever. */
static bool wait_for_others(wm_space *space,
                            const struct wm_grow_request *request)
{
    wm_growth *growth = &space->growth;
    struct wm_growth_call *hope;
    bool changed;

    wm_lock_acquire(&growth->lock);
    changed = growth->gained != request->gained ||
              (request->by_limit && growth->vacated != request->vacated);
    hope = find_hope_locked(growth, request->by_limit);
    if (!changed && hope != NULL) {
        wm_growth_call_wait_locked(growth, hope->number);
        changed = true;
    }
    wm_lock_release(&growth->lock);
    return changed;
}

static const struct wm_growth_call *find_growth_locked(const wm_growth *growth)
{
    const struct wm_growth_call *e = growth->calls;

    while (e != NULL && e->bytes == 0) {
        e = e->next;
    }
    return e;
}

/* Afterwards no growth is in flight, and only the request's own may begin. */
static void begin_alone(wm_growth *growth,
                        const struct wm_grow_request *request)
{
    const struct wm_growth_call *e;

    wm_lock_acquire(&growth->lock);
    while (growth->alone != NULL) {
        wm_cond_wait(&growth->over, &growth->lock);
    }
    growth->alone = request;
    while ((e = find_growth_locked(growth)) != NULL) {
        wm_growth_call_wait_locked(growth, e->number);
    }
    wm_lock_release(&growth->lock);
}

static void end_alone(wm_growth *growth)
{
    wm_lock_acquire(&growth->lock);
    growth->alone = NULL;
    wm_cond_broadcast(&growth->over);
    wm_lock_release(&growth->lock);
}

/* A request that grows alone blocks other growths during the driver's calls
 * only, not while it waits for streams or logs: both may need the memory that
 * another thread obtains next. */
static warm_status try_once(wm_space *space, struct wm_grow_request *request)
{
    warm_status status;

    if (request->alone) {
        begin_alone(&space->growth, request);
    }
    request->unseen =
        request->arena->unit > 0 && wm_timelines_any(space->group.timelines);
    status = grow(space, request);
    if (request->alone) {
        end_alone(&space->growth);
    }
    wm_growth_say(space);
    return status;
}

/* If another growth was in flight when the request was refused, it held memory
 * that it returns if it fails as well. Returns whether the request is to retry,
 * with no other growth in flight from now on. */
static bool try_alone(wm_space *space, struct wm_grow_request *request)
{
    wm_growth *growth = &space->growth;
    bool beside;

    if (request->arena->unit == 0 || request->alone) {
        return false;
    }
    wm_lock_acquire(&growth->lock);
    beside = growth->vacated != request->vacated ||
             find_growth_locked(growth) != NULL;
    wm_lock_release(&growth->lock);
    request->alone = beside;
    return beside;
}

/* Waits once for the streams of freed blocks. Returns whether that may have
 * made memory idle, or some became idle since the request's last look. */
static bool wait_for_streams(wm_space *space, struct wm_grow_request *request)
{
    bool wait = !request->waited;

    request->waited = true;
    return wait &&
           (wm_growth_settle(space, request->arena, 0, WM_SETTLE_PENDING) ||
            request->unseen);
}

/* Returns idle segments, or waits for calls in flight: whether a refused
 * request may retry. */
static bool make_room(wm_space *space, struct wm_grow_request *request)
{
    warm_error cause = {.size = sizeof cause};
    bool again;

    warm_last_error(&cause);
    request->unseen |=
        wm_growth_settle(space, request->give_back, 0, WM_SETTLE_IDLE);
    again = wm_growth_give_back(space, request->give_back, 0) > 0 ||
            wait_for_others(space, request);
    if (again) {
        wm_arena_count(request->arena, WM_COUNT_RETRY);
    }
    /* An error of returning a segment is not why the request fails. */
    wm_error_restore(&cause);
    return again;
}

static bool open_any(const struct wm_grow_request *request)
{
    bool open =
        wm_arena_open_oversize(request->arena, request->lane, request->needed);

    for (wm_arena *a = wm_arena_next(request->arena, request->arena);
         a != request->arena && !open; a = wm_arena_next(request->arena, a)) {
        open = wm_arena_open_oversize(a, request->lane, request->needed);
    }
    return open;
}

warm_status wm_growth_alloc(wm_space *space, const wm_request *wanted,
                            wm_arena *arena, wm_arena *give_back,
                            wm_block **block)
{
    struct wm_grow_request request = {.arena = arena,
                                      .give_back = give_back,
                                      .lane = wanted->lane,
                                      .bytes = wanted->bytes,
                                      .needed =
                                          wm_size_run_bytes(wanted->bytes)};
    warm_status status;

    do {
        status = try_once(space, &request);
    } while (status == WARM_OUT_OF_MEMORY &&
             (open_any(&request) || make_room(space, &request) ||
              wait_for_streams(space, &request) || try_alone(space, &request)));
    *block = request.block;
    return status;
}
