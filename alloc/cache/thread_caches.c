/* thread_caches.c: visits the sets of all threads: merges their counts for a
 * reader, flushes them to their arenas, ends them.
 *
 * Takes lock windows, under it the biased lock of each window, and under that
 * lock arena. */
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

static bool has_bytes(const wm_window *window, void *context)
{
    return wm_cache_bytes_of(window, context) > 0;
}

static void merge_window(wm_window *window, const wm_arena_group *group)
{
    wm_magazine_set *set;

    for (unsigned at = 0;
         (set = wm_cache_next_set(window, group, &at)) != NULL;) {
        wm_pending_count_all(set);
        wm_lock_acquire(&set->arena->lock);
        wm_magazine_set_merge_stats_locked(set);
        wm_lock_release(&set->arena->lock);
        wm_magazine_set_return_room(set);
    }
}

static void visit(wm_arena_group *group, const wm_visit *visit)
{
    if (group->magazine_blocks > 0) {
        (void)wm_window_visit(group->runtime, visit);
    }
}

struct reading {
    wm_arena_group *group;
    void (*read)(void *context); /* or null */
    void *context;
};

static bool has_set(const wm_window *window, void *context)
{
    const struct reading *reading = context;
    unsigned at = 0;

    return wm_cache_next_set(window, reading->group, &at) != NULL;
}

static void merge_visited(wm_window *window, void *context)
{
    const struct reading *reading = context;

    merge_window(window, reading->group);
}

static void call_reader(void *context)
{
    const struct reading *reading = context;

    reading->read(reading->context);
}

void wm_cache_merge_stats_and_read(wm_arena_group *group,
                                   void (*read)(void *context), void *context)
{
    struct reading reading = {group, read, context};
    /* Without a reader each window opens again before the next is visited. */
    const wm_visit all = {has_set, merge_visited,
                          read != NULL ? call_reader : NULL, &reading};

    if (group->magazine_blocks > 0) {
        (void)wm_window_visit(group->runtime, &all);
    } else if (read != NULL) {
        read(context);
    }
}

void wm_cache_merge_stats(wm_arena_group *group)
{
    wm_cache_merge_stats_and_read(group, NULL, NULL);
}

static void flush_window(wm_window *window, void *context)
{
    wm_magazine_set *set;

    for (unsigned at = 0;
         (set = wm_cache_next_set(window, context, &at)) != NULL;) {
        (void)wm_cache_flush(set, WM_ALL);
    }
}

void wm_cache_flush_all(wm_arena_group *group)
{
    const wm_visit filled = {has_bytes, flush_window, NULL, group};

    visit(group, &filled);
}

static void flush_if_idle(wm_window *window, void *context)
{
    wm_magazine_set *set;

    merge_window(window, context);
    for (unsigned at = 0;
         (set = wm_cache_next_set(window, context, &at)) != NULL;) {
        if (!set->used) {
            (void)wm_cache_flush(set, WM_ALL);
        }
        set->used = false;
    }
}

void wm_cache_flush_idle(wm_arena_group *group)
{
    const wm_visit filled = {has_bytes, flush_if_idle, NULL, group};

    visit(group, &filled);
    for (wm_arena *a = wm_group_arenas(group); a != NULL; a = a->next_arena) {
        wm_lock_acquire(&a->lock);
        wm_arena_age_transfer_cache_locked(a);
        wm_lock_release(&a->lock);
    }
}

void wm_cache_end(warm_runtime *runtime, wm_window *window)
{
    wm_magazine_set *set = wm_cache_set_of(window);

    (void)runtime;
    wm_stream_slots_end(window);
    if (set == NULL) {
        return;
    }
    wm_pending_end(set);
    wm_cache_count_set(set->arena, -1);
    wm_magazine_set_retire(set, &window->magazines, &window->live_tag);
}
