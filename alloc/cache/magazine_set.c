/* magazine_set.c: the lifetime of a set of magazines: create, put classes to
 * use, move to another node or sibling arena, retire, free; and which arena a
 * set refills from.
 *
 * The caller has locked the set's window; takes lock arena. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"
#include "runtime/base/meta.h"

/* The last number of a set: none is used twice in a process. */
static _Atomic uint64_t last_number;

static uint32_t room_for(const wm_arena_group *group, size_t bytes)
{
    size_t room = group->magazine_bytes / 4 / bytes;

    if (room < 2) {
        room = group->magazine_bytes / bytes;
        room = room < 2 ? room : 2;
    }
    return (uint32_t)(room < group->magazine_blocks ? room
                                                    : group->magazine_blocks);
}

/* The block before the first entry of a class; its state is that of no set.
 * Classes that are not in use share that entry, so that their own entries are
 * not touched. */
static const wm_block no_block;
static const wm_entry no_entry = {(wm_block *)(uintptr_t)&no_block, NULL};

static void set_entries(wm_magazine *m, const wm_entry *before, uint32_t room)
{
    m->top = (wm_entry *)(uintptr_t)before + 1;
    m->end = m->top + room;
    m->room = room;
}

static wm_magazine_set *make_set(wm_arena_group *group, wm_arena *arena)
{
    wm_magazine_set *set = wm_meta_alloc(sizeof *set);

    if (set == NULL) {
        return NULL;
    }
    set->arena = arena;
    set->group = group;
    set->bytes_max = (int64_t)group->magazine_bytes;
    for (unsigned i = 0; i < WM_CLASSES; i++) {
        wm_magazine *m = &set->of[i];

        m->bytes = (int64_t)wm_class_bytes(i);
        m->room_offset =
            (uint32_t)offsetof(wm_magazine_set, rooms) +
            (wm_class_bytes(i) > arena->small_max) * (uint32_t)sizeof(wm_room);
        set->supply[i].batch = 1;
        set_entries(m, &no_entry, 0);
    }
    return set;
}

wm_magazine *wm_magazine_use(wm_magazine_set *set, unsigned size_class)
{
    wm_magazine *m = &set->of[size_class];
    wm_supply *supply = &set->supply[size_class];
    uint32_t room;

    if (wm_likely(m->room > 0)) {
        return m;
    }
    room = room_for(set->group, (size_t)m->bytes);
    if (supply->entries == NULL && m->bytes <= set->bytes_max) {
        supply->entries = wm_meta_alloc((1 + room) * sizeof *supply->entries);
        if (supply->entries != NULL) {
            *supply->entries = no_entry;
        }
    }
    if (supply->entries == NULL) {
        return NULL;
    }
    set_entries(m, supply->entries, room);
    set->in_use[set->classes++] = (uint8_t)size_class;
    return m;
}

/* The spare sets of a group are guarded by lock arena of its first arena. */
static wm_lock *spare_lock(const wm_arena_group *group)
{
    return &group->arenas->lock;
}

/* The empty set refills from the arena from now on. What it counted of growth
 * and of completed blocks does not hold on another node. */
static void use_arena(wm_magazine_set *set, wm_arena *arena)
{
    if (!wm_arena_is_sibling(set->arena, arena)) {
        set->grown =
            atomic_load_explicit(&arena->siblings->grown, memory_order_relaxed);
        set->completed = set->completed_max = 0;
        set->footprint_stable = false;
    }
    set->arena = arena;
    set->contended = set->locked = set->self_served = 0;
}

/* Gives the set an unused number, which names the slot of the window. */
static void renumber(wm_magazine_set *set, unsigned slot,
                     _Atomic uint64_t *live_tag)
{
    /* Relaxed: only uniqueness matters. */
    uint64_t next =
        atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;

    next = next * WM_STREAM_SLOTS + slot;
    atomic_store_explicit(&set->number, next, memory_order_relaxed);
    set->live = wm_state_of_set(WM_BLOCK_LIVE, next);
    set->cached = wm_state_of_set(WM_BLOCK_CACHED, next);
    atomic_store_explicit(live_tag, set->live, memory_order_relaxed);
}

/* One set more or less refills from the arena. */
static void count_set(wm_arena *arena, int change)
{
    /* Relaxed: an estimate from which shares of room are computed. */
    atomic_fetch_add_explicit(&arena->live->sets, (unsigned)change,
                              memory_order_relaxed);
    wm_lock_acquire(&arena->siblings->lock);
    arena->sets += (unsigned)change;
    wm_lock_release(&arena->siblings->lock);
}

/* Moves the set to the sibling arena that fewest sets use, unless that would
 * have as many as its own. Under a lock: else threads that look at the same
 * time would all choose the same sibling. */
static void move_to_least_used(wm_magazine_set *set)
{
    wm_arena *best = set->arena;

    wm_lock_acquire(&set->arena->siblings->lock);
    for (wm_arena *a = set->arena->siblings; a != NULL; a = a->next_sibling) {
        if (a->sets + 1 < set->arena->sets && a->sets < best->sets) {
            best = a;
        }
    }
    set->arena->sets--;
    best->sets++;
    wm_lock_release(&set->arena->siblings->lock);
    set->arena = best;
}

void wm_cache_move_to_sibling(wm_magazine_set *set)
{
    if (set->contended >= WM_CONTENTION_LIMIT) {
        move_to_least_used(set);
        wm_pending_note_home(set);
    }
    set->contended = set->locked = 0;
}

wm_magazine_set *wm_magazine_set_create(wm_arena_group *group, wm_arena *arena,
                                        unsigned slot,
                                        _Atomic uint64_t *live_tag)
{
    wm_magazine_set *set;

    /* A spare set fits every arena of its group, whichever it was refilled
     * from. */
    wm_lock_acquire(spare_lock(group));
    set = group->spare_sets;
    if (set != NULL) {
        group->spare_sets = set->next;
    }
    wm_lock_release(spare_lock(group));
    if (set != NULL) {
        use_arena(set, arena);
    } else {
        set = make_set(group, arena);
    }
    if (set != NULL) {
        set->sharers = 1;
        renumber(set, slot, live_tag);
        count_set(arena, 1);
    }
    return set;
}

void wm_magazine_set_begin(wm_arena_group *group, wm_arena *home,
                           wm_window *window)
{
    wm_magazine_set *set =
        wm_magazine_set_create(group, home, 0, &window->live_tag);

    if (set == NULL) {
        return;
    }
    /* Threads are spread before they contend only if option arenas says so:
     * memory in several arenas is used less well. */
    if (group->parted) {
        move_to_least_used(set);
    }
    window->pending_last =
        (wm_pending_stream *)(uintptr_t)&wm_pending_no_stream;
    /* Release: a thread that reads it under lock windows sees an initialised
     * set. */
    atomic_store_explicit(&window->magazines, set, memory_order_release);
}

void wm_magazine_set_move(wm_magazine_set *set, wm_arena *home,
                          wm_window *window)
{
    if (wm_arena_is_sibling(set->arena, home)) {
        return;
    }
    wm_pending_end(set);
    (void)wm_cache_flush(set, WM_ALL);
    wm_lock_acquire(&set->arena->lock);
    wm_magazine_set_merge_stats_locked(set);
    wm_lock_release(&set->arena->lock);
    wm_magazine_set_return_room(set, NULL);
    count_set(set->arena, -1);
    use_arena(set, home);
    count_set(home, 1);
    if (set->group->parted) {
        move_to_least_used(set);
    }
    renumber(set, 0, &window->live_tag);
}

unsigned wm_cache_shard_of_thread(const wm_arena_group *group)
{
    return (unsigned)(((uint64_t)(uintptr_t)pthread_self() *
                       UINT64_C(0x9E3779B97F4A7C15)) >>
                      32) %
           group->shards;
}

wm_arena *wm_cache_first_arena(const wm_arena_group *group)
{
    wm_arena *best = group->arenas;

    if (!group->parted) {
        return best;
    }
    if (group->magazine_blocks == 0) {
        return best + wm_cache_shard_of_thread(group);
    }
    wm_lock_acquire(&group->arenas->lock);
    for (wm_arena *a = best; a != NULL; a = a->next_sibling) {
        best = a->sets < best->sets ? a : best;
    }
    wm_lock_release(&group->arenas->lock);
    return best;
}

void wm_magazine_set_retire(wm_magazine_set *set,
                            _Atomic(struct wm_magazine_set *) *from,
                            _Atomic uint64_t *live_tag)
{
    wm_arena_group *group = set->arena->group;

    count_set(set->arena, -1);
    (void)wm_cache_flush_siblings(set);
    wm_lock_acquire(&set->arena->lock);
    (void)wm_cache_flush_locked(set, WM_ALL);
    wm_magazine_set_merge_stats_locked(set);
    wm_magazine_set_return_room(set, NULL);
    wm_magazine_set_end_claims(set);
    /* Not earlier: a thread that looks for memory would find the blocks neither
     * here nor in the arena. Not later: no thread may read a set that another
     * thread uses. */
    atomic_store_explicit(from, NULL, memory_order_relaxed);
    atomic_store_explicit(live_tag, WM_NO_TAG, memory_order_relaxed);
    while (set->classes > 0) {
        set_entries(&set->of[set->in_use[--set->classes]], &no_entry, 0);
    }
    wm_lock_release(&set->arena->lock);
    wm_lock_acquire(spare_lock(group));
    set->next = group->spare_sets;
    group->spare_sets = set;
    wm_lock_release(spare_lock(group));
}

static void free_sets(wm_magazine_set *set)
{
    while (set != NULL) {
        wm_magazine_set *next = set->next;

        for (unsigned i = 0; i < WM_CLASSES; i++) {
            wm_meta_free(set->supply[i].entries);
        }
        wm_pending_fini(set);
        wm_meta_free(set);
        set = next;
    }
}

/* Frees under lock windows, under which other threads read sets: a thread
 * that read a set before it left its window has finished, and none reads it
 * later. */
void wm_cache_trim(wm_arena_group *group)
{
    wm_magazine_set **link = &group->spare_sets, *rest;

    wm_lock_acquire(&group->runtime->windows_lock);
    wm_lock_acquire(spare_lock(group));
    for (int i = 0; i < WM_SETS_KEPT && *link != NULL; i++) {
        link = &(*link)->next;
    }
    rest = *link;
    *link = NULL;
    wm_lock_release(spare_lock(group));
    free_sets(rest);
    wm_lock_release(&group->runtime->windows_lock);
}

void wm_cache_fini(wm_arena_group *group)
{
    free_sets(group->spare_sets);
    group->spare_sets = NULL;
}
