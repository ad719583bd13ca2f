/* check_onnxruntime.c: the allocators for ONNX Runtime (row H4), called as ONNX
 * Runtime calls them, with a table of functions that stands for its own.
 * `make check-onnxruntime` runs a session of the real one. */
/* memcheck: one process */
#include "vendor/onnxruntime_c_api.h"

#include "wt.h"

#include "warmpool/onnxruntime.h"

#include <stdlib.h>

enum { BYTES = 100000, KEYS = 16 };

/* ---- what the table makes ------------------------------------------------ */

struct OrtStatus {
    OrtErrorCode code;
    char text[512];
};

struct OrtMemoryInfo {
    char name[16];
    int id;
    OrtMemType type;
};

struct OrtKeyValuePairs {
    char key[KEYS][32];
    uint64_t value[KEYS];
    unsigned count;
};

static int infos; /* live */

static OrtStatus *create_status(OrtErrorCode code, const char *text)
{
    OrtStatus *status = calloc(1, sizeof *status);

    status->code = code;
    snprintf(status->text, sizeof status->text, "%s", text);
    return status;
}

static OrtStatus *create_info(const char *name, OrtAllocatorType type, int id,
                              OrtMemType memory, OrtMemoryInfo **info)
{
    ck_assert_int_eq(type, OrtDeviceAllocator);
    if (strcmp(name, "unknown") == 0) {
        return create_status(ORT_INVALID_ARGUMENT, name);
    }
    *info = calloc(1, sizeof **info);
    snprintf((*info)->name, sizeof(*info)->name, "%s", name);
    (*info)->id = id;
    (*info)->type = memory;
    infos++;
    return NULL;
}

static void release_info(OrtMemoryInfo *info)
{
    infos--;
    free(info);
}

static void create_pairs(OrtKeyValuePairs **pairs)
{
    *pairs = calloc(1, sizeof **pairs);
}

static void add_pair(OrtKeyValuePairs *pairs, const char *key,
                     const char *value)
{
    ck_assert_uint_lt(pairs->count, KEYS);
    snprintf(pairs->key[pairs->count], sizeof pairs->key[0], "%s", key);
    pairs->value[pairs->count++] = strtoull(value, NULL, 10);
}

static uint64_t pair(const OrtKeyValuePairs *pairs, const char *key)
{
    for (unsigned i = 0; i < pairs->count; i++) {
        if (strcmp(pairs->key[i], key) == 0) {
            return pairs->value[i];
        }
    }
    ck_abort_msg("no %s", key);
    return 0;
}

/* The handle of a stream stands for the stream itself. */
static void *stream_handle(OrtSyncStream *stream)
{
    return stream;
}

static const OrtApi table = {.CreateStatus = create_status,
                             .CreateMemoryInfo = create_info,
                             .ReleaseMemoryInfo = release_info,
                             .CreateKeyValuePairs = create_pairs,
                             .AddKeyValuePair = add_pair,
                             .SyncStream_GetHandle = stream_handle};

/* ---- the allocators ------------------------------------------------------ */

static warm_runtime *runtime;
static warm_stream one, two;
static warm_ort_allocator host, device, streamless;

static void setup(void)
{
    runtime = wt_runtime(NULL);
    one = wt_stream(runtime, 0);
    two = wt_stream(runtime, 0);
    ck_assert_ptr_null(warm_ort_host_init(&host, &table, runtime, "Cpu", 0));
    ck_assert_ptr_null(warm_ort_device_init(&device, &table, runtime, 0, one));
    ck_assert_ptr_null(
        warm_ort_device_init(&streamless, &table, runtime, 0, NULL));
}

static void teardown(void)
{
    warm_ort_fini(&host);
    warm_ort_fini(&device);
    warm_ort_fini(&streamless);
    ck_assert_int_eq(infos, 0);
    wt_stream_end(runtime, one);
    wt_stream_end(runtime, two);
    wt_runtime_end(runtime);
}

static OrtAllocator *kind(int index)
{
    return index == 0   ? &host.base
           : index == 1 ? &device.base
                        : &streamless.base;
}

static void *get(OrtAllocator *a, size_t bytes)
{
    void *block = a->Alloc(a, bytes);

    ck_assert_ptr_nonnull(block);
    return block;
}

static void *get_on(OrtAllocator *a, warm_stream stream)
{
    void *block = a->AllocOnStream(a, BYTES, (OrtSyncStream *)stream);

    ck_assert_ptr_nonnull(block);
    return block;
}

static OrtKeyValuePairs *statistics(OrtAllocator *a)
{
    OrtKeyValuePairs *pairs = NULL;

    ck_assert_ptr_null(a->GetStats(a, &pairs));
    return pairs;
}

WT_CASE("onnxruntime", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_H4_blocks_are_warmpools_and_of_the_right_memory, 3)
{
    OrtAllocator *a = kind(_i);
    void *block = get(a, BYTES), *reserved = a->Reserve(a, BYTES);

    ck_assert_int_eq(wt_block_info(block).device, _i == 0 ? -1 : 0);
    ck_assert_uint_eq(wt_block_info(block).requested, BYTES);
    ck_assert_int_eq(wt_block_info(reserved).device, _i == 0 ? -1 : 0);
    ck_assert_str_eq(a->Info(a)->name, _i == 0 ? "Cpu" : "Cuda");
    a->Free(a, block);
    a->Free(a, reserved);
    a->Free(a, NULL);
    ck_assert(!warm_owns(block) && !warm_owns(reserved));
    ck_assert_ptr_null(a->Alloc(a, 0));
}

WT_LOOP_TEST(test_H4_statistics_are_the_runtimes_under_the_arenas_names, 2)
{
    OrtAllocator *a = kind(_i);
    void *block = get(a, BYTES), *reserved = a->Reserve(a, 3 * BYTES);
    OrtKeyValuePairs *pairs = statistics(a);
    warm_space_stats pinned = wt_pinned_stats(runtime);
    warm_device_stats of_device = wt_device_stats(runtime);
    warm_stat live = _i == 0 ? pinned.live_bytes : of_device.all.live_bytes;
    warm_stat held = _i == 0 ? pinned.held_bytes : of_device.all.held_bytes;

    ck_assert_uint_ge(live.current, 4 * BYTES);
    ck_assert_uint_eq(pair(pairs, "InUse"), live.current);
    ck_assert_uint_eq(pair(pairs, "MaxInUse"), live.peak);
    ck_assert_uint_eq(pair(pairs, "TotalAllocated"), held.current);
    ck_assert_uint_ge(pair(pairs, "NumArenaExtensions"), 1);
    ck_assert_uint_eq(pair(pairs, "NumArenaShrinkages"), 0);
    ck_assert_uint_eq(pair(pairs, "NumAllocs"), 1);
    ck_assert_uint_eq(pair(pairs, "NumReserves"), 1);
    ck_assert_uint_eq(pair(pairs, "MaxAllocSize"), 3 * BYTES);
    free(pairs);
    a->Free(a, block);
    a->Free(a, reserved);
}

/* What stream one freed, it gets at once; stream two only when one is done. */
WT_LOOP_TEST(test_H4_memory_of_a_device_is_in_the_order_of_its_stream, 2)
{
    OrtAllocator *a = &device.base;
    void *block = _i == 0 ? get(a, BYTES) : get_on(a, one), *other, *again;
    wt_gate *gate = wt_gate_hold(runtime, one);

    a->Free(a, block);
    other = get_on(a, two);
    ck_assert_ptr_ne(other, block);
    again = _i == 0 ? get_on(a, one) : get(a, BYTES);
    ck_assert_ptr_eq(again, block);
    a->Free(a, again);
    a->Free(a, other);
    wt_gate_open(gate);
}

/* Nobody said that stream two uses the block. */
WT_TEST(test_H4_without_a_stream_a_free_waits_for_all_that_was_queued)
{
    OrtAllocator *a = &streamless.base;
    void *block = get(a, BYTES), *next;
    wt_gate *gate;

    a->Free(a, block);
    wt_settle(runtime, two);
    block = get(a, BYTES);
    gate = wt_gate_hold(runtime, two);
    a->Free(a, block);
    ck_assert(!warm_owns(block));
    next = get(a, BYTES);
    ck_assert_ptr_ne(next, block);
    a->Free(a, next);
    wt_gate_open(gate);
    wt_settle(runtime, two);
}

/* So that no driver is called where the CUDA provider frees: in a host function
 * of a stream. */
WT_TEST(test_H4_memory_of_the_host_is_of_no_stream)
{
    OrtAllocator *a = &host.base;
    void *block = get(a, BYTES);
    uint64_t records = wt_calls(runtime, "event_record");

    ck_assert(a->AllocOnStream == NULL);
    a->Free(a, block);
    ck_assert_ptr_eq(get(a, BYTES), block);
    a->Free(a, block);
    ck_assert_uint_eq(wt_calls(runtime, "event_record"), records);
}

WT_LOOP_TEST(test_H4_a_request_that_fails_returns_null_and_counts_nowhere, 2)
{
    OrtAllocator *a = kind(_i);
    OrtKeyValuePairs *pairs;

    ck_assert_ptr_null(a->Alloc(a, (size_t)1 << 46));
    wt_says("out of memory");
    ck_assert_ptr_null(a->Reserve(a, (size_t)1 << 46));
    pairs = statistics(a);
    ck_assert_uint_eq(pair(pairs, "NumAllocs"), 0);
    ck_assert_uint_eq(pair(pairs, "NumReserves"), 0);
    ck_assert_uint_eq(pair(pairs, "MaxAllocSize"), 0);
    free(pairs);
}

/* ONNX Runtime would write to null. */
WT_TEST(test_H4_memory_of_the_host_is_pageable_if_no_more_can_be_page_locked)
{
    OrtAllocator *a = &host.base;
    void *block, *reserved;

    wt_ok(warm_testing_fail(runtime, "pinned_alloc", 1, 1));
    wt_ok(warm_testing_fail(runtime, "pinned_register", 1, 1));
    block = get(a, BYTES);
    reserved = a->Reserve(a, BYTES);
    ck_assert_int_eq(wt_block_info(block).pageable, 1);
    ck_assert_int_eq(wt_block_info(reserved).pageable, 1);
    memset(block, 1, BYTES);
    a->Free(a, block);
    a->Free(a, reserved);
    ck_assert(!warm_owns(block));
}

WT_LOOP_TEST(test_H4_shrink_returns_idle_memory, 2)
{
    OrtAllocator *a = kind(_i);
    OrtKeyValuePairs *pairs;

    a->Free(a, get(a, BYTES));
    ck_assert_ptr_null(a->Shrink(a));
    pairs = statistics(a);
    ck_assert_uint_eq(pair(pairs, "TotalAllocated"), 0);
    ck_assert_uint_ge(pair(pairs, "NumArenaShrinkages"), 1);
    free(pairs);
}

WT_TEST(test_H4_refusals_say_why_and_write_nothing)
{
    warm_ort_allocator untouched, a;
    OrtStatus *status = NULL;
    char text[32];

    memset(&untouched, 7, sizeof untouched);
    a = untouched;
    for (int i = 0; i < 6; i++) {
        int bad = i % 2 == 0 ? -1 : 99;

        snprintf(text, sizeof text, i < 4 ? "device %d" : "the runtime is null",
                 bad);
        status =
            i < 2   ? warm_ort_device_init(&a, &table, runtime, bad, NULL)
            : i < 4 ? warm_ort_host_init(&a, &table, runtime, "CudaPinned", bad)
            : i < 5 ? warm_ort_device_init(&a, &table, NULL, 0, NULL)
                    : warm_ort_host_init(&a, &table, NULL, "Cpu", 0);
        ck_assert_ptr_nonnull(status);
        ck_assert_ptr_nonnull(strstr(status->text, text));
        ck_assert_ptr_eq(a.info, untouched.info);
        ck_assert_ptr_eq(a.runtime, untouched.runtime);
        ck_assert_int_eq(a.device, untouched.device);
        free(status);
    }
    status = warm_ort_host_init(&a, &table, runtime, "unknown", 0);
    ck_assert_str_eq(status->text, "unknown");
    ck_assert_ptr_eq(a.info, untouched.info);
    free(status);
}

WT_TEST(test_H4_the_version_is_that_of_the_fields)
{
    ck_assert_uint_eq(host.base.version, ORT_API_VERSION);
    ck_assert_ptr_eq(&host.base, (void *)&host);
    ck_assert_int_eq(host.info->type, OrtMemTypeDefault);
}

/* That of the sessions: ONNX Runtime finds it by name and device. */
WT_TEST(test_H4_pinned_memory_is_of_the_device_that_is_named)
{
    warm_runtime *several = wt_runtime_with(.host_devices = 3);
    int count = 0;

    wt_ok(warm_device_count(several, &count));
    warm_ort_fini(&host);
    ck_assert_ptr_null(
        warm_ort_host_init(&host, &table, several, "CudaPinned", count - 1));
    ck_assert_int_eq(host.info->type, OrtMemTypeCPUOutput);
    ck_assert_int_eq(host.info->id, count - 1);
    wt_runtime_end(several);
}

enum { THREADS = 4 }; /* that allocate; one more shrinks */

static void churn(void *results, unsigned index)
{
    unsigned *made = results;
    OrtAllocator *a = kind((int)(index % 2));

    if (index == THREADS) {
        for (unsigned i = 0; i < 50; i++) {
            OrtAllocator *either = kind((int)(i % 2));

            made[index] += either->Shrink(either) == NULL;
        }
        return;
    }
    for (unsigned i = 0; i < wt_scaled(2000); i++) {
        void *block = a->Alloc(a, 1 + (i * 977 + index) % BYTES);

        made[index] += block != NULL;
        a->Free(a, block);
    }
}

WT_TEST(test_H4_many_threads_share_an_allocator)
{
    unsigned made[THREADS + 1] = {0};
    OrtKeyValuePairs *pairs;

    wt_threads(THREADS + 1, churn, made);
    ck_assert_uint_eq(made[THREADS], 50);
    for (int i = 0; i < 2; i++) {
        pairs = statistics(kind(i));
        ck_assert_uint_eq(pair(pairs, "NumAllocs"), made[i] + made[i + 2]);
        ck_assert_uint_eq(pair(pairs, "NumAllocs"), 2 * wt_scaled(2000));
        ck_assert_uint_eq(pair(pairs, "InUse"), 0);
        free(pairs);
    }
}
