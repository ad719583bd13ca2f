/* stream_lane.c: looks up, makes and frees the lanes of streams; see
 * stream_lane.h for the picture and the locks. */
#include "alloc/stream/stream_lane_int.h"

#include "alloc/arena/arena_int.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

static bool is_legacy(warm_stream stream)
{
    return stream == NULL || stream == WARM_STREAM_LEGACY;
}

/* ---- streams ------------------------------------------------------------- */

static wm_lane_owner **bucket_of(wm_lane_registry *registry, uint64_t id)
{
    return &registry->bucket[id % WM_LANE_BUCKETS];
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
    wm_lane_owner *owner = wm_meta_alloc(sizeof *owner);

    if (owner == NULL) {
        return NULL;
    }
    owner->lane = wm_lane_make(registry->arena, id);
    if (owner->lane == NULL) {
        wm_meta_free(owner);
        return NULL;
    }
    owner->lane->owner = t != NULL ? owner : NULL;
    owner->all = registry;
    owner->id = id;
    owner->stream = stream;
    owner->timeline = t;
    owner->fence.segment = owner->final_fence.segment = registry->stub;
    owner->fence.size_class = WM_FENCE;
    owner->final_fence.size_class = WM_FENCE_FINAL;
    return owner;
}

wm_timeline *wm_lane_owner_free_locked(wm_lane_owner *owner)
{
    wm_lane_owner **link = bucket_of(owner->all, owner->id);
    wm_timeline *t = owner->timeline;

    if (!owner->lane_ended || owner->fence_queued || owner->waiters > 0) {
        return NULL;
    }
    while (*link != owner) {
        link = &(*link)->next;
    }
    *link = owner->next;
    wm_meta_free(owner);
    return t;
}

static warm_status no_memory(void)
{
    return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a stream's lane");
}

static warm_status legacy_lane(wm_lane_registry *registry, wm_found_lane *found)
{
    wm_lane_owner *owner;

    wm_lock_acquire(&registry->lock);
    if (registry->legacy == NULL) {
        registry->legacy = make_locked(registry, 0, NULL, NULL);
    }
    owner = registry->legacy;
    if (owner != NULL) {
        wm_lane_hold(owner->lane);
    }
    wm_lock_release(&registry->lock);
    if (owner == NULL) {
        return no_memory();
    }
    found->lane = owner->lane;
    found->known = true;
    return WARM_OK;
}

/* Takes over the reference to t. */
static warm_status lane_of(wm_lane_registry *registry, warm_stream stream,
                           wm_timeline *t, wm_found_lane *found)
{
    uint64_t id = wm_timeline_lane_id(wm_timeline_id(t));
    wm_lane_owner **bucket = bucket_of(registry, id);
    wm_lane_owner *owner;
    bool inserted = false;

    found->known = wm_timeline_is_known(registry->timelines, t);
    wm_lock_acquire(&registry->lock);
    owner = find_locked(registry, id);
    if (owner == NULL) {
        owner = make_locked(registry, id, stream, t);
        inserted = owner != NULL;
    }
    if (inserted) {
        owner->next = *bucket;
        *bucket = owner;
    }
    if (owner != NULL) {
        wm_lane_hold(owner->lane); /* not over: the stream is not retired */
    }
    wm_lock_release(&registry->lock);
    if (!inserted) {
        wm_timeline_put(registry->timelines, t);
    }
    if (owner == NULL) {
        return no_memory();
    }
    found->lane = owner->lane;
    return WARM_OK;
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
    wm_timeline *t = NULL;
    warm_status status;
    int device;

    *found = (wm_found_lane){.lane = NULL};
    if (is_legacy(stream)) {
        return legacy_lane(registry, found);
    }
    status =
        wm_timeline_lookup(registry->timelines, stream, &t, &found->captured);
    if (status != WARM_OK) {
        return status;
    }
    if (t == NULL) {
        return WARM_OK; /* memory of a graph comes back to no stream */
    }
    device = wm_timeline_device(t);
    if (device != registry->device && device != WM_DEVICE_UNKNOWN) {
        wm_timeline_put(registry->timelines, t);
        return wm_lane_other_device(stream, device, registry->device);
    }
    if (found->captured) {
        wm_timeline_put(registry->timelines, t);
        return WARM_OK; /* a graph may be launched on any stream */
    }
    return lane_of(registry, stream, t, found);
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
    registry->stub->arena = arena;
    wm_lock_init(&registry->lock, WM_RANK_ORDERS);
    return WARM_OK;
}

/* Fences under way end with the timelines. */
void wm_lane_registry_forget(wm_lane_registry *registry)
{
    for (int i = 0; i < WM_LANE_BUCKETS; i++) {
        for (wm_lane_owner *o = registry->bucket[i]; o != NULL; o = o->next) {
            wm_timeline_put(registry->timelines, o->timeline);
        }
    }
}

void wm_lane_registry_fini(wm_lane_registry *registry)
{
    for (int i = 0; i < WM_LANE_BUCKETS; i++) {
        while (registry->bucket[i] != NULL) {
            wm_lane_owner *owner = registry->bucket[i];

            registry->bucket[i] = owner->next;
            wm_meta_free(owner);
        }
    }
    wm_meta_free(registry->legacy);
    wm_meta_free(registry->stub);
    wm_lock_fini(&registry->lock);
}
