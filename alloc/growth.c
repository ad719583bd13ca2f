/* growth.c: growth and return of a space's memory; see growth.h. */
#include "alloc/growth.h"

#include "alloc/page_map.h"
#include "alloc/private_pool.h"
#include "alloc/space.h"
#include "alloc/stretch.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

/* One thread's business with the driver; lives on its stack. */
struct wm_errand {
    struct wm_errand *next;
    uint64_t number;
    wm_arena *arena;
    size_t bytes; /* that come; 0: segments go back */
    size_t room;  /* of those: not promised to anybody */
    bool held;    /* they have come */
};

/* What it leaves behind for those that wait. */
enum outcome { NOTHING, VACATED, GAINED };

void wm_growth_init(wm_growth *growth)
{
    wm_lock_init(&growth->lock, WM_RANK_GROWTH);
    wm_cond_init(&growth->over);
}

void wm_growth_fini(wm_growth *growth)
{
    wm_cond_fini(&growth->over);
    wm_lock_fini(&growth->lock);
}

size_t wm_growth_peak(wm_growth *growth)
{
    size_t peak;

    wm_lock_acquire(&growth->lock);
    peak = growth->peak;
    wm_lock_release(&growth->lock);
    return peak;
}

void wm_growth_reset_peak(wm_growth *growth)
{
    wm_lock_acquire(&growth->lock);
    growth->peak = growth->held;
    wm_lock_release(&growth->lock);
}

/* ---- errands ---------------------------------------------------------- */

static void begin_locked(wm_growth *growth, struct wm_errand *errand)
{
    errand->number = ++growth->begun;
    errand->next = growth->errands;
    growth->errands = errand;
    growth->coming += errand->bytes;
}

/* What comes is held before anybody finds it, and gives it back again. */
static void arrive(wm_growth *growth, struct wm_errand *errand)
{
    wm_lock_acquire(&growth->lock);
    errand->held = true;
    growth->coming -= errand->bytes;
    growth->held += errand->bytes;
    growth->peak = growth->held > growth->peak ? growth->held : growth->peak;
    wm_lock_release(&growth->lock);
}

/* gone: bytes that are held no more. */
static void end(wm_growth *growth, struct wm_errand *errand,
                enum outcome outcome, size_t gone)
{
    struct wm_errand **link = &growth->errands;

    wm_lock_acquire(&growth->lock);
    while (*link != errand) {
        link = &(*link)->next;
    }
    *link = errand->next;
    growth->coming -= errand->held ? 0 : errand->bytes;
    growth->held -= gone;
    growth->gained += outcome == GAINED;
    growth->vacated += outcome != NOTHING;
    wm_cond_broadcast(&growth->over);
    wm_lock_release(&growth->lock);
}

static bool is_under_way_locked(const wm_growth *growth, uint64_t number)
{
    for (struct wm_errand *e = growth->errands; e != NULL; e = e->next) {
        if (e->number == number) {
            return true;
        }
    }
    return false;
}

static void wait_locked(wm_growth *growth, uint64_t number)
{
    while (is_under_way_locked(growth, number)) {
        wm_cond_wait(&growth->over, &growth->lock);
    }
}

/* ---- giving back ------------------------------------------------------ */

/* What became of the idle segments that were to go back. */
struct returned {
    size_t bytes;     /* with the driver again */
    size_t refused;   /* the driver did not take */
    warm_error cause; /* of the last refusal */
};

/* of: the segment that base is a part of, or null. */
static warm_status driver_free(wm_space *space, wm_arena *arena,
                               const wm_segment *of, char *base, size_t bytes)
{
    uint64_t start = wm_clock_ns();
    warm_status status =
        of != NULL ? space->traits->ranges->decommit(
                         space, of->base, (size_t)(base - of->base), bytes)
                   : space->traits->give_back(space, base, bytes);

    wm_arena_count_driver(arena, true, wm_clock_ns() - start);
    return status;
}

static void give_back_one(wm_space *space, wm_segment *segment,
                          struct returned *returned)
{
    wm_arena *arena = segment->arena;
    size_t bytes = segment->bytes;

    if (driver_free(space, arena, segment->of, segment->base, bytes) ==
        WARM_OK) {
        returned->bytes += bytes;
        wm_arena_released(arena, segment);
        return;
    }
    returned->refused += bytes;
    returned->cause.size = sizeof returned->cause;
    warm_last_error(&returned->cause);
    wm_arena_reattach(arena, segment);
}

static void say_refused(wm_space *space, const struct returned *returned)
{
    if (returned->refused > 0) {
        wm_log(WARM_LOG_WARNING,
               "the driver did not take %s of %s memory back, which stays in "
               "the cache: %s",
               wm_bytes(returned->refused).text, space->traits->name,
               returned->cause.message);
    }
}

static size_t held_beside(wm_arena *arena)
{
    size_t bytes = 0;

    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        bytes += wm_arena_held(a);
    }
    return bytes;
}

/* Which segments go: what the functions below make of it. */
struct going {
    wm_arena *arena;    /* and its siblings; null: of all */
    size_t target;      /* bytes that may be held */
    uint64_t before_ns; /* idle since then */
    size_t below, most; /* bytes of one, of all */
};

static wm_segment *append(wm_segment *chain, wm_segment *more)
{
    while (more != NULL) {
        wm_segment *next = more->next;

        more->next = chain;
        chain = more;
        more = next;
    }
    return chain;
}

static size_t bytes_of(const wm_segment *chain)
{
    size_t bytes = 0;

    for (; chain != NULL; chain = chain->next) {
        bytes += chain->bytes;
    }
    return bytes;
}

/* Of the arenas, one after the other. */
static wm_segment *detach_down(wm_space *space, const struct going *going)
{
    size_t left = going->target > 0 ? space->growth.held : 0;
    wm_segment *chain = NULL;

    for (wm_arena *arena = wm_space_arenas(space); arena != NULL;
         arena = arena->next_arena) {
        size_t held = wm_arena_held(arena);
        size_t others = left > held ? left - held : 0;
        size_t target = going->target > others ? going->target - others : 0;
        wm_segment *gone = NULL;
        size_t bytes;

        if (going->arena == NULL || wm_arena_beside(going->arena, arena)) {
            gone = wm_arena_detach(arena, target);
        }
        bytes = bytes_of(gone);
        left -= left > bytes ? bytes : left;
        chain = append(chain, gone);
    }
    return chain;
}

static wm_segment *detach_old(wm_space *space, const struct going *going)
{
    const wm_background *b = &space->background;
    const wm_arena *reserved = wm_space_arena(space, b->reserve_node);
    size_t reserve = b->reserve_bytes;
    wm_segment *chain = NULL;

    for (wm_arena *a = wm_space_arenas(space); a != NULL; a = a->next_arena) {
        size_t none = 0;
        size_t *keep = wm_arena_beside(a, reserved) ? &reserve : &none;

        chain = append(chain, wm_arena_detach_old(a, going->before_ns, keep));
    }
    return chain;
}

static wm_segment *detach_own(wm_space *space, const struct going *going)
{
    wm_segment *chain = NULL;
    size_t most = going->most;

    (void)space;
    for (wm_arena *a = going->arena->siblings; a != NULL; a = a->next_sibling) {
        wm_segment *gone = wm_arena_detach_own(a, going->below, most);

        most -= bytes_of(gone);
        chain = append(chain, gone);
    }
    return chain;
}

/* A segment on its way back is neither cached nor room under the limit: from
 * its detaching on there is an errand that others can wait for. */
static size_t send_back(wm_space *space, const struct going *going,
                        wm_segment *(*detach)(wm_space *space,
                                              const struct going *going))
{
    struct wm_errand errand = {.bytes = 0};
    struct returned returned = {0};
    wm_segment *segment;

    if (wm_private_captures(space)) {
        return 0; /* it would break a capture */
    }
    wm_lock_acquire(&space->growth.lock);
    segment = detach(space, going);
    if (segment != NULL) {
        begin_locked(&space->growth, &errand);
    }
    wm_lock_release(&space->growth.lock);
    if (segment == NULL) {
        return 0;
    }
    while (segment != NULL) {
        wm_segment *next = segment->next;

        give_back_one(space, segment, &returned);
        segment = next;
    }
    end(&space->growth, &errand, returned.bytes > 0 ? GAINED : NOTHING,
        returned.bytes);
    say_refused(space, &returned);
    return returned.bytes;
}

/* Else nobody need be waited for. */
static bool is_above(wm_growth *growth, size_t target)
{
    bool above;

    wm_lock_acquire(&growth->lock);
    above = growth->held > target;
    wm_lock_release(&growth->lock);
    return above;
}

size_t wm_growth_give_back(wm_space *space, wm_arena *arena, size_t target)
{
    struct going going = {.arena = arena, .target = target};
    const wm_arena *of = arena != NULL ? arena : space->arenas;

    if (of->unit > 0 && is_above(&space->growth, target) &&
        !wm_private_captures(space)) {
        space->traits->ranges->settle(space);
    }
    return send_back(space, &going, detach_down);
}

static wm_segment *detach_oldest(wm_space *space, const struct going *going)
{
    wm_segment *chain = NULL;
    size_t most = going->most;

    (void)space;
    for (wm_arena *a = going->arena->siblings; a != NULL && most > 0;
         a = a->next_sibling) {
        wm_segment *gone = wm_arena_detach_oldest(a, most);
        size_t bytes = bytes_of(gone);

        most -= bytes < most ? bytes : most;
        chain = append(chain, gone);
    }
    return chain;
}

void wm_growth_collect(wm_space *space, wm_arena *arena, size_t bytes)
{
    struct going going = {.arena = arena, .most = bytes};

    (void)send_back(space, &going, detach_oldest);
}

void wm_growth_decay(wm_space *space, uint64_t before_ns)
{
    struct going going = {.before_ns = before_ns};

    (void)send_back(space, &going, detach_old);
}

/* ---- growing ---------------------------------------------------------- */

/* A request, and what it has met. */
struct request {
    wm_arena *arena;
    wm_arena *give_back; /* whose idle segments may go for it; null: all */
    wm_lane *lane;
    size_t bytes;  /* 0: none yet, memory is to be had ahead */
    size_t needed; /* bytes of a run for it */
    size_t wanted; /* bytes that are to come for it, if all goes well */
    wm_block *block;
    wm_stretch stretch;       /* where it is to come, if segments stretch */
    bool by_limit;            /* the last refusal: ours, not the driver's */
    uint64_t gained, vacated; /* at its last look */
};

/* What would come in much more time than a growth of the request's own takes
 * is not waited for: memory that is had ahead comes in large regions. */
enum { PATIENCE = 4 };

/* Room in what is coming to the arena already. */
static struct wm_errand *find_room_locked(wm_growth *growth,
                                          const struct request *request)
{
    for (struct wm_errand *e = growth->errands; e != NULL; e = e->next) {
        if (e->room >= request->needed &&
            wm_arena_beside(e->arena, request->arena) &&
            e->bytes / PATIENCE <= request->wanted) {
            return e;
        }
    }
    return NULL;
}

/* Takes what has come since, or waits for what comes and has room for it.
 * NOT_READY: there is neither. */
static warm_status look_locked(wm_space *space, struct request *request)
{
    wm_growth *growth = &space->growth;

    for (;;) {
        bool starved = false;
        struct wm_errand *errand;

        request->gained = growth->gained;
        request->vacated = growth->vacated;
        request->block = wm_arena_take_any(request->arena, request->lane,
                                           request->bytes, &starved);
        if (request->block != NULL) {
            return WARM_OK;
        }
        if (starved) {
            return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a record of it");
        }
        errand = find_room_locked(growth, request);
        if (errand == NULL) {
            return WARM_NOT_READY;
        }
        errand->room -= request->needed;
        wait_locked(growth, errand->number);
    }
}

static bool within_limit_locked(wm_space *space, size_t bytes)
{
    size_t limit = wm_space_limit(space);
    size_t taken;

    if (limit == 0) {
        return true;
    }
    taken = space->growth.held + space->growth.coming;
    return taken <= limit && bytes <= limit - taken;
}

/* Where the memory of an errand is to come, which may be less of it: idle
 * memory beside it does its part. NOT_FOUND: there are no addresses for it. */
static warm_status claim(struct request *request, struct wm_errand *errand)
{
    warm_status status;

    request->stretch = (wm_stretch){.part = NULL};
    if (request->arena->unit == 0) {
        return WARM_OK;
    }
    status = wm_stretch_claim(request->arena, request->lane, request->needed,
                              errand->bytes, &request->stretch);
    if (status == WARM_OK) {
        errand->bytes = request->stretch.bytes;
        errand->room = request->stretch.room - request->needed;
    }
    return status;
}

/* Looks, and unless that serves the request claims room for an errand. */
static warm_status begin(wm_space *space, struct request *request,
                         struct wm_errand *errand)
{
    warm_status status;

    wm_lock_acquire(&space->growth.lock);
    status = request->bytes > 0 ? look_locked(space, request) : WARM_NOT_READY;
    if (status == WARM_NOT_READY) {
        status = claim(request, errand);
        status = status == WARM_OK ? WARM_NOT_READY : status;
    }
    if (status == WARM_NOT_READY) {
        request->by_limit = !within_limit_locked(space, errand->bytes);
        if (request->by_limit) {
            wm_stretch_undo(request->arena, &request->stretch, false);
            status = wm_fail(WARM_OUT_OF_MEMORY, "the limit of %s is reached",
                             wm_bytes(wm_space_limit(space)).text);
        } else {
            begin_locked(&space->growth, errand);
        }
    }
    wm_lock_release(&space->growth.lock);
    return status;
}

/* Of what is held so much may be idle before growth gives some of it back. */
enum { IDLE_PART = 8 };

/* Where segments stretch: as many bytes of what is idle longest as come, if
 * much is: it is not enough in one place, and serves nobody here. */
static void swap_parts(wm_space *space, const struct request *request)
{
    if (wm_arena_idle(request->arena) >
        held_beside(request->arena) / IDLE_PART) {
        wm_growth_collect(space, request->arena, request->stretch.bytes);
    }
}

/* Gives idle segments back that were made for one large request and are too
 * small for this one, at most as many bytes as come for it. That cannot go
 * round in circles, whatever the load: a segment goes only for a larger one, so
 * that of those which go and come again and again none would be the largest.
 * The others stay, for those who allocate while this one waits. Memory that is
 * obtained ahead takes nobody's place. */
static void swap(wm_space *space, const struct request *request, size_t bytes)
{
    struct going going = {
        .arena = request->arena, .below = request->needed, .most = bytes};

    if (request->stretch.part != NULL) {
        swap_parts(space, request);
    } else if (request->needed > 0) {
        (void)send_back(space, &going, detach_own);
    }
}

/* There are no records for a region. One that the driver does not take back
 * either is nobody's: it stays held, under the limit too. */
static void lose(wm_space *space, const struct request *request, void *base,
                 struct wm_errand *errand, size_t *gone)
{
    warm_error cause = {.size = sizeof cause};

    warm_last_error(&cause);
    if (driver_free(space, request->arena, request->stretch.segment, base,
                    errand->bytes) == WARM_OK) {
        *gone = errand->bytes;
    } else {
        wm_log(WARM_LOG_WARNING,
               "the driver did not take %s of %s memory back for which there "
               "is no record: they are lost",
               wm_bytes(errand->bytes).text, space->traits->name);
    }
    wm_error_restore(&cause);
}

/* Obtains what the errand is for and takes the block from it. No lock held. */
static warm_status obtain(wm_space *space, struct request *request,
                          struct wm_errand *errand, size_t *gone)
{
    size_t segment_bytes = errand->bytes;
    wm_arena *arena = request->arena;
    uint64_t start = wm_clock_ns();
    void *base = NULL;
    warm_status status =
        space->traits->obtain(space, arena->node, segment_bytes, &base);

    wm_arena_count_driver(arena, false, wm_clock_ns() - start);
    if (status == WARM_OK) {
        arrive(&space->growth, errand);
        status = wm_arena_grow(arena, request->lane, base, segment_bytes,
                               request->bytes, &request->block);
        if (status != WARM_OK) {
            lose(space, request, base, errand, gone);
        }
    }
    if (status == WARM_OK && request->needed > 0) {
        wm_arena_note_growth_beside(arena, request->needed, segment_bytes);
    }
    return status;
}

/* The same where segments stretch: obtains the part that was claimed. */
static warm_status obtain_part(wm_space *space, struct request *request,
                               struct wm_errand *errand, size_t *gone)
{
    const wm_range_traits *ranges = space->traits->ranges;
    wm_stretch *stretch = &request->stretch;
    wm_arena *arena = request->arena;
    char *base = stretch->segment->base, *part = stretch->part->base;
    uint64_t start = wm_clock_ns();
    warm_status status =
        ranges->commit(space, base, (size_t)(part - base), stretch->bytes);

    wm_arena_count_driver(arena, false, wm_clock_ns() - start);
    if (status != WARM_OK) {
        wm_stretch_undo(arena, stretch, false);
        return status;
    }
    arrive(&space->growth, errand);
    if (!wm_stretch_done(arena, request->lane, stretch, request->bytes,
                         &request->block)) {
        status = wm_fail(WARM_OUT_OF_MEMORY,
                         "no memory for the allocator's records");
        lose(space, request, part, errand, gone);
        wm_stretch_undo(arena, stretch, *gone == 0);
    }
    return status;
}

/* Begins, with more addresses if there are none. */
static warm_status begin_somewhere(wm_space *space, struct request *request,
                                   struct wm_errand *errand)
{
    const wm_range_traits *ranges = space->traits->ranges;
    warm_status status = begin(space, request, errand);

    while (status == WARM_NOT_FOUND) {
        void *base = NULL;
        size_t bytes = 0;

        status = ranges->reserve(space, request->needed, &base, &bytes);
        if (status == WARM_OK) {
            status =
                wm_stretch_add(request->arena, base, bytes, request->needed);
            if (status != WARM_OK) {
                (void)ranges->release(space, base, bytes);
            }
        }
        if (status == WARM_OK) {
            status = begin(space, request, errand);
        }
    }
    return status;
}

static warm_status grow_by(wm_space *space, struct request *request,
                           size_t bytes)
{
    struct wm_errand errand = {.arena = request->arena,
                               .bytes = bytes,
                               .room = bytes - request->needed};
    warm_status status = begin_somewhere(space, request, &errand);

    if (status == WARM_NOT_READY) {
        size_t gone = 0;

        swap(space, request, bytes);
        status = request->stretch.part != NULL
                     ? obtain_part(space, request, &errand, &gone)
                     : obtain(space, request, &errand, &gone);
        end(&space->growth, &errand, status == WARM_OK ? GAINED : VACATED,
            gone);
        if (status == WARM_OK) {
            wm_background_note_held(&space->background);
        }
        if (status == WARM_OK && request->bytes > 0 && request->block == NULL) {
            status =
                wm_fail(WARM_OUT_OF_MEMORY, "no memory for a record of it");
        }
    }
    return status;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Asks for *bytes, and for half as much where they cannot be had, down to
 * least; tells how many it came to. */
static warm_status step_down(wm_space *space, struct request *request,
                             size_t least, size_t *bytes)
{
    warm_status status = grow_by(space, request, *bytes);

    while (status == WARM_OUT_OF_MEMORY && *bytes > least) {
        *bytes = larger(wm_page_round(*bytes / 2), least);
        status = grow_by(space, request, *bytes);
    }
    return status;
}

/* A segment is at least a HELD_PARTS-th of what is held already, so that there
 * never are very many, nor much of the last one left over. */
enum { HELD_PARTS = 64 };

static size_t growth_bytes(wm_space *space, const struct request *request)
{
    size_t part = held_beside(request->arena) / HELD_PARTS;

    part = part < space->chunk_bytes ? part : space->chunk_bytes;
    if (request->arena->unit > 0) {
        return request->needed + part - part % request->arena->unit;
    }
    part -= part % space->segment_bytes;
    return larger(larger(space->segment_bytes, part), request->needed);
}

/* Asks for a whole segment, or less, but as much as the request needs. */
static warm_status grow(wm_space *space, struct request *request)
{
    size_t bytes = growth_bytes(space, request);

    request->wanted = bytes;
    return step_down(space, request, request->needed, &bytes);
}

warm_status wm_growth_ahead(wm_space *space, wm_arena *arena, size_t bytes,
                            size_t least, size_t *obtained)
{
    struct request request = {.arena = arena};
    warm_status status = step_down(space, &request, least, &bytes);

    *obtained = status == WARM_OK ? bytes : 0;
    return status;
}

/* An errand whose end may help: one that gives back, or any where it was the
 * limit that refused. */
static struct wm_errand *find_hope_locked(wm_growth *growth, bool by_limit)
{
    struct wm_errand *e = growth->errands;

    while (e != NULL && e->bytes > 0 && !by_limit) {
        e = e->next;
    }
    return e;
}

/* True once something has changed for a request that was refused. Those that
 * the driver refuses do not count the ends of each other, or they would try
 * again for ever. */
static bool wait_for_others(wm_space *space, const struct request *request)
{
    wm_growth *growth = &space->growth;
    struct wm_errand *hope;
    bool changed;

    wm_lock_acquire(&growth->lock);
    changed = growth->gained != request->gained ||
              (request->by_limit && growth->vacated != request->vacated);
    hope = find_hope_locked(growth, request->by_limit);
    if (!changed && hope != NULL) {
        wait_locked(growth, hope->number);
        changed = true;
    }
    wm_lock_release(&growth->lock);
    return changed;
}

/* Whether a refused request may try again. */
static bool make_room(wm_space *space, const struct request *request)
{
    warm_error cause = {.size = sizeof cause};
    bool again;

    warm_last_error(&cause);
    again = wm_growth_give_back(space, request->give_back, 0) > 0 ||
            wait_for_others(space, request);
    if (again) {
        wm_arena_count_retry(request->arena);
    }
    /* What the driver says to a segment is not why the request fails. */
    wm_error_restore(&cause);
    return again;
}

static bool open_any(const struct request *request)
{
    bool open = wm_arena_open(request->arena, request->lane, request->needed);

    for (wm_arena *a = wm_arena_next(request->arena, request->arena);
         a != request->arena && !open; a = wm_arena_next(request->arena, a)) {
        open = wm_arena_open(a, NULL, request->needed);
    }
    return open;
}

warm_status wm_growth_alloc(wm_space *space, const wm_request *wanted,
                            wm_arena *arena, wm_arena *give_back,
                            wm_block **block)
{
    struct request request = {.arena = arena,
                              .give_back = give_back,
                              .lane = wanted->lane,
                              .bytes = wanted->bytes,
                              .needed = wm_arena_run_bytes(wanted->bytes)};
    warm_status status;

    do {
        status = grow(space, &request);
    } while (status == WARM_OUT_OF_MEMORY &&
             (open_any(&request) || make_room(space, &request)));
    *block = request.block;
    return status;
}

void wm_growth_end_ranges(wm_space *space)
{
    for (wm_arena *a = wm_space_arenas(space); a != NULL; a = a->next_arena) {
        void *base = NULL;
        size_t bytes = 0;

        while (wm_stretch_remove(a, &base, &bytes)) {
            if (space->traits->ranges->release(space, base, bytes) != WARM_OK) {
                wm_log(WARM_LOG_WARNING,
                       "%s of addresses for %s memory stay reserved: %s",
                       wm_bytes(bytes).text, space->traits->name,
                       warm_last_error_message());
            }
        }
    }
}
