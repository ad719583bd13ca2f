/* thread_caches.c: visits to the caches of all threads, which flush them, merge
 * their counts, and raise or reset peaks.
 *
 * Takes lock windows, under it the lock of each window, and under that lock
 * arena. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"

int64_t wm_cache_bytes_of(const wm_window *window, const wm_arena_group *group)
{
    const wm_magazine_set *set;
    int64_t bytes = 0;

    for (unsigned at = 0;
         (set = wm_cache_next_set(window, group, &at)) != NULL;) {
        bytes += wm_magazine_set_bytes(set);
    }
    return bytes;
}

struct walk {
    wm_arena_group *group;
    /* Whether a set is a reason to visit its window; reads atomics only. Null:
     * each set is. */
    bool (*wanted)(const wm_magazine_set *set, const wm_window *window,
                   const void *context);
    /* Called with every set of a visited window. */
    void (*visit)(wm_magazine_set *set, const void *context);
    void (*finish)(void *context); /* as in wm_visit */
    void *context;
};

static bool has_wanted(const wm_window *window, void *context)
{
    const struct walk *walk = context;
    const wm_magazine_set *set;

    for (unsigned at = 0;
         (set = wm_cache_next_set(window, walk->group, &at)) != NULL;) {
        if (walk->wanted == NULL || walk->wanted(set, window, walk->context)) {
            return true;
        }
    }
    return false;
}

static void visit_sets(wm_window *window, void *context)
{
    const struct walk *walk = context;
    wm_magazine_set *set;

    for (unsigned at = 0;
         (set = wm_cache_next_set(window, walk->group, &at)) != NULL;) {
        walk->visit(set, walk->context);
    }
}

static void finish_walk(void *context)
{
    const struct walk *walk = context;

    walk->finish(walk->context);
}

static void walk_all(struct walk walk)
{
    /* Without a finish each window opens again before the next is visited. */
    const wm_visit visit = {has_wanted, visit_sets,
                            walk.finish != NULL ? finish_walk : NULL, &walk};

    if (walk.group->magazine_blocks > 0) {
        (void)wm_window_visit(walk.group->runtime, &visit);
    } else if (walk.finish != NULL) {
        walk.finish(walk.context);
    }
}

static void merge_set(wm_magazine_set *set, const void *context)
{
    (void)context;
    wm_pending_count_all(set);
    wm_lock_acquire(&set->arena->lock);
    wm_magazine_set_merge_stats_locked(set);
    wm_lock_release(&set->arena->lock);
    wm_magazine_set_return_room(set, NULL);
}

void wm_cache_merge_stats_and_read(wm_arena_group *group,
                                   void (*read)(void *context), void *context)
{
    walk_all((struct walk){group, NULL, merge_set, read, context});
}

void wm_cache_merge_stats(wm_arena_group *group)
{
    wm_cache_merge_stats_and_read(group, NULL, NULL);
}

static bool has_bytes(const wm_magazine_set *set, const wm_window *window,
                      const void *context)
{
    (void)window;
    (void)context;
    return wm_magazine_set_bytes(set) > 0;
}

static void flush_set(wm_magazine_set *set, const void *context)
{
    (void)context;
    (void)wm_cache_flush(set, WM_ALL);
}

void wm_cache_flush_all(wm_arena_group *group)
{
    walk_all((struct walk){group, has_bytes, flush_set, NULL, NULL});
}

static void flush_if_idle(wm_magazine_set *set, const void *context)
{
    merge_set(set, context);
    if (!set->used) {
        (void)wm_cache_flush(set, WM_ALL);
    }
    set->used = false;
}

void wm_cache_flush_idle(wm_arena_group *group)
{
    walk_all((struct walk){group, has_bytes, flush_if_idle, NULL, NULL});
    for (wm_arena *a = wm_group_arenas(group); a != NULL; a = a->next_arena) {
        wm_lock_acquire(&a->lock);
        wm_arena_age_transfer_cache_locked(a);
        wm_lock_release(&a->lock);
    }
}

/* ---- peaks --------------------------------------------------------------- */

/* The figures whose peaks have to be raised; only their rooms are trimmed. */
struct raise {
    wm_arena_group *group;
    bool above[WM_LIVE_FIGURES];
};

static inline bool note_above(struct raise *raise, const wm_live *live)
{
    bool sorted = wm_arena_is_sorted(raise->group->arenas), any = false;
    int figures = sorted ? WM_LIVE_FIGURES : WM_LIVE_ACTIVE;

    for (int i = 0; i < figures; i++) {
        if (wm_claimed(&live->of[i]) > wm_claim_peak(&live->of[i])) {
            raise->above[i] = any = true;
        }
    }
    return any;
}

/* Looks at all nodes: a request may have been served by another node than its
 * own. */
static bool find_above(struct raise *raise)
{
    bool any = false;

    for (int i = 0; i < raise->group->nodes; i++) {
        const wm_lives *lives = wm_group_arena(raise->group, i)->live;

        any |= note_above(raise, &lives->large);
        if (lives->large.whole != NULL) {
            any |= note_above(raise, lives->large.whole);
        }
        if (lives->all == &lives->whole) {
            any |= note_above(raise, &lives->small);
        }
    }
    raise->above[WM_LIVE_BLOCKS] |= raise->above[WM_LIVE_ACTIVE];
    raise->above[WM_LIVE_BYTES] |= raise->above[WM_LIVE_ACTIVE_BYTES];
    return any;
}

/* The calling thread's room does not change meanwhile. Another thread that has
 * little room now may have much when the peak is raised. */
static bool may_have_excess(const wm_magazine_set *set, const wm_window *window,
                            const void *context)
{
    const struct raise *raise = context;

    return window != wm_window_current ||
           wm_magazine_set_has_excess(set, raise->above);
}

static void return_excess(wm_magazine_set *set, const void *context)
{
    const struct raise *raise = context;

    wm_magazine_set_return_room(set, raise->above);
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

    if (wm_unlikely(find_above(&raise))) {
        walk_all((struct walk){group, may_have_excess, return_excess,
                               raise_above, &raise});
    }
}

static void return_all(wm_magazine_set *set, const void *context)
{
    (void)context;
    wm_magazine_set_return_room(set, NULL);
    wm_magazine_set_end_claims(set);
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
    walk_all((struct walk){group, NULL, return_all, reset_lives, group});
}
