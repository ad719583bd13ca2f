/* check_ggml.c: the host buffer type for ggml (row H5), called as ggml calls
 * it, with functions that stand for ggml's own. `make check-ggml` computes a
 * graph of the real one. */
/* memcheck: one process */
#include "vendor/ggml-backend.h"

#include "vendor/ggml-backend-impl.h"

#include "wt.h"

#include "warmpool/ggml.h"

enum { BYTES = 100000, CHUNK = 4 << 20, ALIGNMENT = 32 };

/* ---- what ggml has ------------------------------------------------------- */

static bool no_buffers; /* as without memory for them */
static int buffers;     /* live */

ggml_backend_buffer_type_t ggml_backend_cpu_buffer_type(void)
{
    static struct ggml_backend_buffer_type cpu;

    return &cpu;
}

ggml_backend_buffer_t ggml_backend_cpu_buffer_from_ptr(void *at, size_t bytes)
{
    ggml_backend_buffer_t buffer =
        no_buffers ? NULL : calloc(1, sizeof *buffer);

    if (buffer != NULL) {
        buffer->buft = ggml_backend_cpu_buffer_type();
        buffer->context = at;
        buffer->size = bytes;
        buffers++;
    }
    return buffer;
}

size_t ggml_backend_buft_get_alignment(ggml_backend_buffer_type_t type)
{
    ck_assert_ptr_eq(type, ggml_backend_cpu_buffer_type());
    return ALIGNMENT;
}

/* Of another version: its struct has a field before the device. */
static bool other_type, other_buffer;

ggml_backend_dev_t ggml_backend_buft_get_device(ggml_backend_buffer_type_t type)
{
    return other_type ? type->context : type->device;
}

ggml_backend_buffer_type_t
ggml_backend_buffer_get_type(ggml_backend_buffer_t buffer)
{
    return other_buffer ? buffer->context : buffer->buft;
}

void ggml_backend_buffer_free(ggml_backend_buffer_t buffer)
{
    if (buffer == NULL) {
        return;
    }
    if (buffer->iface.free_buffer != NULL) {
        buffer->iface.free_buffer(buffer);
    }
    free(buffer);
    buffers--;
}

/* ---- the type ------------------------------------------------------------ */

static warm_runtime *runtime;
static warm_ggml_host host;
static ggml_backend_buffer_type_t type;

static void setup(void)
{
    runtime = wt_runtime_with(.pin_chunk = CHUNK);
    wt_ok(warm_ggml_host_init(&host, runtime, 0, &type));
}

static void teardown(void)
{
    ck_assert_int_eq(buffers, 0);
    wt_runtime_end(runtime);
}

WT_CASE("ggml", .setup = setup, .teardown = teardown);

WT_TEST(test_H5_a_buffer_is_page_locked_memory_of_warmpool)
{
    ggml_backend_buffer_t buffer = type->iface.alloc_buffer(type, BYTES);
    warm_block_info info;

    ck_assert_ptr_nonnull(buffer);
    ck_assert_ptr_eq(buffer->buft, type);
    ck_assert_uint_eq(buffer->size, BYTES);
    info = wt_block_info(buffer->context);
    ck_assert_ptr_eq(info.base, buffer->context);
    ck_assert_int_eq(info.pageable, 0);
    ck_assert_uint_eq((uintptr_t)info.base % type->iface.get_alignment(type),
                      0);
    memset(info.base, 1, BYTES);
    ggml_backend_buffer_free(buffer);
    ck_assert(!warm_owns(info.base));
}

WT_TEST(test_H5_the_type_says_what_ggml_asks)
{
    ck_assert_str_eq(type->iface.get_name(type), "warmpool");
    ck_assert_uint_eq(type->iface.get_alignment(type), ALIGNMENT);
    ck_assert(type->iface.is_host(type));
    ck_assert(type->iface.get_alloc_size == NULL); /* ggml's own rule */
    ck_assert_ptr_eq(type->device, ggml_backend_cpu_buffer_type()->device);
}

/* So that CUDA can copy any range of it. */
WT_TEST(test_H5_a_buffer_is_never_in_pieces)
{
    ggml_backend_buffer_t buffer;

    ck_assert_uint_eq(type->iface.get_max_size(type), CHUNK);
    buffer = type->iface.alloc_buffer(type, CHUNK);
    ck_assert_uint_eq(wt_block_info(buffer->context).pieces, 1);
    ggml_backend_buffer_free(buffer);
    ck_assert_ptr_null(type->iface.alloc_buffer(type, CHUNK + 1));
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
    wt_ok(warm_ggml_host_init(&host, runtime, BYTES, &type));
    ck_assert_uint_eq(type->iface.get_max_size(type), BYTES);
    ck_assert_ptr_null(type->iface.alloc_buffer(type, BYTES + 1));
}

WT_TEST(test_H5_a_free_waits_for_what_was_queued)
{
    ggml_backend_buffer_t buffer = type->iface.alloc_buffer(type, BYTES);
    void *block = buffer->context, *next;
    warm_stream stream = wt_stream(runtime, 0);
    wt_gate *gate = wt_gate_hold(runtime, stream);

    ggml_backend_buffer_free(buffer);
    ck_assert(!warm_owns(block));
    next = wt_pinned(runtime, BYTES);
    ck_assert_ptr_ne(next, block);
    wt_gate_open(gate);
    wt_free(next);
    wt_stream_end(runtime, stream);
}

/* So that a model loads that cannot be page-locked as a whole. */
WT_TEST(test_H5_a_buffer_is_pageable_if_no_more_can_be_page_locked)
{
    ggml_backend_buffer_t buffer;

    wt_ok(warm_testing_fail(runtime, "pinned_alloc", 1, 1));
    wt_ok(warm_testing_fail(runtime, "pinned_register", 1, 1));
    buffer = type->iface.alloc_buffer(type, BYTES);
    ck_assert_ptr_nonnull(buffer);
    ck_assert_int_eq(wt_block_info(buffer->context).pageable, 1);
    memset(buffer->context, 1, BYTES);
    ggml_backend_buffer_free(buffer);
}

WT_TEST(test_H5_failures_leave_nothing_behind)
{
    ggml_backend_buffer_type_t untouched = NULL;

    no_buffers = true;
    ck_assert_ptr_null(type->iface.alloc_buffer(type, BYTES));
    no_buffers = false;
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
    wt_invalid(warm_ggml_host_init(&host, NULL, 0, &untouched));
    ck_assert_ptr_null(untouched);
    ck_assert_ptr_eq(host.runtime, runtime);
    /* Memory that is short: the largest is above what may be held. */
    wt_ok(warm_ggml_host_init(&host, runtime, (size_t)1 << 46, &type));
    ck_assert_ptr_null(type->iface.alloc_buffer(type, (size_t)1 << 46));
    wt_says("out of memory");
}

WT_LOOP_TEST(test_H5_the_header_of_another_version_is_refused, 2)
{
    warm_ggml_host untouched;
    ggml_backend_buffer_type_t none = NULL;

    memset(&untouched, 7, sizeof untouched);
    host = untouched;
    other_type = _i == 0;
    other_buffer = _i == 1;
    wt_fails(WARM_UNSUPPORTED, warm_ggml_host_init(&host, runtime, 0, &none));
    other_type = other_buffer = false;
    ck_assert_ptr_null(none);
    ck_assert_ptr_eq(host.runtime, untouched.runtime);
    wt_ok(warm_ggml_host_init(&host, runtime, 0, &type));
}

WT_TEST(test_H5_a_buffer_of_nothing_is_a_buffer)
{
    ggml_backend_buffer_t buffer = type->iface.alloc_buffer(type, 0);

    ck_assert_ptr_nonnull(buffer);
    ck_assert_ptr_nonnull(buffer->context);
    ck_assert_uint_eq(buffer->size, 0);
    ggml_backend_buffer_free(buffer);
}
