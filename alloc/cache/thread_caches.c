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
    wm_room_return(set);
}

void wm_cache_merge_stats_and_read(wm_arena_group *group,
                                   void (*read)(void *context), void *context)
{
    walk_all((struct walk){group, NULL, merge_set, read, context});
}

void wm_cache_visit(wm_arena_group *group,
                    void (*visit)(wm_magazine_set *set, const void *context),
                    void *context)
{
    walk_all((struct walk){group, NULL, visit, NULL, context});
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

static bool is_idle(const wm_magazine_set *set, const wm_window *window,
                    const void *context)
{
    const wm_arena_group *group = context;

    (void)window;
    return wm_magazine_set_bytes(set) > 0 &&
           wm_economy_is_idle(&group->economy, &set->share);
}

/* A cache of which all requests were hits is not idle: it is flushed at the
 * second visit without any. */
void wm_cache_sweep(wm_arena_group *group)
{
    walk_all((struct walk){group, is_idle, flush_if_idle, NULL, group});
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

static void return_all(wm_magazine_set *set, const void *context)
{
    (void)context;
    wm_room_return(set);
}

static void reset_lives(void *context)
{
    wm_arena_group *group = context;

    wm_live_reset(&group->live);
}

void wm_cache_reset_peaks(wm_arena_group *group)
{
    walk_all((struct walk){group, NULL, return_all, reset_lives, group});
}
