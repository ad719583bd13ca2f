/* obtain.c: memory for one growth: the request looks again, claims room in a
 * call in flight, or calls the driver, with no lock held. */
#include "alloc/space/space_int.h"

#include "alloc/arena/arena.h"
#include "alloc/block/page_map.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/os_page.h"
#include "runtime/base/probe.h"
#include "runtime/base/status.h"

#include <stdio.h>

/* ---- claims ------------------------------------------------------------- */

/* The result of a request that looked for memory again. */
enum claim {
    SERVED,  /* a block, from memory that other threads obtained */
    CLAIMED, /* its call is in the list; it must call the driver */
    REFUSED  /* no block and no call; *status: why */
};

/* A request does not wait for a call that obtains more than PATIENCE times what
 * its own growth would: memory ahead of demand is obtained in large regions. */
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

/* Whether the high watermarks leave room for the call's bytes, which then count
 * toward all memory. If they leave room for fewer, in whole grains, that
 * suffice for the request, reduces the call to those. */
static bool fit_limit_locked(wm_space *space,
                             const struct wm_grow_request *request,
                             struct wm_growth_call *call)
{
    size_t grain = space->group.arenas->grain;

    do {
        size_t left = wm_room_below_locked(space), all = wm_whole_left(space);

        left = left < all ? left : all;
        if (call->bytes <= left) {
            continue;
        }
        left = left / grain * grain;
        if (request->needed == 0 || request->needed > left) {
            return false;
        }
        call->bytes = left;
        call->room = left - request->needed;
    } while (!wm_whole_claim(space, call->bytes));
    return true;
}

bool wm_space_claim(wm_space *space, size_t bytes, bool trims)
{
    wm_space *limiter = space->limiter;
    bool fits = wm_space_claim_own(limiter, bytes);

    if (!fits && trims) {
        (void)wm_limit_trim_for(limiter, bytes);
        fits = wm_space_claim_own(limiter, bytes);
    }
    if (fits && space != limiter) { /* it has no watermark of its own */
        (void)wm_space_claim_own(space, bytes);
    }
    return fits;
}

void wm_space_unclaim(wm_space *space, size_t bytes)
{
    if (space != space->limiter) {
        wm_space_unclaim_own(space, bytes);
    }
    wm_space_unclaim_own(space->limiter, bytes);
}

/* Names the limit that leaves less. */
static warm_status refuse_by_limit(const wm_space *space)
{
    const wm_whole *whole = &space->poller->whole;
    char beside[128] = "";

    if (wm_whole_left(space) < wm_room_below_locked(space)) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "the limit of %s for all memory is reached",
                       wm_bytes(wm_high_bytes(&whole->marks)).text);
    }
    if (space->beside_bytes > 0) {
        snprintf(beside, sizeof beside,
                 ", workspaces of handles%s have %s of it",
                 space->adopted != NULL ? ", shared buffers and adopted memory"
                                        : " and shared buffers",
                 wm_bytes(space->beside_bytes).text);
    }
    return wm_fail(WARM_OUT_OF_MEMORY, "the limit of %s is reached%s",
                   wm_bytes(wm_high_bytes(&space->marks)).text, beside);
}

/* Allocates from memory that other threads obtained since the miss; or waits
 * for a call in flight that has room, and looks again; or begins the call. */
static enum claim claim_locked(wm_space *space, struct wm_grow_request *request,
                               struct wm_growth_call *call, warm_status *status)
{
    wm_growth *growth = &space->growth;
    struct wm_growth_call *room = NULL;
    bool starved = false;

    for (;;) {
        if (request->bytes > 0) {
            request->gained = growth->gained;
            request->vacated = growth->vacated;
            request->block =
                wm_space_take_or_steal(request->arena, request->lane,
                                       request->bytes, request->row, &starved);
            if (request->block != NULL) {
                *status = WARM_OK; /* drops the NOT_FOUND of an earlier turn */
                return SERVED;
            }
            if (starved) {
                *status = wm_fail(WARM_OUT_OF_MEMORY,
                                  "no memory for the record of a segment");
                return REFUSED;
            }
            room = find_room_locked(growth, request);
        }
        if (room == NULL) {
            break;
        }
        room->room -= request->needed;
        wm_growth_call_wait_locked(growth, room->number);
    }
    request->by_limit = !fit_limit_locked(space, request, call);
    if (request->by_limit) {
        *status = refuse_by_limit(space);
        return REFUSED;
    }
    wm_growth_call_begin_locked(growth, call);
    return CLAIMED;
}

/* ---- what a growth replaces --------------------------------------------- */

bool wm_growth_may_replace(wm_space *space, const wm_arena *arena)
{
    return arena->pool == NULL &&
           !wm_timelines_holds_back(space->group.timelines);
}

/* Above the bound: returns wholly idle segments,
 * whatever they were obtained for, the largest first: as many bytes as the call
 * obtains, or as are held above the bound; the last segment may be larger.
 * Returns whether the bound is passed. */
static bool replace_above(wm_space *space,
                          const struct wm_grow_request *request, size_t bytes)
{
    size_t held, excess, spare;

    if (!wm_growth_may_replace(space, request->arena)) {
        return false;
    }
    wm_lock_acquire(&space->growth.lock);
    held = space->growth.held + space->growth.coming;
    wm_lock_release(&space->growth.lock);
    excess = wm_economy_excess(request->arena, request->lane, held,
                               request->needed, &spare);
    if (excess == 0 || spare == 0) {
        return excess > 0;
    }
    wm_growth_return_excess(space, excess < bytes ? excess : bytes, spare);
    return true;
}

/* Within the bound: returns idle segments that were obtained for one request
 * and are too small for this one, at most as many bytes as the call obtains. It
 * cannot thrash, whatever the load: a segment is returned only for a larger
 * one, so among segments that would be returned and obtained over and over the
 * largest is never returned. Other idle segments stay, since other threads may
 * allocate from them meanwhile.
 *
 * Memory that is obtained ahead of demand replaces nothing. */
static void replace_idle(wm_space *space, const struct wm_grow_request *request,
                         size_t bytes)
{
    if (request->needed > 0 && !replace_above(space, request, bytes)) {
        wm_growth_return_oversize(space, request->arena, request->needed,
                                  bytes);
    }
}

/* ---- memory without a record -------------------------------------------- */

/* Calls one for each segment of a region that is obtained whole (piece 0), or
 * in pieces. */
static void
each_segment(wm_space *space, int node, char *base, size_t bytes, size_t piece,
             void (*one)(wm_space *space, int node, void *base, size_t bytes))
{
    size_t step = piece > 0 ? piece : bytes;

    for (size_t at = 0; at < bytes; at += step) {
        one(space, node, base + at, bytes - at < step ? bytes - at : step);
    }
}

static void expect_none(wm_space *space, size_t count)
{
    for (; count > 0; count--) {
        wm_segment_expect_none(space);
    }
}

/* Reserves room for the numbers of so many segments. */
static warm_status expect_segments(wm_space *space, size_t count)
{
    warm_status status = WARM_OK;

    for (size_t i = 0; i < count && status == WARM_OK; i++) {
        status = wm_segment_expect(space);
        if (status != WARM_OK) {
            expect_none(space, i);
        }
    }
    return status;
}

/* Returns a region, whole or by its pieces (0: not cut), each a segment, in one
 * break of captures. Returns the bytes that stay. */
static size_t give_back(wm_space *space, wm_arena *arena, char *base,
                        size_t bytes, size_t piece)
{
    size_t step = piece > 0 ? piece : bytes, stays = 0;
    wm_breaking breaking;

    each_segment(space, arena->node, base, bytes, piece, wm_segment_returned);
    if (!wm_space_begin_break(space, &breaking)) {
        return bytes;
    }
    for (size_t at = 0; at < bytes; at += step) {
        size_t part = bytes - at < step ? bytes - at : step;

        if (wm_growth_driver_free(space, arena, base + at, part, piece > 0) !=
            WARM_OK) {
            stays += part;
        }
    }
    wm_space_end_break(space, &breaking);
    return stays;
}

/* Returns memory for which there is no record. If the driver refuses it, or
 * returning it would break a capture, the memory leaks: it stays held, and
 * counts toward the limit. base: of a region, obtained in pieces of so many
 * bytes or (0) whole. counted: bytes of it that count as held already: all or
 * none. Returns whether any leaked. */
static bool lose(wm_space *space, const struct wm_grow_request *request,
                 void *base, size_t bytes, size_t piece, size_t counted)
{
    wm_growth *growth = &space->growth;
    size_t lost;

    WM_KEEP_ERROR();
    lost = give_back(space, request->arena, base, bytes, piece);
    wm_lock_acquire(&growth->lock);
    /* Both wrap, and the sums are right, if less is lost than was counted. */
    growth->held += lost - counted;
    wm_whole_add(space, lost - counted);
    growth->lost += lost;
    growth->peak = growth->held > growth->peak ? growth->held : growth->peak;
    wm_lock_release(&growth->lock);
    if (lost > 0) {
        wm_growth_defer_warning(growth, WM_UNRECORDED, lost);
    }
    return lost > 0;
}

static void count_kept(wm_space *space, size_t bytes, bool kept)
{
    wm_growth *growth = &space->growth;

    wm_lock_acquire(&growth->lock);
    if (kept) {
        growth->held += bytes;
        growth->peak =
            growth->held > growth->peak ? growth->held : growth->peak;
        wm_whole_add(space, bytes);
    } else {
        growth->held -= bytes;
        wm_whole_unclaim(space, bytes);
    }
    wm_lock_release(&growth->lock);
}

bool wm_growth_keep(wm_space *space, int node, void *base, size_t bytes,
                    size_t piece)
{
    wm_block *none = NULL;

    if (wm_page_map_any(base, bytes) ||
        expect_segments(space, (bytes + piece - 1) / piece) != WARM_OK) {
        return false;
    }
    count_kept(space, bytes, true);
    each_segment(space, node, base, bytes, piece, wm_segment_obtained);
    if (wm_arena_grow_pieces(wm_group_arena(&space->group, node), base, bytes,
                             piece, 0, 0, &none) == WARM_OK) {
        return true;
    }
    each_segment(space, node, base, bytes, piece, wm_segment_returned);
    count_kept(space, bytes, false);
    return false;
}

/* After a reset of a device the driver may reuse its addresses, for another
 * device or for page-locked memory. The lost blocks still have records there,
 * and the program may still free them: a pointer would name two blocks. Memory
 * at such addresses is held until the driver returns other addresses, and then
 * freed. */
enum { ADDRESSES_TRIED = 8 };

static warm_status obtain_one(wm_space *space, const wm_arena *arena,
                              size_t bytes, size_t *piece, void **base)
{
    warm_status status = wm_space_claim_below(space, bytes);

    if (status == WARM_OK) {
        status = space->traits->obtain(space, arena, bytes, piece, base);
        if (status != WARM_OK) {
            wm_space_unclaim_below(space, bytes);
        }
    }
    return status;
}

static warm_status obtain_apart(wm_space *space,
                                const struct wm_grow_request *request,
                                size_t bytes, size_t *piece, void **base)
{
    struct {
        void *base;
        size_t piece;
    } taken[ADDRESSES_TRIED];
    unsigned count = 0;
    const wm_arena *arena = request->arena;
    warm_status status = obtain_one(space, arena, bytes, piece, base);

    while (status == WARM_OK && wm_page_map_any(*base, bytes)) {
        taken[count].base = *base;
        taken[count++].piece = *piece;
        if (count == ADDRESSES_TRIED) {
            status = wm_fail(WARM_OUT_OF_MEMORY,
                             "the driver returns only addresses of memory "
                             "that a reset of a device ended; destroy the "
                             "runtime and create a new one");
        } else {
            status = obtain_one(space, arena, bytes, piece, base);
        }
    }
    while (count > 0) {
        count--;
        (void)lose(space, request, taken[count].base, bytes, taken[count].piece,
                   0);
    }
    return status;
}

/* ---- the call ----------------------------------------------------------- */

/* Bytes of the pieces in which the region is obtained; 0: it is not cut. */
static size_t piece_of(const wm_space *space,
                       const struct wm_grow_request *request, size_t bytes)
{
    size_t most = space->group.piece_bytes;

    if (most == 0 || bytes <= most) {
        return 0;
    }
    return request->row > 0 ? wm_size_piece(most, request->row, wm_os_page())
                            : most;
}

/* Obtains a segment, or several, and allocates the block. No lock held. */
static warm_status obtain(wm_space *space, struct wm_grow_request *request,
                          struct wm_growth_call *call)
{
    size_t bytes = call->bytes;
    wm_arena *arena = request->arena;
    uint64_t start = wm_clock_ns();
    size_t piece = piece_of(space, request, bytes), segments;
    void *base = NULL;
    warm_status status;

    request->tried = bytes;
    status = obtain_apart(space, request, bytes, &piece, &base);
    wm_arena_count_driver(arena, false, wm_clock_ns() - start);
    if (status != WARM_OK) {
        return status;
    }
    /* Not before: a region that no machine has may have 2^30 pieces. */
    segments = piece > 0 ? (bytes + piece - 1) / piece : 1;
    status = expect_segments(space, segments);
    if (status != WARM_OK) {
        (void)lose(space, request, base, bytes, piece, 0);
        return status;
    }
    wm_growth_call_arrive(&space->growth, call);
    each_segment(space, arena->node, base, bytes, piece, wm_segment_obtained);
    status = piece > 0 ? wm_arena_grow_pieces(arena, base, bytes, piece,
                                              request->bytes, request->row,
                                              &request->block)
                       : wm_arena_grow(arena, request->lane, base, bytes,
                                       request->bytes, &request->block);
    if (status != WARM_OK) {
        (void)lose(space, request, base, bytes, piece, bytes);
        return status;
    }
    return WARM_OK;
}

warm_status wm_growth_obtain(wm_space *space, struct wm_grow_request *request,
                             size_t bytes)
{
    wm_growth *growth = &space->growth;
    struct wm_growth_call call = {.arena = request->arena,
                                  .bytes = bytes,
                                  .room = bytes - request->needed};
    warm_status status = WARM_OK;
    enum claim claim;
    size_t held;

    wm_lock_acquire(&growth->lock);
    claim = claim_locked(space, request, &call, &status);
    wm_lock_release(&growth->lock);
    if (claim != CLAIMED) {
        return status;
    }
    replace_idle(space, request, call.bytes);
    WM_USDT2(grow_begin, space->traits->name, call.bytes);
    wm_range_begin("grow");
    status = obtain(space, request, &call);
    wm_range_end();
    WM_USDT3(grow_end, space->traits->name, call.bytes, (int)status);
    if (status != WARM_OK) {
        wm_growth_call_end(space, &call, WM_CALL_MADE_ROOM);
        request->vacated++; /* its own call does not count */
        return status;
    }
    wm_growth_call_end(space, &call, WM_CALL_FREED);
    wm_lock_acquire(&growth->lock);
    held = growth->held;
    wm_lock_release(&growth->lock);
    wm_economy_note_growth(request->arena, request->lane, call.bytes, held,
                           request->bytes == 0);
    wm_background_note_held(&space->background);
    if (request->block != NULL && wm_runtime_is_traced(space->group.runtime)) {
        request->block->trace = WM_TRACE_FRESH;
    }
    return request->bytes == 0 || request->block != NULL
               ? WARM_OK
               : wm_fail(WARM_OUT_OF_MEMORY,
                         "no memory for the record of a segment");
}
