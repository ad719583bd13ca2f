/* space.c: the ladder of an allocation, frees and returns of segments. */
#include "alloc/space.h"

#include "alloc/page_map.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

/* ---- slow work -------------------------------------------------------- */

/* What surrounds all slow work: it is no cancellation point; it may allocate
 * and query while somebody captures (row B7); and a failure that it recovers
 * from leaves no error behind. */
struct section {
    int cancel;
    bool mode; /* of the thread's captures, before */
    warm_error error;
};

/* Fails, and needs no leave(), if the capture mode cannot be set. */
static warm_status enter(wm_space *space, struct section *section)
{
    warm_status status;

    section->cancel = wm_cancel_off();
    section->mode = true;
    section->error.size = sizeof section->error;
    warm_last_error(&section->error);
    status = wm_driver_capture_mode(space->driver, &section->mode);
    if (status != WARM_OK) {
        wm_cancel_restore(section->cancel);
    }
    return status;
}

static void leave(wm_space *space, struct section *section, bool recovered)
{
    wm_driver_unrelax(space->driver, &section->mode);
    if (recovered) {
        wm_error_restore(&section->error);
    }
    wm_cancel_restore(section->cancel);
}

/* ---- returning segments ----------------------------------------------- */

/* What became of the idle segments that were to go back. */
struct returned {
    size_t bytes;     /* with the driver again */
    size_t refused;   /* the driver did not take */
    warm_error cause; /* of the last refusal */
};

static warm_status driver_free(wm_space *space, void *base, size_t bytes)
{
    uint64_t start = wm_clock_ns();
    warm_status status = space->traits->give_back(space->driver, base, bytes);

    wm_arena_count_driver(&space->arena, true, wm_clock_ns() - start);
    return status;
}

static void give_back_locked(wm_space *space, wm_segment *segment,
                             struct returned *returned)
{
    size_t bytes = segment->bytes;

    if (driver_free(space, segment->base, bytes) == WARM_OK) {
        returned->bytes += bytes;
        wm_arena_released(&space->arena, segment);
        return;
    }
    returned->refused += bytes;
    returned->cause.size = sizeof returned->cause;
    warm_last_error(&returned->cause);
    wm_arena_reattach(&space->arena, segment);
}

/* Under lock growth: a segment on its way back is neither cached nor room
 * under the limit, and whoever grows then would find less than there is. */
static void give_back_idle_locked(wm_space *space, size_t target,
                                  uint64_t before_ns, struct returned *returned)
{
    wm_segment *segment = wm_arena_detach(&space->arena, target, before_ns);

    while (segment != NULL) {
        wm_segment *next = segment->next;

        give_back_locked(space, segment, returned);
        segment = next;
    }
}

static void say_refused(wm_space *space, const struct returned *returned)
{
    if (returned->refused > 0) {
        wm_log(WARM_LOG_WARNING,
               "the driver did not take %s of %s memory back, which stays in "
               "the cache: %s",
               wm_bytes(returned->refused).text, space->traits->name,
               returned->cause.message);
    }
}

/* Not while somebody grows, who may take long: the next poll comes. */
static void decay(wm_space *space)
{
    struct returned returned = {0};
    uint64_t now;

    if (space->decay_ns == 0) {
        return;
    }
    now = wm_clock_ns();
    if (now > space->decay_ns && wm_lock_acquire_try(&space->growth)) {
        give_back_idle_locked(space, 0, now - space->decay_ns, &returned);
        wm_lock_release(&space->growth);
        say_refused(space, &returned);
    }
}

/* Once: a broken driver would say it at every free. */
static void say_kept(wm_space *space, size_t bytes, const char *why)
{
    /* Relaxed: a flag. */
    if (!atomic_exchange_explicit(&space->kept, true, memory_order_relaxed)) {
        wm_log(WARM_LOG_WARNING, "a block of %s is kept for ever: %s",
               wm_bytes(bytes).text, why);
    }
}

/* Takes back what has passed. What a round of polling lost is said after it:
 * the log callback may come back here. */
static void collect(wm_space *space)
{
    size_t bytes;

    wm_timelines_poll(space->timelines);
    /* Relaxed: a size for a message. */
    bytes = atomic_exchange_explicit(&space->lost, 0, memory_order_relaxed);
    if (bytes > 0) {
        say_kept(space, bytes, "the driver does not say whether it is in use");
    }
}

void wm_space_finish(wm_block *block, bool lost)
{
    wm_space *space = wm_space_of(block);

    if (lost) {
        atomic_store_explicit(&space->lost, block->bytes, memory_order_relaxed);
    }
    wm_arena_finish(&space->arena, block, lost);
}

static void poll(wm_space *space)
{
    collect(space);
    decay(space);
}

warm_status wm_space_poll(wm_space *space)
{
    struct section section;
    warm_status status = enter(space, &section);

    if (status == WARM_OK) {
        poll(space);
        leave(space, &section, true);
    }
    return status;
}

warm_status wm_space_trim(wm_space *space, size_t target, size_t *released)
{
    struct section section;
    struct returned returned = {0};
    warm_status status = enter(space, &section);

    if (status == WARM_OK) {
        collect(space);
        wm_lock_acquire(&space->growth);
        give_back_idle_locked(space, target, UINT64_MAX, &returned);
        wm_lock_release(&space->growth);
        say_refused(space, &returned);
        *released = returned.bytes;
        leave(space, &section, true);
    }
    return status;
}

/* ---- growth ----------------------------------------------------------- */

static bool within_limit(wm_space *space, size_t bytes)
{
    warm_space_stats stats = {.size = sizeof stats};

    if (space->limit_bytes == 0) {
        return true;
    }
    wm_arena_stats(&space->arena, &stats);
    return stats.held_bytes.current <= space->limit_bytes &&
           bytes <= space->limit_bytes - stats.held_bytes.current;
}

/* Obtains segment_bytes and takes the block from them. */
static warm_status obtain_locked(wm_space *space, size_t segment_bytes,
                                 size_t bytes, wm_block **block)
{
    uint64_t start = wm_clock_ns();
    void *base = NULL;
    warm_status status;

    if (!within_limit(space, segment_bytes)) {
        return wm_fail(WARM_OUT_OF_MEMORY, "the limit of %s is reached",
                       wm_bytes(space->limit_bytes).text);
    }
    status = space->traits->obtain(space->driver, segment_bytes, &base);
    wm_arena_count_driver(&space->arena, false, wm_clock_ns() - start);
    if (status == WARM_OK) {
        status =
            wm_arena_grow(&space->arena, base, segment_bytes, bytes, block);
        if (status != WARM_OK) {
            (void)driver_free(space, base, segment_bytes);
        }
    }
    return status;
}

/* Looks again, then asks for a whole segment, and for what the request needs
 * where that cannot be had. */
static warm_status grow_locked(wm_space *space, size_t bytes, wm_block **block)
{
    size_t needed = wm_arena_run_bytes(bytes);
    bool starved = false;
    warm_status status = WARM_OUT_OF_MEMORY;

    *block = wm_arena_take(&space->arena, bytes, &starved);
    if (*block != NULL) {
        return WARM_OK;
    }
    if (starved) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a record of it");
    }
    if (needed < space->segment_bytes) {
        status = obtain_locked(space, space->segment_bytes, bytes, block);
    }
    if (status == WARM_OUT_OF_MEMORY) {
        status = obtain_locked(space, needed, bytes, block);
    }
    return status;
}

/* One thread grows; those that waited look again first. */
static warm_status grow(wm_space *space, size_t bytes, wm_block **block)
{
    struct returned returned = {0};
    warm_status status;

    wm_lock_acquire(&space->growth);
    status = grow_locked(space, bytes, block);
    if (status == WARM_OUT_OF_MEMORY) {
        give_back_idle_locked(space, 0, UINT64_MAX, &returned);
    }
    if (returned.bytes > 0) {
        wm_arena_count_retry(&space->arena);
        status = grow_locked(space, bytes, block);
    }
    wm_lock_release(&space->growth);
    say_refused(space, &returned);
    return status;
}

static bool ask_callbacks(wm_space *space, size_t bytes)
{
    warm_error cause = {.size = sizeof cause};
    bool again = false;

    warm_last_error(&cause);
    for (int i = 0; i < WM_CALLBACKS; i++) {
        warm_memory_fn function;
        void *context;

        wm_lock_acquire(&space->growth);
        function = space->callback[i].function;
        context = space->callback[i].context;
        wm_lock_release(&space->growth);
        if (function != NULL && function(context, bytes)) {
            again = true;
        }
    }
    /* What failed in a callback is not why the request does. */
    wm_error_restore(&cause);
    return again;
}

static warm_status out_of_memory(wm_space *space, warm_status status,
                                 size_t bytes)
{
    warm_space_stats s = {.size = sizeof s};
    warm_error cause = {.size = sizeof cause};

    warm_last_error(&cause);
    wm_arena_stats(&space->arena, &s);
    wm_arena_count_failure(&space->arena);
    /* The driver's reason comes last: it may be long, and cut off. */
    return wm_fail_code(
        status, cause.origin, cause.code, cause.code_text,
        "%s of %s memory were asked for and cannot be had; held %s, in use %s, "
        "idle %s, pending %s, lost %s, limit %s: %s",
        wm_bytes(bytes).text, space->traits->name,
        wm_bytes(s.held_bytes.current).text,
        wm_bytes(s.block_bytes.current).text, wm_bytes(s.idle_bytes).text,
        wm_bytes(s.pending_bytes.current).text, wm_bytes(s.lost_bytes).text,
        space->limit_bytes != 0 ? wm_bytes(space->limit_bytes).text : "none",
        cause.message);
}

/* The ladder below a cache that misses (row B12). */
static warm_status climb(wm_space *space, size_t bytes, wm_block **block)
{
    bool starved = false;
    warm_status status = WARM_OK;

    poll(space);
    *block = wm_arena_take(&space->arena, bytes, &starved);
    if (*block == NULL) {
        status = grow(space, bytes, block);
    }
    if (status == WARM_OUT_OF_MEMORY && ask_callbacks(space, bytes)) {
        wm_arena_count_retry(&space->arena);
        collect(space);
        status = grow(space, bytes, block);
    }
    return status;
}

static warm_status alloc_slow(wm_space *space, size_t bytes, void **pointer)
{
    struct section section;
    wm_block *block = NULL;
    warm_status status = enter(space, &section);

    if (status == WARM_OUT_OF_MEMORY) {
        return out_of_memory(space, status, bytes);
    }
    if (status != WARM_OK) {
        return status;
    }
    status = climb(space, bytes, &block);
    if (status == WARM_OK) {
        *pointer = block->base;
    } else if (status == WARM_OUT_OF_MEMORY) {
        status = out_of_memory(space, status, bytes);
    }
    leave(space, &section, status == WARM_OK);
    return status;
}

warm_status wm_space_alloc(wm_space *space, size_t bytes, void **pointer)
{
    bool starved = false;
    wm_block *block = wm_arena_take(&space->arena, bytes, &starved);

    if (block == NULL) {
        return alloc_slow(space, bytes, pointer);
    }
    *pointer = block->base;
    return WARM_OK;
}

/* ---- blocks ----------------------------------------------------------- */

wm_block *wm_space_find(const void *pointer)
{
    wm_block *block = wm_block_at(pointer);

    /* Acquire: the fields were written before LIVE. */
    if (block == NULL ||
        atomic_load_explicit(&block->state, memory_order_acquire) !=
            WM_BLOCK_LIVE) {
        return NULL;
    }
    return (size_t)((const char *)pointer - block->base) < block->bytes ? block
                                                                        : NULL;
}

wm_space *wm_space_of(const wm_block *block)
{
    return block->segment->arena->owner;
}

static void keep(wm_space *space, wm_block *block, int state)
{
    size_t bytes = block->bytes;

    wm_arena_free_kept(&space->arena, block, state);
    say_kept(space, bytes,
             state == WM_BLOCK_LOST ? warm_last_error_message()
                                    : "a graph capture used it");
}

static void settle(wm_space *space, wm_block *block, enum wm_uses uses)
{
    switch (uses) {
    case WM_USES_NONE:
        wm_arena_free(&space->arena, block);
        break;
    case WM_USES_PENDING:
        wm_arena_free_pending(&space->arena, block);
        wm_timelines_publish(space->timelines, block);
        break;
    case WM_USES_LOST:
        keep(space, block, WM_BLOCK_LOST);
        break;
    case WM_USES_CAPTURED:
        keep(space, block, WM_BLOCK_CAPTURED);
        break;
    }
}

static void free_used(wm_space *space, wm_block *block)
{
    struct section section;

    if (enter(space, &section) != WARM_OK) {
        wm_timelines_forget(space->timelines, block);
        keep(space, block, WM_BLOCK_LOST);
        wm_error_restore(&section.error);
        return;
    }
    settle(space, block, wm_timelines_prepare(space->timelines, block));
    leave(space, &section, true);
}

void wm_space_free(wm_space *space, wm_block *block)
{
    /* Acquire pairs with the push of a use by another thread. */
    if (atomic_load_explicit(&block->uses, memory_order_acquire) == NULL &&
        !atomic_load_explicit(&block->captured, memory_order_relaxed)) {
        wm_arena_free(&space->arena, block);
    } else {
        free_used(space, block);
    }
}

warm_status wm_space_record(wm_space *space, wm_block *block,
                            warm_stream stream)
{
    return wm_timelines_use(space->timelines, block, stream);
}

void wm_space_retire(wm_space *space, warm_stream stream,
                     const wm_stream_info *info)
{
    struct section section;
    warm_status status = enter(space, &section);

    wm_timelines_retire(space->timelines, stream, info);
    if (status == WARM_OK) {
        leave(space, &section, true);
    } else {
        wm_error_restore(&section.error);
    }
}

/* ---- callbacks -------------------------------------------------------- */

static int find_callback_locked(wm_space *space, warm_memory_fn function,
                                void *context)
{
    for (int i = 0; i < WM_CALLBACKS; i++) {
        if (space->callback[i].function == function &&
            (function == NULL || space->callback[i].context == context)) {
            return i;
        }
    }
    return -1;
}

warm_status wm_space_callback_add(wm_space *space, warm_memory_fn function,
                                  void *context)
{
    int i;

    wm_lock_acquire(&space->growth);
    i = find_callback_locked(space, NULL, NULL);
    if (i >= 0) {
        space->callback[i].function = function;
        space->callback[i].context = context;
    }
    wm_lock_release(&space->growth);
    return i >= 0
               ? WARM_OK
               : wm_fail(WARM_INVALID_ARGUMENT,
                         "there are %d memory callbacks already", WM_CALLBACKS);
}

warm_status wm_space_callback_remove(wm_space *space, warm_memory_fn function,
                                     void *context)
{
    int i;

    wm_lock_acquire(&space->growth);
    i = find_callback_locked(space, function, context);
    if (i >= 0) {
        space->callback[i].function = NULL;
    }
    wm_lock_release(&space->growth);
    return i >= 0 ? WARM_OK
                  : wm_fail(WARM_NOT_FOUND,
                            "that memory callback is not registered");
}

/* ---- begin and end ---------------------------------------------------- */

void wm_space_init(wm_space *space, const wm_space_traits *traits,
                   warm_runtime *runtime, wm_timelines *timelines,
                   const wm_options *options)
{
    memset(space, 0, sizeof *space);
    space->traits = traits;
    space->runtime = runtime;
    space->driver = runtime->driver;
    space->timelines = timelines;
    space->segment_bytes = wm_page_round(options->segment);
    space->limit_bytes = options->pinned_limit;
    space->decay_ns = options->decay_ms * 1000000u;
    wm_lock_init(&space->growth, WM_RANK_GROWTH);
    wm_arena_init(&space->arena, space);
}

static void forget_block(void *context, wm_block *block)
{
    wm_space *space = context;

    wm_timelines_forget(space->timelines, block);
}

void wm_space_forget(wm_space *space)
{
    wm_arena_each_live(&space->arena, forget_block, space);
}

void wm_space_fini(wm_space *space)
{
    wm_arena_fini(&space->arena);
    wm_lock_fini(&space->growth);
}
