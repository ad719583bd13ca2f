/* magazine_set.c: the sets of magazines of the calling thread, one for
 * page-locked memory and one for each slot of a stream: found and locked,
 * begun, moved to another node or sibling arena, ended; and spare sets.
 *
 * Locks the calling thread's window, lock windows before it to begin a set, and
 * lock arena under it. Calls no driver with a lock. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"
#include "runtime/thread/home_node.h"
#include "runtime/base/meta.h"

/* ---- make and free sets -------------------------------------------------- */

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
    for (unsigned i = 0; i < WM_CLASSES; i++) {
        wm_magazine *m = &set->of[i];

        m->bytes = (int64_t)wm_class_bytes(i);
        m->one = (1u << WM_ROOM_SHIFT) + wm_class_bytes(i) / WM_GRAIN;
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
    if (supply->entries == NULL &&
        m->bytes <= (int64_t)set->group->magazine_bytes) {
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

/* Frees on streams that wait for their event have half as many bytes again as
 * all caches, divided among the open batches: large blocks get an event sooner
 * than small ones, whose number bounds their batch. */
static void set_batch_bytes(const wm_arena_group *group)
{
    wm_timelines *timelines = group->timelines;
    /* Relaxed, both: a bound that any thread may set. */
    size_t slots =
        atomic_load_explicit(&timelines->slots, memory_order_relaxed);
    size_t keep = wm_economy_keep(&group->economy);
    size_t bytes = (keep + keep / 2) / (slots > 0 ? slots : 1);

    atomic_store_explicit(
        &timelines->batch_bytes,
        bytes < timelines->batch_bytes_max ? bytes : timelines->batch_bytes_max,
        memory_order_relaxed);
}

void wm_magazine_set_budget(wm_magazine_set *set)
{
    int64_t most = (int64_t)set->group->magazine_bytes, part;

    if (++set->slow < WM_ECONOMY_STEP) {
        return;
    }
    set->slow = 0;
    part = wm_economy_part(set->group, &set->share);
    set->bytes_max = part < most ? part : most;
    atomic_store_explicit(&set->block_max,
                          part / WM_BLOCK_PART < most ? part / WM_BLOCK_PART
                                                      : most,
                          memory_order_relaxed);
    set->transfer_max = (int64_t)wm_economy_transfer_max(&set->group->economy);
    wm_room_bound(set);
    if (set->lane == NULL) {
        set_batch_bytes(set->group);
    }
}

/* The spare sets of a group are guarded by lock arena of its first arena. */
static wm_lock *spare_lock(const wm_arena_group *group)
{
    return &group->arenas->lock;
}

/* The empty set refills from the arena from now on. */
static void use_arena(wm_magazine_set *set, wm_arena *arena)
{
    set->arena = arena;
    set->contended = set->locked = 0;
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

/* change: 1 if a set starts to refill from the arena, -1 if one stops. */
static void count_set(wm_arena *arena, int change)
{
    wm_lock_acquire(&arena->siblings->lock);
    arena->sets += (unsigned)change;
    arena->siblings->batched = true;
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

/* A set that refills from an arena, with an unused number; or null. */
static wm_magazine_set *create_set(wm_arena_group *group, wm_arena *arena,
                                   unsigned slot, _Atomic uint64_t *live_tag)
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
        set->slow = WM_ECONOMY_STEP;
        wm_magazine_set_budget(set);
    }
    return set;
}

/* Flushes the set to the arenas, removes it from its window and makes it spare.
 */
static void retire_set(wm_magazine_set *set,
                       _Atomic(struct wm_magazine_set *) *from,
                       _Atomic uint64_t *live_tag)
{
    wm_arena_group *group = set->arena->group;

    count_set(set->arena, -1);
    (void)wm_cache_flush_siblings(set);
    wm_lock_acquire(&set->arena->lock);
    (void)wm_cache_flush_locked(set, WM_ALL);
    wm_magazine_set_merge_stats_locked(set);
    wm_room_return(set);
    /* The window loses the set here: before the flush, a thread that looks for
     * memory would find the blocks neither here nor in the arena; once the set
     * is spare, another thread may use it. */
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
        wm_pending_fini(wm_magazine_set_pending(set));
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
    wm_pending *pending[WM_SETS_KEPT];
    int kept = 0;

    wm_lock_acquire(&group->runtime->windows_lock);
    wm_lock_acquire(spare_lock(group));
    for (; kept < WM_SETS_KEPT && *link != NULL; kept++) {
        /* Relaxed: no thread has the set. */
        pending[kept] = atomic_exchange_explicit(&(*link)->pending, NULL,
                                                 memory_order_relaxed);
        link = &(*link)->next;
    }
    rest = *link;
    *link = NULL;
    wm_lock_release(spare_lock(group));
    while (kept-- > 0) {
        wm_pending_fini(pending[kept]);
    }
    free_sets(rest);
    wm_lock_release(&group->runtime->windows_lock);
}

void wm_cache_fini(wm_arena_group *group)
{
    free_sets(group->spare_sets);
    group->spare_sets = NULL;
}

/* ---- the set of page-locked memory --------------------------------------- */

/* Gives the window a set of page-locked memory, if there is memory for one. */
static void begin_pinned(wm_arena_group *group, wm_arena *home,
                         wm_window *window)
{
    wm_magazine_set *set = create_set(group, home, 0, &window->live_tag);

    if (set == NULL) {
        return;
    }
    /* Only test:arenas=N spreads threads before they contend: several arenas
     * use memory less well. */
    if (group->parted) {
        move_to_least_used(set);
    }
    window->pending_last =
        (wm_pending_stream *)(uintptr_t)&wm_pending_no_stream;
    /* Relaxed: other threads read it under lock windows, as it is stored. */
    atomic_store_explicit(&window->magazines, set, memory_order_relaxed);
}

/* The thread is on another node now: flushes the window's set, which refills
 * from the new node. Blocks that callers still hold are of the old node and
 * may not be cached by a hit: they carry the old number. */
static void move_set(wm_magazine_set *set, wm_arena *home, wm_window *window)
{
    if (wm_arena_is_sibling(set->arena, home)) {
        return;
    }
    wm_pending_end(set);
    (void)wm_cache_flush(set, WM_ALL);
    wm_lock_acquire(&set->arena->lock);
    wm_magazine_set_merge_stats_locked(set);
    wm_lock_release(&set->arena->lock);
    wm_room_return(set);
    count_set(set->arena, -1);
    use_arena(set, home);
    count_set(home, 1);
    if (set->group->parted) {
        move_to_least_used(set);
    }
    renumber(set, 0, &window->live_tag);
}

/* ---- the slots of streams ------------------------------------------------ */

wm_stream_slot *wm_stream_slot_of(wm_window *window, int device,
                                  warm_stream stream)
{
    for (unsigned i = 0; i < WM_STREAM_SLOTS; i++) {
        wm_stream_slot *slot = &window->slot[i];

        if (slot->stream == stream && slot->device == device) {
            window->slot_last = slot;
            return slot;
        }
    }
    return NULL;
}

/* The sets of a window share the thread's room in the space: each may have less
 * or more from now on. */
static void share_room(const wm_window *window, const wm_arena_group *group)
{
    unsigned count = 0, at = 0;
    wm_magazine_set *set;

    while (wm_cache_next_set(window, group, &at) != NULL) {
        count++;
    }
    for (at = 0; (set = wm_cache_next_set(window, group, &at)) != NULL;) {
        set->sharers = count;
        wm_room_bound(set);
    }
}

static void end_slot(wm_window *window, wm_stream_slot *slot)
{
    wm_magazine_set *set = wm_stream_slot_set(slot);

    if (set != NULL) {
        const wm_arena_group *group = set->group;
        wm_arena *arena = set->arena;
        wm_lane *lane = set->lane;

        retire_set(set, &slot->set, &slot->live_tag);
        wm_lane_drop(arena, lane);
        wm_window_clear_slot(slot);
        window->slots_used--;
        share_room(window, group);
    }
}

/* A slot without a set, or one that is not trusted; null: all are in use. */
static wm_stream_slot *find_free_slot(wm_window *window)
{
    wm_stream_slot *best = NULL;

    for (unsigned i = 0; i < WM_STREAM_SLOTS; i++) {
        wm_stream_slot *slot = &window->slot[i];

        if (wm_stream_slot_set(slot) == NULL) {
            return slot;
        }
        if (best == NULL && !wm_stream_slot_is_trusted(window->owner, slot)) {
            best = slot;
        }
    }
    return best;
}

/* To end a slot flushes what its set caches, so a stream that finds all slots
 * in use gets one only at every TAKEOVER-th such request: the thread's other
 * requests on streams without a slot go to the arena. Slots then belong to
 * streams that the thread uses again and again, and their change costs little
 * compared with those requests, however many streams take turns. */
enum { TAKEOVER = 64 };

static bool may_begin_slot(wm_window *window)
{
    return find_free_slot(window) != NULL ||
           ++window->slot_wanted % TAKEOVER == 0;
}

/* A free slot, or the next in turn. */
static wm_stream_slot *choose_slot(wm_window *window)
{
    unsigned turn = window->slot_wanted / TAKEOVER;
    wm_stream_slot *slot = find_free_slot(window);

    return slot != NULL ? slot : &window->slot[turn % WM_STREAM_SLOTS];
}

/* Gives a slot without a set a set for the request, if there is memory for one.
 * find_set() finds it next: it makes the slot the last one, and trusted. */
static void begin_slot(wm_arena_group *group, const wm_request *request,
                       wm_window *window)
{
    wm_stream_slot *slot = choose_slot(window);
    wm_magazine_set *set =
        create_set(group, request->arena, (unsigned)(slot - window->slot),
                   &slot->live_tag);

    if (set == NULL) {
        return;
    }
    set->lane = request->lane;
    wm_lane_hold(set->lane);
    slot->stream = request->stream;
    slot->device = (int)group->place;
    window->slots_used++;
    /* Relaxed: as in begin_pinned(). */
    atomic_store_explicit(&slot->set, set, memory_order_relaxed);
    share_room(window, group);
}

/* ---- the calling thread -------------------------------------------------- */

/* Makes the calling thread's window the current one, and makes it if there is
 * none. Null: it cannot have one, which is no failure of the call. */
static __attribute__((noinline, cold)) wm_window *
get_window(warm_runtime *runtime)
{
    wm_window *window;

    return wm_window_get_quietly(runtime, &window) == WARM_OK ? window : NULL;
}

/* The thread's home node has changed: moves its set of page-locked memory to
 * that node, and hits may enter the window again. */
static __attribute__((noinline, cold)) void move_home(wm_window *window)
{
    int node = wm_node_home(window->owner);
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

/* request, here and below: null for the set of page-locked memory. */
static __attribute__((noinline, cold)) void
begin_set(wm_arena_group *group, const wm_request *request, wm_window *window)
{
    int node = request != NULL ? 0 : wm_node_home(group->runtime);

    /* To end a slot takes longer than to begin one, and is done before. */
    if (request != NULL) {
        wm_biased_acquire(&window->biased);
        end_slot(window, choose_slot(window));
        wm_biased_release(&window->biased);
    }
    /* Under lock windows: no set begins while a visit has revoked all windows
     * (wm_visit.finish). */
    wm_lock_acquire(&group->runtime->windows_lock);
    wm_biased_acquire(&window->biased);
    if (request != NULL && wm_biased_is_hittable(&window->biased)) {
        begin_slot(group, request, window);
    }
    if (request == NULL &&
        !wm_biased_is_revoked(&window->biased, WM_REVOKED_CUT)) {
        begin_pinned(group, wm_group_arena(group, node), window);
    }
    wm_biased_release(&window->biased);
    wm_lock_release(&group->runtime->windows_lock);
}

/* The thread's set for a request, or null. If the stream of that address is
 * another one by now, ends the old one's slot. */
static wm_magazine_set *find_set(const wm_arena_group *group,
                                 const wm_request *request, wm_window *window)
{
    wm_stream_slot *slot;

    if (request == NULL) {
        return wm_cache_set_of(window);
    }
    slot = wm_stream_slot_of(window, (int)group->place, request->stream);
    if (slot == NULL) {
        return NULL;
    }
    if (wm_stream_slot_set(slot)->lane != request->lane) {
        end_slot(window, slot);
        return NULL;
    }
    slot->epoch = request->epoch;
    return wm_stream_slot_set(slot);
}

wm_magazine_set *wm_cache_lock_for(wm_arena_group *group,
                                   const wm_request *request, wm_window **mine)
{
    wm_window *window = wm_window_mine();
    wm_magazine_set *set = NULL;

    if (group->magazine_blocks == 0 || (group->laned && request == NULL)) {
        return NULL;
    }
    request = group->laned ? request : NULL;
    /* Relaxed: only compared. */
    if (wm_unlikely(
            atomic_load_explicit(&window->runtime, memory_order_relaxed) !=
            group->runtime)) {
        window = get_window(group->runtime);
        if (window == NULL) {
            return NULL;
        }
    }
    *mine = window;
    if (wm_unlikely(wm_biased_is_revoked(&window->biased, WM_REVOKED_HOME))) {
        move_home(window);
    }
    wm_biased_acquire(&window->biased);
    /* Blocks of a stream are cached only if hits can allocate them later. */
    if (request == NULL ||
        (request->epoch != 0 && wm_biased_is_hittable(&window->biased))) {
        set = find_set(group, request, window);
        if (wm_unlikely(set == NULL) &&
            (request == NULL || may_begin_slot(window))) {
            wm_biased_release(&window->biased);
            begin_set(group, request, window);
            wm_biased_acquire(&window->biased);
            set = find_set(group, request, window);
        }
    }
    if (set == NULL) {
        wm_biased_release(&window->biased);
    }
    return set;
}

void wm_cache_end(warm_runtime *runtime, wm_window *window)
{
    wm_magazine_set *set = wm_cache_set_of(window);

    (void)runtime;
    for (unsigned i = 0; i < WM_STREAM_SLOTS; i++) {
        end_slot(window, &window->slot[i]);
    }
    if (set == NULL) {
        return;
    }
    wm_pending_end(set);
    retire_set(set, &window->magazines, &window->live_tag);
}

/* Not if its blocks would then be of the wrong node, or arena, for the next
 * thread. Blocks that streams use go to the timelines. */
bool wm_cache_may_wait(warm_runtime *runtime, wm_window *window)
{
    wm_magazine_set *set = wm_cache_set_of(window);
    bool may = runtime->driver->numa.nodes == 1 &&
               (!set->group->parted || set->group->shards == 1) &&
               wm_biased_is_hittable(&window->biased);

    if (may && wm_magazine_set_pending(set) != NULL) {
        /* A visitor may be detaching slots. */
        wm_biased_acquire(&window->biased);
        wm_pending_end(set);
        wm_biased_release(&window->biased);
    }
    return may;
}

/* Null: the calling thread has no set. */
static const wm_magazine_set *set_of_thread(const wm_arena_group *group)
{
    wm_window *window = wm_window_mine();

    return window->owner == group->runtime ? wm_cache_set_of(window) : NULL;
}

/* ---- which arena --------------------------------------------------------- */

/* A hash of the thread, scaled to the shards: always the same shard. */
static unsigned shard_of_thread(const wm_arena_group *group)
{
    uint64_t hash =
        ((uint64_t)(uintptr_t)pthread_self() * UINT64_C(0x9E3779B97F4A7C15)) >>
        32;

    return (unsigned)((hash * group->shards) >> 32);
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
        set = group->magazine_blocks > 0
                  ? wm_cache_lock_for(group, NULL, &window)
                  : NULL;
        if (set == NULL) {
            return first + shard_of_thread(group);
        }
        wm_biased_release(&window->biased);
    }
    return first + set->arena->shard;
}

/* The arena for a thread that has no set of a laned group. */
static wm_arena *first_arena(const wm_arena_group *group)
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

bool wm_stream_slot_is_known(wm_arena_group *group, warm_stream stream,
                             wm_request *request)
{
    wm_window *window = wm_window_mine();
    const wm_magazine_set *set = NULL;
    const wm_stream_slot *slot;
    unsigned at = 0;
    bool known = false;

    if (window->owner == group->runtime && wm_biased_enter(&window->biased)) {
        slot = wm_stream_slot_of(window, (int)group->place, stream);
        set = slot != NULL ? wm_stream_slot_set(slot)
                           : wm_cache_next_set(window, group, &at);
        known = slot != NULL && wm_stream_slot_is_trusted(window->owner, slot);
        if (known) {
            request->lane = set->lane;
            wm_lane_hold(request->lane);
            request->stream = stream;
            request->epoch = slot->epoch;
        }
        request->arena = set != NULL ? set->arena : NULL;
        wm_biased_leave(&window->biased);
    }
    if (set == NULL) {
        request->arena = first_arena(group);
    }
    return known;
}
