/* magazine_set.c: the lifetime of a window's set of magazines: create, put
 * classes to use, move to another node or sibling arena, retire, free.
 *
 * Takes the biased lock of the calling thread's window, and under it lock
 * arena. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"
#include "runtime/thread/home_node.h"
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

static wm_entry *make_entries(const wm_magazine_set *set, const wm_magazine *m)
{
    size_t count = 1 + (size_t)room_for(set->group, (size_t)m->bytes);
    wm_entry *entries = wm_meta_alloc(count * sizeof *entries);

    if (entries != NULL) {
        *entries = no_entry;
    }
    return entries;
}

wm_magazine *wm_magazine_use(wm_magazine_set *set, unsigned size_class)
{
    wm_magazine *m = &set->of[size_class];
    wm_supply *supply = &set->supply[size_class];

    if (wm_likely(m->room > 0)) {
        return m;
    }
    if (supply->entries == NULL && m->bytes <= set->bytes_max) {
        supply->entries = make_entries(set, m);
    }
    if (supply->entries == NULL) {
        return NULL;
    }
    set_entries(m, supply->entries, room_for(set->group, (size_t)m->bytes));
    set->in_use[set->classes++] = (uint8_t)size_class;
    return m;
}

/* All classes are empty. */
static void use_no_class(wm_magazine_set *set)
{
    while (set->classes > 0) {
        wm_magazine *m = &set->of[set->in_use[--set->classes]];

        set_entries(m, &no_entry, 0);
    }
}

/* The spare sets of a group are guarded by lock arena of its first arena. */
static wm_lock *spare_lock(const wm_arena_group *group)
{
    return &group->arenas->lock;
}

/* A spare set fits every arena of its group, whichever it was refilled from. */
static wm_magazine_set *take_spare_set(wm_arena_group *group)
{
    wm_magazine_set *set;

    wm_lock_acquire(spare_lock(group));
    set = group->spare_sets;
    if (set != NULL) {
        group->spare_sets = set->next;
    }
    wm_lock_release(spare_lock(group));
    return set;
}

static void put_spare_set(wm_magazine_set *set)
{
    wm_arena_group *group = set->arena->group;

    wm_lock_acquire(spare_lock(group));
    set->next = group->spare_sets;
    group->spare_sets = set;
    wm_lock_release(spare_lock(group));
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

void wm_magazine_set_renumber(wm_magazine_set *set, unsigned slot,
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

static void renumber(wm_magazine_set *set, wm_window *window)
{
    wm_magazine_set_renumber(set, 0, &window->live_tag);
}

wm_magazine_set *wm_magazine_set_create(wm_arena_group *group, wm_arena *arena)
{
    wm_magazine_set *set = take_spare_set(group);

    if (set == NULL) {
        set = make_set(group, arena);
    } else {
        use_arena(set, arena);
    }
    if (set != NULL) {
        set->sharers = 1;
    }
    return set;
}

void wm_cache_count_set(wm_arena *arena, int change)
{
    /* Relaxed: an estimate from which shares of room are computed. */
    atomic_fetch_add_explicit(&arena->live->sets, (unsigned)change,
                              memory_order_relaxed);
    wm_lock_acquire(&arena->siblings->lock);
    arena->sets += (unsigned)change;
    wm_lock_release(&arena->siblings->lock);
}

/* Moves the count of a set from its arena to the sibling that fewest sets use,
 * and returns that; or the arena itself if the sibling would have as many.
 * Under a lock: else threads that look at the same time would all choose the
 * same sibling. */
static wm_arena *find_least_used(wm_arena *arena)
{
    wm_arena *best = arena;

    wm_lock_acquire(&arena->siblings->lock);
    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        best = a->sets + 1 < arena->sets && a->sets < best->sets ? a : best;
    }
    arena->sets--;
    best->sets++;
    wm_lock_release(&arena->siblings->lock);
    return best;
}

/* The arena of a new set. Threads are spread before they contend only if option
 * arenas says so: memory in several arenas is used less well. */
static wm_arena *choose_arena(const wm_arena_group *group, wm_arena *home)
{
    wm_cache_count_set(home, 1);
    return group->parted ? find_least_used(home) : home;
}

void wm_cache_move_to_sibling(wm_magazine_set *set)
{
    if (set->contended >= WM_CONTENTION_LIMIT) {
        set->arena = find_least_used(set->arena);
        wm_pending_note_home(set);
    }
    set->contended = set->locked = 0;
}

/* Gives the window a set, if there is memory for one. */
static void begin_set(wm_arena_group *group, wm_arena *home, wm_window *window)
{
    wm_arena *arena = choose_arena(group, home);
    wm_magazine_set *set = wm_magazine_set_create(group, arena);

    if (set == NULL) {
        wm_cache_count_set(arena, -1);
        return;
    }
    window->pending_last =
        (wm_pending_stream *)(uintptr_t)&wm_pending_no_stream;
    renumber(set, window);
    /* Release: a thread that reads it under lock windows sees an initialised
     * set. */
    atomic_store_explicit(&window->magazines, set, memory_order_release);
}

/* Under lock windows: no set begins while a visit keeps all threads out of
 * their biased locks (wm_visit.finish). */
static void begin_first_set(wm_arena_group *group, wm_arena *home,
                            wm_window *window)
{
    wm_lock_acquire(&group->runtime->windows_lock);
    wm_biased_acquire(&window->biased);
    if (!wm_biased_is_revoked(&window->biased, WM_REVOKED_CUT)) {
        begin_set(group, home, window);
    }
    wm_biased_release(&window->biased);
    wm_lock_release(&group->runtime->windows_lock);
}

/* Makes the calling thread's window the current one, and makes it if there is
 * none. Null: it cannot have one, which is no failure of the call. */
static __attribute__((noinline, cold)) wm_window *
get_window(warm_runtime *runtime)
{
    warm_error error = {.size = sizeof error};
    wm_window *window;

    warm_last_error(&error);
    if (wm_window_get(runtime, &window) != WARM_OK) {
        wm_error_restore(&error);
        return NULL;
    }
    return window;
}

wm_window *wm_cache_window(const wm_arena_group *group)
{
    wm_window *window = wm_window_mine();

    if (group->magazine_blocks == 0) {
        return NULL;
    }
    /* Relaxed: only compared. */
    return wm_likely(
               atomic_load_explicit(&window->runtime, memory_order_relaxed) ==
               group->runtime)
               ? window
               : get_window(group->runtime);
}

/* The thread is on another node now: its cached blocks are flushed, and refills
 * come from the new node. Blocks that callers still hold are of the old node
 * and may not be cached by a hit: they carry the old number. */
static void move_set(wm_magazine_set *set, wm_arena *home, wm_window *window)
{
    if (!wm_arena_is_sibling(set->arena, home)) {
        wm_pending_end(set);
        (void)wm_cache_flush(set, WM_ALL);
        wm_lock_acquire(&set->arena->lock);
        wm_magazine_set_merge_stats_locked(set);
        wm_lock_release(&set->arena->lock);
        wm_magazine_set_return_room(set);
        wm_cache_count_set(set->arena, -1);
        use_arena(set, choose_arena(set->group, home));
        renumber(set, window);
    }
}

void wm_cache_move_home(wm_window *window, int node)
{
    wm_magazine_set *set;

    wm_biased_acquire(&window->biased);
    set = wm_cache_set_of(window);
    if (wm_biased_is_revoked(&window->biased, WM_REVOKED_HOME)) {
        if (set != NULL) {
            move_set(set, wm_group_arena(set->group, node), window);
        }
        wm_biased_restore(&window->biased, WM_REVOKED_HOME);
    }
    wm_biased_release(&window->biased);
}

/* A hash of the thread: always the same shard. */
static unsigned shard_of_thread(const wm_arena_group *group)
{
    return (unsigned)(((uint64_t)(uintptr_t)pthread_self() *
                       UINT64_C(0x9E3779B97F4A7C15)) >>
                      32) %
           group->shards;
}

/* Null: the thread has no set. */
static const wm_magazine_set *set_of_thread(const wm_arena_group *group)
{
    wm_window *window = wm_window_mine();

    return window->owner == group->runtime ? wm_cache_set_of(window) : NULL;
}

bool wm_cache_is_footprint_stable(const wm_arena_group *group)
{
    const wm_magazine_set *set = set_of_thread(group);

    return set != NULL && set->footprint_stable;
}

wm_arena *wm_cache_first_arena(const wm_arena_group *group)
{
    wm_arena *best = group->arenas;

    if (!group->parted) {
        return best;
    }
    if (group->magazine_blocks == 0) {
        return best + shard_of_thread(group);
    }
    wm_lock_acquire(&group->arenas->lock);
    for (wm_arena *a = best; a != NULL; a = a->next_sibling) {
        best = a->sets < best->sets ? a : best;
    }
    wm_lock_release(&group->arenas->lock);
    return best;
}

wm_arena *wm_cache_arena(wm_arena_group *group, int node)
{
    wm_arena *first = wm_group_arena(group, node);
    const wm_magazine_set *set;
    wm_window *window;

    if (group->shards == 1) {
        return first;
    }
    set = set_of_thread(group);
    if (set == NULL) {
        set = wm_cache_lock_mine(group, &window);
        if (set == NULL) {
            return first + shard_of_thread(group);
        }
        wm_biased_release(&window->biased);
    }
    return first + set->arena->shard;
}

wm_magazine_set *wm_cache_lock_mine(wm_arena_group *group, wm_window **mine)
{
    wm_window *window = group->laned ? NULL : wm_cache_window(group);
    wm_magazine_set *set;
    int node;

    if (window == NULL) {
        return NULL;
    }
    node = wm_node_home(group->runtime);
    if (wm_unlikely(wm_biased_is_revoked(&window->biased, WM_REVOKED_HOME))) {
        wm_cache_move_home(window, node);
    }
    wm_biased_acquire(&window->biased);
    set = atomic_load_explicit(&window->magazines, memory_order_relaxed);
    if (set == NULL) {
        wm_biased_release(&window->biased);
        begin_first_set(group, wm_group_arena(group, node), window);
        wm_biased_acquire(&window->biased);
        set = wm_cache_set_of(window);
    }
    if (set == NULL) {
        wm_biased_release(&window->biased);
    }
    *mine = window;
    return set;
}

void wm_magazine_set_retire(wm_magazine_set *set,
                            _Atomic(struct wm_magazine_set *) *from,
                            _Atomic uint64_t *live_tag)
{
    (void)wm_cache_flush_siblings(set);
    wm_lock_acquire(&set->arena->lock);
    (void)wm_cache_flush_locked(set, WM_ALL);
    wm_magazine_set_merge_stats_locked(set);
    wm_magazine_set_return_room(set);
    wm_magazine_set_end_claims(set);
    /* Not earlier: a thread that looks for memory would find the blocks neither
     * here nor in the arena. Not later: no thread may read a set that another
     * thread uses. */
    atomic_store_explicit(from, NULL, memory_order_relaxed);
    atomic_store_explicit(live_tag, WM_NO_TAG, memory_order_relaxed);
    use_no_class(set);
    wm_lock_release(&set->arena->lock);
    put_spare_set(set);
}

static void free_set(wm_magazine_set *set)
{
    for (unsigned i = 0; i < WM_CLASSES; i++) {
        wm_meta_free(set->supply[i].entries);
    }
    wm_pending_fini(set);
    wm_meta_free(set);
}

/* Unlinks the spare sets beyond the first WM_SETS_KEPT and returns their
 * chain. */
static wm_magazine_set *take_spare_sets(wm_arena_group *group)
{
    wm_magazine_set **link = &group->spare_sets, *rest;

    wm_lock_acquire(spare_lock(group));
    for (int i = 0; i < WM_SETS_KEPT && *link != NULL; i++) {
        link = &(*link)->next;
    }
    rest = *link;
    *link = NULL;
    wm_lock_release(spare_lock(group));
    return rest;
}

static void free_spare_sets(void *context)
{
    wm_magazine_set *set = take_spare_sets(context);

    while (set != NULL) {
        wm_magazine_set *next = set->next;

        free_set(set);
        set = next;
    }
}

static bool wants_none(const wm_window *window, void *context)
{
    (void)window;
    (void)context;
    return false;
}

/* Frees under lock windows, under which other threads read sets: a thread
 * that read a set before it left its window has finished, and none reads it
 * later. */
void wm_cache_trim(wm_arena_group *group)
{
    const wm_visit none = {wants_none, NULL, free_spare_sets, group};

    if (group->magazine_blocks > 0) {
        (void)wm_window_visit(group->runtime, &none);
    }
}

void wm_cache_fini(wm_arena_group *group)
{
    while (group->spare_sets != NULL) {
        wm_magazine_set *set = group->spare_sets;

        group->spare_sets = set->next;
        free_set(set);
    }
}

bool wm_cache_push_slow(wm_magazine_set *set, wm_block *block)
{
    wm_magazine *m = wm_magazine_use(set, block->size_class);
    bool taken;

    if (m == NULL) {
        return false;
    }
    wm_magazine_trim_room(set, m);
    if (m->top == m->end) {
        wm_magazine_flush_half(set, m);
    }
    if (wm_magazine_set_bytes(set) + m->bytes > set->bytes_max) {
        (void)wm_cache_flush(set, WM_HALF);
    }
    wm_magazine_open_room(set, m);
    taken = wm_magazine_push(set, block, block->base, set->lane != NULL);
    wm_magazine_set_note_high(set);
    if (!taken) {
        wm_arena *home = block->segment->arena;

        wm_magazine_count_free(set, block, set->lane != NULL);
        block->counted = true;
        wm_lock_acquire(&home->lock);
        wm_arena_put_locked(home, block);
        wm_lock_release(&home->lock);
    }
    return true;
}
