/* pending_bed.h: a runtime and a stream for tests of pending batches
 * (pending.h): blocks that the stream uses, a thread that frees some and idles,
 * a thread whose footprint is stable, a slow driver. Host device; the tests
 * drive time and streams. */
#ifndef GATHER_BED_H
#define GATHER_BED_H

#include "wt.h"

#include "alloc/cache/cache_int.h"
#include "alloc/kinds/pinned.h"
#include "alloc/stream/timeline_int.h"
#include "runtime/base/meta.h"

#include <sched.h>
#include <string.h>

enum {
    SIZE = 5000,
    BYTES = 5120,
    MANY = 600,
    STREAMS = 12,
    MANY_STREAMS = 200
};

static warm_runtime *runtime;
static warm_stream stream;
static uint64_t now_ns = 1000000000;

static inline uint64_t now(void)
{
    return now_ns;
}

static inline void open_with(warm_options options)
{
    options.size = sizeof options;
    options.device = "host";
    runtime = wt_runtime(&options);
    wt_ok(warm_stream_create(runtime, 0, &stream));
}

static inline void set_up(void)
{
    wm_clock_set(now);
    open_with((warm_options){.size = 0});
}

static inline void tear_down(void)
{
    wt_runtime_end(runtime);
}

static inline void reopen(warm_options options)
{
    tear_down();
    open_with(options);
}

static inline void *take(void)
{
    return wt_pinned(runtime, SIZE);
}

static inline wm_timelines *timelines(void)
{
    return &runtime->pinned->timelines;
}

/* Of this thread; null if no slot was made. */
static inline wm_pending *pending_of_mine(void)
{
    const wm_magazine_set *set = atomic_load(&wm_window_mine()->magazines);

    return set != NULL ? wm_magazine_set_pending(set) : NULL;
}

static inline unsigned slots_in_use(void)
{
    const wm_pending *pending = pending_of_mine();

    return pending != NULL ? pending->in_use : 0;
}

static inline unsigned slots_in_turn(void)
{
    const wm_pending *pending = pending_of_mine();

    return pending != NULL ? pending->in_turn : 0;
}

/* The slot of this thread for the stream; of no stream if there is none. */
static inline wm_pending_stream *slot_of(warm_stream s)
{
    wm_pending_stream *slot = wm_pending_find(pending_of_mine(), s);

    return slot != NULL ? slot
                        : (wm_pending_stream *)(uintptr_t)&wm_pending_no_stream;
}

/* Blocks in all slots of this thread. */
static inline size_t batched_blocks(void)
{
    size_t blocks = 0;

    for (wm_pending_stream *slot = wm_pending_first(pending_of_mine());
         slot != NULL; slot = slot->next) {
        blocks += atomic_load(&slot->blocks);
    }
    return blocks;
}

/* Another stream that batches. */
static inline warm_stream stream_beside(void)
{
    warm_stream other;

    wt_ok(warm_free(take())); /* the thread has slots */
    wt_ok(warm_stream_create(runtime, 0, &other));
    return other;
}

/* A free on another stream takes over the slot of s: all entries where it may
 * lie are in use, and the table cannot grow. */
static inline warm_stream take_slot_of(warm_stream s)
{
    const wm_pending *pending = pending_of_mine();
    warm_stream other;
    size_t entry;
    void *block;
    int used;

    if (pending == NULL) {
        ck_abort_msg("no slot was made");
    }
    entry = wm_pending_index(pending, s);
    ck_assert_ptr_eq(pending->table[entry], slot_of(s));
    do {
        do {
            wt_ok(warm_stream_create(runtime, 0, &other));
        } while (wm_pending_index(pending, other) != entry);
        used = 0;
        for (int i = 0; i < WM_PENDING_PROBES; i++) {
            used += pending->table[entry + (size_t)i] != NULL;
        }
        block = take();
        if (used == WM_PENDING_PROBES) {
            wm_meta_fail(1, true);
        }
        wt_free_used(block, other);
        wm_meta_fail(0, false);
    } while (used < WM_PENDING_PROBES);
    return other;
}

/* Blocks in the slot of this thread for the stream. */
static inline size_t batched(warm_stream s)
{
    return slot_of(s)->stream == s ? slot_of(s)->open.count : 0;
}

/* Looked at without a reference of our own. */
static inline wm_timeline *timeline_of(warm_stream s)
{
    wm_timeline *t = wm_timeline_get_adopted(timelines(), s);

    if (t != NULL) {
        wm_timeline_drop(timelines(), t);
    }
    return t;
}

/* The timeline of an adopted stream has a reference for that, for each use
 * that is live or waits, and for what the slots have in stock. */
static inline void check_references(warm_stream s, size_t uses)
{
    wm_timeline *t = timeline_of(s);
    size_t stock = slot_of(s)->stream == s ? slot_of(s)->references : 0;

    wt_require(stock <= 513, "%zu in stock", stock);
    wt_require(slot_of(s)->stream != s || stock >= 1, "the slot has none");
    ck_assert_uint_eq(atomic_load(&t->references), 1 + uses + stock);
    ck_assert_uint_eq(atomic_load(&t->slots), slot_of(s)->stream == s);
}

static inline void check_pending(uint64_t blocks)
{
    warm_space_stats stats = wt_pinned_stats(runtime);

    ck_assert_uint_eq(stats.pending.current, blocks);
    ck_assert_uint_eq(stats.pending_bytes.current, blocks * BYTES);
    ck_assert(wm_space_check_settled(&runtime->pinned->space));
}

/* The stream goes on, and what waited for it has passed. */
static inline void pass_all(void)
{
    wt_go(runtime, stream);
    wt_ok(warm_poll(runtime));
    check_pending(0);
}

/* Frees blocks that the stream uses, and then does nothing. */
struct idler {
    pthread_barrier_t barrier;
    pthread_t thread;
    unsigned blocks;
    warm_status status;
    size_t left; /* in its slot at the end */
};

/* In a thread that asserts nothing. */
static inline void free_some(struct idler *idler, unsigned count)
{
    for (unsigned i = 0; i < count && idler->status == WARM_OK; i++) {
        void *block = NULL;

        idler->status = warm_pinned_alloc(runtime, SIZE, &block);
        if (idler->status == WARM_OK) {
            idler->status = warm_record_stream(block, stream);
        }
        if (idler->status == WARM_OK) {
            idler->status = warm_free(block);
        }
    }
}

static inline void *free_and_idle(void *argument)
{
    struct idler *idler = argument;

    free_some(idler, idler->blocks);
    pthread_barrier_wait(&idler->barrier);
    pthread_barrier_wait(&idler->barrier);
    idler->left = batched(stream);
    return NULL;
}

static inline void idle_start(struct idler *idler, unsigned blocks)
{
    *idler = (struct idler){.blocks = blocks};
    pthread_barrier_init(&idler->barrier, NULL, 2);
    ck_assert_int_eq(pthread_create(&idler->thread, NULL, free_and_idle, idler),
                     0);
}

static inline void idle_await(struct idler *idler)
{
    pthread_barrier_wait(&idler->barrier);
    wt_ok(idler->status);
}

static inline void idle_begin(struct idler *idler, unsigned blocks)
{
    idle_start(idler, blocks);
    idle_await(idler);
}

static inline void idle_end(struct idler *idler)
{
    pthread_barrier_wait(&idler->barrier);
    pthread_join(idler->thread, NULL);
}

static inline wm_economy *economy(void)
{
    return &runtime->pinned->space.group.economy;
}

/* As if threads had missed so often that two periods end without growth. */
static inline void end_periods(void)
{
    atomic_fetch_add(&economy()->period, 2);
    ck_assert(wm_economy_is_stable(economy()));
}

/* Memory does not grow any more. */
static inline void become_steady(unsigned batch, size_t kept)
{
    reopen((warm_options){
        .segment = 256 << 10,
        .test = wt_list("batch_count=%u:magazine_bytes=%zu", batch,
                        kept > 0 ? kept * BYTES : 256 << 20)});
    wt_free_used(take(), stream);
    end_periods();
    wt_free_used(take(), stream);
    wt_ok(warm_poll(runtime)); /* the next batch has the new bounds */
}

/* The first who records an event, or asks for one, waits behind a door. */
static struct {
    const wm_driver_ops *real;
    wm_driver_ops ops;
    _Atomic bool inside, open;
} door;

static inline void wait_behind_door(void)
{
    if (!atomic_exchange(&door.inside, true)) {
        while (!atomic_load(&door.open)) {
            sched_yield();
        }
    }
}

static inline warm_status mark_behind_door(wm_driver *d, warm_event event,
                                           warm_stream s, wm_capture *capture)
{
    wait_behind_door();
    return door.real->event_mark(d, event, s, capture);
}

static inline warm_status ask_behind_door(wm_driver *d, warm_event event)
{
    wait_behind_door();
    return door.real->event_passed(d, event);
}

static inline void close_door(bool asks)
{
    atomic_store(&door.inside, false);
    atomic_store(&door.open, false);
    door.real = runtime->driver->ops;
    door.ops = *door.real;
    if (asks) {
        door.ops.event_passed = ask_behind_door;
    } else {
        door.ops.event_mark = mark_behind_door;
    }
    runtime->driver->ops = &door.ops;
}

static inline void await_inside(void)
{
    while (!atomic_load(&door.inside)) {
        sched_yield();
    }
}

#endif
