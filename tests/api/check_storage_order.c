/* check_storage_order.c: clones and storages of memory that a stream works on,
 * and what a refused clone leaves as it was, through public headers (rows B4,
 * B7, D2, D3). */
#include "wt.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 4096 };

static warm_runtime *runtime;
static warm_stream stream;
static const warm_allocator *pinned;

static void setup(void)
{
    runtime = wt_runtime(NULL);
    wt_ok(warm_stream_create(runtime, 0, &stream));
    wt_ok(warm_allocator_get(runtime, WARM_MEMORY_PINNED, 0, &pinned));
}

static void teardown(void)
{
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}

static warm_status clone_of(const warm_allocator *allocator, const void *source,
                            warm_data_pointer *data)
{
    data->size = sizeof *data;
    return warm_data_pointer_clone(runtime, allocator, source, SIZE, stream,
                                   data);
}

/* On a GPU a copy from host to host may wait for the stream. */
static wt_gate *open_first(wt_gate *gate, warm_memory memory)
{
    if (wt_on_gpu() && memory == WARM_MEMORY_PINNED) {
        wt_gate_open(gate);
        return NULL;
    }
    return gate;
}

static void pass(wt_gate *gate)
{
    if (gate != NULL) {
        wt_gate_open(gate);
    }
    wt_ok(warm_stream_synchronize(runtime, stream));
}

/* Copied into pinned memory, after all work of the stream. */
static char first_byte(const void *data)
{
    char *bytes = wt_pinned(runtime, 1);
    char first;

    wt_ok(warm_copy_async(runtime, bytes, data, 1, WARM_COPY_TO_HOST, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    first = bytes[0];
    wt_ok(warm_free(bytes));
    return first;
}

static void nothing_pending(uint64_t live)
{
    warm_space_stats stats = wt_pinned_stats(runtime);

    ck_assert_uint_eq(stats.pending.current, 0);
    ck_assert_uint_eq(stats.captured, 0);
    ck_assert_uint_eq(stats.live.current, live);
}

/* Queued on the stream, without a record. */
static void work(void *memory)
{
    memset(memory, 42, SIZE);
}

/* ---- the runtime's own allocators ---------------------------------------- */

static const warm_memory own_memory[] = {WARM_MEMORY_PINNED,
                                         WARM_MEMORY_DEVICE};

WT_CASE("storage_order", .setup = setup, .teardown = teardown);

/* The clone may be freed at once, and the source if it is a block. */
WT_LOOP_TEST(test_B4_clone_copies_in_the_order_of_the_stream, 2)
{
    const warm_allocator *allocator = NULL;
    warm_data_pointer data, again;
    void *source = wt_pinned(runtime, SIZE), *copy, *block[2];
    wt_gate *gate = wt_gate_close(runtime, stream);

    wt_ok(warm_allocator_get(runtime, own_memory[_i], 0, &allocator));
    wt_ok(warm_stream_host_func(runtime, stream, work, source));
    gate = open_first(gate, own_memory[_i]);
    wt_ok(clone_of(allocator, source, &data));
    wt_ok(clone_of(allocator, source, &again));
    wt_ok(warm_free(source));
    copy = again.data;
    warm_data_pointer_free(&again);
    for (int i = 0; i < 2; i++) {
        block[i] = wt_pinned(runtime, SIZE);
        ck_assert(gate == NULL || block[i] != source);
        ck_assert(gate == NULL || block[i] != copy);
    }
    pass(gate);
    ck_assert_int_eq(first_byte(data.data), 42);
    warm_data_pointer_free(&data);
    wt_free_all(block, 2);
}

WT_TEST(test_B7_clone_in_a_capture_keeps_both)
{
    void *source = wt_pinned(runtime, SIZE), *old = source, *block;
    warm_data_pointer data;
    warm_graph graph = NULL;

    memset(source, 1, SIZE);
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(clone_of(pinned, source, &data));
    wt_ok(warm_free(source));
    wt_ok(warm_capture_end(runtime, stream, &graph));
    block = wt_pinned(runtime, SIZE);
    ck_assert_ptr_ne(block, old);
    /* No caller has it, and each launch reads it. */
    memset(old, 42, SIZE);
    wt_ok(warm_graph_launch(runtime, graph, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert_int_eq(*(char *)data.data, 42);
    wt_ok(warm_free(block));
    warm_data_pointer_free(&data);
    wt_ok(warm_graph_destroy(runtime, graph));
}

WT_TEST(test_D2_clone_of_too_much_records_nothing)
{
    warm_data_pointer data = WARM_INIT(warm_data_pointer);
    char *source = wt_pinned(runtime, SIZE);
    size_t bytes = wt_block_info(source).bytes;
    wt_gate *gate = wt_gate_close(runtime, stream);

    wt_invalid(warm_data_pointer_clone(runtime, pinned, source + 1, bytes,
                                       stream, &data));
    ck_assert_ptr_null(data.data);
    ck_assert_uint_eq(wt_block_info(source).streams, 0);
    nothing_pending(1);
    wt_gate_open(gate);
    wt_ok(warm_free(source));
}

WT_TEST(test_D2_clone_whose_copy_fails_is_freed)
{
    void *source = wt_pinned(runtime, SIZE);
    warm_data_pointer data = {.data = NULL};

    wt_ok(warm_testing_fail(runtime, "copy", 1, 0));
    wt_fails(WARM_DRIVER_ERROR, clone_of(pinned, source, &data));
    ck_assert_ptr_null(data.data);
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_poll(runtime));
    nothing_pending(1);
    wt_ok(warm_free(source));
}

/* ---- a program's own, and wrapped memory --------------------------------- */

static void free_block(void *context)
{
    wt_ok(warm_free(context));
}

/* Blocks of the library from an allocator that cannot copy, or record. */
static warm_status alloc_block(void *context, size_t bytes, warm_stream on,
                               warm_data_pointer *data)
{
    (void)context, (void)on;
    data->data = data->context = wt_pinned(runtime, bytes);
    data->deleter = free_block;
    return WARM_OK;
}

static warm_status record_none(void *context, const void *data, warm_stream on)
{
    (void)context, (void)data, (void)on;
    return WARM_NOT_FOUND;
}

static const warm_allocator plain = {.size = sizeof plain,
                                     .name = "plain",
                                     .memory = WARM_MEMORY_PINNED,
                                     .alloc = alloc_block};

/* A copy function that records nothing, like one of another library. */
struct move {
    void *to;
    const void *from;
};

static void move_bytes(void *argument)
{
    const struct move *m = argument;

    memcpy(m->to, m->from, SIZE);
}

static warm_status queue_move(void *context, void *destination,
                              const void *source, size_t bytes, warm_stream on)
{
    struct move *m = context;

    ck_assert_uint_eq(bytes, SIZE);
    *m = (struct move){destination, source};
    return warm_stream_host_func(runtime, on, move_bytes, m);
}

WT_TEST(test_B4_D1_source_may_be_freed_whatever_allocator_copies_it)
{
    struct move m = {NULL, NULL};
    warm_allocator own = plain;
    warm_data_pointer data;
    void *source = wt_pinned(runtime, SIZE), *block[2];
    wt_gate *gate = wt_gate_close(runtime, stream);

    own.context = &m;
    own.copy = queue_move;
    memset(source, 42, SIZE);
    wt_ok(clone_of(&own, source, &data));
    wt_ok(warm_free(source));
    for (int i = 0; i < 2; i++) {
        block[i] = wt_pinned(runtime, SIZE);
        memset(block[i], 7, SIZE);
    }
    pass(gate);
    ck_assert_int_eq(*(char *)data.data, 42);
    warm_data_pointer_free(&data);
    wt_free_all(block, 2);
}

struct race {
    char source[SIZE];
    warm_data_pointer data;
    wt_gate *gate;
    warm_status status;
    _Atomic bool cloned;
};

/* Thread 0 clones; thread 1 lets the stream go on after a while. */
static void clone_beside(void *argument, unsigned index)
{
    struct race *race = argument;
    wt_linger linger = {0, 0};

    if (index == 0) {
        race->status = clone_of(&plain, race->source, &race->data);
        atomic_store_explicit(&race->cloned, true, memory_order_release);
        return;
    }
    while (!atomic_load_explicit(&race->cloned, memory_order_acquire) &&
           wt_lingers(&linger)) {
    }
    wt_gate_open(race->gate);
}

/* Two runtimes are live; the caller names that of the stream. */
WT_TEST(test_B4_stream_is_waited_for_where_the_host_copies)
{
    warm_runtime *other = wt_runtime(NULL);
    struct race race = {.status = WARM_OK};

    race.gate = wt_gate_close(runtime, stream);
    wt_ok(warm_stream_host_func(runtime, stream, work, race.source));
    wt_threads(2, clone_beside, &race);
    wt_ok(race.status);
    ck_assert_int_eq(*(char *)race.data.data, 42);
    warm_data_pointer_free(&race.data);
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_runtime_end(other);
}

/* A block that was recorded would be kept for the graph. */
WT_TEST(test_B7_stream_that_captures_is_not_waited_for)
{
    void *source = wt_pinned(runtime, SIZE);
    warm_data_pointer data = {.data = NULL};
    warm_graph graph = NULL;

    wt_ok(warm_capture_begin(runtime, stream));
    wt_fails(WARM_CAPTURE_ERROR, clone_of(&plain, source, &data));
    ck_assert_ptr_null(data.data);
    ck_assert_uint_eq(wt_block_info(source).streams, 0);
    nothing_pending(1);
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(clone_of(&plain, source, &data));
    warm_data_pointer_free(&data);
    wt_ok(warm_free(source));
}

/* In another mode the wait would break captures of other threads. */
WT_TEST(test_B7_stream_is_not_waited_for_in_any_mode)
{
    void *source = wt_pinned(runtime, SIZE);
    warm_data_pointer data = {.data = NULL};
    uint64_t waits = wt_calls(runtime, "stream_synchronize");

    /* An idle block, so that the clone calls no driver to allocate. */
    wt_ok(warm_free(wt_pinned(runtime, SIZE)));
    wt_ok(warm_testing_fail(runtime, "capture_mode", 1, 1));
    wt_fails(WARM_DRIVER_ERROR, clone_of(&plain, source, &data));
    wt_ok(warm_testing_fail(runtime, "capture_mode", 0, 0));
    ck_assert_uint_eq(wt_calls(runtime, "stream_synchronize"), waits);
    ck_assert_ptr_null(data.data);
    nothing_pending(1);
    wt_ok(warm_free(source));
}

/* The allocator does not know the memory, which is a block. */
WT_TEST(test_B4_D3_block_is_known_where_its_allocator_does_not_know_it)
{
    warm_allocator own = plain;
    void *block = wt_pinned(runtime, SIZE);
    warm_data_pointer data = {
        .size = sizeof data, .data = block, .memory = WARM_MEMORY_PINNED};
    warm_error before = WARM_INIT(warm_error), after = {.size = sizeof after};
    warm_storage *storage = NULL;

    own.record = record_none;
    wt_ok(warm_storage_wrap(&data, SIZE, &own, &storage));
    warm_last_error(&before);
    wt_ok(warm_storage_record(storage, stream));
    warm_last_error(&after);
    ck_assert_int_eq(after.status, before.status);
    ck_assert_uint_eq(wt_block_info(block).streams, 1);
    warm_storage_release(storage);
    wt_ok(warm_free(block));
}

WT_TEST(test_D3_more_than_a_block_has_is_refused)
{
    char *block = wt_pinned(runtime, SIZE);
    size_t bytes = wt_block_info(block).bytes;
    warm_data_pointer data = {.size = sizeof data,
                              .data = block + 64,
                              .context = block,
                              .deleter = free_block,
                              .memory = WARM_MEMORY_PINNED};
    warm_storage *storage = NULL;

    wt_invalid(warm_storage_wrap(&data, bytes - 63, NULL, &storage));
    wt_says("block");
    ck_assert_ptr_eq(data.context, block);
    wt_ok(warm_storage_wrap(&data, bytes - 64, NULL, &storage));
    data = (warm_data_pointer){
        .size = sizeof data, .data = block, .memory = WARM_MEMORY_PINNED};
    wt_invalid(warm_storage_exchange(storage, &data, bytes + 1));
    ck_assert_ptr_eq(warm_storage_data(storage), block + 64);
    warm_storage_release(storage);
}
