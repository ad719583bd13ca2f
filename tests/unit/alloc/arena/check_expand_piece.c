/* check_expand_piece.c: the pieces of address ranges as calls to CUDA, over the
 * stand-in libraries (row C8), which unmap whole mappings only.
 * backends: standin */
#include "runtime/cuda/cuda.h"
#include "tests/skip.h"

#if WM_HAVE_CUDA
#include "tests/unit/standin_load.h"

#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream stream;
static uint64_t before[4];

static const char *const functions[] = {"cuMemCreate", "cuMemMap",
                                        "cuMemSetAccess", "cuMemUnmap"};

static void setup(void)
{
    warm_options options = {.size = sizeof options,
                            .expandable_segments = "on"};

    standin_load();
    options.cudart = standin.cudart;
    runtime = wt_runtime(&options);
    wt_ok(warm_stream_create(runtime, 0, &stream));
}

static void teardown(void)
{
    ck_assert_uint_eq(standin.standin_misuse(NULL, 0), 0);
    standin.standin_create_most(SIZE_MAX);
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}

static void *take(size_t bytes)
{
    void *pointer = NULL;

    wt_ok(warm_device_alloc(runtime, 0, stream, bytes, &pointer));
    return pointer;
}

static size_t empty(void)
{
    size_t released = 0;

    wt_ok(warm_device_trim(runtime, 0, 0, &released));
    wt_ok(warm_testing_check(runtime, 0));
    return released;
}

static void mark(void)
{
    for (int i = 0; i < 4; i++) {
        before[i] = standin.standin_calls(functions[i]);
    }
}

/* Calls of each function since mark(). */
static void assert_calls(uint64_t create, uint64_t map, uint64_t access,
                         uint64_t unmap)
{
    const uint64_t expected[] = {create, map, access, unmap};

    for (int i = 0; i < 4; i++) {
        ck_assert_msg(standin.standin_calls(functions[i]) - before[i] ==
                          expected[i],
                      "%s: %llu calls, not %llu", functions[i],
                      (unsigned long long)(standin.standin_calls(functions[i]) -
                                           before[i]),
                      (unsigned long long)expected[i]);
    }
}

WT_CASE("piece", .once = standin_load, .setup = setup, .teardown = teardown);

WT_TEST(test_B8_C8_a_GiB_comes_in_steps_of_64_MiB)
{
    void *block;

    mark();
    block = take((size_t)1 << 30);
    assert_calls(16, 16, 16, 0);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(empty(), (size_t)1 << 30);
    assert_calls(16, 16, 16, 16);
}

/* 64, 32 and 16 MiB are refused; then there are twelve pieces of 8 MiB and two
 * of one unit. */
WT_TEST(test_B8_C8_what_hardware_refuses_is_halved)
{
    void *block;

    standin.standin_create_most(10 * MIB);
    mark();
    block = take(100 * MIB);
    assert_calls(17, 14, 14, 0);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(empty(), 100 * MIB);
    assert_calls(17, 14, 14, 14);
}

/* Beside live blocks and gaps: each mapping is unmapped whole. */
WT_TEST(test_C8_only_whole_mappings_are_unmapped)
{
    enum { BLOCKS = 24 };
    void *block[BLOCKS] = {NULL};
    uint64_t random = wt_seed();

    for (unsigned step = 0; step < wt_scaled(400); step++) {
        size_t i = wt_random(&random) % BLOCKS;

        standin.standin_create_most(((size_t)2 << wt_random(&random) % 7) *
                                    MIB);
        if (block[i] != NULL) {
            wt_ok(warm_free(block[i]));
            block[i] = NULL;
        } else {
            block[i] = take((1 + wt_random(&random) % 150) * MIB);
        }
        if (step % 5 == 0) {
            wt_ok(warm_device_trim(runtime, 0, wt_random(&random) % 1024 * MIB,
                                   NULL));
        }
        wt_ok(warm_testing_check(runtime, 0));
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        wt_ok(warm_free(block[i]));
    }
    (void)empty();
    ck_assert_uint_eq(wt_device_stats(runtime).all.held_bytes.current, 0);
}

SKIP_MAIN_IF(!standin_find(), "the stand-in libraries are not built")

#else
SKIP_MAIN("built without CUDA's headers")
#endif
