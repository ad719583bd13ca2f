/* economy.c: the rule of memory economy (economy.h). */
#include "alloc/arena/economy.h"

#include "alloc/arena/arena_int.h"
#include "alloc/arena/group.h"
#include "runtime/base/clock.h"

#include <string.h>

/* A peak loses a DECAY-th of what is above today's need in each DECAY_NS. */
enum { DECAY = 8 };
#define DECAY_NS UINT64_C(1000000000)

/* Even shares make up a quarter of the budget. */
enum { EVEN_PART = 4 };

static inline size_t get(const _Atomic size_t *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}

static inline uint32_t get32(const _Atomic uint32_t *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}

static inline void set32(_Atomic uint32_t *figure, uint32_t value)
{
    atomic_store_explicit(figure, value, memory_order_relaxed);
}

/* bytes × mille / 1000, without overflow. */
static size_t part_of(size_t bytes, size_t mille)
{
    return bytes / 1000 * mille + bytes % 1000 * mille / 1000;
}

/* ---- caches ------------------------------------------------------------- */

static void end_period(struct wm_arena_group *group, uint32_t period)
{
    wm_economy *e = &group->economy;

    if (!atomic_compare_exchange_strong_explicit(
            &e->period, &period, period + 1, memory_order_relaxed,
            memory_order_relaxed)) {
        return; /* another thread has */
    }
    set32(&e->last_uses, get32(&e->uses));
    set32(&e->last_users, get32(&e->users));
    set32(&e->uses, 0);
    set32(&e->users, 0);
    atomic_store_explicit(&e->swept, false, memory_order_relaxed);
    wm_economy_look(group);
}

size_t wm_economy_keep(const wm_economy *e)
{
    return part_of(get(&e->peak), e->keep) + WM_KEEP_FLOOR;
}

size_t wm_economy_transfer_max(const wm_economy *e)
{
    size_t most = wm_economy_keep(e) / WM_TRANSFER_PART;

    return most > WM_TRANSFER_LEAST ? most : WM_TRANSFER_LEAST;
}

int64_t wm_economy_part(struct wm_arena_group *group, wm_share *share)
{
    wm_economy *e = &group->economy;
    uint32_t period = get32(&e->period), uses, users, mine;
    int64_t keep = (int64_t)wm_economy_keep(e);

    if (get32(&share->period) != period) {
        share->last = get32(&share->period) + 1 == period ? share->uses : 0;
        share->uses = 0;
        set32(&share->period, period);
    }
    if (share->uses == 0) {
        atomic_fetch_add_explicit(&e->users, 1, memory_order_relaxed);
    }
    share->uses += WM_ECONOMY_STEP;
    if (atomic_fetch_add_explicit(&e->uses, WM_ECONOMY_STEP,
                                  memory_order_relaxed) >= WM_PERIOD) {
        end_period(group, period);
    }
    uses = get32(&e->uses) + get32(&e->last_uses);
    users = get32(&e->users) > get32(&e->last_users) ? get32(&e->users)
                                                     : get32(&e->last_users);
    mine = share->uses + share->last;
    mine = mine < uses ? mine : uses;
    users = users > 0 ? users : 1;
    uses = uses > 0 ? uses : 1;
    return WM_KEEP_EACH + keep / EVEN_PART / users +
           (keep - keep / EVEN_PART) * mine / uses;
}

bool wm_economy_is_idle(const wm_economy *e, const wm_share *share)
{
    return get32(&e->period) - get32(&share->period) > 1;
}

/* ---- the bound ---------------------------------------------------------- */

/* Adds up what an arena holds: what is needed, and the rest. */
static void add_up(wm_arena *arena, size_t *needed, size_t *idle)
{
    size_t held, bytes;

    wm_lock_acquire(&arena->lock);
    held = (size_t)arena->stats.held_bytes.current - arena->paused_bytes[0] -
           arena->paused_bytes[1];
    /* What graphs use stays, idle or not. */
    bytes = arena->pool != NULL
                ? held
                : arena->out_bytes - wm_transfer_bytes(&arena->transfer_cache) +
                      arena->stats.captured_bytes +
                      (size_t)arena->stats.pending_bytes.current;
    wm_lock_release(&arena->lock);
    /* Below 0 if the transfer cache has a block that was freed twice. */
    bytes = (int64_t)bytes > 0 ? bytes : 0;
    *needed += bytes;
    *idle += held > bytes ? held - bytes : 0;
}

/* How much of what is idle is wanted. ahead: e->ahead, as it was when idle was
 * added up: more of it has been used if less is idle. */
static size_t wanted_of(wm_economy *e, size_t ahead, size_t idle)
{
    if (ahead > idle && atomic_compare_exchange_strong_explicit(
                            &e->ahead, &ahead, idle, memory_order_relaxed,
                            memory_order_relaxed)) {
        ahead = idle;
    }
    ahead = ahead > e->reserve ? ahead : e->reserve;
    return ahead < idle ? ahead : idle;
}

/* Returns what is needed now. */
static size_t look(struct wm_arena_group *group)
{
    wm_economy *e = &group->economy;
    uint64_t now = wm_clock_ns();
    uint64_t since =
        now - atomic_load_explicit(&e->peak_ns, memory_order_relaxed);
    size_t ahead = get(&e->ahead), needed = 0, idle = 0;
    size_t peak = get(&e->peak);

    for (wm_arena *a = wm_group_arenas(group); a != NULL; a = a->next_arena) {
        add_up(a, &needed, &idle);
    }
    needed += wanted_of(e, ahead, idle);
    if (since >= DECAY_NS) {
        for (uint64_t i = since / DECAY_NS; i > 0 && peak > needed + DECAY;
             i--) {
            peak -= (peak - needed) / DECAY;
        }
        atomic_store_explicit(&e->peak_ns, now, memory_order_relaxed);
    }
    atomic_store_explicit(&e->peak, peak > needed ? peak : needed,
                          memory_order_relaxed);
    return needed;
}

void wm_economy_look(struct wm_arena_group *group)
{
    (void)look(group);
}

/* For a request of an arena, on the stream of lane, once so many more bytes are
 * live. Memory that other streams
 * have freed, and whose work may still use it, counts as pending memory does,
 * but only for this request: most of that work completes before the next one.
 * In the peak it would allow as much growth again. A private pool does not
 * allocate from those lanes. */
static size_t bound_for(const wm_arena *arena, const wm_lane *lane, size_t more,
                        size_t *needed)
{
    struct wm_arena_group *group = arena->group;
    wm_economy *e = &group->economy;
    bool laned = lane != NULL && arena->pool == NULL;
    size_t peak;

    *needed = look(group) + more +
              (laned ? wm_lanes_idle_beside(group->arenas, lane) : 0);
    peak = get(&e->peak);
    peak = peak > *needed ? peak : *needed;
    return peak + part_of(peak, e->slack) + WM_ECONOMY_FLOOR;
}

bool wm_economy_allows(const wm_arena *arena, const wm_lane *lane, size_t held)
{
    size_t needed;

    return held <= bound_for(arena, lane, 0, &needed);
}

size_t wm_economy_excess(const wm_arena *arena, const wm_lane *lane,
                         size_t held, size_t more, size_t *spare)
{
    size_t needed, bound = bound_for(arena, lane, more, &needed);

    *spare = held > needed ? held - needed : 0;
    return held > bound ? held - bound : 0;
}

void wm_economy_note_growth(wm_arena *arena, const wm_lane *lane, size_t bytes,
                            size_t held, bool ahead)
{
    wm_economy *e = &arena->group->economy;
    size_t bound, needed;

    set32(&e->grown, get32(&e->period));
    if (ahead) {
        atomic_fetch_add_explicit(&e->ahead, bytes, memory_order_relaxed);
    }
    bound = bound_for(arena, lane, 0, &needed);
    if (held > bound) {
        wm_lock_acquire(&arena->lock);
        arena->stats.above_bound += held - bound < bytes ? held - bound : bytes;
        wm_lock_release(&arena->lock);
    }
}
