/* check_ipc.c: device memory shared with another process (row C9), on every
 * backend. The other process (wt_peer.h) is forked before this one has a
 * runtime; both do what the test says, a step at a time. */
#include "wt_peer.h"

#include <pthread.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static wt_peer *peer;
static warm_runtime *runtime;

static void setup(void)
{
    peer = wt_peer_start(2);
    setenv("STANDIN_DEVICES", "1", 1);
    runtime = wt_runtime_with(.segment = 2 * MIB);
}

static warm_ipc_stats stats_now(void)
{
    warm_ipc_stats stats = WARM_INIT(warm_ipc_stats);

    wt_ok(warm_ipc_get_stats(runtime, &stats));
    return stats;
}

static void teardown(void)
{
    ck_assert_uint_eq(stats_now().opened, 0);
    ck_assert_uint_eq(stats_now().segments, 0);
    wt_runtime_end(runtime);
    if (peer != NULL) {
        wt_peer_end(peer);
    }
}

static char *open_here(const warm_ipc_handle *handle)
{
    void *pointer = NULL;

    wt_ok(warm_ipc_open(runtime, handle, &pointer));
    ck_assert_ptr_nonnull(pointer);
    return pointer;
}

static void *take(size_t bytes)
{
    return wt_device(runtime, NULL, bytes);
}

static warm_ipc_handle export_here(const void *pointer)
{
    warm_ipc_handle handle = WARM_INIT(warm_ipc_handle);

    wt_ok(warm_ipc_export(pointer, &handle));
    return handle;
}

static bool same_segment(const warm_ipc_handle *a, const warm_ipc_handle *b)
{
    return a->process == b->process && a->segment_number == b->segment_number;
}

/* That the last error names a pointer. */
static void names(const void *pointer)
{
    char text[32];

    snprintf(text, sizeof text, "%p", pointer);
    wt_says(text);
}

WT_CASE("ipc", .setup = setup, .teardown = teardown);

/* ---- what is shared ----------------------------------------------------- */

WT_LOOP_TEST(test_C9_bytes_are_seen_both_ways, 2)
{
    static const size_t sizes[] = {4 * KIB, 3 * MIB};
    size_t bytes = sizes[_i];
    warm_ipc_handle handle = wt_peer_export(peer, 0, 0, bytes, 17);
    char *theirs = open_here(&handle);

    ck_assert_uint_eq(handle.bytes, bytes);
    ck_assert(!warm_owns(theirs) && !warm_holds(theirs));
    ck_assert_uint_eq(wt_device_read(runtime, theirs, bytes), 17);
    wt_device_write(runtime, theirs, bytes, 18);
    ck_assert_uint_eq(wt_peer_read(peer, 0, bytes), 18);
    wt_peer_write(peer, 0, bytes, 19);
    ck_assert_uint_eq(wt_device_read(runtime, theirs, bytes), 19);
    wt_ok(warm_ipc_close(runtime, theirs));
    ck_assert_uint_eq(wt_peer_read(peer, 0, bytes), 19);
    wt_peer_free(peer, 0);
}

/* An importer tells segments apart by their numbers. */
WT_TEST(test_C9_each_exported_segment_has_a_number_of_its_own)
{
    enum { SEGMENTS = 3 };
    void *block[SEGMENTS];
    uint64_t number[SEGMENTS];

    for (int i = 0; i < SEGMENTS; i++) {
        block[i] = take(30 * MIB);
        number[i] = export_here(block[i]).segment_number;
        ck_assert_uint_ne(number[i], 0);
        for (int k = 0; k < i; k++) {
            ck_assert_uint_ne(number[k], number[i]);
        }
    }
    for (int i = 0; i < SEGMENTS; i++) {
        ck_assert_uint_eq(export_here(block[i]).segment_number, number[i]);
        wt_free(block[i]);
    }
}

WT_TEST(test_C9_what_is_exported_here_is_used_there)
{
    char *block = take(3 * MIB);
    warm_ipc_handle handle = export_here(block);
    warm_ipc_handle inner = export_here(block + MIB);

    ck_assert_uint_eq(inner.bytes, 2 * MIB);
    ck_assert(same_segment(&handle, &inner));
    wt_device_write(runtime, block, 3 * MIB, 5);
    wt_ok(wt_peer_open(peer, 1, &handle));
    wt_ok(wt_peer_open(peer, 2, &inner));
    ck_assert_uint_eq(wt_peer_read(peer, 1, 3 * MIB), 5);
    wt_peer_write(peer, 2, 2 * MIB, 6);
    ck_assert_uint_eq(wt_device_read(runtime, block, MIB), 5);
    ck_assert_uint_eq(wt_device_read(runtime, block + MIB, 2 * MIB), 6);
    wt_ok(wt_peer_close(peer, 1));
    ck_assert_uint_eq(wt_peer_read(peer, 2, 2 * MIB), 6);
    wt_ok(wt_peer_close(peer, 2));
    wt_fails(WARM_INVALID_POINTER, wt_peer_close(peer, 2));
    wt_ok(warm_free(block));
}

/* Freeing says that nobody has it open: the block is the next one's, and its
 * segment may go back. */
WT_TEST(test_C9_freed_block_is_as_any_other)
{
    void *block = take(3 * MIB);
    warm_ipc_handle handle = export_here(block), again;
    size_t released = 0;

    wt_ok(wt_peer_open(peer, 1, &handle));
    /* As long as it lives its segment stays. */
    wt_ok(warm_device_trim(runtime, 0, 0, &released));
    ck_assert_uint_eq(released, 0);
    wt_ok(wt_peer_close(peer, 1));
    wt_ok(warm_free(block));
    ck_assert_ptr_eq(take(3 * MIB), block);
    again = export_here(block);
    ck_assert(same_segment(&handle, &again));
    ck_assert_uint_eq(handle.offset, again.offset);
    wt_ok(warm_free(block));
    wt_ok(warm_device_trim(runtime, 0, 0, &released));
    ck_assert_uint_ge(released, 3 * MIB);
    wt_fails(WARM_NOT_FOUND, warm_ipc_export(block, &handle));
    /* What comes next, perhaps at the same place, is another one. */
    block = take(3 * MIB);
    again = export_here(block);
    ck_assert(!same_segment(&handle, &again));
    wt_ok(warm_free(block));
}

/* ---- mapped once ------------------------------------------------------- */

WT_TEST(test_C9_segment_is_mapped_once_and_unmapped_after_the_last)
{
    warm_ipc_handle first = wt_peer_export(peer, 0, 0, 4 * KIB, 1);
    warm_ipc_handle second = wt_peer_export(peer, 1, 0, 64 * KIB, 2);
    warm_ipc_handle other = wt_peer_export(peer, 2, 0, 3 * MIB, 3);
    char *a = open_here(&first), *b = open_here(&second), *c;

    ck_assert(same_segment(&first, &second));
    ck_assert(!same_segment(&first, &other));
    ck_assert_int_eq(b - a, (int64_t)(second.offset - first.offset));
    ck_assert_uint_eq(wt_calls(runtime, "ipc_open"), 1);
    ck_assert_uint_eq(stats_now().segments, 1);
    ck_assert_uint_eq(stats_now().bytes, first.segment_bytes);
    c = open_here(&other);
    ck_assert_uint_eq(wt_calls(runtime, "ipc_open"), 2);
    ck_assert_uint_eq(stats_now().segments, 2);
    ck_assert_ptr_eq(open_here(&first), a);
    ck_assert_uint_eq(wt_calls(runtime, "ipc_open"), 2);
    ck_assert_uint_eq(stats_now().opened, 4);
    wt_ok(warm_ipc_close(runtime, a));
    wt_ok(warm_ipc_close(runtime, c));
    ck_assert_uint_eq(wt_calls(runtime, "ipc_close"), 1);
    ck_assert_uint_eq(wt_device_read(runtime, a, 4 * KIB), 1);
    wt_ok(warm_ipc_close(runtime, a));
    ck_assert_uint_eq(wt_calls(runtime, "ipc_close"), 1);
    ck_assert_uint_eq(wt_device_read(runtime, b, 64 * KIB), 2);
    wt_ok(warm_ipc_close(runtime, b));
    ck_assert_uint_eq(wt_calls(runtime, "ipc_close"), 2);
    ck_assert_uint_eq(stats_now().segments, 0);
    /* And again from the start. */
    a = open_here(&first);
    ck_assert_uint_eq(wt_calls(runtime, "ipc_open"), 3);
    ck_assert_uint_eq(wt_device_read(runtime, a, 4 * KIB), 1);
    wt_ok(warm_ipc_close(runtime, a));
    for (int i = 0; i < 3; i++) {
        wt_peer_free(peer, i);
    }
}

WT_TEST(test_C9_closing_twice_names_the_pointer)
{
    warm_ipc_handle first = wt_peer_export(peer, 0, 0, 4 * KIB, 1);
    warm_ipc_handle second = wt_peer_export(peer, 1, 0, 64 * KIB, 2);
    char *a = open_here(&first), *b = open_here(&second);
    void *own = take(100);

    wt_ok(warm_ipc_close(runtime, a));
    wt_fails(WARM_INVALID_POINTER, warm_ipc_close(runtime, a));
    names(a);
    wt_fails(WARM_INVALID_POINTER, warm_ipc_close(runtime, b + 512));
    names(b + 512);
    wt_fails(WARM_INVALID_POINTER, warm_ipc_close(runtime, own));
    names(own);
    wt_ok(warm_ipc_close(runtime, NULL));
    /* None of these took the other block's place. */
    ck_assert_uint_eq(wt_calls(runtime, "ipc_close"), 0);
    ck_assert_uint_eq(wt_device_read(runtime, b, 64 * KIB), 2);
    wt_ok(warm_ipc_close(runtime, b));
    wt_fails(WARM_INVALID_POINTER, warm_ipc_close(runtime, b));
    names(b);
    wt_ok(warm_free(own));
    wt_peer_free(peer, 0);
    wt_peer_free(peer, 1);
}

enum { THREADS = 8 };

struct race {
    warm_ipc_handle handle[2]; /* of one segment */
    void *pointer[THREADS];
    warm_status status[THREADS];
};

static void open_one(void *argument, unsigned index)
{
    struct race *r = argument;

    r->status[index] =
        warm_ipc_open(runtime, &r->handle[index % 2], &r->pointer[index]);
}

WT_TEST(test_C9_threads_that_meet_map_it_once)
{
    struct race r = {.handle = {wt_peer_export(peer, 0, 0, 4 * KIB, 1),
                                wt_peer_export(peer, 1, 0, 4 * KIB, 2)}};

    wt_threads(THREADS, open_one, &r);
    ck_assert_uint_eq(wt_calls(runtime, "ipc_open"), 1);
    ck_assert_uint_eq(stats_now().opened, THREADS);
    for (int i = 0; i < THREADS; i++) {
        wt_ok(r.status[i]);
        ck_assert_ptr_eq(r.pointer[i], r.pointer[i % 2]);
        wt_ok(warm_ipc_close(runtime, r.pointer[i]));
    }
    ck_assert_uint_eq(wt_calls(runtime, "ipc_close"), 1);
    wt_peer_free(peer, 0);
    wt_peer_free(peer, 1);
}

enum { ROUNDS = 400, HANDLES = 3 };

struct churn {
    warm_ipc_handle handle[HANDLES];
    unsigned wrong[THREADS];
};

static void open_and_close(void *argument, unsigned index)
{
    struct churn *c = argument;
    uint64_t random = wt_seed() + index;

    for (unsigned i = 0; i < wt_scaled(ROUNDS); i++) {
        void *pointer[HANDLES] = {NULL};
        unsigned first = (unsigned)(wt_random(&random) % HANDLES);

        for (unsigned k = 0; k <= first; k++) {
            c->wrong[index] +=
                warm_ipc_open(runtime, &c->handle[k], &pointer[k]) != WARM_OK;
        }
        for (unsigned k = 0; k <= first; k++) {
            c->wrong[index] += warm_ipc_close(runtime, pointer[k]) != WARM_OK;
        }
    }
}

/* The last one closes while others open. */
WT_TEST(test_C9_threads_open_and_close_what_they_share)
{
    struct churn c = {.handle = {wt_peer_export(peer, 0, 0, 4 * KIB, 1),
                                 wt_peer_export(peer, 1, 0, 4 * KIB, 2),
                                 wt_peer_export(peer, 2, 0, 3 * MIB, 3)}};

    wt_threads(THREADS, open_and_close, &c);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_uint_eq(c.wrong[i], 0);
    }
    ck_assert_uint_eq(wt_calls(runtime, "ipc_open"),
                      wt_calls(runtime, "ipc_close"));
    for (int i = 0; i < 3; i++) {
        wt_peer_free(peer, i);
    }
}

WT_TEST(test_C9_G7_what_is_open_is_in_the_json)
{
    warm_ipc_handle handle = wt_peer_export(peer, 0, 0, 3 * MIB, 3);
    char *theirs = open_here(&handle), text[65536], expected[128];

    ck_assert_ptr_eq(open_here(&handle), theirs);
    snprintf(expected, sizeof expected,
             "\"segments\":1,\"bytes\":%llu,\"opened\":2}",
             (unsigned long long)handle.segment_bytes);
    wt_ok(warm_stats_json(runtime, text, sizeof text, NULL));
    wt_contains(text, "\"ipc\":{");
    wt_contains(strstr(text, "\"ipc\":{"), expected);
    wt_ok(warm_ipc_close(runtime, theirs));
    wt_ok(warm_ipc_close(runtime, theirs));
    wt_peer_free(peer, 0);
}

/* ---- what it is not ---------------------------------------------------- */

WT_TEST(test_C9_opened_memory_is_no_block)
{
    warm_ipc_handle handle = wt_peer_export(peer, 0, 0, 3 * MIB, 1), out;
    char *theirs = open_here(&handle);
    warm_block_info info = WARM_INIT(warm_block_info);
    void *base = NULL;
    size_t bytes = 0;

    wt_fails(WARM_INVALID_POINTER, warm_free(theirs));
    names(theirs);
    wt_says("warm_ipc_close()");
    wt_fails(WARM_INVALID_POINTER, warm_free(theirs + 4096));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(theirs + 8, NULL));
    names(theirs + 8);
    wt_says("another process");
    wt_fails(WARM_NOT_FOUND, warm_block_get_info(theirs, &info));
    wt_fails(WARM_NOT_FOUND,
             warm_device_base_allocation(theirs, &base, &bytes));
    out = (warm_ipc_handle){.size = sizeof out};
    wt_fails(WARM_NOT_FOUND, warm_ipc_export(theirs, &out));
    ck_assert_uint_eq(wt_device_read(runtime, theirs, 3 * MIB), 1);
    wt_ok(warm_ipc_close(runtime, theirs));
    wt_fails(WARM_INVALID_POINTER, warm_free(theirs));
    ck_assert_ptr_null(strstr(warm_last_error_message(), "warm_ipc_close()"));
    wt_peer_free(peer, 0);
}

WT_TEST(test_C9_only_live_blocks_of_a_device_are_exported)
{
    warm_ipc_handle handle = WARM_INIT(warm_ipc_handle), before = handle;
    void *uncached = NULL, *block = take(5000);
    void *pinned = wt_pinned(runtime, 5000);

    wt_ok(warm_device_alloc_uncached(runtime, 0, 5000, &uncached));
    wt_fails(WARM_NOT_FOUND, warm_ipc_export(pinned, &handle));
    wt_fails(WARM_NOT_FOUND, warm_ipc_export(uncached, &handle));
    names(uncached);
    wt_fails(WARM_NOT_FOUND, warm_ipc_export(&handle, &handle));
    wt_fails(WARM_NOT_FOUND, warm_ipc_export(NULL, &handle));
    wt_invalid(warm_ipc_export(block, NULL));
    ck_assert(memcmp(&handle, &before, sizeof handle) == 0);
    handle.size = 0;
    wt_invalid(warm_ipc_export(block, &handle));
    handle.size = sizeof handle - 8;
    wt_invalid(warm_ipc_export(block, &handle));
    handle.size = sizeof handle + 8;
    wt_invalid(warm_ipc_export(block, &handle));
    ck_assert_uint_eq(wt_calls(runtime, "ipc_export"), 0);
    wt_ok(warm_device_free_uncached(runtime, 0, uncached));
    wt_free(pinned, block);
}

/* ---- bad handles ------------------------------------------------------- */

WT_TEST(test_C9_damaged_handle_is_refused)
{
    warm_ipc_handle good = wt_peer_export(peer, 0, 0, 4 * KIB, 1), bad;
    void *pointer = &pointer;

    for (size_t i = 0; i < sizeof good; i++) {
        bad = good;
        ((unsigned char *)&bad)[i] ^= 0x10;
        wt_invalid(warm_ipc_open(runtime, &bad, &pointer));
    }
    memset(&bad, 0, sizeof bad);
    wt_invalid(warm_ipc_open(runtime, &bad, &pointer));
    bad.size = sizeof bad;
    wt_invalid(warm_ipc_open(runtime, &bad, &pointer));
    wt_invalid(warm_ipc_open(runtime, NULL, &pointer));
    wt_invalid(warm_ipc_open(runtime, &good, NULL));
    wt_invalid(warm_ipc_open(NULL, &good, &pointer));
    wt_invalid(warm_ipc_close(NULL, pointer));
    wt_invalid(warm_ipc_get_stats(runtime, NULL));
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert_uint_eq(wt_calls(runtime, "ipc_open"), 0);
    wt_peer_free(peer, 0);
}

/* As the library does: FNV-1a of all before it. */
static warm_ipc_handle checked(warm_ipc_handle handle)
{
    const unsigned char *bytes = (const unsigned char *)&handle;

    handle.check = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < offsetof(warm_ipc_handle, check); i++) {
        handle.check = (handle.check ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return handle;
}

/* The checksum is right, but the memory named does not lie in its segment, or
 * no machine has so much. */
WT_TEST(test_C9_handle_beyond_its_segment_is_refused)
{
    warm_ipc_handle good = wt_peer_export(peer, 0, 0, 4 * KIB, 1), bad[4];
    void *pointer = &pointer;

    ck_assert_uint_eq(checked(good).check, good.check);
    bad[0] = bad[1] = bad[2] = bad[3] = good;
    bad[0].bytes = 0;
    bad[1].bytes = good.segment_bytes - good.offset + 1;
    bad[2].offset = good.segment_bytes + 1;
    bad[3].segment_bytes = UINT64_C(1) << 63;
    for (int i = 0; i < 4; i++) {
        bad[i] = checked(bad[i]);
        wt_invalid(warm_ipc_open(runtime, &bad[i], &pointer));
    }
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert_uint_eq(wt_calls(runtime, "ipc_open"), 0);
    wt_peer_free(peer, 0);
}

/* On the host device: the stand-in has had its number of devices. */
WT_TEST(test_C9_memory_of_any_device_is_opened_and_closed)
{
    if (!wt_on_host()) {
        wt_skip("needs the host device");
    }
    wt_runtime_end(runtime);
    runtime = wt_runtime_with(.host_devices = 2);
    for (int i = 0; i < 2; i++) {
        warm_ipc_handle handle = wt_peer_export(peer, i, i, 4 * KIB, 1);
        char *there = open_here(&handle);

        ck_assert_uint_eq(stats_now().opened, 1);
        wt_ok(warm_ipc_close(runtime, there));
        ck_assert_uint_eq(stats_now().opened, 0);
        wt_peer_free(peer, i);
    }
}

/* CUDA refuses it as well, but not in words. */
WT_TEST(test_C9_handle_of_this_very_process_is_refused)
{
    void *block = take(5000), *pointer = &pointer;
    warm_ipc_handle handle = export_here(block);

    wt_invalid(warm_ipc_open(runtime, &handle, &pointer));
    wt_says("this very");
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert_uint_eq(wt_calls(runtime, "ipc_open"), 0);
    wt_ok(warm_free(block));
}

/* A child is another process than its parent, which exported the handle. */
static int open_of_parent(const warm_ipc_handle *handle)
{
    warm_options options = {.size = sizeof options, .device = "host"};
    warm_runtime *own = NULL;
    void *pointer = NULL;

    if (warm_runtime_create(&options, &own) != WARM_OK ||
        warm_ipc_open(own, handle, &pointer) != WARM_OK) {
        return 1;
    }
    return *(char *)pointer == 7 && warm_ipc_close(own, pointer) == WARM_OK &&
                   warm_runtime_destroy(own, NULL) == WARM_OK
               ? 0
               : 2;
}

WT_TEST(test_C9_G5_a_child_opens_what_its_parent_exports)
{
    int status = 0;
    void *block;
    warm_ipc_handle handle;
    pid_t pid;

    if (!wt_on_host()) { /* CUDA does not work in a child */
        wt_skip("needs the host device");
    }
    block = take(5000);
    memset(block, 7, 5000);
    handle = export_here(block);
    pid = fork();
    if (pid == 0) {
        _exit(open_of_parent(&handle));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    wt_ok(warm_free(block));
}

WT_TEST(test_C9_device_that_is_not_here_is_named)
{
    warm_ipc_handle handle;
    void *pointer = &pointer;
    char text[32];

    if (wt_on_gpu()) { /* both processes have the same ones */
        wt_skip("not on a GPU");
    }
    handle = wt_peer_export(peer, 0, 1, 4 * KIB, 1);
    wt_fails(WARM_UNAVAILABLE, warm_ipc_open(runtime, &handle, &pointer));
    snprintf(text, sizeof text, "process %llu ",
             (unsigned long long)handle.pid);
    wt_says(text, "device");
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert_uint_eq(wt_calls(runtime, "ipc_open"), 0);
    wt_peer_free(peer, 0);
}

/* ---- ends -------------------------------------------------------------- */

WT_TEST(test_C9_other_process_has_ended)
{
    warm_ipc_handle first = wt_peer_export(peer, 0, 0, 4 * KIB, 7);
    warm_ipc_handle second = wt_peer_export(peer, 1, 0, 64 * KIB, 8);
    warm_ipc_handle other = wt_peer_export(peer, 2, 0, 3 * MIB, 9);
    char *a = open_here(&first), *b;
    void *pointer = &pointer;

    wt_peer_die(peer);
    peer = NULL;
    /* What is mapped is there. */
    b = open_here(&second);
    if (!wt_on_gpu()) { /* where CUDA promises nothing */
        ck_assert_uint_eq(wt_device_read(runtime, a, 4 * KIB), 7);
        ck_assert_uint_eq(wt_device_read(runtime, b, 64 * KIB), 8);
    }
    wt_fails(WARM_UNAVAILABLE, warm_ipc_open(runtime, &other, &pointer));
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert_uint_eq(stats_now().segments, 1);
    wt_ok(warm_ipc_close(runtime, a));
    wt_ok(warm_ipc_close(runtime, b));
    wt_fails(WARM_UNAVAILABLE, warm_ipc_open(runtime, &first, &pointer));
}

static unsigned warned;

static void count_warning(void *context, warm_log_level level, const char *line)
{
    warned += level == WARM_LOG_WARNING && strstr(line, "stays mapped") != NULL;
}

/* What the driver does not unmap then (_i 1) stays, and is logged. */
WT_LOOP_TEST(test_C9_G2_runtime_that_ends_closes_and_reports, 2)
{
    warm_ipc_handle handle = wt_peer_export(peer, 0, 0, 4 * KIB, 1);
    warm_ipc_handle inner = wt_peer_export(peer, 1, 0, 4 * KIB, 2);
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    int64_t records = wt_metadata_live(), after;
    warm_runtime *brief = wt_runtime(NULL);
    int64_t before = wt_metadata_live();
    char *ours = open_here(&handle);
    void *pointer = NULL;

    records += wt_metadata_live() - before;
    /* Each runtime counts for itself. */
    wt_ok(warm_ipc_open(brief, &handle, &pointer));
    wt_ok(warm_ipc_open(brief, &handle, &pointer));
    wt_ok(warm_ipc_open(brief, &inner, &pointer));
    wt_fails(WARM_INVALID_POINTER, warm_ipc_close(brief, &report));
    wt_ok(warm_testing_fail(brief, "ipc_close", (uint64_t)_i, 0));
    warm_log_set(count_warning, NULL);
    wt_ok(warm_runtime_destroy(brief, &report));
    warm_log_set(NULL, NULL);
    ck_assert_uint_eq(warned, (unsigned)_i);
    ck_assert_uint_eq(report.imports, 3);
    ck_assert_uint_eq(report.live, 0);
    after = wt_metadata_live();
    if (wt_on_host()) { /* the body of a runtime, and what stays mapped */
        ck_assert_int_eq(after, records + 1 + _i);
    }
    wt_fails(WARM_RUNTIME_GONE, warm_ipc_close(brief, pointer));
    wt_fails(WARM_RUNTIME_GONE, warm_ipc_open(brief, &handle, &pointer));
    ck_assert_uint_eq(wt_device_read(runtime, ours, 4 * KIB), 1);
    wt_ok(warm_ipc_close(runtime, ours));
    wt_peer_free(peer, 0);
    wt_peer_free(peer, 1);
}

WT_TEST(test_C9_B7_capture_goes_on_beside_it)
{
    warm_ipc_handle handle = wt_peer_export(peer, 0, 0, 3 * MIB, 1);
    warm_ipc_handle own = WARM_INIT(warm_ipc_handle);
    void *block = take(5000);
    warm_graph graph = NULL;
    uint64_t closes;
    char *theirs;
    warm_stream stream = wt_stream(runtime, 0);

    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_ipc_export(block, &own));
    theirs = open_here(&handle);
    closes = wt_calls(runtime, "ipc_close");
    wt_ok(warm_ipc_close(runtime, theirs));
    ck_assert_ptr_eq(open_here(&handle), theirs); /* it is mapped yet */
    wt_ok(warm_ipc_close(runtime, theirs));
    wt_fails(WARM_INVALID_POINTER, warm_ipc_close(runtime, theirs));
    ck_assert_uint_eq(wt_calls(runtime, "ipc_close"), closes);
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_calls(runtime, "ipc_close"), closes + 1);
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_free(block));
    wt_peer_free(peer, 0);
}
