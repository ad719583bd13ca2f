/* obtain.c: a request looks, claims room, and obtains what is missing;
 * see grow.h. */
#include "alloc/space/grow_int.h"

#include "alloc/block/page_map.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

#include <stdio.h>

/* What would come in much more time than a growth of the request's own takes
 * is not waited for: memory that is had ahead comes in large regions. */
enum { PATIENCE = 4 };

/* Room in what is coming to the arena already. */
static struct wm_growth_call *
find_room_locked(wm_growth *growth, const struct wm_grow_request *request)
{
    for (struct wm_growth_call *e = growth->errands; e != NULL; e = e->next) {
        if (e->room >= request->needed &&
            wm_arena_is_sibling(e->arena, request->arena) &&
            e->bytes / PATIENCE <= request->wanted) {
            return e;
        }
    }
    return NULL;
}

/* Takes what has come since, or waits for what comes and has room for it.
 * NOT_READY: there is neither. */
static warm_status look_locked(wm_space *space, struct wm_grow_request *request)
{
    wm_growth *growth = &space->growth;

    for (;;) {
        bool starved = false;
        struct wm_growth_call *errand;

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
        errand = find_room_locked(growth, request);
        if (errand == NULL) {
            return WARM_NOT_READY;
        }
        errand->room -= request->needed;
        wm_growth_call_wait_locked(growth, errand->number);
    }
}

/* Bytes that may come below the limit, in whole grains. */
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

/* Whether an errand may come, or that part of it which the limit leaves, if it
 * will do for the request. */
static bool fit_limit_locked(wm_space *space,
                             const struct wm_grow_request *request,
                             struct wm_growth_call *errand)
{
    size_t left = left_locked(space);

    if (errand->bytes <= left) {
        return true;
    }
    if (request->stretch.part != NULL || request->needed == 0 ||
        request->needed > left) {
        return false;
    }
    errand->bytes = left;
    errand->room = left - request->needed;
    return true;
}

/* Where the memory of an errand is to come, which may be less of it: idle
 * memory beside it does its part. NOT_FOUND: there are no addresses for it. */
static warm_status claim(struct wm_grow_request *request,
                         struct wm_growth_call *errand)
{
    warm_status status;

    request->stretch = (wm_expansion){.part = NULL};
    if (request->arena->unit == 0) {
        return WARM_OK;
    }
    status = wm_expand_claim(request->arena, request->lane, request->needed,
                             errand->bytes, &request->stretch);
    if (status == WARM_OK) {
        errand->bytes = request->stretch.bytes;
        errand->room = request->stretch.room - request->needed;
    }
    return status;
}

/* Whether the request had to wait for one that tries alone, or, where it needs
 * more addresses, for another that has some made; then it looks again. */
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

/* What is to be obtained, and where: NOT_READY; else as look_locked() and
 * claim(), and for NOT_FOUND the addresses are this thread's to make. */
static warm_status begin_claim_locked(wm_space *space,
                                      struct wm_grow_request *request,
                                      struct wm_growth_call *errand)
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
            status = claim(request, errand);
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

/* Looks, and unless that serves the request claims room for an errand. */
static warm_status begin(wm_space *space, struct wm_grow_request *request,
                         struct wm_growth_call *errand)
{
    warm_status status;

    wm_lock_acquire(&space->growth.lock);
    status = begin_claim_locked(space, request, errand);
    if (status == WARM_NOT_READY) {
        request->by_limit = !fit_limit_locked(space, request, errand);
        if (request->by_limit) {
            wm_expand_undo(request->arena, &request->stretch, false);
            status = refuse_locked(space);
        } else {
            wm_growth_call_begin_locked(&space->growth, errand);
        }
    }
    wm_lock_release(&space->growth.lock);
    return status;
}

/* Of what is held so much may be idle before growth gives some of it back. */
enum { IDLE_PART = 8 };

/* Where segments stretch: as many bytes of what is idle longest as come, if
 * much is: it is not enough in one place, and serves nobody here. */
static void swap_parts(wm_space *space, const struct wm_grow_request *request)
{
    if (wm_arena_idle(request->arena) >
        wm_growth_held_beside(request->arena) / IDLE_PART) {
        wm_growth_collect(space, request->arena, request->stretch.bytes);
    }
}

/* Gives idle segments back that were made for one large request and are too
 * small for this one, at most as many bytes as come for it. That cannot go
 * round in circles, whatever the load: a segment goes only for a larger one, so
 * that of those which go and come again and again none would be the largest.
 * The others stay, for those who allocate while this one waits. Memory that is
 * obtained ahead takes nobody's place. */
static void swap(wm_space *space, const struct wm_grow_request *request,
                 size_t bytes)
{
    if (request->stretch.part != NULL) {
        swap_parts(space, request);
    } else if (request->needed > 0) {
        wm_growth_give_own(space, request->arena, request->needed, bytes);
    }
}

/* There are no records for what came. What the driver does not take back
 * either, or what it would break a capture to give back, is nobody's: it stays
 * held, under the limit too. base: of a region; null: it is a part. Whether it
 * stays. */
static bool lose(wm_space *space, const struct wm_grow_request *request,
                 void *base, const struct wm_growth_call *errand)
{
    wm_growth *growth = &space->growth;
    warm_error cause = {.size = sizeof cause};
    wm_breaking breaking;
    bool lost;

    warm_last_error(&cause);
    lost = !wm_space_begin_break(space, &breaking);
    if (!lost) {
        lost =
            base == NULL
                ? !wm_growth_uncommit(space, &request->stretch, errand->bytes)
                : wm_growth_driver_free(space, request->arena, NULL, base,
                                        errand->bytes) != WARM_OK;
        wm_space_end_break(space, &breaking);
    }
    wm_lock_acquire(&growth->lock);
    if (lost) {
        growth->lost += errand->bytes;
    } else {
        growth->held -= errand->bytes;
    }
    wm_lock_release(&growth->lock);
    if (lost) {
        wm_growth_note(growth, WM_UNRECORDED, errand->bytes);
    }
    wm_error_restore(&cause);
    return lost;
}

/* After a device was reset the driver may give its addresses anew, to another
 * device or to page-locked memory. There lie the records of what is lost, which
 * its owners may free yet: a pointer would name two blocks. Such memory is kept
 * until there is other memory, then it goes back. */
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

/* Obtains what the errand is for and takes the block from it. No lock held. */
static warm_status obtain(wm_space *space, struct wm_grow_request *request,
                          struct wm_growth_call *errand)
{
    size_t segment_bytes = errand->bytes;
    wm_arena *arena = request->arena;
    uint64_t start = wm_clock_ns();
    void *base = NULL;
    warm_status status;

    request->tried = segment_bytes;
    status = obtain_apart(space, arena->node, segment_bytes, &base);
    wm_arena_count_driver(arena, false, wm_clock_ns() - start);
    if (status == WARM_OK) {
        wm_growth_call_arrive(&space->growth, errand);
        status = wm_arena_grow(arena, request->lane, base, segment_bytes,
                               request->bytes, &request->block);
        if (status != WARM_OK) {
            (void)lose(space, request, base, errand);
        }
    }
    if (status == WARM_OK && request->needed > 0) {
        wm_arena_note_growth_beside(arena, request->needed, segment_bytes);
    }
    return status;
}

/* The same where segments stretch: obtains the part that was claimed. */
static warm_status obtain_part(wm_space *space, struct wm_grow_request *request,
                               struct wm_growth_call *errand)
{
    wm_expansion *stretch = &request->stretch;
    wm_arena *arena = request->arena;
    bool torn = false;
    warm_status status;

    space->traits->ranges->prepare(space, stretch->bytes);
    status = wm_growth_commit(space, stretch, &torn);
    if (status == WARM_OK || torn) {
        wm_growth_call_arrive(&space->growth, errand);
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
        wm_expand_undo(arena, stretch, lose(space, request, NULL, errand));
    }
    return status;
}

/* More addresses for requests as this one. */
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

/* Begins, with more addresses if there are none. */
static warm_status begin_somewhere(wm_space *space,
                                   struct wm_grow_request *request,
                                   struct wm_growth_call *errand)
{
    warm_status status = begin(space, request, errand);

    while (status == WARM_NOT_FOUND) {
        status = add_range(space, request);
        if (status == WARM_OK) {
            status = begin(space, request, errand);
        }
    }
    return status;
}

warm_status wm_growth_obtain(wm_space *space, struct wm_grow_request *request,
                             size_t bytes)
{
    struct wm_growth_call errand = {.arena = request->arena,
                                    .bytes = bytes,
                                    .room = bytes - request->needed};
    warm_status status = begin_somewhere(space, request, &errand);

    if (status == WARM_NOT_READY) {
        swap(space, request, errand.bytes);
        status = request->stretch.part != NULL
                     ? obtain_part(space, request, &errand)
                     : obtain(space, request, &errand);
        wm_growth_call_end(&space->growth, &errand,
                           status == WARM_OK ? WM_CALL_FREED
                                             : WM_CALL_MADE_ROOM);
        if (status == WARM_OK) {
            wm_background_note_held(&space->background);
        } else {
            request->vacated++; /* by itself */
        }
        if (status == WARM_OK && request->bytes > 0 && request->block == NULL) {
            status = wm_fail(WARM_OUT_OF_MEMORY,
                             "no memory for the record of a segment");
        }
    }
    return status;
}
