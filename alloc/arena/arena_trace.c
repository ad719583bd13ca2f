/* arena_trace.c: events of blocks and segments for the trace, the history and
 * option log_memory. Takes lock arena for a block's origin. */
#include "alloc/arena/group.h"

#include "alloc/block/page_map.h"
#include "runtime/base/bytes.h"
#include "runtime/base/callback.h"
#include "runtime/base/log.h"

#include <string.h>
#include <unistd.h>

/* ---- the history -------------------------------------------------------- */

/* An event in an arena, without the thread that causes it. Siblings share one
 * snapshot. */
static wm_history_event event_in(const wm_arena *arena, enum wm_history_op op)
{
    return (wm_history_event){.op = (uint64_t)op,
                              .place = wm_group_place(arena),
                              .pool = wm_arena_pool_number(arena),
                              .arena = (uintptr_t)arena->siblings};
}

static wm_history_event event_of(const wm_block *block, enum wm_history_op op)
{
    wm_history_event event = event_in(block->segment->arena, op);

    event.address = (uintptr_t)block->base;
    event.bytes = wm_block_asked(block);
    event.lane_id = block->lane_id;
    return event;
}

/* Events of blocks are logged under lock arena: no snapshot is taken between
 * two events that belong together, nor between an event and the change of the
 * block's origin. A block is active at least from before its alloc event to
 * after its free_completed event. */

/* Ends the origin of a block before another thread allocates it. here: the
 * thread that finds the block complete, and the time. */
static void log_completed_locked(wm_history *history, const wm_block *block,
                                 const wm_origin *here)
{
    wm_history_event event = event_of(block, WM_HISTORY_FREE_COMPLETED);

    memcpy(&event.origin, block->origin, wm_history_origin_bytes(history));
    event.origin.ns = here->ns;
    event.origin.thread = here->thread;
    block->origin->ns = 0;
    wm_history_put(history, &event);
}

void wm_traced_unused(warm_runtime *runtime, wm_block *block)
{
    wm_lock *lock = &block->segment->arena->lock;
    wm_origin here;

    if (runtime->history != NULL) {
        wm_history_here(runtime->history, &here, false);
        wm_lock_acquire(lock);
        log_completed_locked(runtime->history, block, &here);
        wm_lock_release(lock);
    }
    if (runtime->debug != NULL) {
        wm_debug_idle(block);
    }
}

void wm_traced_done(warm_runtime *runtime, wm_block *chain)
{
    for (; chain != NULL; chain = chain->next_done) {
        /* Neither a fence nor a retained block; see stream_lane.h. */
        if (chain->bytes > 0 && wm_block_fate(chain) == WM_BLOCK_IDLE) {
            wm_traced_unused(runtime, chain);
        }
    }
}

/* Without stack frames: they take locks of the dynamic linker, and the alloc
 * event that follows has them. */
void wm_traced_segment(const wm_arena *arena, const char *base, size_t bytes,
                       enum wm_history_op op)
{
    wm_history_event event = event_in(arena, op);

    event.address = (uintptr_t)base;
    event.bytes = bytes;
    wm_history_here(arena->history, &event.origin, false);
    wm_history_put(arena->history, &event);
}

void wm_traced_refused(warm_runtime *runtime, const wm_request *request)
{
    wm_history_event event = event_in(request->arena, WM_HISTORY_OUT_OF_MEMORY);
    size_t free = 0, total = 0;

    if (runtime->history == NULL) {
        return;
    }
    event.bytes =
        wm_request_asked(request) - request->arena->group->guard_bytes;
    event.lane_id = request->lane != NULL ? request->lane->id : 0;
    WM_KEEP_ERROR();
    if (event.place < (uint64_t)runtime->devices &&
        wm_driver_device_memory(runtime->driver, (int)event.place, &free,
                                &total) != WARM_OK) {
        free = 0;
    }
    event.address = free;
    wm_history_here(runtime->history, &event.origin, true);
    wm_history_put(runtime->history, &event);
}

/* ---- option log_memory -------------------------------------------------- */

static const char *name_of(const wm_arena_group *group)
{
    if (group->shared) {
        return "shared";
    }
    if (group->pageable) {
        return "pageable";
    }
    return group->device >= 0 ? "device" : "pinned";
}

/* word: what happened to the block. Lines about what a log callback itself
 * allocates would never end. */
static void log_block(const warm_runtime *runtime, const wm_block *block,
                      enum wm_log_memory word)
{
    const wm_arena *arena = block->segment->arena;
    int device = arena->group->device;
    const char *did = word == WM_LOG_FREE      ? "freed"
                      : word == WM_LOG_RECYCLE ? "recycled"
                                               : "allocated";

    if ((runtime->log_memory & (unsigned)word) == 0 ||
        !wm_log_memory_fits(runtime->log_memory, block->bytes) ||
        wm_callback_inside()) {
        return;
    }
    WM_KEEP_ERROR();
    wm_log_memory("%s %s of %s memory for %s at %p (%s %d, thread %ld%s%s)",
                  did, wm_bytes(block->bytes).text, name_of(arena->group),
                  wm_bytes(wm_block_requested(block)).text,
                  (const void *)block->base, device >= 0 ? "device" : "node",
                  device >= 0 ? device : arena->node, (long)gettid(),
                  *warm_memory_tag_get() != '\0' ? ", " : "",
                  warm_memory_tag_get());
}

/* ---- all ---------------------------------------------------------------- */

/* The place of a buffer of the shared space: its spaces come last in the
 * history (history.h), in the order of devices and sorts. Negative: it is
 * another block. */
static int64_t shared_place(const warm_runtime *runtime,
                            const wm_arena_group *group)
{
    return (int64_t)group->place -
           (runtime->devices + runtime->driver->numa.nodes + 1);
}

/* The trace record of an allocation, without its stream. */
static wm_trace_record record_of(const warm_runtime *runtime,
                                 const wm_block *block)
{
    const wm_arena *arena = block->segment->arena;
    int device = arena->group->device;
    wm_trace_record record = {.op = WM_TRACE_ALLOC,
                              .bytes = wm_block_asked(block)};
    int64_t shared = shared_place(runtime, arena->group);

    if (shared >= 0) {
        record.place = WM_TRACE_SHARED + (uint64_t)shared;
    } else if (device >= 0) {
        record.place = WM_TRACE_DEVICE + (unsigned)device;
    } else if (arena->group->pageable) {
        record.place = WM_TRACE_PAGEABLE;
    }
    if (arena->pool != NULL) {
        record.pool = 2 * wm_arena_pool_number(arena) + arena->user_pool;
    }
    if (record.place != WM_TRACE_PINNED || record.pool != 0) {
        record.op = WM_TRACE_PLACED;
    }
    return record;
}

void wm_traced_alloc(warm_runtime *runtime, const void *pointer,
                     warm_stream stream)
{
    wm_history *history = runtime->history;
    wm_block *block = wm_block_at(pointer);
    wm_lock *lock = &block->segment->arena->lock;
    bool again = block->trace != WM_TRACE_FRESH;

    block->trace = 0;
    if (runtime->trace != NULL) {
        block->trace =
            wm_tracing_alloc(runtime, record_of(runtime, block), stream);
    }
    if (history != NULL) {
        wm_history_event event = event_of(block, WM_HISTORY_ALLOC);

        wm_history_here(history, &event.origin, true);
        wm_lock_acquire(lock);
        memcpy(block->origin, &event.origin, wm_history_origin_bytes(history));
        wm_history_put(history, &event);
        wm_lock_release(lock);
    }
    log_block(runtime, block, again ? WM_LOG_RECYCLE : WM_LOG_ALLOC);
    if (runtime->debug != NULL) {
        wm_debug_alloc(block);
    }
    /* Last: the callback may free the block. */
    (void)wm_listeners_call(&runtime->listeners,
                            again ? WARM_MEMORY_RECYCLED
                                  : WARM_MEMORY_ALLOCATED,
                            (void *)block->base, wm_block_asked(block));
}

void wm_traced_free(warm_runtime *runtime, wm_block *block)
{
    wm_history *history = runtime->history;
    wm_lock *lock = &block->segment->arena->lock;

    log_block(runtime, block, WM_LOG_FREE);
    (void)wm_listeners_call(&runtime->listeners, WARM_MEMORY_FREED,
                            (void *)block->base, wm_block_asked(block));
    if (runtime->trace != NULL && block->trace != 0) {
        wm_tracing_free(runtime, block->trace);
    }
    if (history != NULL) {
        wm_history_event event = event_of(block, WM_HISTORY_FREE_REQUESTED);
        /* The free makes the block idle at once. Acquire: as in
         * wm_space_free(). */
        bool idle =
            atomic_load_explicit(&block->uses, memory_order_acquire) == NULL &&
            !atomic_load_explicit(&block->captured, memory_order_relaxed);

        wm_history_here(history, &event.origin, true);
        if (runtime->debug != NULL) {
            wm_debug_free(block, &event.origin);
        }
        wm_lock_acquire(lock);
        wm_history_put(history, &event);
        if (idle) {
            log_completed_locked(history, block, &event.origin);
        }
        wm_lock_release(lock);
        /* Users may retain a shared block: see wm_space_free(). */
        if (runtime->debug != NULL && idle &&
            !block->segment->arena->group->shared) {
            wm_debug_idle(block);
        }
    }
}

void wm_traced_use(warm_runtime *runtime, const wm_block *block,
                   warm_stream stream, enum wm_trace_op op)
{
    if (runtime->trace != NULL && block->trace != 0) {
        wm_tracing_use(runtime, op, block->trace, stream);
    }
}
