/* check_storage_order.c: storages whose memory is replaced while a stream works
 * on it, through public headers (rows B4, D2, D3). */
#include "wt.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 4096, LARGER = 8192, SMALLER = 100 };

static warm_runtime *runtime;
static warm_stream stream, other;

static void setup(void)
{
    runtime = wt_runtime(NULL);
    wt_ok(warm_stream_create(runtime, 0, &stream));
    wt_ok(warm_stream_create(runtime, 0, &other));
}

static void teardown(void)
{
    wt_stream_end(runtime, stream);
    wt_stream_end(runtime, other);
    wt_runtime_end(runtime);
}

static const warm_allocator *allocator_of(warm_memory memory)
{
    const warm_allocator *allocator = NULL;

    wt_ok(warm_allocator_get(runtime, memory, 0, &allocator));
    return allocator;
}

static warm_storage *storage_of(const warm_allocator *allocator, size_t bytes)
{
    warm_storage *storage = NULL;

    wt_ok(warm_storage_create(allocator, bytes, other, WARM_STORAGE_RESIZABLE,
                              &storage));
    return storage;
}

static void *block_of(warm_memory memory)
{
    return memory == WARM_MEMORY_PINNED ? wt_pinned(runtime, SIZE)
                                        : wt_device(runtime, other, SIZE);
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

/* Into pinned memory, once all has passed. */
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

static const warm_memory own_memory[] = {WARM_MEMORY_PINNED,
                                         WARM_MEMORY_DEVICE};
static const size_t new_size[] = {LARGER, SMALLER, 0};

enum { OWN = 2, NEW = 3 };

static _Atomic bool worked;

/* Of a stream, which told nobody of it. */
static void work(void *memory)
{
    memset(memory, 42, SIZE);
    atomic_store_explicit(&worked, true, memory_order_release);
}

/* ---- the runtime's own ----------------------------------------------------
 */

/* Work on the old memory is queued; whoever gets it next is not hit. */
START_TEST(test_B4_D2_stream_still_uses_what_a_resize_frees)
{
    warm_memory memory = own_memory[_i / NEW];
    warm_storage *storage = storage_of(allocator_of(memory), SIZE);
    void *old = warm_storage_data(storage);
    void *block[4];
    wt_gate *gate = wt_gate_close(runtime, stream);

    if (!wt_on_gpu() || memory == WARM_MEMORY_PINNED) {
        wt_ok(warm_stream_host_func(runtime, stream, work, old));
    }
    gate = open_first(gate, memory);
    wt_ok(warm_storage_resize(storage, new_size[_i % NEW], stream));
    for (int i = 0; i < 4; i++) {
        block[i] = block_of(memory);
        ck_assert(gate == NULL || block[i] != old);
    }
    pass(gate);
    for (int i = 0; i < 4; i++) {
        wt_ok(warm_free(block[i]));
    }
    warm_storage_release(storage);
}
END_TEST

/* What was queued before the resize is in the new memory. */
START_TEST(test_D2_resize_copies_in_the_order_of_the_stream)
{
    warm_memory memory = own_memory[_i];
    warm_storage *storage = storage_of(allocator_of(memory), SIZE);
    char *source = wt_pinned(runtime, SIZE);
    wt_gate *gate = wt_gate_close(runtime, stream);

    memset(source, 42, SIZE);
    wt_ok(warm_copy_async(runtime, warm_storage_data(storage), source, SIZE,
                          WARM_COPY_TO_DEVICE, stream));
    gate = open_first(gate, memory);
    wt_ok(warm_storage_resize(storage, LARGER, stream));
    wt_ok(warm_storage_resize(storage, SMALLER, stream));
    pass(gate);
    ck_assert_int_eq(first_byte(warm_storage_data(storage)), 42);
    wt_ok(warm_free(source));
    warm_storage_release(storage);
}
END_TEST

/* The new memory may be freed at once, and the source if it is a block. */
START_TEST(test_B4_clone_copies_in_the_order_of_the_stream)
{
    warm_memory memory = own_memory[_i];
    warm_data_pointer data = WARM_INIT(warm_data_pointer),
                      again = {.size = sizeof again};
    void *source = wt_pinned(runtime, SIZE), *copy, *block[2];
    wt_gate *gate = wt_gate_close(runtime, stream);

    wt_ok(warm_stream_host_func(runtime, stream, work, source));
    gate = open_first(gate, memory);
    wt_ok(warm_data_pointer_clone(allocator_of(memory), source, SIZE, stream,
                                  &data));
    wt_ok(warm_data_pointer_clone(allocator_of(memory), source, SIZE, stream,
                                  &again));
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
    for (int i = 0; i < 2; i++) {
        wt_ok(warm_free(block[i]));
    }
}
END_TEST

/* A program without work on streams need not know of them. The copy is one of
 * the stream's all the same. */
START_TEST(test_D2_copies_are_there_at_once_where_the_stream_is_idle)
{
    const warm_allocator *pinned = allocator_of(WARM_MEMORY_PINNED);
    warm_storage *storage = storage_of(pinned, SIZE);
    warm_data_pointer data = WARM_INIT(warm_data_pointer);
    void *device = wt_device(runtime, stream, SIZE);
    uint64_t copies = wt_calls(runtime, "copy");

    memset(warm_storage_data(storage), 42, SIZE);
    wt_ok(warm_storage_resize(storage, LARGER, stream));
    ck_assert_int_eq(*(char *)warm_storage_data(storage), 42);
    ck_assert_uint_eq(wt_calls(runtime, "copy"), copies + 1);
    wt_ok(warm_data_pointer_clone(pinned, warm_storage_data(storage), SIZE,
                                  stream, &data));
    ck_assert_int_eq(*(char *)data.data, 42);
    warm_data_pointer_free(&data);
    wt_ok(warm_data_pointer_clone(pinned, device, SIZE, stream, &data));
    ck_assert_uint_eq(wt_calls(runtime, "copy"), copies + 3);
    warm_data_pointer_free(&data);
    wt_ok(warm_free(device));
    warm_storage_release(storage);
}
END_TEST

START_TEST(test_D2_resize_that_fails_changes_nothing)
{
    warm_storage *storage = storage_of(allocator_of(own_memory[_i]), SIZE);
    void *old = warm_storage_data(storage);
    warm_storage_info info = WARM_INIT(warm_storage_info);
    wt_gate *gate = wt_gate_close(runtime, stream);

    wt_ok(warm_testing_fail(runtime, "copy", 1, 0));
    wt_fails(WARM_DRIVER_ERROR, warm_storage_resize(storage, LARGER, stream));
    pass(gate);
    wt_ok(warm_storage_get_info(storage, &info));
    ck_assert_ptr_eq(info.data, old);
    ck_assert_uint_eq(info.bytes, SIZE);
    wt_ok(warm_storage_resize(storage, LARGER, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    warm_storage_release(storage);
}
END_TEST

/* ---- a user's, and wrapped memory ---------------------------------------- */

/* The host copies; nobody records. */
static struct mine {
    _Atomic bool resized;
    bool early;
    unsigned frees;
} mine;

static void begin(void)
{
    mine = (struct mine){.frees = 0};
    atomic_store_explicit(&worked, false, memory_order_relaxed);
}

static void free_mine(void *context)
{
    mine.early |= !atomic_load_explicit(&worked, memory_order_acquire);
    mine.frees++;
    free(context);
}

static warm_status alloc_mine(void *context, size_t bytes, warm_stream on,
                              warm_data_pointer *data)
{
    (void)context, (void)on;
    data->data = data->context = malloc(bytes);
    data->deleter = free_mine;
    return WARM_OK;
}

static warm_status record_none(void *context, const void *data, warm_stream on)
{
    (void)context, (void)data, (void)on;
    return WARM_NOT_FOUND;
}

static warm_status copy_now(void *context, void *destination,
                            const void *source, size_t bytes, warm_stream on)
{
    (void)context, (void)on;
    memcpy(destination, source, bytes);
    return WARM_OK;
}

static const warm_allocator plain = {.size = sizeof plain,
                                     .name = "plain",
                                     .memory = WARM_MEMORY_HOST,
                                     .alloc = alloc_mine};

struct race {
    warm_storage *storage;
    size_t bytes;
    wt_gate *gate;
    warm_status status;
};

/* One resizes; the other one lets the stream go on after a while. */
static void resize_beside(void *argument, unsigned index)
{
    struct race *race = argument;
    wt_linger linger = {0, 0};

    if (index == 0) {
        race->status = warm_storage_resize(race->storage, race->bytes, stream);
        atomic_store_explicit(&mine.resized, true, memory_order_release);
        return;
    }
    while (!atomic_load_explicit(&mine.resized, memory_order_acquire) &&
           wt_lingers(&linger)) {
    }
    wt_gate_open(race->gate);
}

static void check_waits(warm_storage *storage, size_t bytes)
{
    struct race race = {.storage = storage, .bytes = bytes};

    memset(warm_storage_data(storage), 0, SIZE);
    race.gate = wt_gate_close(runtime, stream);
    wt_ok(warm_stream_host_func(runtime, stream, work,
                                warm_storage_data(storage)));
    wt_threads(2, resize_beside, &race);
    wt_ok(race.status);
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert_uint_eq(mine.frees, 1);
    ck_assert(!mine.early);
    if (bytes > 0) {
        ck_assert_int_eq(*(char *)warm_storage_data(storage), 42);
    }
    warm_storage_release(storage);
}

/* Whether it is registered: it belongs to the only runtime, or to its own. */
START_TEST(test_B4_D2_stream_is_waited_for_where_the_host_copies)
{
    warm_runtime *first = runtime;
    warm_stream of_first = stream;

    begin();
    if (_i < NEW) {
        check_waits(storage_of(&plain, SIZE), new_size[_i]);
        return;
    }
    runtime = wt_runtime(NULL);
    wt_ok(warm_stream_create(runtime, 0, &stream));
    wt_ok(warm_allocator_register(runtime, &plain, 0));
    check_waits(storage_of(&plain, SIZE), new_size[_i - NEW]);
    wt_ok(warm_allocator_unregister(runtime, &plain));
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
    runtime = first;
    stream = of_first;
}
END_TEST

/* It takes what it is told for none of its own. */
START_TEST(test_B4_D2_stream_is_waited_for_where_nobody_knows_the_memory)
{
    warm_allocator own = plain;

    begin();
    own.record = record_none;
    own.copy = _i >= NEW ? copy_now : NULL;
    check_waits(storage_of(&own, SIZE), _i >= NEW ? 0 : new_size[_i]);
}
END_TEST

/* Memory of another owner, in a storage of the runtime's own allocator. */
START_TEST(test_B4_D3_stream_is_waited_for_before_foreign_memory_is_freed)
{
    warm_data_pointer data = {.size = sizeof data,
                              .deleter = free_mine,
                              .memory = WARM_MEMORY_PINNED};
    warm_storage *storage = NULL;

    begin();
    data.data = data.context = malloc(SIZE);
    wt_ok(warm_storage_wrap(&data, SIZE, allocator_of(WARM_MEMORY_PINNED),
                            WARM_STORAGE_RESIZABLE, &storage));
    wt_ok(warm_storage_record(storage, stream));
    check_waits(storage, new_size[_i]);
}
END_TEST

/* What the allocator takes for none of its own is a block. */
START_TEST(test_B4_D3_block_is_known_where_its_allocator_does_not_know_it)
{
    warm_allocator own = plain;
    void *block = wt_pinned(runtime, SIZE);
    warm_data_pointer data = {.size = sizeof data, .data = block};
    warm_error before = WARM_INIT(warm_error), after = {.size = sizeof after};
    warm_storage *storage = NULL;

    own.record = record_none;
    wt_ok(warm_storage_wrap(&data, SIZE, &own, 0, &storage));
    warm_last_error(&before);
    wt_ok(warm_storage_record(storage, stream));
    warm_last_error(&after);
    ck_assert_int_eq(after.status, before.status);
    ck_assert_uint_eq(wt_block_info(block).streams, 1);
    warm_storage_release(storage);
    wt_ok(warm_free(block));
}
END_TEST

/* Of several runtimes nobody knows whose stream it is. */
START_TEST(test_D2_unknown_stream_is_not_waited_for)
{
    warm_runtime *second = wt_runtime(NULL);
    warm_storage *storage = storage_of(&plain, SIZE);
    warm_data_pointer data = WARM_INIT(warm_data_pointer);
    void *old = warm_storage_data(storage);

    begin();
    wt_fails(WARM_UNSUPPORTED, warm_storage_resize(storage, LARGER, stream));
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), "plain"));
    wt_fails(WARM_UNSUPPORTED,
             warm_data_pointer_clone(&plain, old, SIZE, stream, &data));
    ck_assert_ptr_eq(warm_storage_data(storage), old);
    ck_assert_uint_eq(mine.frees, 2);
    warm_storage_release(storage);
    wt_runtime_end(second);
}
END_TEST

START_TEST(test_B7_D2_stream_that_captures_is_not_waited_for)
{
    warm_storage *storage = storage_of(&plain, SIZE);
    void *old = warm_storage_data(storage);
    warm_graph graph = NULL;

    wt_ok(warm_capture_begin(runtime, stream));
    wt_fails(WARM_CAPTURE_ERROR, warm_storage_resize(storage, LARGER, stream));
    ck_assert_ptr_eq(warm_storage_data(storage), old);
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_storage_resize(storage, LARGER, stream));
    warm_storage_release(storage);
}
END_TEST

/* backends: host standin */
int main(void)
{
    Suite *suite = suite_create("storage_order");
    TCase *tcase = tcase_create("storage_order");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, test_B4_D2_stream_still_uses_what_a_resize_frees,
                        0, OWN * NEW);
    tcase_add_loop_test(tcase, test_D2_resize_copies_in_the_order_of_the_stream,
                        0, OWN);
    tcase_add_loop_test(tcase, test_B4_clone_copies_in_the_order_of_the_stream,
                        0, OWN);
    tcase_add_test(tcase,
                   test_D2_copies_are_there_at_once_where_the_stream_is_idle);
    tcase_add_loop_test(tcase, test_D2_resize_that_fails_changes_nothing, 0,
                        OWN);
    tcase_add_loop_test(tcase,
                        test_B4_D2_stream_is_waited_for_where_the_host_copies,
                        0, 2 * NEW);
    tcase_add_loop_test(
        tcase, test_B4_D2_stream_is_waited_for_where_nobody_knows_the_memory, 0,
        NEW + 1);
    tcase_add_loop_test(
        tcase, test_B4_D3_stream_is_waited_for_before_foreign_memory_is_freed,
        0, NEW);
    tcase_add_test(
        tcase, test_B4_D3_block_is_known_where_its_allocator_does_not_know_it);
    tcase_add_test(tcase, test_D2_unknown_stream_is_not_waited_for);
    tcase_add_test(tcase, test_B7_D2_stream_that_captures_is_not_waited_for);
    suite_add_tcase(suite, tcase);
    return wt_main(suite);
}
