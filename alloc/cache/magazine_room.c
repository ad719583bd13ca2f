/* magazine_room.c: the room of a set: claim, return, trim.
 *
 * Room is a count, not memory: how many blocks and bytes the owner of a set
 * may still allocate before it has to claim more (live.h). Only sets of
 * pinned memory count frees that are not cached.
 *
 * The caller has the biased lock of the set's window; wm_cache_raise_peaks()
 * and wm_cache_reset_peaks() take the biased locks of all windows. Takes no
 * other lock. */
#include "alloc/cache/cache_int.h"

/* Half of what is left below a peak is divided among the sets; the other half
 * stays for sets that need more. A set claims its share; when frees have made
 * its room larger than twice the share, or than ROOM_TIMES the least, it
 * returns half. A single set may have all that is left.
 *
 * Why ROOM_TIMES is 64: with less room a set claims more often, each time on
 * the slow path; with more room it has to be visited before a peak is raised,
 * but peaks are rarely raised. */
enum { ROOM_TIMES = 64, ROOM_PART = 2 };

typedef struct excess_room {
    int64_t blocks, requested, bytes;
} excess_room;

static wm_live *live_of(const wm_magazine_set *set, int i)
{
    return wm_lives_of(set->arena->live, i > 0);
}

/* Whether small and large requests have separate rooms. Read from the group,
 * which is const: a set's lane changes while other threads read. */
static bool is_laned(const wm_magazine_set *set)
{
    return set->group->laned;
}

/* Small and large requests share a thread's room, and so do its sets for
 * streams of a device. */
static int64_t least_bytes(const wm_magazine_set *set)
{
    return WM_ROOM_BYTES / (is_laned(set) ? 2 * set->sharers : 1);
}

static int64_t least_blocks(const wm_magazine_set *set)
{
    return WM_ROOM_BLOCKS / (is_laned(set) ? 2 * set->sharers : 1);
}

static int64_t room_bytes(const wm_room *room)
{
    return wm_room_get(&room->bytes) - wm_room_get(&room->low);
}

static unsigned sets_of(const wm_magazine_set *set)
{
    return atomic_load_explicit(&set->arena->live->sets, memory_order_relaxed);
}

/* A set's share of what is left below a peak; at least `least`. */
static int64_t share_of(const wm_magazine_set *set, int i,
                        enum wm_figure figure, int64_t least)
{
    const wm_claim *claim = &live_of(set, i)->of[figure];
    int64_t left = wm_claim_peak(claim) - wm_claimed(claim);
    unsigned sets = sets_of(set);
    int64_t part = sets > 1 ? left / (ROOM_PART * (int64_t)sets) : left;

    return part > least ? part : least;
}

/* The greatest room that frees may lead to, whatever other sets the thread has,
 * until a peak is raised. */
static int64_t limit_of(const wm_magazine_set *set, int i,
                        enum wm_figure figure, int64_t least)
{
    int64_t much = ROOM_TIMES / 2 * least * set->sharers;

    return sets_of(set) > 1 ? 2 * share_of(set, i, figure, much)
                            : INT64_MAX / 4;
}

/* Computes how far hits may fill the set: to its bytes, or to its greatest
 * room. */
static void set_high(wm_magazine_set *set, int i)
{
    wm_room *room = &set->rooms[i];
    int64_t bytes = wm_room_get(&room->bytes);
    int64_t left = set->bytes_max - wm_magazine_set_bytes(set);
    int64_t most = limit_of(set, i, WM_LIVE_BYTES, least_bytes(set));
    int64_t high = bytes + (is_laned(set) ? left / 2 : left);
    int64_t roomy = wm_room_get(&room->low) + most;

    room->high = high < roomy ? high : roomy;
}

void wm_magazine_set_note_high(wm_magazine_set *set)
{
    set_high(set, 0);
    set_high(set, 1);
}

void wm_magazine_open_room(wm_magazine_set *set, const wm_magazine *m)
{
    wm_room *room = &set->rooms[wm_room_index(set, m)];
    int64_t high =
        wm_room_get(&room->bytes) + set->bytes_max - wm_magazine_set_bytes(set);

    room->high = room->high > high ? room->high : high;
}

/* Returns whether a peak has to be raised. */
static bool adjust_room(wm_magazine_set *set, int i, int64_t blocks,
                        int64_t asked, int64_t bytes)
{
    wm_room *room = &set->rooms[i];
    bool above;

    if (blocks == 0 && asked == 0 && bytes == 0) {
        return false;
    }
    above = wm_live_add(live_of(set, i), blocks, asked, bytes);
    if (wm_arena_is_sorted(set->arena)) {
        above = wm_live_add_active(live_of(set, i), blocks, bytes) || above;
    }
    wm_room_add(&room->blocks, blocks);
    wm_room_add(&room->requested, asked);
    wm_room_add(&room->low, -bytes);
    return above;
}

/* What a room lacks: up to `needed`, or to the set's share. */
static int64_t shortfall(const wm_magazine_set *set, int i,
                         enum wm_figure figure, int64_t room, int64_t needed,
                         int64_t least)
{
    int64_t part;

    if (room >= needed) {
        return 0;
    }
    part = share_of(set, i, figure, least);
    return (part > needed ? part : needed) - room;
}

void wm_magazine_need_room(wm_magazine_set *set, const wm_magazine *m,
                           size_t requested)
{
    int i = wm_room_index(set, m);
    wm_room *room = &set->rooms[i];
    int64_t blocks = wm_room_get(&room->blocks);
    int64_t asked = wm_room_get(&room->requested), bytes = room_bytes(room);

    if (wm_unlikely(blocks < 1 || asked < (int64_t)requested ||
                    bytes < m->bytes)) {
        (void)adjust_room(
            set, i,
            shortfall(set, i, WM_LIVE_BLOCKS, blocks, 1, least_blocks(set)),
            shortfall(set, i, WM_LIVE_ASKED, asked, (int64_t)requested,
                      least_bytes(set)),
            shortfall(set, i, WM_LIVE_BYTES, bytes, m->bytes,
                      least_bytes(set)));
        set_high(set, i);
    }
}

/* If the room is above most, what to return so that half of most is left. */
static int64_t excess(int64_t room, int64_t most)
{
    return room > most ? most / 2 - room : 0;
}

void wm_magazine_trim_room(wm_magazine_set *set, const wm_magazine *m)
{
    int i = wm_room_index(set, m);
    wm_room *room = &set->rooms[i];
    int64_t bytes = least_bytes(set), blocks = least_blocks(set);

    if (sets_of(set) > 1) {
        int64_t all = room_bytes(room) + m->bytes;

        (void)adjust_room(set, i,
                          excess(wm_room_get(&room->blocks),
                                 limit_of(set, i, WM_LIVE_BLOCKS, blocks)),
                          excess(wm_room_get(&room->requested),
                                 limit_of(set, i, WM_LIVE_ASKED, bytes)),
                          excess(all, limit_of(set, i, WM_LIVE_BYTES, bytes)));
    }
    set_high(set, i);
}

static int64_t least_of(int64_t room, int64_t n)
{
    return room < 0 ? 0 : room < n ? room : n;
}

void wm_magazine_set_use_room(wm_magazine_set *set, const wm_block *block)
{
    int i = !is_laned(set) || !block->segment->small;
    const wm_room *room = &set->rooms[i];

    (void)adjust_room(set, i, -least_of(wm_room_get(&room->blocks), 1),
                      -least_of(wm_room_get(&room->requested),
                                (int64_t)wm_block_requested(block)),
                      -least_of(room_bytes(room), (int64_t)block->bytes));
}

void wm_magazine_set_move_bytes(wm_magazine_set *set, const wm_magazine *m,
                                int64_t bytes)
{
    int i = wm_room_index(set, m);
    wm_room *room = &set->rooms[i];

    wm_room_add(&room->bytes, bytes);
    wm_room_add(&room->low, bytes);
    set_high(set, i);
}

void wm_magazine_set_return_room(wm_magazine_set *set)
{
    for (int i = 0; i < 2; i++) {
        wm_room *room = &set->rooms[i];

        (void)adjust_room(set, i, -wm_room_get(&room->blocks),
                          -wm_room_get(&room->requested), -room_bytes(room));
        set_high(set, i);
    }
}

/* ---- claims of classes --------------------------------------------------- */

static void claim(wm_magazine_set *set, wm_magazine *m, int32_t claimed)
{
    wm_supply *supply = wm_magazine_supply(set, m);
    unsigned size_class = (unsigned)(m - set->of);

    wm_claim_add_raise(&set->arena->live->classes->blocks[size_class],
                       claimed - supply->claimed);
    supply->claimed = claimed;
}

void wm_magazine_claim(wm_magazine_set *set, wm_magazine *m)
{
    int32_t base = wm_magazine_supply(set, m)->base;
    int32_t ahead = wm_magazine_supply(set, m)->claimed - base;

    if (ahead < 0 || ahead > WM_ROOM_BLOCKS) {
        claim(set, m, base);
    }
}

/* Blocks that wait for streams come and go in batches, so half a room is
 * claimed ahead. */
void wm_magazine_claim_ahead(wm_magazine_set *set, wm_magazine *m)
{
    claim(set, m, wm_magazine_supply(set, m)->base + WM_ROOM_BLOCKS / 2);
}

void wm_magazine_set_end_claims(wm_magazine_set *set)
{
    for (unsigned i = 0; i < set->classes; i++) {
        wm_magazine *m = &set->of[set->in_use[i]];

        claim(set, m, wm_magazine_supply(set, m)->base);
    }
}

/* ---- a peak is raised ---------------------------------------------------- */

/* The figures whose peaks have to be raised; only their rooms are trimmed. */
struct raise {
    wm_arena_group *group;
    bool any, above[WM_LIVE_FIGURES];
};

static void note_raised(struct raise *raise, const wm_live *live)
{
    bool sorted = wm_arena_is_sorted(raise->group->arenas);
    int figures = sorted ? WM_LIVE_FIGURES : WM_LIVE_ACTIVE;

    for (int i = 0; i < figures; i++) {
        if (wm_claimed(&live->of[i]) > wm_claim_peak(&live->of[i])) {
            raise->above[i] = raise->any = true;
        }
    }
}

/* Looks at all nodes: a request may have been served by another node than its
 * own. */
static bool find_above(struct raise *raise)
{
    for (int i = 0; i < raise->group->nodes; i++) {
        const wm_lives *lives = wm_group_arena(raise->group, i)->live;

        note_raised(raise, &lives->large);
        if (lives->large.whole != NULL) {
            note_raised(raise, lives->large.whole);
        }
        if (lives->all == &lives->whole) {
            note_raised(raise, &lives->small);
        }
    }
    raise->above[WM_LIVE_BLOCKS] |= raise->above[WM_LIVE_ACTIVE];
    raise->above[WM_LIVE_BYTES] |= raise->above[WM_LIVE_ACTIVE_BYTES];
    return raise->any;
}

static int64_t amount_above(int64_t room, int64_t least)
{
    return room > least ? room - least : 0;
}

/* What a room has beyond the least, of the figures to be raised. */
static excess_room excess_of(const wm_magazine_set *set, int i,
                             const struct raise *raise)
{
    const wm_room *room = &set->rooms[i];
    int64_t bytes = least_bytes(set);
    excess_room much = {0, 0, 0};

    if (raise->above[WM_LIVE_BLOCKS]) {
        much.blocks =
            amount_above(wm_room_get(&room->blocks), least_blocks(set));
    }
    if (raise->above[WM_LIVE_ASKED]) {
        much.requested = amount_above(wm_room_get(&room->requested), bytes);
    }
    if (raise->above[WM_LIVE_BYTES]) {
        much.bytes = amount_above(room_bytes(room), bytes);
    }
    return much;
}

static bool has_excess(const wm_magazine_set *set, const struct raise *raise)
{
    excess_room small = excess_of(set, 0, raise),
                large = excess_of(set, 1, raise);

    return (small.blocks | small.requested | small.bytes | large.blocks |
            large.requested | large.bytes) != 0;
}

/* The calling thread's room does not change meanwhile. Another thread that has
 * little room now may have much when the peak is raised. */
static bool may_have_excess(const wm_window *window, void *context)
{
    const struct raise *raise = context;
    const wm_magazine_set *set;

    for (unsigned at = 0;
         (set = wm_cache_next_set(window, raise->group, &at)) != NULL;) {
        if (window != wm_window_current || has_excess(set, raise)) {
            return true;
        }
    }
    return false;
}

static void trim_window(wm_window *window, void *context)
{
    const struct raise *raise = context;
    wm_magazine_set *set;

    for (unsigned at = 0;
         (set = wm_cache_next_set(window, raise->group, &at)) != NULL;) {
        for (int i = 0; i < 2; i++) {
            excess_room much = excess_of(set, i, raise);

            (void)adjust_room(set, i, -much.blocks, -much.requested,
                              -much.bytes);
            set_high(set, i);
        }
    }
}

/* No set's room changes now: every visited window is still revoked, under lock
 * windows. */
static void raise_above(void *context)
{
    const struct raise *raise = context;

    for (int i = 0; i < raise->group->nodes; i++) {
        wm_lives_raise_some(wm_group_arena(raise->group, i)->live,
                            raise->above);
    }
}

void wm_cache_raise_peaks(wm_arena_group *group)
{
    struct raise raise = {.group = group};
    const wm_visit all = {may_have_excess, trim_window, raise_above, &raise};

    if (wm_likely(!find_above(&raise))) {
        return;
    }
    if (group->magazine_blocks > 0) {
        (void)wm_window_visit(group->runtime, &all);
    } else {
        raise_above(&raise);
    }
}

/* ---- peaks are reset ----------------------------------------------------- */

static bool has_set(const wm_window *window, void *context)
{
    unsigned at = 0;

    return wm_cache_next_set(window, context, &at) != NULL;
}

static void return_window(wm_window *window, void *context)
{
    wm_magazine_set *set;

    for (unsigned at = 0;
         (set = wm_cache_next_set(window, context, &at)) != NULL;) {
        wm_magazine_set_return_room(set);
        wm_magazine_set_end_claims(set);
    }
}

static void reset_lives(void *context)
{
    wm_arena_group *group = context;

    for (int i = 0; i < group->nodes; i++) {
        wm_lives_reset(wm_group_arena(group, i)->live);
    }
}

void wm_cache_reset_peaks(wm_arena_group *group)
{
    const wm_visit all = {has_set, return_window, reset_lives, group};

    if (group->magazine_blocks > 0) {
        (void)wm_window_visit(group->runtime, &all);
    } else {
        reset_lives(group);
    }
}
