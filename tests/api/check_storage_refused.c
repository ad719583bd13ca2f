/* check_storage_refused.c: what a clone or a resize that is refused leaves as
 * it was, through public headers (rows B7, D2, D3). */
/* memcheck: one process */
#include "wt.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 4096, LARGER = 8192 };

static warm_runtime *runtime;
static warm_stream stream;

static void setup(void)
{
    runtime = wt_runtime(NULL);
    wt_ok(warm_stream_create(runtime, 0, &stream));
}

static void teardown(void)
{
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}

static const warm_allocator *pinned(void)
{
    const warm_allocator *allocator = NULL;

    wt_ok(warm_allocator_get(runtime, WARM_MEMORY_PINNED, 0, &allocator));
    return allocator;
}

static void free_block(void *context)
{
    wt_ok(warm_free(context));
}

/* Blocks of ours by an allocator that cannot copy, or record. */
static warm_status alloc_block(void *context, size_t bytes, warm_stream on,
                               warm_data_pointer *data)
{
    (void)context, (void)on;
    data->data = data->context = wt_pinned(runtime, bytes);
    data->deleter = free_block;
    return WARM_OK;
}

static const warm_allocator plain = {.size = sizeof plain,
                                     .name = "plain",
                                     .memory = WARM_MEMORY_PINNED,
                                     .alloc = alloc_block};

static warm_data_pointer foreign(void)
{
    warm_data_pointer data = {
        .size = sizeof data, .deleter = free, .memory = WARM_MEMORY_PINNED};

    data.data = data.context = malloc(SIZE);
    return data;
}

static warm_storage *wrapped(warm_data_pointer *data)
{
    warm_storage *storage = NULL;

    wt_ok(warm_storage_wrap(data, SIZE, pinned(), WARM_STORAGE_RESIZABLE,
                            &storage));
    return storage;
}

static void nothing_pending(uint64_t requests)
{
    warm_space_stats stats = wt_pinned_stats(runtime);

    ck_assert_uint_eq(stats.pending.current, 0);
    ck_assert_uint_eq(stats.captured, 0);
    ck_assert_uint_eq(stats.live.current, requests);
}

static const size_t new_size[] = {LARGER, 100, 0};

enum { NEW = 3 };

/* A block that was recorded would be kept for the graph. */
START_TEST(test_B7_D2_resize_refused_in_a_capture_records_nothing)
{
    warm_storage *storage = NULL;
    warm_data_pointer data = WARM_INIT(warm_data_pointer);
    warm_graph graph = NULL;
    void *old;

    wt_ok(warm_storage_create(&plain, SIZE, stream, WARM_STORAGE_RESIZABLE,
                              &storage));
    old = warm_storage_data(storage);
    wt_ok(warm_capture_begin(runtime, stream));
    wt_fails(WARM_CAPTURE_ERROR, warm_storage_resize(storage, LARGER, stream));
    wt_fails(WARM_CAPTURE_ERROR,
             warm_data_pointer_clone(&plain, old, SIZE, stream, &data));
    ck_assert_ptr_null(data.data);
    ck_assert_ptr_eq(warm_storage_data(storage), old);
    ck_assert_uint_eq(wt_block_info(old).streams, 0);
    warm_storage_release(storage);
    nothing_pending(0);
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
}
END_TEST

/* Neither the new memory is, where nobody knows the old one. */
START_TEST(test_B7_D3_resize_of_foreign_memory_refused_in_a_capture)
{
    warm_data_pointer data = foreign();
    void *old = data.data;
    warm_storage *storage = wrapped(&data);
    warm_graph graph = NULL;

    wt_ok(warm_capture_begin(runtime, stream));
    wt_fails(WARM_CAPTURE_ERROR,
             warm_storage_resize(storage, new_size[_i], stream));
    ck_assert_ptr_eq(warm_storage_data(storage), old);
    nothing_pending(0);
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    nothing_pending(0);
    wt_ok(warm_storage_resize(storage, new_size[_i], stream));
    warm_storage_release(storage);
}
END_TEST

/* Of memory of ours, a capture records it: it is kept, and nobody waits. */
START_TEST(test_B7_D2_resize_in_a_capture_keeps_both)
{
    warm_storage *storage = NULL;
    warm_graph graph = NULL;
    void *old, *block;

    wt_ok(warm_storage_create(pinned(), SIZE, stream, WARM_STORAGE_RESIZABLE,
                              &storage));
    old = warm_storage_data(storage);
    memset(old, 1, SIZE);
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_storage_resize(storage, LARGER, stream));
    wt_ok(warm_capture_end(runtime, stream, &graph));
    block = wt_pinned(runtime, SIZE);
    ck_assert_ptr_ne(block, old);
    /* Nobody has it, and each launch reads it. */
    memset(old, 42, SIZE);
    wt_ok(warm_graph_launch(runtime, graph, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert_int_eq(*(char *)warm_storage_data(storage), 42);
    wt_ok(warm_free(block));
    warm_storage_release(storage);
    wt_ok(warm_graph_destroy(runtime, graph));
}
END_TEST

START_TEST(test_D2_clone_of_too_much_records_nothing)
{
    warm_data_pointer data = WARM_INIT(warm_data_pointer);
    char *source = wt_pinned(runtime, SIZE);
    size_t bytes = wt_block_info(source).bytes;
    wt_gate *gate = wt_gate_close(runtime, stream);

    wt_fails(
        WARM_INVALID_ARGUMENT,
        warm_data_pointer_clone(pinned(), source + 1, bytes, stream, &data));
    ck_assert_uint_eq(wt_block_info(source).streams, 0);
    nothing_pending(1);
    wt_gate_open(gate);
    wt_ok(warm_free(source));
}
END_TEST

/* Bytes that a block does not have. */
START_TEST(test_D3_more_than_a_block_has_is_refused)
{
    char *block = wt_pinned(runtime, SIZE);
    size_t bytes = wt_block_info(block).bytes;
    warm_data_pointer data = {.size = sizeof data,
                              .data = block + 64,
                              .context = block,
                              .deleter = free_block,
                              .memory = WARM_MEMORY_PINNED};
    warm_storage *storage = NULL;

    wt_fails(WARM_INVALID_ARGUMENT,
             warm_storage_wrap(&data, bytes - 63, NULL, 0, &storage));
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), "block"));
    ck_assert_ptr_eq(data.context, block);
    wt_ok(warm_storage_wrap(&data, bytes - 64, NULL, 0, &storage));
    data = (warm_data_pointer){
        .size = sizeof data, .data = block, .memory = WARM_MEMORY_PINNED};
    wt_fails(WARM_INVALID_ARGUMENT,
             warm_storage_exchange(storage, &data, bytes + 1));
    ck_assert_ptr_eq(warm_storage_data(storage), block + 64);
    warm_storage_release(storage);
}
END_TEST

/* A wait in a mode that breaks captures of other threads is none. */
START_TEST(test_B7_D2_stream_is_not_waited_for_in_any_mode)
{
    warm_data_pointer data = foreign();
    warm_storage *storage = wrapped(&data);
    void *old = warm_storage_data(storage);
    uint64_t waits = wt_calls(runtime, "stream_synchronize");

    wt_ok(warm_testing_fail(runtime, "capture_mode", 1, 1));
    wt_fails(WARM_DRIVER_ERROR, warm_storage_resize(storage, 0, stream));
    wt_ok(warm_testing_fail(runtime, "capture_mode", 0, 0));
    ck_assert_uint_eq(wt_calls(runtime, "stream_synchronize"), waits);
    ck_assert_ptr_eq(warm_storage_data(storage), old);
    warm_storage_release(storage);
}
END_TEST

/* Neither is there a copy, nor a stream recorded, where it cannot be waited for
 * then. */
START_TEST(test_D2_what_cannot_be_waited_for_is_not_copied)
{
    static const char *const call[] = {"capture_mode", "stream_passed"};
    warm_storage *storage = NULL;
    warm_data_pointer data = WARM_INIT(warm_data_pointer);
    uint64_t copies = wt_calls(runtime, "copy");
    void *old;

    wt_ok(warm_storage_create(pinned(), SIZE, stream, WARM_STORAGE_RESIZABLE,
                              &storage));
    old = warm_storage_data(storage);
    wt_ok(warm_testing_fail(runtime, call[_i], 1, 1));
    wt_fails(WARM_DRIVER_ERROR,
             warm_data_pointer_clone(pinned(), old, SIZE, stream, &data));
    wt_fails(WARM_DRIVER_ERROR, warm_storage_resize(storage, 1, stream));
    wt_ok(warm_testing_fail(runtime, call[_i], 0, 0));
    ck_assert_uint_eq(wt_calls(runtime, "copy"), copies);
    ck_assert_uint_eq(wt_block_info(old).streams, 0);
    nothing_pending(1);
    warm_storage_release(storage);
}
END_TEST

/* backends: host standin */
int main(void)
{
    Suite *suite = suite_create("storage_refused");
    TCase *tcase = tcase_create("storage_refused");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase,
                   test_B7_D2_resize_refused_in_a_capture_records_nothing);
    tcase_add_loop_test(
        tcase, test_B7_D3_resize_of_foreign_memory_refused_in_a_capture, 0,
        NEW);
    tcase_add_test(tcase, test_B7_D2_resize_in_a_capture_keeps_both);
    tcase_add_test(tcase, test_D2_clone_of_too_much_records_nothing);
    tcase_add_test(tcase, test_D3_more_than_a_block_has_is_refused);
    tcase_add_test(tcase, test_B7_D2_stream_is_not_waited_for_in_any_mode);
    tcase_add_loop_test(tcase, test_D2_what_cannot_be_waited_for_is_not_copied,
                        0, 2);
    suite_add_tcase(suite, tcase);
    return wt_main(suite);
}
