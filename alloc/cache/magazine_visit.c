/* magazine_visit.c: the magazines of all threads: settled for a reader, and
 * given back to their arenas. See magazine.h.
 *
 * Takes lock windows, under it the section of each window, and lock arena. */
#include "alloc/cache/magazine_int.h"

#include "alloc/arena/arena_int.h"
#include "alloc/arena/group.h"

static bool has_set(const wm_window *window, void *context)
{
    unsigned at = 0;

    return wm_magazines_next(window, context, &at) != NULL;
}

int64_t wm_magazines_bytes_of(const wm_window *window,
                              const wm_arena_group *group)
{
    const wm_magazines *set;
    int64_t bytes = 0;

    for (unsigned at = 0;
         (set = wm_magazines_next(window, group, &at)) != NULL;) {
        bytes += wm_magazines_bytes(set);
    }
    return bytes;
}

static bool has_bytes(const wm_window *window, void *context)
{
    return wm_magazines_bytes_of(window, context) > 0;
}

static void settle(wm_window *window, const wm_arena_group *group)
{
    wm_magazines *set;

    for (unsigned at = 0;
         (set = wm_magazines_next(window, group, &at)) != NULL;) {
        wm_gather_tell_all(set);
        wm_lock_acquire(&set->arena->lock);
        wm_magazines_settle_locked(set);
        wm_lock_release(&set->arena->lock);
        wm_magazines_drop_room(set);
    }
}

static void settle_window(wm_window *window, void *context)
{
    settle(window, context);
}

static void visit(wm_arena_group *group, const wm_visit *visit)
{
    if (group->magazine_blocks > 0) {
        (void)wm_window_visit(group->runtime, visit);
    }
}

void wm_magazines_settle_all(wm_arena_group *group)
{
    const wm_visit all = {has_set, settle_window, NULL, group};

    visit(group, &all);
}

struct reading {
    wm_arena_group *group;
    void (*read)(void *context);
    void *context;
};

static bool has_set_to_read(const wm_window *window, void *context)
{
    const struct reading *reading = context;

    return has_set(window, reading->group);
}

static void settle_to_read(wm_window *window, void *context)
{
    const struct reading *reading = context;

    settle(window, reading->group);
}

static void read_settled(void *context)
{
    const struct reading *reading = context;

    reading->read(reading->context);
}

void wm_magazines_settle_and_read(wm_arena_group *group,
                                  void (*read)(void *context), void *context)
{
    struct reading reading = {group, read, context};
    const wm_visit all = {has_set_to_read, settle_to_read, read_settled,
                          &reading};

    if (group->magazine_blocks > 0) {
        (void)wm_window_visit(group->runtime, &all);
    } else {
        read(context);
    }
}

static void flush_window(wm_window *window, void *context)
{
    wm_magazines *set;

    for (unsigned at = 0;
         (set = wm_magazines_next(window, context, &at)) != NULL;) {
        (void)wm_magazines_give_back(set, WM_ALL);
    }
}

void wm_magazines_flush_all(wm_arena_group *group)
{
    const wm_visit filled = {has_bytes, flush_window, NULL, group};

    visit(group, &filled);
}

static void flush_if_idle(wm_window *window, void *context)
{
    wm_magazines *set;

    settle(window, context);
    for (unsigned at = 0;
         (set = wm_magazines_next(window, context, &at)) != NULL;) {
        if (!set->used) {
            (void)wm_magazines_give_back(set, WM_ALL);
        }
        set->used = false;
    }
}

void wm_magazines_flush_idle(wm_arena_group *group)
{
    const wm_visit filled = {has_bytes, flush_if_idle, NULL, group};

    visit(group, &filled);
    for (wm_arena *a = wm_group_arenas(group); a != NULL; a = a->next_arena) {
        wm_lock_acquire(&a->lock);
        wm_arena_age_depot_locked(a);
        wm_lock_release(&a->lock);
    }
}

void wm_magazines_end(warm_runtime *runtime, wm_window *window)
{
    wm_magazines *set = wm_magazines_of(window);

    (void)runtime;
    wm_lane_end_all(window);
    if (set == NULL) {
        return;
    }
    wm_gather_end(set);
    wm_magazines_count_set(set->arena, -1);
    wm_magazines_retire(set, &window->magazines, &window->live_tag);
}
