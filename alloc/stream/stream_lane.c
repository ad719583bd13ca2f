/* stream_lane.c: looks up, makes and frees the lanes of streams; queues the
 * fences of streams, and handles fences that complete. See stream_lane.h for
 * the picture and the locks. */
#include "alloc/stream/stream_lane.h"

#include "alloc/arena/group.h"
#include "alloc/stream/timeline_int.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

/* size_class of an ordinary fence, and of a final one; no block has it. */
enum { FENCE = WM_CLASSES_ALL, FENCE_FINAL };

/* ---- the registry -------------------------------------------------------- */

static wm_lane_owner **bucket_of(wm_lane_registry *registry, uint64_t id)
{
    return &registry->bucket[id % WM_LANE_BUCKETS];
}

wm_lane_owner *wm_lane_owner_next_locked(wm_lane_registry *registry,
                                         const wm_lane_owner *owner)
{
    size_t i = owner != NULL ? owner->id % WM_LANE_BUCKETS + 1 : 0;

    if (owner != NULL && owner->next != NULL) {
        return owner->next;
    }
    while (i < WM_LANE_BUCKETS && registry->bucket[i] == NULL) {
        i++;
    }
    return i < WM_LANE_BUCKETS ? registry->bucket[i] : NULL;
}

bool wm_lane_owner_lives(const wm_lane_owner *owner)
{
    return owner->timeline != NULL && wm_timeline_lives(owner->timeline);
}

static wm_lane_owner *find_locked(wm_lane_registry *registry, uint64_t id)
{
    wm_lane_owner *owner = *bucket_of(registry, id);

    while (owner != NULL && (owner->id != id || owner->retired)) {
        owner = owner->next;
    }
    return owner;
}

/* t: the owner takes over the reference. */
static wm_lane_owner *make_locked(wm_lane_registry *registry, uint64_t id,
                                  warm_stream stream, wm_timeline *t)
{
    wm_lane_owner **bucket = bucket_of(registry, id);
    wm_lane_owner *owner = wm_meta_alloc(sizeof *owner);

    if (owner == NULL) {
        return NULL;
    }
    owner->lane = wm_lane_make(registry->arena, id);
    if (owner->lane == NULL) {
        wm_meta_free(owner);
        return NULL;
    }
    owner->lane->owner = t != NULL ? owner : NULL; /* legacy: no fences */
    owner->all = registry;
    owner->id = id;
    owner->stream = stream;
    owner->timeline = t;
    owner->next = *bucket;
    *bucket = owner;
    atomic_fetch_add_explicit(&registry->owners, 1, memory_order_relaxed);
    return owner;
}

void wm_lane_owner_unlock(wm_lane_owner *owner)
{
    wm_lane_registry *registry = owner->all;
    wm_lane_owner **link = bucket_of(registry, owner->id);
    wm_timeline *t = owner->timeline;
    bool ends = owner->lane_ended && owner->fences == 0 && owner->waiters == 0;

    if (ends) {
        while (*link != owner) {
            link = &(*link)->next;
        }
        *link = owner->next;
        wm_meta_free(owner);
        atomic_fetch_sub_explicit(&registry->owners, 1, memory_order_relaxed);
    }
    wm_lock_release(&registry->lock);
    if (ends) {
        wm_timeline_drop(registry->timelines, t);
    }
}

/* Finds the lane with that id, or makes it. Takes over the reference to t,
 * which is null for the legacy stream. */
static warm_status get_lane(wm_lane_registry *registry, uint64_t id,
                            warm_stream stream, wm_timeline *t,
                            wm_found_lane *found)
{
    wm_lane_owner *owner;

    wm_lock_acquire(&registry->lock);
    owner = find_locked(registry, id);
    if (owner == NULL) {
        owner = make_locked(registry, id, stream, t);
        t = owner != NULL ? NULL : t;
    }
    if (owner != NULL) {
        wm_lane_hold(owner->lane); /* not ended: the stream is not retired */
        found->lane = owner->lane;
    }
    wm_lock_release(&registry->lock);
    if (t != NULL) {
        wm_timeline_drop(registry->timelines, t);
    }
    return owner != NULL
               ? WARM_OK
               : wm_fail(WARM_OUT_OF_MEMORY, "no memory for a stream's lane");
}

warm_status wm_lane_other_device(warm_stream stream, int stream_device,
                                 int device)
{
    return wm_fail(WARM_INVALID_ARGUMENT,
                   "stream %p is of device %d, the memory of device %d", stream,
                   stream_device, device);
}

warm_status wm_lanes_of_stream(wm_lane_registry *registry, warm_stream stream,
                               wm_found_lane *found)
{
    wm_timelines *set = registry->timelines;
    wm_timeline *t = NULL;
    warm_status status;
    int device;

    *found = (wm_found_lane){.lane = NULL};
    if (stream == NULL || stream == WARM_STREAM_LEGACY) {
        found->known = true;
        return get_lane(registry, 0, NULL, NULL, found);
    }
    status = wm_timeline_lookup(set, stream, &t, &found->captured);
    if (status != WARM_OK || t == NULL) {
        return status; /* a captured stream that is not adopted has no lane */
    }
    device = t->device;
    if (device != registry->device && device != WM_DEVICE_UNKNOWN) {
        wm_timeline_drop(set, t);
        return wm_lane_other_device(stream, device, registry->device);
    }
    if (found->captured) {
        wm_timeline_drop(set, t);
        return WARM_OK; /* no lane: its graph may be launched on any stream */
    }
    found->known = wm_timeline_lives(t) && !wm_timelines_capture(set);
    return get_lane(registry, wm_timeline_lane_id(t->id), stream, t, found);
}

/* ---- begin and end ------------------------------------------------------ */

warm_status wm_lane_registry_init(wm_lane_registry *registry,
                                  wm_timelines *timelines, wm_arena *arena,
                                  int device)
{
    *registry = (wm_lane_registry){
        .timelines = timelines, .arena = arena, .device = device};
    registry->stub = wm_meta_alloc(sizeof *registry->stub);
    if (registry->stub == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    wm_lock_init(&registry->lock, WM_RANK_REGISTRY);
    return WARM_OK;
}

/* Queued fences are dropped with the timelines. */
void wm_lane_registry_forget(wm_lane_registry *registry)
{
    for (wm_lane_owner *o = wm_lane_owner_next_locked(registry, NULL);
         o != NULL; o = wm_lane_owner_next_locked(registry, o)) {
        if (o->timeline != NULL) {
            wm_timeline_drop(registry->timelines, o->timeline);
        }
    }
}

void wm_lane_registry_fini(wm_lane_registry *registry)
{
    wm_lane_owner *next = wm_lane_owner_next_locked(registry, NULL);

    while (next != NULL) {
        wm_lane_owner *owner = next;

        next = wm_lane_owner_next_locked(registry, owner);
        wm_meta_free(owner);
    }
    while (registry->all_fences != NULL) {
        wm_fence *fence = registry->all_fences;

        registry->all_fences = fence->next_made;
        wm_meta_free(fence);
    }
    wm_meta_free(registry->stub);
}

/* ---- fences ---------------------------------------------------------------
 */

/* A fence for the owner's stream, or null: no memory. */
static wm_fence *take_fence_locked(wm_lane_owner *owner, unsigned size_class)
{
    wm_lane_registry *registry = owner->all;
    wm_fence *fence = registry->spare_fences;

    if (fence != NULL) {
        registry->spare_fences = fence->next;
    } else {
        fence = wm_meta_alloc(sizeof *fence);
        if (fence == NULL) {
            return NULL;
        }
        fence->next_made = registry->all_fences;
        registry->all_fences = fence;
    }
    fence->block = (wm_block){.segment = registry->stub,
                              .state = WM_BLOCK_PENDING,
                              .size_class = size_class};
    fence->owner = owner;
    fence->number = registry->taken++;
    return fence;
}

static void give_fence_locked(wm_fence *fence)
{
    wm_lane_registry *registry = fence->owner->all;

    fence->next = registry->spare_fences;
    registry->spare_fences = fence;
}

static void add_out_locked(wm_fence *fence)
{
    wm_fence **link = &fence->owner->out;

    while (*link != NULL) {
        link = &(*link)->next_out;
    }
    fence->next_out = NULL;
    *link = fence;
}

/* A final fence never is out. */
static void remove_out_locked(const wm_fence *fence)
{
    wm_fence **link = &fence->owner->out;

    while (*link != NULL && *link != fence) {
        link = &(*link)->next_out;
    }
    if (*link != NULL) {
        *link = fence->next_out;
    }
}

/* The fence is spare. A lane may have ended before its last ordinary fence is
 * handled, since another thread can take that fence out of the timeline. */
static void complete_fence(wm_fence *fence, bool completed)
{
    static const wm_lane_point nothing;
    wm_lane_owner *owner = fence->owner;
    wm_lane_registry *registry = owner->all;

    wm_lock_acquire(&registry->lock);
    remove_out_locked(fence);
    if (fence->block.size_class == FENCE_FINAL) {
        wm_lanes_end(registry->arena, owner->lane);
        owner->lane_ended = true;
    } else {
        owner->fences--;
    }
    if (completed && !owner->lane_ended) {
        wm_lanes_passed(registry->arena, owner->lane, &fence->point);
    }
    if (!owner->lane_ended) {
        wm_lanes_renew(registry->arena, owner->lane,
                       completed ? &fence->point : &nothing);
    }
    give_fence_locked(fence);
    wm_lane_owner_unlock(owner);
}

/* A lost fence never completes, and counts from then on: after WM_FENCES of
 * them the stream gets only its final fence. */
static void lose_fence(const wm_fence *fence)
{
    wm_lane_registry *registry = fence->owner->all;

    wm_lock_acquire(&registry->lock);
    remove_out_locked(fence);
    wm_lock_release(&registry->lock);
}

bool wm_fence_complete(wm_block *block)
{
    wm_fence *fence = (wm_fence *)(void *)block;

    if (block->size_class != FENCE && block->size_class != FENCE_FINAL) {
        return false;
    }
    if (wm_block_fate(block) == WM_BLOCK_IDLE) {
        complete_fence(fence, true);
    } else {
        lose_fence(fence);
    }
    return true;
}

/* Queues a fence behind the work on the stream; false: the driver failed. */
static bool queue_fence(wm_fence *made)
{
    wm_lane_owner *owner = made->owner;
    wm_timelines *timelines = owner->all->timelines;
    wm_block *fence = &made->block;

    /* The stream, retired or not, is its only use. Relaxed: the fence is this
     * thread's; publishing it makes the store visible. */
    wm_timeline_hold(owner->timeline);
    atomic_store_explicit(&fence->uses, wm_stream_use_bare(owner->timeline),
                          memory_order_relaxed);
    switch (wm_timelines_prepare(timelines, fence)) {
    case WM_USES_PENDING:
        wm_timelines_publish(timelines, fence);
        return true;
    case WM_USES_NONE:
        return wm_fence_complete(fence);
    case WM_USES_LOST:
    case WM_USES_CAPTURED:
        break;
    }
    return false;
}

/* What may become idle in lanes before it is fenced: as much as caches may
 * have. Held is the same for half of it and for twice (tests/bench/PROFILE.md).
 */
static size_t fence_step(const wm_arena *arena)
{
    return wm_economy_keep(&arena->group->economy) / arena->group->shards;
}

/* Takes a fence for each owner that needs one, and puts it in front of chain,
 * by next; the caller queues it. Looks only at lanes to which runs were freed
 * since they were last looked at. Skips a stream whose fences are all queued:
 * complete_fence() looks for later frees. */
static wm_fence *claim_fences(wm_lane_registry *registry, wm_arena *arena,
                              const wm_lane *except, wm_fence *chain)
{
    size_t limit = wm_lane_fresh(arena);
    wm_lane *lane;

    wm_lane_note_fences(arena, fence_step(arena));
    if (limit == 0) {
        return chain;
    }
    wm_lock_acquire(&registry->lock);
    while (limit-- > 0 && (lane = wm_lane_take_fresh(arena)) != NULL) {
        wm_lane_owner *o = lane->owner;
        wm_fence *fence;

        if (o == NULL) {
            continue;
        }
        if (o->lane == except) {
            wm_lane_renew(arena, lane);
        } else if (o->fences < WM_FENCES && !o->retired &&
                   wm_timeline_lives(o->timeline) &&
                   wm_lane_has_more(arena, lane)) {
            fence = take_fence_locked(o, FENCE);
            if (fence == NULL) {
                wm_lane_renew(arena, lane);
                continue;
            }
            o->fences++;
            wm_lanes_puts(registry->arena, o->lane, &fence->point);
            add_out_locked(fence);
            fence->next = chain;
            chain = fence;
        }
    }
    wm_lock_release(&registry->lock);
    return chain;
}

/* close: the fences' events are recorded now, not by the next poll. */
static void queue_fences(wm_lane_registry *registry, wm_arena *arena,
                         const wm_lane *lane, bool close)
{
    wm_fence *chain = NULL;

    for (wm_arena *a = registry->arena; a != NULL; a = a->next_sibling) {
        if (arena == NULL || arena == a) {
            chain = claim_fences(registry, a, lane, chain);
        }
    }
    while (chain != NULL) {
        wm_fence *next = chain->next;
        wm_timeline *t = chain->owner->timeline;

        /* The owner may end once its fence is queued. */
        wm_timeline_hold(t);
        if (!queue_fence(chain)) {
            complete_fence(chain, false);
        } else if (close) {
            wm_batch_close_older(registry->timelines, t, UINT64_MAX);
        }
        wm_timeline_drop(registry->timelines, t);
        chain = next;
    }
}

void wm_lanes_queue_fences(wm_lane_registry *registry, wm_arena *arena,
                           const wm_lane *lane)
{
    queue_fences(registry, arena, lane, false);
}

/* As many streams are polled as may get a fence, and at least POLLS: of those
 * with queued fences each in turn. */
enum { POLLS = 4 };

void wm_lanes_cover_slow(wm_arena *arena)
{
    wm_lane_registry *registry = arena->registry;
    size_t polls = wm_lane_fresh(arena);

    /* Relaxed: one of the threads that free queues the fences. */
    if (!atomic_exchange_explicit(&arena->fences_due, false,
                                  memory_order_relaxed)) {
        return;
    }
    wm_lane_note_fences(arena, fence_step(arena));
    if (atomic_load_explicit(&registry->owners, memory_order_relaxed) < 2) {
        return; /* no other stream could use it */
    }
    WM_KEEP_ERROR();
    /* Earlier fences first: new ones have hardly completed. */
    wm_timelines_poll_some(registry->timelines, polls > POLLS ? polls : POLLS,
                           wm_clock_ns());
    queue_fences(registry, NULL, NULL, true);
}

/* ---- a stream is retired --------------------------------------------------
 */

/* While a stream captures, the driver does not report its id; then finds it by
 * address, which no other living stream shares with an adopted one. */
static wm_lane_owner *find_stream_locked(wm_lane_registry *registry,
                                         warm_stream stream,
                                         const wm_stream_info *info)
{
    wm_lane_owner *o = NULL;

    if (info->device != WM_DEVICE_UNKNOWN) {
        return find_locked(registry, wm_timeline_lane_id(info->id));
    }
    do {
        o = wm_lane_owner_next_locked(registry, o);
    } while (o != NULL &&
             (o->retired || o->stream != stream || !wm_lane_owner_lives(o)));
    return o;
}

void wm_lane_registry_retire(wm_lane_registry *registry, warm_stream stream,
                             const wm_stream_info *info)
{
    _Atomic uint64_t *retired = &registry->timelines->retired;
    uint64_t highest = atomic_load_explicit(retired, memory_order_relaxed);
    wm_lane_owner *owner;
    wm_fence *fence;

    wm_lock_acquire(&registry->lock);
    owner = find_stream_locked(registry, stream, info);
    if (owner == NULL) {
        wm_lock_release(&registry->lock);
        return;
    }
    owner->retired = true;
    while (owner->id > highest &&
           !atomic_compare_exchange_weak_explicit(retired, &highest, owner->id,
                                                  memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
    wm_lanes_close(registry->arena, owner->lane);
    fence = take_fence_locked(owner, FENCE_FINAL);
    wm_lock_release(&registry->lock);
    /* If the fence cannot be queued, the lane stays as it is: it is unknown
     * when its memory is safe. */
    if (fence != NULL && !queue_fence(fence)) {
        wm_lock_acquire(&registry->lock);
        give_fence_locked(fence);
        wm_lock_release(&registry->lock);
    }
}
