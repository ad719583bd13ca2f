/* check_storage.c: who owns memory, and who frees it, through public headers
 * (rows D1 to D4). */
/* memcheck: one process */
#include "wt.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 10000 };

static warm_runtime *runtime;
static const warm_allocator *pinned;

static void setup(void)
{
    runtime = wt_runtime(NULL);
    wt_ok(warm_allocator_get(runtime, WARM_MEMORY_PINNED, 0, &pinned));
}

static void teardown(void)
{
    wt_runtime_end(runtime);
}

static warm_storage_info info_of(const warm_storage *storage)
{
    warm_storage_info info = WARM_INIT(warm_storage_info);

    wt_ok(warm_storage_get_info(storage, &info));
    return info;
}

/* A context that counts how often it was freed. */
typedef struct owner {
    _Atomic unsigned freed;
    char bytes[64];
} owner;

static void let_go(void *context)
{
    owner *o = context;

    atomic_fetch_add_explicit(&o->freed, 1, memory_order_relaxed);
}

static void other_deleter(void *context)
{
    (void)context;
}

static warm_data_pointer data_of(owner *o)
{
    return (warm_data_pointer){.size = sizeof(warm_data_pointer),
                               .data = o->bytes + 16,
                               .context = o,
                               .deleter = let_go,
                               .memory = WARM_MEMORY_HOST};
}

/* ---- data pointers ----------------------------------------------------- */

WT_CASE("storage", .setup = setup, .teardown = teardown);

WT_TEST(test_D1_context_is_freed_once_and_not_the_pointer)
{
    owner o = {0};
    warm_data_pointer data = data_of(&o);

    warm_data_pointer_free(&data);
    ck_assert_uint_eq(o.freed, 1);
    ck_assert_ptr_null(data.data);
    ck_assert_ptr_null(data.context);
    ck_assert(data.deleter == NULL);
    ck_assert_uint_eq(data.size, sizeof data);
    warm_data_pointer_free(&data);
    warm_data_pointer_free(NULL);
    ck_assert_uint_eq(o.freed, 1);
}

WT_TEST(test_D1_context_moves_out)
{
    owner o = {0};
    warm_data_pointer data = data_of(&o);
    void *context = NULL;
    warm_deleter_fn deleter = NULL;

    wt_ok(warm_data_pointer_move_context(&data, &context, &deleter));
    ck_assert_ptr_eq(context, &o);
    ck_assert(deleter == let_go);
    ck_assert_ptr_eq(data.data, o.bytes + 16);
    warm_data_pointer_free(&data);
    ck_assert_uint_eq(o.freed, 0);
    /* An empty one has no context to move. */
    wt_ok(warm_data_pointer_move_context(&data, &context, &deleter));
    ck_assert_ptr_null(context);
    ck_assert(deleter == NULL);
}

WT_TEST(test_D1_no_data_pointer_is_refused)
{
    owner o = {0};
    warm_data_pointer data = data_of(&o);
    warm_storage *storage = NULL;
    void *context = &o;
    warm_deleter_fn deleter = let_go;

    data.size = sizeof data - sizeof(void *);
    wt_invalid(warm_data_pointer_move_context(&data, &context, &deleter));
    wt_invalid(warm_data_pointer_alloc(pinned, 8, NULL, &data));
    wt_invalid(warm_storage_wrap(&data, 8, NULL, &storage));
    warm_data_pointer_free(&data);
    ck_assert_uint_eq(o.freed, 0);
    ck_assert(deleter == let_go);
    data.size = sizeof data;
    wt_invalid(warm_data_pointer_move_context(&data, NULL, &deleter));
    wt_invalid(warm_data_pointer_move_context(&data, &context, NULL));
    data.memory = (warm_memory)17;
    wt_invalid(warm_storage_wrap(&data, 8, NULL, &storage));
    wt_says("17");
    ck_assert_ptr_null(storage);
    ck_assert_ptr_eq(data.context, &o);
}

/* ---- storages ---------------------------------------------------------- */

WT_TEST(test_D2_storage_says_what_it_owns)
{
    warm_storage *storage = NULL;
    warm_storage_info info;

    wt_ok(warm_storage_create(pinned, SIZE, NULL, &storage));
    info = info_of(storage);
    ck_assert_ptr_nonnull(info.data);
    ck_assert_ptr_eq(info.data, warm_storage_data(storage));
    ck_assert_uint_eq(info.bytes, SIZE);
    ck_assert_int_eq(info.memory, WARM_MEMORY_PINNED);
    ck_assert_int_eq(info.device, WARM_NO_DEVICE);
    ck_assert_ptr_eq(info.allocator, pinned);
    memset(info.data, 1, SIZE);
    ck_assert_uint_eq(wt_pinned_stats(runtime).requested_bytes.current, SIZE);
    warm_storage_release(storage);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
}

WT_TEST(test_D2_last_strong_reference_frees_the_memory)
{
    owner o = {0};
    warm_data_pointer data = data_of(&o);
    warm_storage *storage = NULL;

    wt_ok(warm_storage_wrap(&data, 8, NULL, &storage));
    ck_assert_uint_eq(warm_storage_use_count(storage), 1);
    ck_assert_uint_eq(warm_storage_weak_count(storage), 0);
    warm_storage_retain(storage);
    warm_storage_weak_retain(storage);
    ck_assert_uint_eq(warm_storage_use_count(storage), 2);
    ck_assert_uint_eq(warm_storage_weak_count(storage), 1);
    warm_storage_release(storage);
    ck_assert_uint_eq(o.freed, 0);
    ck_assert_int_eq(warm_storage_lock(storage), 1);
    warm_storage_release(storage);
    warm_storage_release(storage);
    ck_assert_uint_eq(o.freed, 1);
    /* The record is still there, for the weak one. */
    ck_assert_uint_eq(warm_storage_use_count(storage), 0);
    ck_assert_uint_eq(warm_storage_weak_count(storage), 1);
    ck_assert_int_eq(warm_storage_lock(storage), 0);
    warm_storage_weak_release(storage);
    ck_assert_uint_eq(o.freed, 1);
    warm_storage_retain(NULL);
    warm_storage_release(NULL);
    warm_storage_weak_retain(NULL);
    warm_storage_weak_release(NULL);
    ck_assert_int_eq(warm_storage_lock(NULL), 0);
}

enum { WORKERS = 4, STEPS = 20000 };

struct crowd {
    warm_storage *storage;
    owner *owner;
    _Atomic unsigned early, locked;
};

/* Takes and drops references; thread 0 drops the first one half way. */
static void take_and_drop(void *argument, unsigned index)
{
    struct crowd *crowd = argument;
    unsigned steps = wt_scaled(STEPS);

    for (unsigned i = 0; i < steps; i++) {
        if (index == 0 && i == steps / 2) {
            warm_storage_release(crowd->storage);
        }
        if (warm_storage_lock(crowd->storage)) {
            atomic_fetch_add_explicit(&crowd->locked, 1, memory_order_relaxed);
            warm_storage_retain(crowd->storage);
            warm_storage_release(crowd->storage);
            if (atomic_load_explicit(&crowd->owner->freed,
                                     memory_order_relaxed) != 0) {
                atomic_fetch_add_explicit(&crowd->early, 1,
                                          memory_order_relaxed);
            }
            /* A plain write by a holder: TSan sees it ordered before the
             * deleter. */
            crowd->owner->bytes[index]++;
            warm_storage_release(crowd->storage);
        }
    }
    warm_storage_weak_release(crowd->storage);
}

static void sum_up(void *context)
{
    owner *o = context;

    for (int i = 0; i < WORKERS; i++) {
        o->bytes[63] = (char)(o->bytes[63] + o->bytes[i]);
    }
    let_go(context);
}

WT_TEST(test_D2_any_thread_takes_and_drops)
{
    owner o = {0};
    warm_data_pointer data = data_of(&o);
    struct crowd crowd = {.owner = &o};

    data.deleter = sum_up;
    wt_ok(warm_storage_wrap(&data, 8, NULL, &crowd.storage));
    for (int i = 0; i < WORKERS; i++) {
        warm_storage_weak_retain(crowd.storage);
    }
    wt_threads(WORKERS, take_and_drop, &crowd);
    ck_assert_uint_eq(o.freed, 1);
    ck_assert_uint_eq(crowd.early, 0);
    ck_assert_uint_gt(crowd.locked, 0);
}

WT_TEST(test_D2_data_is_exchanged)
{
    owner first = {0}, second = {0};
    warm_data_pointer data = data_of(&first), next = data_of(&second);
    warm_storage *storage = NULL;

    wt_ok(warm_storage_wrap(&data, 8, NULL, &storage));
    wt_ok(warm_storage_exchange(storage, &next, 16));
    ck_assert_ptr_eq(next.context, &first);
    ck_assert_ptr_eq(info_of(storage).data, second.bytes + 16);
    ck_assert_uint_eq(info_of(storage).bytes, 16);
    warm_data_pointer_free(&next);
    ck_assert_uint_eq(first.freed, 1);
    ck_assert_uint_eq(second.freed, 0);
    warm_storage_release(storage);
    ck_assert_uint_eq(second.freed, 1);
}

/* ---- wrapped memory ----------------------------------------------------- */

WT_TEST(test_D3_foreign_memory_is_wrapped)
{
    owner o = {0};
    warm_data_pointer data = data_of(&o);
    warm_storage *storage = NULL;

    wt_ok(warm_storage_wrap(&data, 8, NULL, &storage));
    ck_assert_ptr_null(data.data);
    ck_assert_ptr_null(data.context);
    ck_assert(data.deleter == NULL);
    ck_assert_ptr_eq(warm_storage_data(storage), o.bytes + 16);
    ck_assert_int_eq(info_of(storage).device, WARM_NO_DEVICE);
    ck_assert_ptr_null(info_of(storage).allocator);
    /* Memory of another owner needs no record, which is no error. */
    wt_invalid(warm_storage_record(NULL, NULL));
    wt_ok(warm_storage_record(storage, NULL));
    ck_assert_str_eq(warm_last_error_message(), "storage is null");
    warm_storage_release(storage);
    ck_assert_uint_eq(o.freed, 1);
}

WT_TEST(test_D3_refused_wrap_takes_nothing)
{
    owner o = {0};
    warm_data_pointer data = data_of(&o);
    warm_storage *storage = NULL;

    /* The data is other memory than the allocator's. */
    wt_invalid(warm_storage_wrap(&data, 8, pinned, &storage));
    wt_invalid(warm_storage_wrap(&data, 8, NULL, NULL));
    wt_invalid(warm_storage_wrap(NULL, 8, NULL, &storage));
    ck_assert_ptr_null(storage);
    ck_assert_ptr_eq(data.context, &o);
    ck_assert_uint_eq(o.freed, 0);
    data.data = NULL;
    wt_invalid(warm_storage_wrap(&data, 8, NULL, &storage));
}

/* A block is known to the library whoever owns it. */
WT_TEST(test_D3_B3_wrapped_block_is_found_by_any_pointer_into_it)
{
    owner o = {0};
    warm_data_pointer data = {.size = sizeof data,
                              .context = &o,
                              .deleter = let_go,
                              .memory = WARM_MEMORY_PINNED};
    warm_block_info info = WARM_INIT(warm_block_info);
    warm_storage *storage = NULL;
    warm_stream stream = NULL;
    void *block = NULL, *again = NULL;
    wt_gate *gate;

    wt_ok(warm_stream_create(runtime, 0, &stream));
    wt_ok(warm_pinned_alloc(runtime, SIZE, &block));
    gate = wt_gate_close(runtime, stream);
    data.data = (char *)block + 100;
    wt_ok(warm_storage_wrap(&data, SIZE - 100, NULL, &storage));
    wt_ok(warm_storage_record(storage, stream));
    wt_ok(warm_block_get_info(warm_storage_data(storage), &info));
    ck_assert_ptr_eq(info.base, block);
    ck_assert_uint_eq(info.streams, 1);
    warm_storage_release(storage);
    wt_ok(warm_free(block));
    /* The stream still works on the block. */
    wt_ok(warm_pinned_alloc(runtime, SIZE, &again));
    ck_assert_ptr_ne(again, block);
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_free(again));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_poll(runtime));
}

/* ---- allocators --------------------------------------------------------- */

WT_TEST(test_pinned_space_is_an_allocator)
{
    warm_data_pointer data = WARM_INIT(warm_data_pointer);
    char source[SIZE];
    void *pointer = NULL;

    ck_assert_int_eq(pinned->memory, WARM_MEMORY_PINNED);
    ck_assert_str_eq(warm_memory_name(pinned->memory), "pinned");
    ck_assert_str_eq(warm_memory_name((warm_memory)9), "unknown");
    memset(source, 5, sizeof source);
    wt_ok(warm_data_pointer_clone(runtime, pinned, source, SIZE, NULL, &data));
    wt_ok(warm_stream_synchronize(runtime, NULL));
    ck_assert_int_eq(memcmp(data.data, source, SIZE), 0);
    ck_assert_int_eq(data.memory, WARM_MEMORY_PINNED);
    warm_data_pointer_free(&data);
    wt_ok(warm_allocator_alloc(pinned, SIZE, NULL, &pointer));
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 1);
    wt_ok(warm_allocator_free(pinned, pointer));
    wt_ok(warm_allocator_free(pinned, NULL));
    wt_fails(WARM_INVALID_POINTER, warm_allocator_free(pinned, pointer));
    wt_fails(WARM_INVALID_POINTER, warm_allocator_free(pinned, source));
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
    /* No bytes are a valid request. */
    wt_ok(warm_data_pointer_alloc(pinned, 0, NULL, &data));
    ck_assert_ptr_null(data.data);
    warm_data_pointer_free(&data);
    wt_ok(warm_allocator_alloc(pinned, 0, NULL, &pointer));
    ck_assert_ptr_null(pointer);
    wt_invalid(warm_data_pointer_clone(runtime, pinned, NULL, 8, NULL, &data));
    wt_invalid(warm_allocator_alloc(pinned, 8, NULL, NULL));
}

static void ask_weak(void *context)
{
    warm_storage **storage = context;

    ck_assert_uint_eq(warm_storage_use_count(*storage), 0);
    ck_assert_uint_eq(warm_storage_weak_count(*storage), 1);
}

WT_TEST(test_D2_deleter_counts_weak_references)
{
    warm_storage *storage = NULL;
    warm_data_pointer data = {.size = sizeof data,
                              .data = &storage,
                              .context = &storage,
                              .deleter = ask_weak};

    wt_ok(warm_storage_wrap(&data, 8, NULL, &storage));
    warm_storage_weak_retain(storage);
    warm_storage_release(storage);
    ck_assert_uint_eq(warm_storage_weak_count(storage), 1);
    warm_storage_weak_release(storage);
}

/* Only the allocator that allocated a plain pointer frees it. */
WT_TEST(test_C10_raw_free_names_what_is_not_its_own)
{
    const warm_allocator *device = NULL, *of_other = NULL;
    warm_runtime *other = wt_runtime(NULL);
    void *pointer = NULL;
    char text[32];

    wt_ok(warm_allocator_get(runtime, WARM_MEMORY_DEVICE, 0, &device));
    wt_ok(warm_allocator_get(other, WARM_MEMORY_PINNED, 0, &of_other));
    wt_ok(warm_allocator_alloc(pinned, SIZE, NULL, &pointer));
    snprintf(text, sizeof text, "%p", pointer);
    wt_fails(WARM_INVALID_POINTER, warm_allocator_free(device, pointer));
    wt_says(text);
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), device->name));
    wt_fails(WARM_INVALID_POINTER, warm_allocator_free(of_other, pointer));
    wt_says(text);
    wt_fails(WARM_INVALID_POINTER,
             warm_allocator_free(pinned, (char *)pointer + 1));
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 1);
    wt_runtime_end(other);
    wt_fails(WARM_RUNTIME_GONE, warm_allocator_free(of_other, pointer));
    wt_ok(warm_allocator_free(pinned, pointer));
    wt_fails(WARM_INVALID_POINTER, warm_allocator_free(pinned, pointer));
    wt_says(text);
    wt_ok(warm_allocator_alloc(device, SIZE, NULL, &pointer));
    wt_fails(WARM_INVALID_POINTER, warm_allocator_free(pinned, pointer));
    wt_ok(warm_allocator_free(device, pointer));
    wt_fails(WARM_INVALID_POINTER, warm_allocator_free(device, pointer));
}

/* An allocator of the program: counts its calls, copies, and can fail. */
static struct mine {
    unsigned allocs, frees, copies, records, record_at;
    size_t copied;
    bool refuses, lies, breaks, deaf;
} mine;

static void free_mine(void *context)
{
    mine.frees++;
    free(context);
}

static warm_status alloc_mine(void *context, size_t bytes, warm_stream stream,
                              warm_data_pointer *data)
{
    struct mine *m = context;

    (void)stream;
    if (m->refuses) {
        return WARM_OUT_OF_MEMORY;
    }
    m->allocs++;
    if (!m->lies) {
        data->data = malloc(bytes);
        data->context = data->data;
        data->deleter = free_mine;
    }
    return WARM_OK;
}

static warm_status copy_mine(void *context, void *destination,
                             const void *source, size_t bytes,
                             warm_stream stream)
{
    struct mine *m = context;

    (void)stream;
    if (m->breaks) {
        return WARM_DRIVER_ERROR;
    }
    m->copies++;
    m->copied = bytes;
    memcpy(destination, source, bytes);
    return WARM_OK;
}

static warm_status record_mine(void *context, const void *data,
                               warm_stream stream)
{
    struct mine *m = context;

    (void)data, (void)stream;
    if (m->deaf) {
        return WARM_DRIVER_ERROR;
    }
    m->records++;
    m->record_at = m->copies;
    return WARM_OK;
}

static const warm_allocator my_allocator = {.size = sizeof my_allocator,
                                            .name = "mine",
                                            .context = &mine,
                                            .memory = WARM_MEMORY_HOST,
                                            .alloc = alloc_mine,
                                            .raw_deleter = free_mine,
                                            .copy = copy_mine,
                                            .record = record_mine};

WT_TEST(test_users_allocator_is_plugged_in)
{
    const warm_allocator *found = NULL;
    warm_data_pointer data = WARM_INIT(warm_data_pointer);
    warm_storage *storage = NULL;

    wt_fails(WARM_NOT_FOUND,
             warm_allocator_get(runtime, WARM_MEMORY_HOST, 0, &found));
    wt_says("host");
    wt_ok(warm_allocator_register(runtime, &my_allocator, 0));
    wt_ok(warm_allocator_get(runtime, WARM_MEMORY_HOST, 77, &found));
    ck_assert_ptr_eq(found, &my_allocator);
    wt_ok(warm_storage_create(found, SIZE, NULL, &storage));
    memset(warm_storage_data(storage), 3, SIZE);
    wt_ok(warm_data_pointer_clone(runtime, found, warm_storage_data(storage),
                                  SIZE, NULL, &data));
    ck_assert_int_eq(((char *)data.data)[SIZE - 1], 3);
    ck_assert_uint_eq(mine.copies, 1);
    ck_assert_uint_eq(mine.copied, SIZE);
    /* The new memory was recorded, before the copy was queued. */
    ck_assert_uint_eq(mine.records, 1);
    ck_assert_uint_eq(mine.record_at, 0);
    warm_data_pointer_free(&data);
    ck_assert_uint_eq(mine.frees, 1);
    wt_ok(warm_storage_record(storage, NULL));
    ck_assert_uint_eq(mine.records, 2);
    wt_ok(warm_data_pointer_clone(runtime, found, NULL, 0, NULL, &data));
    wt_ok(warm_storage_exchange(storage, &data, 0));
    ck_assert_ptr_null(warm_storage_data(storage));
    wt_ok(warm_storage_record(storage, NULL));
    ck_assert_uint_eq(mine.records, 2);
    warm_data_pointer_free(&data);
    warm_storage_release(storage);
    ck_assert_uint_eq(mine.allocs, 2);
    ck_assert_uint_eq(mine.frees, mine.allocs);
    wt_ok(warm_allocator_unregister(runtime, &my_allocator));
    wt_fails(WARM_NOT_FOUND, warm_allocator_unregister(runtime, &my_allocator));
}

WT_TEST(test_higher_priority_serves)
{
    const warm_allocator *found = NULL;
    const warm_allocator low = {.size = sizeof low,
                                .name = "low",
                                .memory = WARM_MEMORY_PINNED,
                                .alloc = alloc_mine},
                         equal = low, high = low;

    wt_ok(warm_allocator_register(runtime, &low, -1));
    wt_ok(warm_allocator_get(runtime, WARM_MEMORY_PINNED, 0, &found));
    ck_assert_ptr_eq(found, pinned);
    wt_ok(warm_allocator_register(runtime, &high, 2));
    wt_ok(warm_allocator_register(runtime, &equal, 0));
    wt_ok(warm_allocator_get(runtime, WARM_MEMORY_PINNED, 0, &found));
    ck_assert_ptr_eq(found, &high);
    wt_ok(warm_allocator_unregister(runtime, &high));
    wt_ok(warm_allocator_get(runtime, WARM_MEMORY_PINNED, 0, &found));
    ck_assert_ptr_eq(found, &equal);
    wt_ok(warm_allocator_unregister(runtime, &equal));
    wt_ok(warm_allocator_get(runtime, WARM_MEMORY_PINNED, 0, &found));
    ck_assert_ptr_eq(found, pinned);
}

WT_TEST(test_allocators_are_of_one_device)
{
    const warm_allocator *found = NULL;
    warm_allocator shared = my_allocator, beyond;

    shared.memory = WARM_MEMORY_SHARED;
    wt_ok(warm_allocator_register(runtime, &shared, 0));
    wt_ok(warm_allocator_get(runtime, WARM_MEMORY_SHARED, 0, &found));
    ck_assert_ptr_eq(found, &shared);
    wt_invalid(warm_allocator_get(runtime, WARM_MEMORY_SHARED, 1000, &found));
    beyond = shared;
    beyond.device = 1000;
    wt_invalid(warm_allocator_register(runtime, &beyond, 0));
    beyond = (warm_allocator){.size = sizeof beyond, .name = "no alloc"};
    wt_invalid(warm_allocator_register(runtime, &beyond, 0));
    wt_says("alloc");
    beyond = (warm_allocator){.size = sizeof beyond, .alloc = alloc_mine};
    wt_invalid(warm_allocator_register(runtime, &beyond, 0));
    wt_invalid(warm_allocator_register(runtime, &shared, 5));
    wt_invalid(warm_allocator_get(runtime, (warm_memory)9, 0, &found));
    wt_invalid(warm_allocator_get(runtime, WARM_MEMORY_PINNED, 0, NULL));
    wt_invalid(warm_allocator_register(runtime, NULL, 0));
    ck_assert_ptr_eq(found, &shared);
}

static void says(const char *words, warm_status status)
{
    warm_error error = WARM_INIT(warm_error);

    warm_last_error(&error);
    ck_assert_int_eq(error.status, status);
    wt_require(strstr(error.message, words) != NULL, "%s", error.message);
}

/* An error that the allocator's function met stays the last error; a success
 * leaves the last error as it was. */
static warm_status alloc_through(void *context, size_t bytes,
                                 warm_stream stream, warm_data_pointer *data)
{
    void *pointer = NULL;
    warm_status status = warm_pinned_alloc(runtime, bytes, &pointer);

    (void)context, (void)stream;
    data->data = data->context = pointer;
    data->deleter = pinned->raw_deleter;
    return status;
}

WT_TEST(test_words_of_a_users_allocator_stay)
{
    warm_allocator own = my_allocator;
    warm_data_pointer data = WARM_INIT(warm_data_pointer);

    own.memory = WARM_MEMORY_PINNED;
    own.alloc = alloc_through;
    wt_invalid(warm_storage_record(NULL, NULL));
    wt_ok(warm_data_pointer_alloc(&own, 8, NULL, &data));
    warm_data_pointer_free(&data);
    says("storage is null", WARM_INVALID_ARGUMENT);
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_data_pointer_alloc(&own, SIZE_MAX / 2, NULL, &data));
    says("no machine has more than 64.0 TiB", WARM_OUT_OF_MEMORY);
}

/* An allocator that fails, or breaks its contract, changes nothing. */
WT_TEST(test_failing_allocator_changes_nothing)
{
    warm_allocator own = my_allocator;
    warm_storage *storage = NULL;
    warm_data_pointer data = WARM_INIT(warm_data_pointer);
    void *source, *pointer = &data;

    own.memory = WARM_MEMORY_DEVICE;
    wt_ok(warm_storage_create(&own, SIZE, NULL, &storage));
    source = warm_storage_data(storage);
    wt_invalid(warm_storage_record(NULL, NULL)); /* whose words are old then */
    mine.breaks = true;
    wt_fails(WARM_DRIVER_ERROR,
             warm_data_pointer_clone(runtime, &own, source, SIZE, NULL, &data));
    says("mine copied", WARM_DRIVER_ERROR);
    mine.refuses = true;
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_data_pointer_clone(runtime, &own, source, SIZE, NULL, &data));
    says("mine returned", WARM_OUT_OF_MEMORY);
    mine.refuses = false;
    mine.deaf = true;
    wt_fails(WARM_DRIVER_ERROR, warm_storage_record(storage, NULL));
    says("mine recorded", WARM_DRIVER_ERROR);
    wt_fails(WARM_DRIVER_ERROR,
             warm_data_pointer_clone(runtime, &own, source, SIZE, NULL, &data));
    mine.deaf = false;
    mine.lies = true;
    wt_fails(WARM_UNAVAILABLE, warm_data_pointer_alloc(&own, 99, NULL, &data));
    wt_says("mine");
    ck_assert_ptr_null(data.data);
    mine = (struct mine){.allocs = mine.allocs, .frees = mine.frees};
    own.copy = NULL;
    wt_fails(WARM_UNSUPPORTED,
             warm_data_pointer_clone(runtime, &own, source, SIZE, NULL, &data));
    own.raw_deleter = other_deleter;
    wt_fails(WARM_UNSUPPORTED, warm_allocator_alloc(&own, 8, NULL, &pointer));
    own.raw_deleter = NULL;
    wt_fails(WARM_UNSUPPORTED, warm_allocator_alloc(&own, 8, NULL, &pointer));
    wt_fails(WARM_UNSUPPORTED, warm_allocator_free(&own, pointer));
    ck_assert_ptr_eq(pointer, &data);
    warm_storage_release(storage);
    /* All memory was freed; one call allocated none. */
    ck_assert_uint_eq(mine.frees, mine.allocs - 1);
}

/* A request that fails allocates nothing. */
WT_TEST(test_D2_storage_that_is_too_large_is_refused)
{
    warm_storage *storage = NULL;

    wt_fails(WARM_OUT_OF_MEMORY,
             warm_storage_create(pinned, SIZE_MAX / 2, NULL, &storage));
    ck_assert_ptr_null(storage);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
}

/* Without memory for its record a storage takes nothing and leaves nothing. */
WT_TEST(test_D2_storage_without_a_record_changes_nothing)
{
    owner o = {0};
    warm_data_pointer data = data_of(&o);
    warm_storage *storage = NULL;

    /* An idle block, so that the allocation needs no record. */
    wt_ok(warm_free(wt_pinned(runtime, SIZE)));
    warm_testing_fail_metadata(1, 1);
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_storage_create(pinned, SIZE, NULL, &storage));
    wt_fails(WARM_OUT_OF_MEMORY, warm_storage_wrap(&data, 8, NULL, &storage));
    warm_testing_fail_metadata(0, 0);
    ck_assert_ptr_null(storage);
    ck_assert_ptr_eq(data.context, &o);
    ck_assert_uint_eq(o.freed, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
}

/* A storage that outlives its runtime makes errors, and no crash. */
WT_TEST(test_G2_storage_outlives_its_runtime)
{
    warm_runtime *other = wt_runtime(NULL);
    const warm_allocator *allocator = NULL;
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    warm_storage *storage = NULL;
    warm_data_pointer data = WARM_INIT(warm_data_pointer);

    wt_ok(warm_allocator_get(other, WARM_MEMORY_PINNED, 0, &allocator));
    wt_ok(warm_allocator_register(other, &my_allocator, 0));
    wt_ok(warm_storage_create(allocator, SIZE, NULL, &storage));
    wt_ok(warm_runtime_destroy(other, &report));
    ck_assert_uint_eq(report.live, 1);
    wt_fails(WARM_RUNTIME_GONE,
             warm_data_pointer_alloc(allocator, 8, NULL, &data));
    wt_fails(WARM_RUNTIME_GONE,
             warm_allocator_get(other, WARM_MEMORY_PINNED, 0, &allocator));
    wt_fails(WARM_RUNTIME_GONE,
             warm_allocator_unregister(other, &my_allocator));
    wt_fails(WARM_RUNTIME_GONE, warm_storage_record(storage, NULL));
    wt_fails(WARM_RUNTIME_GONE, warm_data_pointer_clone(other, &my_allocator,
                                                        &data, 1, NULL, &data));
    warm_storage_release(storage);
}
