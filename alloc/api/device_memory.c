/* device_memory.c: allocates device memory (device_memory.h). A hit is inlined
 * here; a miss calls the space. Statistics and limits are in cache.c. */
#include "warmpool/device_memory.h"

#include "alloc/kinds/device_space.h"
#include "alloc/cache/stream_slot.h"
#include "alloc/private_pool/private_pool.h"
#include "alloc/arena/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"

/* Sets the request's lane to that of the stream, with a reference, in registry.
 * epoch: the stream epoch, read before. */
static warm_status find_lane(wm_space *space, wm_lane_registry *registry,
                             warm_stream stream, uint64_t epoch,
                             wm_request *request, bool *captured)
{
    wm_found_lane found;
    bool is_pool = request->arena->pool != NULL;

    if (!is_pool && wm_stream_slot_is_known(&space->group, stream, request)) {
        return WARM_OK;
    }
    warm_status status = wm_lanes_of_stream(registry, stream, &found);
    if (status == WARM_OK) {
        request->lane = found.lane;
        request->stream = stream;
        request->epoch = found.known && !is_pool ? epoch : 0;
        *captured = found.captured;
    }
    return status;
}

/* request: its bytes, and alignment. */
static warm_status alloc(wm_device_space *d, warm_stream stream,
                         wm_request *request, void **pointer)
{
    wm_space *space = &d->space;
    warm_runtime *runtime = space->group.runtime;
    wm_lane_registry *registry = &d->registry;
    /* Acquire: pairs with the release of the thread that announces a capture: a
     * thread that reads its epoch sees the capture and caches no block. */
    uint64_t epoch =
        atomic_load_explicit(&runtime->stream_epoch, memory_order_acquire);
    bool captured = false;
    wm_lane *held = NULL;
    warm_status status = WARM_OK;

    request->arena = space->group.arenas;
    if (wm_private_routes(runtime)) {
        status = wm_private_route(space, space->group.device, stream, request);
        if (request->arena->pool != NULL) {
            registry = request->arena->registry;
        }
    }
    if (status == WARM_OK && request->lane == NULL) {
        status = find_lane(space, registry, stream, epoch, request, &captured);
        held = request->lane;
    }
    if (captured) {
        /* Until end_recording() no call that breaks captures is made. */
        wm_timelines_begin_found(space->group.timelines);
    }
    if (status == WARM_OK) {
        status = wm_space_alloc(space, request, pointer);
    }
    if (captured) {
        wm_timelines_end_recording(space->group.timelines);
    }
    if (held != NULL) {
        wm_lane_drop(request->arena, held);
    }
    if (request->arena->pool != NULL) {
        wm_private_routed(request->arena->pool);
    }
    if (status == WARM_OK && captured) {
        /* Relaxed: no other thread has the block yet. */
        atomic_store_explicit(&wm_space_find(*pointer)->captured, true,
                              memory_order_relaxed);
    }
    if (status == WARM_OK && wm_runtime_is_traced(runtime)) {
        wm_traced_alloc(runtime, *pointer, stream);
    }
    return status;
}

static warm_status alloc_request(warm_runtime *runtime, int device,
                                 warm_stream stream, wm_request *request,
                                 void **pointer)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status != WARM_OK) {
        return status;
    }
    if (pointer == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "pointer is null");
    }
    if (request->bytes == 0) {
        *pointer = NULL;
        return WARM_OK;
    }
    if (request->bytes > WM_REQUEST_MAX) {
        wm_space *space = &runtime->device_spaces[device].space;

        request->arena = space->group.arenas;
        return wm_space_refuse_huge(space, request);
    }
    return alloc(&runtime->device_spaces[device], stream, request, pointer);
}

static __attribute__((noinline, cold)) warm_status
alloc_slow(warm_runtime *runtime, int device, warm_stream stream, size_t bytes,
           void **pointer)
{
    wm_request request = {.bytes = bytes};

    return alloc_request(runtime, device, stream, &request, pointer);
}

/* A miss on the stream of the current slot, read again here so that a hit need
 * not keep it in registers. The slot is read without the biased lock: other
 * threads end slots only while the owner is not in a call. */
static __attribute__((noinline)) warm_status
alloc_missed(wm_window *window, size_t bytes, void **pointer)
{
    const wm_stream_slot *slot = window->slot_last;
    warm_runtime *runtime = window->owner;

    if (wm_stream_slot_enter(window, runtime, wm_private_routing(runtime),
                             slot->device, slot->stream) &&
        wm_stream_slot_alloc_larger(window, bytes, pointer)) {
        return WARM_OK;
    }
    return alloc_slow(runtime, slot->device, slot->stream, bytes, pointer);
}

/* Makes the stream's slot the current one. False: the thread has none. */
static bool turn_to(wm_window *window, int device, warm_stream stream)
{
    bool found = false;

    if (wm_biased_enter(&window->biased)) {
        found = wm_stream_slot_of(window, device, stream) != NULL;
        wm_biased_leave(&window->biased);
    }
    return found;
}

/* The current slot is another stream's; the stream's own may hold a block. */
static __attribute__((noinline)) warm_status
alloc_other(warm_runtime *runtime, int device, warm_stream stream, size_t bytes,
            void **pointer)
{
    wm_window *window = wm_window_mine();

    if (wm_magazine_may_hit(window, runtime, bytes, pointer) &&
        turn_to(window, device, stream) &&
        wm_stream_slot_enter(window, runtime, wm_private_routing(runtime),
                             device, stream)) {
        return wm_stream_slot_alloc(window, bytes, pointer)
                   ? WARM_OK
                   : alloc_missed(window, bytes, pointer);
    }
    return alloc_slow(runtime, device, stream, bytes, pointer);
}

warm_status warm_device_alloc(warm_runtime *runtime, int device,
                              warm_stream stream, size_t bytes, void **pointer)
{
    wm_window *window = wm_window_mine();

    if (!wm_magazine_may_hit(window, runtime, bytes, pointer) ||
        !wm_stream_slot_enter(window, runtime, wm_private_routing(runtime),
                              device, stream)) {
        return alloc_other(runtime, device, stream, bytes, pointer);
    }
    if (wm_likely(wm_stream_slot_alloc(window, bytes, pointer))) {
        return WARM_OK;
    }
    return alloc_missed(window, bytes, pointer);
}

warm_status warm_device_alloc_aligned(warm_runtime *runtime, int device,
                                      warm_stream stream, size_t bytes,
                                      size_t alignment, void **pointer)
{
    wm_request request = {.alignment = alignment, .asked = bytes};
    warm_status status = wm_space_check_alignment(alignment);

    if (status != WARM_OK) {
        return status;
    }
    if (bytes == 0 || bytes > WM_REQUEST_MAX ||
        wm_arena_is_aligned(bytes, alignment)) {
        return warm_device_alloc(runtime, device, stream, bytes, pointer);
    }
    request.bytes = wm_arena_align_bytes(bytes, alignment);
    return alloc_request(runtime, device, stream, &request, pointer);
}

warm_status warm_device_base_allocation(const void *pointer, void **base,
                                        size_t *bytes)
{
    wm_block *block = wm_space_find(pointer);
    warm_status status;

    if (block == NULL || wm_device_of_block(block) < 0) {
        return wm_space_not_found(pointer, " of a device");
    }
    status = wm_runtime_check(wm_space_of(block)->group.runtime);
    status = wm_check_given(status, base, "base");
    status = wm_check_given(status, bytes, "bytes");
    if (status != WARM_OK) {
        return status;
    }
    *base = block->segment->base;
    *bytes = block->segment->bytes;
    return WARM_OK;
}
