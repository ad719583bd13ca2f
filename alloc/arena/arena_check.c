/* arena_check.c: walks an arena and its siblings and checks their invariants.
 *
 * For tests: holds the locks of all siblings for the whole walk. Prints
 * nothing; the first broken rule ends the walk, and a debugger shows which one.
 */
#include "alloc/arena/arena_int.h"

#include "alloc/block/page_map.h"
#include "runtime/base/status.h"

struct tally {
    uint64_t held, bytes[WM_BLOCK_SPANNED + 1]; /* of blocks, by state */
    size_t idle_runs, slabs_with_room, runs, whole;
    bool settled; /* no thread is inside: block->requested is stable */
};

static bool tally_block(struct tally *tally, wm_block *block)
{
    enum wm_block_state state = wm_block_state(block);

    tally->bytes[state] += block->bytes;
    if (state == WM_BLOCK_LIVE || state == WM_BLOCK_FREEING) {
        return !tally->settled || wm_block_requested(block) <= block->bytes;
    }
    if (state == WM_BLOCK_CACHED || state == WM_BLOCK_BATCHED) {
        return block->size_class < WM_CLASSES;
    }
    return state != WM_BLOCK_VOID && state != WM_BLOCK_SLAB;
}

/* A slot of a page or more begins alone in its page, which has its entry. */
static bool check_entry(const wm_slab *slab, const wm_block *slot)
{
    return slab->slot_bytes < WM_PAGE ||
           wm_page_map_get(slot->base) == ((uintptr_t)slot | WM_ENTRY_RUN);
}

static bool check_slab(struct tally *tally, const wm_block *run)
{
    wm_slab *slab = wm_slab_of_run_locked(run);
    unsigned idle = 0;

    if (slab->run != run || wm_slab_base(slab) != run->base ||
        wm_slab_run_bytes(slab->size_class) != run->bytes) {
        return false;
    }
    for (unsigned i = 0; i < slab->slots; i++) {
        wm_block *slot = &slab->slot[i];
        bool is_idle = wm_block_state(slot) == WM_BLOCK_IDLE;

        if (is_idle != (((slab->idle_mask >> i) & 1) != 0) ||
            slot->base != wm_slab_base(slab) + i * slab->slot_bytes ||
            !check_entry(slab, slot) || wm_block_from(slot->base) != slot ||
            wm_block_at(slot->base + slot->bytes - 1) != slot ||
            !tally_block(tally, slot)) {
            return false;
        }
        idle += is_idle;
    }
    tally->slabs_with_room += idle > 0;
    tally->bytes[WM_BLOCK_IDLE] += run->bytes - slab->slots * slab->slot_bytes;
    return idle < slab->slots;
}

/* A part of a block that begins in an earlier segment, whose bytes count. */
static bool check_spanned(const wm_block *run)
{
    const wm_segment *segment = run->segment;
    wm_block *block =
        atomic_load_explicit(&segment->spanned_by, memory_order_relaxed);

    return block != NULL && run == segment->first && block->base < run->base &&
           block->base + block->bytes >= run->base + run->bytes &&
           wm_block_to_cut(block, run->base) == block->segment->bytes &&
           wm_block_at(run->base) == block;
}

/* A block that spans segments: they adjoin, all but the last have one size, and
 * the block ends in the last. */
static bool check_span(const wm_block *block)
{
    const wm_segment *first = block->segment, *s = first, *next;
    const char *end = block->base + block->bytes;

    for (; s->base + s->bytes < end; s = next) {
        next = s->span_next;
        if (next == NULL || s->bytes != first->bytes ||
            next->base != s->base + s->bytes ||
            wm_block_state(next->first) != WM_BLOCK_SPANNED) {
            return false;
        }
    }
    return s->base + s->first->bytes == end && block->after == NULL;
}

static bool check_run(struct tally *tally, wm_block *run)
{
    enum wm_block_state state = wm_block_state(run);
    enum wm_block_state next =
        run->after == NULL ? WM_BLOCK_VOID : wm_block_state(run->after);

    if (state == WM_BLOCK_SLAB) {
        return check_slab(tally, run);
    }
    if (state == WM_BLOCK_SPANNED) {
        return check_spanned(run);
    }
    tally->idle_runs += state == WM_BLOCK_IDLE;
    return wm_block_at(run->base) == run &&
           wm_block_at(run->base + run->bytes - 1) == run &&
           !(state == WM_BLOCK_IDLE && next == WM_BLOCK_IDLE &&
             run->lane == run->after->lane) &&
           (!wm_block_is_cut(run) || check_span(run)) &&
           tally_block(tally, run);
}

static bool check_segment(struct tally *tally, wm_segment *segment)
{
    char *at = segment->base;

    if (segment->first->base != at) {
        return false;
    }
    tally->held += segment->bytes;
    tally->whole +=
        wm_run_is_idle(segment->first) && wm_run_is_segment(segment->first);
    for (wm_block *run = segment->first; run != NULL; run = run->after) {
        if (run->base != at || run->segment != segment || run->slab != NULL ||
            run->lane == NULL || !check_run(tally, run)) {
            return false;
        }
        tally->runs++;
        at += wm_run_extent(run);
    }
    return at == segment->base + segment->bytes;
}

/* Length of a list of runs, linked both ways. */
static size_t count_runs(const wm_block *run, bool *good)
{
    const wm_block *previous = NULL;
    size_t count = 0;

    for (; run != NULL; run = run->next_idle) {
        *good = *good && run->previous_idle == previous;
        previous = run;
        count++;
    }
    return count;
}

/* Number of runs in the bins; each stands in its own bin, whose bit is set. */
static size_t count_bins(const wm_runs *runs, bool *good)
{
    const wm_bins *bins = runs->bins;
    size_t count = 0;

    if (bins == NULL) {
        return count_runs(runs->few, good);
    }
    for (unsigned i = 0; i < WM_BINS_COUNT; i++) {
        for (const wm_block *b = bins->bin[i]; b != NULL; b = b->next_idle) {
            *good =
                *good && wm_bins_index(b->bytes) == i && wm_run_kind(b) == runs;
        }
        *good = *good && (bins->bin[i] != NULL) ==
                             (((bins->filled[i / 64] >> (i % 64)) & 1) != 0);
        count += count_runs(bins->bin[i], good);
    }
    return count;
}

/* Bytes of the idle runs. */
static size_t idle_bytes(const wm_lane *lane)
{
    size_t bytes = 0;

    for (int kind = 0; kind < WM_RUN_KINDS; kind++) {
        const wm_block *run;

        for (unsigned at = 0;
             (run = wm_runs_next(&lane->idle[kind], &at)) != NULL;) {
            for (; run != NULL; run = run->next_idle) {
                bytes += run->bytes;
            }
        }
    }
    return bytes;
}

/* Subtracts what the lane's lists hold: 0 is left if nothing is in two lists.
 */
static bool check_lane(struct tally *tally, const wm_lane *lane)
{
    bool good = true;

    for (int kind = 0; kind < WM_RUN_KINDS; kind++) {
        const wm_runs *runs = &lane->idle[kind];
        size_t count = count_bins(runs, &good);

        good = good && count == runs->count;
        tally->idle_runs -= count;
    }
    for (int i = 0; lane->slabs != NULL && i < WM_SLAB_CLASSES; i++) {
        for (wm_slab *slab = lane->slabs->of[i]; slab != NULL;
             slab = slab->next) {
            good = good && slab->run->lane == lane;
            tally->slabs_with_room--;
        }
    }
    tally->runs -= lane->runs;
    return good && lane->safe_until <= lane->puts &&
           lane->idle_bytes == idle_bytes(lane);
}

/* Checks what holds for one arena; adds the rest to the tally of all. */
static bool check_locked(wm_arena *arena, struct tally *all)
{
    struct tally tally = {.settled = all->settled};
    size_t laned = 0;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        if (!check_segment(&tally, s)) {
            return false;
        }
    }
    for (wm_lane *lane = arena->lanes; lane != NULL; lane = lane->next) {
        if (!check_lane(&tally, lane)) {
            return false;
        }
        laned += lane->idle_bytes;
    }
    all->held += tally.held;
    for (int i = 0; i <= WM_BLOCK_SPANNED; i++) {
        all->bytes[i] += tally.bytes[i];
    }
    return check_lane(&tally, &arena->common) && tally.idle_runs == 0 &&
           tally.slabs_with_room == 0 && laned == arena->laned_bytes &&
           (tally.runs == 0 || arena->detached_bytes > 0) &&
           tally.whole == atomic_load_explicit(&arena->idle_segments,
                                               memory_order_relaxed) &&
           tally.held + arena->detached_bytes ==
               arena->stats.held_bytes.current;
}

/* A thread counts in one arena what it does to the blocks of all siblings: only
 * the sums are right. */
static bool check_sums_locked(const wm_arena *first, const struct tally *tally)
{
    const uint64_t *bytes = tally->bytes;
    uint64_t live = bytes[WM_BLOCK_LIVE] + bytes[WM_BLOCK_FREEING];
    uint64_t cached = bytes[WM_BLOCK_CACHED] + bytes[WM_BLOCK_BATCHED];
    uint64_t held = bytes[WM_BLOCK_IDLE] + live + cached +
                    bytes[WM_BLOCK_PENDING] + bytes[WM_BLOCK_LOST] +
                    bytes[WM_BLOCK_CAPTURED];
    uint64_t pending = 0, lost = 0, captured = 0, counted = 0, out = 0;

    for (const wm_arena *a = first; a != NULL; a = a->next_sibling) {
        pending += a->stats.pending_bytes.current;
        lost += a->stats.lost_bytes;
        captured += a->stats.captured_bytes;
        out += a->out_bytes;
        for (int i = 0; i < WM_CLASSES_ALL; i++) {
            counted += a->classes[i].live_bytes.current;
        }
    }
    return bytes[WM_BLOCK_PENDING] == pending && bytes[WM_BLOCK_LOST] == lost &&
           bytes[WM_BLOCK_CAPTURED] == captured &&
           (!tally->settled || live == counted) && live + cached == out &&
           tally->held == held;
}

static bool check(wm_arena *first, bool settled)
{
    struct tally tally = {.settled = true};
    bool good = true;

    wm_arena_lock_all(first);
    for (wm_arena *a = first; a != NULL; a = a->next_sibling) {
        tally.settled = tally.settled && (settled || !a->batched);
    }
    for (wm_arena *a = first; a != NULL && good; a = a->next_sibling) {
        good = check_locked(a, &tally);
    }
    good = good && check_sums_locked(first, &tally);
    wm_arena_unlock_all(first);
    return good;
}

bool wm_arena_check(wm_arena *arena)
{
    return check(arena->siblings, false);
}

bool wm_arena_check_settled(wm_arena *arena)
{
    return check(arena->siblings, true);
}
