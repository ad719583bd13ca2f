/* obtain.c: a request looks again, claims room, and obtains what is missing. */
#include "alloc/space/grow_int.h"

#include "alloc/block/page_map.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

#include <stdio.h>

/* A request does not wait for a call that obtains more than PATIENCE times what
 * its own growth would: memory ahead of demand comes in large regions. */
enum { PATIENCE = 4 };

/* A call in flight for the arena or a sibling that has room, or null. */
static struct wm_growth_call *
find_room_locked(wm_growth *growth, const struct wm_grow_request *request)
{
    for (struct wm_growth_call *e = growth->calls; e != NULL; e = e->next) {
        if (e->room >= request->needed &&
            wm_arena_is_sibling(e->arena, request->arena) &&
            e->bytes / PATIENCE <= request->wanted) {
            return e;
        }
    }
    return NULL;
}

/* Allocates from what other threads obtained since the miss, or claims room in
 * a call in flight, waits for it and looks again. NOT_READY: neither. */
static warm_status look_locked(wm_space *space, struct wm_grow_request *request)
{
    wm_growth *growth = &space->growth;

    for (;;) {
        bool starved = false;
        struct wm_growth_call *call;

        request->gained = growth->gained;
        request->vacated = growth->vacated;
        request->block = wm_arena_take_or_steal(request->arena, request->lane,
                                                request->bytes, &starved);
        if (request->block != NULL) {
            return WARM_OK;
        }
        if (starved) {
            return wm_fail(WARM_OUT_OF_MEMORY,
                           "no memory for the record of a segment");
        }
        call = find_room_locked(growth, request);
        if (call == NULL) {
            return WARM_NOT_READY;
        }
        call->room -= request->needed;
        wm_growth_call_wait_locked(growth, call->number);
    }
}

/* Bytes that may be obtained below the limit, in whole grains. */
static size_t left_locked(wm_space *space)
{
    size_t limit = wm_space_limit(space);
    size_t taken =
        space->growth.held + space->growth.coming + space->beside_bytes;
    size_t grain = space->group.arenas->grain;

    if (limit == 0) {
        return SIZE_MAX;
    }
    return taken < limit ? (limit - taken) / grain * grain : 0;
}

/* Whether the limit leaves room for the call's bytes; or for fewer that suffice
 * for the request: then the call is for those. */
static bool fit_limit_locked(wm_space *space,
                             const struct wm_grow_request *request,
                             struct wm_growth_call *call)
{
    size_t left = left_locked(space);

    if (call->bytes <= left) {
        return true;
    }
    if (request->stretch.part != NULL || request->needed == 0 ||
        request->needed > left) {
        return false;
    }
    call->bytes = left;
    call->room = left - request->needed;
    return true;
}

/* Claims the part of an expandable segment that the call is to fill. It may be
 * smaller than requested, since adjacent idle memory counts. NOT_FOUND: there
 * are no addresses for it. */
static warm_status claim(struct wm_grow_request *request,
                         struct wm_growth_call *call)
{
    warm_status status;

    request->stretch = (wm_expansion){.part = NULL};
    if (request->arena->unit == 0) {
        return WARM_OK;
    }
    status = wm_expand_claim(request->arena, request->lane, request->needed,
                             call->bytes, &request->stretch);
    if (status == WARM_OK) {
        call->bytes = request->stretch.bytes;
        call->room = request->stretch.room - request->needed;
    }
    return status;
}

/* Waits for a request that grows alone; or, if the request needs addresses, for
 * a thread that reserves some. Returns whether it waited, and must look again.
 */
static bool gives_way_locked(wm_growth *growth,
                             const struct wm_grow_request *request,
                             warm_status status)
{
    bool waited = false;

    while ((status == WARM_NOT_READY && growth->alone != NULL &&
            growth->alone != request) ||
           (status == WARM_NOT_FOUND && growth->reserving)) {
        wm_cond_wait(&growth->over, &growth->lock);
        waited = true;
    }
    return waited;
}

/* OK: the request is served. NOT_READY: the call has a claim and may begin.
 * NOT_FOUND: this thread reserves addresses first (growth->reserving). */
static warm_status begin_claim_locked(wm_space *space,
                                      struct wm_grow_request *request,
                                      struct wm_growth_call *call)
{
    wm_growth *growth = &space->growth;
    warm_status status;

    for (;;) {
        status =
            request->bytes > 0 ? look_locked(space, request) : WARM_NOT_READY;
        if (status == WARM_NOT_READY &&
            gives_way_locked(growth, request, status)) {
            continue;
        }
        if (status == WARM_NOT_READY) {
            status = claim(request, call);
            status = status == WARM_OK ? WARM_NOT_READY : status;
        }
        if (status != WARM_NOT_FOUND ||
            !gives_way_locked(growth, request, status)) {
            break;
        }
    }
    growth->reserving |= status == WARM_NOT_FOUND;
    return status;
}

static warm_status refuse_locked(const wm_space *space)
{
    char beside[64] = "";

    if (space->beside_bytes > 0) {
        snprintf(beside, sizeof beside, ", workspaces of handles have %s of it",
                 wm_bytes(space->beside_bytes).text);
    }
    return wm_fail(WARM_OUT_OF_MEMORY, "the limit of %s is reached%s",
                   wm_bytes(wm_space_limit(space)).text, beside);
}

/* Looks again, and unless that serves the request begins the call. */
static warm_status begin(wm_space *space, struct wm_grow_request *request,
                         struct wm_growth_call *call)
{
    warm_status status;

    wm_lock_acquire(&space->growth.lock);
    status = begin_claim_locked(space, request, call);
    if (status == WARM_NOT_READY) {
        request->by_limit = !fit_limit_locked(space, request, call);
        if (request->by_limit) {
            wm_expand_undo(request->arena, &request->stretch, false);
            status = refuse_locked(space);
        } else {
            wm_growth_call_begin_locked(&space->growth, call);
        }
    }
    wm_lock_release(&space->growth.lock);
    return status;
}

/* If more than this part of what is held is idle, a growth returns some. */
enum { IDLE_PART = 8 };

/* Expandable segments: if much is idle, none of it in one place large enough,
 * returns as many bytes as the call obtains, those idle longest. */
static void swap_parts(wm_space *space, const struct wm_grow_request *request)
{
    if (wm_arena_idle(request->arena) >
        wm_growth_held_beside(request->arena) / IDLE_PART) {
        wm_growth_collect(space, request->arena, request->stretch.bytes);
    }
}

/* Returns idle oversize segments that are too small for the request, at most as
 * many bytes as the call obtains. It cannot thrash, whatever the load: a
 * segment is returned only for a larger one, so among segments that would be
 * returned and obtained over and over the largest is never returned. Other
 * segments stay for threads that allocate meanwhile. Memory that is obtained
 * ahead of demand replaces nothing. */
static void swap(wm_space *space, const struct wm_grow_request *request,
                 size_t bytes)
{
    if (request->stretch.part != NULL) {
        swap_parts(space, request);
    } else if (request->needed > 0) {
        wm_growth_give_own(space, request->arena, request->needed, bytes);
    }
}

/* Memory was obtained for which there is no record: it is returned. If the
 * driver refuses it, or returning it would break a capture, the memory leaks:
 * it stays held, and counts below the limit. base: of a region; null: a part of
 * an expandable segment. Returns whether it leaked. */
static bool lose(wm_space *space, const struct wm_grow_request *request,
                 void *base, const struct wm_growth_call *call)
{
    wm_growth *growth = &space->growth;
    warm_error cause = {.size = sizeof cause};
    wm_breaking breaking;
    bool lost;

    warm_last_error(&cause);
    lost = !wm_space_begin_break(space, &breaking);
    if (!lost) {
        lost = base == NULL
                   ? !wm_growth_uncommit(space, &request->stretch, call->bytes)
                   : wm_growth_driver_free(space, request->arena, NULL, base,
                                           call->bytes) != WARM_OK;
        wm_space_end_break(space, &breaking);
    }
    wm_lock_acquire(&growth->lock);
    if (lost) {
        growth->lost += call->bytes;
    } else {
        growth->held -= call->bytes;
    }
    wm_lock_release(&growth->lock);
    if (lost) {
        wm_growth_note(growth, WM_UNRECORDED, call->bytes);
    }
    wm_error_restore(&cause);
    return lost;
}

/* After a device was reset the driver may use its addresses again, for another
 * device or for page-locked memory. Lost blocks have records there, and their
 * owners may still free them: a pointer would name two blocks. Such memory is
 * held until the driver gave other addresses, then returned. */
enum { ADDRESSES_TRIED = 8 };

/* One that the driver does not take back, or that it would break a capture to
 * give back, is nobody's: it is held from now on, and lost. */
static void refuse_region(wm_space *space, void *base, size_t bytes)
{
    wm_growth *growth = &space->growth;
    warm_error cause = {.size = sizeof cause};
    wm_breaking breaking;
    bool gone = false;

    warm_last_error(&cause);
    if (wm_space_begin_break(space, &breaking)) {
        gone = space->traits->give_back(space, base, bytes) == WARM_OK;
        wm_space_end_break(space, &breaking);
    }
    if (!gone) {
        wm_lock_acquire(&growth->lock);
        growth->held += bytes;
        growth->lost += bytes;
        growth->peak =
            growth->held > growth->peak ? growth->held : growth->peak;
        wm_lock_release(&growth->lock);
        wm_growth_note(growth, WM_UNRECORDED, bytes);
    }
    wm_error_restore(&cause);
}

static warm_status obtain_apart(wm_space *space, int node, size_t bytes,
                                void **base)
{
    void *taken[ADDRESSES_TRIED];
    unsigned count = 0;
    warm_status status = space->traits->obtain(space, node, bytes, base);

    while (status == WARM_OK && wm_page_map_any(*base, bytes)) {
        taken[count++] = *base;
        if (count == ADDRESSES_TRIED) {
            status = wm_fail(WARM_OUT_OF_MEMORY,
                             "the driver gives no addresses but those of "
                             "memory that a reset of a device ended; destroy "
                             "the runtime and make a new one");
        } else {
            status = space->traits->obtain(space, node, bytes, base);
        }
    }
    while (count > 0) {
        refuse_region(space, taken[--count], bytes);
    }
    return status;
}

/* Obtains a segment and allocates the block from it. No lock held. */
static warm_status obtain(wm_space *space, struct wm_grow_request *request,
                          struct wm_growth_call *call)
{
    size_t segment_bytes = call->bytes;
    wm_arena *arena = request->arena;
    uint64_t start = wm_clock_ns();
    void *base = NULL;
    warm_status status;

    request->tried = segment_bytes;
    status = obtain_apart(space, arena->node, segment_bytes, &base);
    wm_arena_count_driver(arena, false, wm_clock_ns() - start);
    if (status == WARM_OK) {
        wm_growth_call_arrive(&space->growth, call);
        status = wm_arena_grow(arena, request->lane, base, segment_bytes,
                               request->bytes, &request->block);
        if (status != WARM_OK) {
            (void)lose(space, request, base, call);
        }
    }
    if (status == WARM_OK && request->needed > 0) {
        wm_arena_note_growth_beside(arena, request->needed, segment_bytes);
    }
    return status;
}

/* Commits the claimed part of an expandable segment and allocates from it. */
static warm_status obtain_part(wm_space *space, struct wm_grow_request *request,
                               struct wm_growth_call *call)
{
    wm_expansion *stretch = &request->stretch;
    wm_arena *arena = request->arena;
    bool torn = false;
    warm_status status;

    space->traits->ranges->prepare(space, stretch->bytes);
    status = wm_growth_commit(space, stretch, &torn);
    if (status == WARM_OK || torn) {
        wm_growth_call_arrive(&space->growth, call);
    }
    if (status != WARM_OK) {
        wm_expand_undo(arena, stretch, torn);
        if (torn) {
            wm_growth_note(&space->growth, WM_TORN, stretch->bytes);
        }
        return status;
    }
    if (!wm_expand_done(arena, request->lane, stretch, request->bytes,
                        &request->block)) {
        status = wm_fail(WARM_OUT_OF_MEMORY,
                         "no memory for the allocator's records");
        wm_expand_undo(arena, stretch, lose(space, request, NULL, call));
    }
    return status;
}

/* Reserves more addresses for requests of this size. */
static warm_status add_range(wm_space *space,
                             const struct wm_grow_request *request)
{
    const wm_range_traits *ranges = space->traits->ranges;
    wm_growth *growth = &space->growth;
    void *base = NULL;
    size_t bytes = 0;
    warm_status status = ranges->reserve(space, request->needed, &base, &bytes);

    if (status == WARM_OK) {
        status = wm_expand_add(request->arena, base, bytes, request->needed);
        if (status != WARM_OK) {
            (void)ranges->release(space, base, bytes);
        }
    }
    wm_lock_acquire(&growth->lock);
    growth->reserving = false;
    wm_cond_broadcast(&growth->over);
    wm_lock_release(&growth->lock);
    return status;
}

/* Begins the call; where there are no addresses, reserves some first. */
static warm_status begin_somewhere(wm_space *space,
                                   struct wm_grow_request *request,
                                   struct wm_growth_call *call)
{
    warm_status status = begin(space, request, call);

    while (status == WARM_NOT_FOUND) {
        status = add_range(space, request);
        if (status == WARM_OK) {
            status = begin(space, request, call);
        }
    }
    return status;
}

warm_status wm_growth_obtain(wm_space *space, struct wm_grow_request *request,
                             size_t bytes)
{
    struct wm_growth_call call = {.arena = request->arena,
                                  .bytes = bytes,
                                  .room = bytes - request->needed};
    warm_status status = begin_somewhere(space, request, &call);

    if (status == WARM_NOT_READY) {
        swap(space, request, call.bytes);
        status = request->stretch.part != NULL
                     ? obtain_part(space, request, &call)
                     : obtain(space, request, &call);
        wm_growth_call_end(&space->growth, &call,
                           status == WARM_OK ? WM_CALL_FREED
                                             : WM_CALL_MADE_ROOM);
        if (status == WARM_OK) {
            wm_background_note_held(&space->background);
        } else {
            request->vacated++; /* its own call does not count */
        }
        if (status == WARM_OK && request->bytes > 0 && request->block == NULL) {
            status = wm_fail(WARM_OUT_OF_MEMORY,
                             "no memory for the record of a segment");
        }
    }
    return status;
}
