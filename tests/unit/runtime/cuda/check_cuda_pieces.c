/* check_cuda_pieces.c: large blocks where CUDA refuses large registrations, and
 * copies across two (row B19), over the stand-in libraries.
 * backends: standin */
#include "runtime/cuda/cuda.h"
#include "tests/skip.h"

#if WM_HAVE_CUDA
#include "tests/unit/standin_load.h"

#include "runtime/runtime.h"

WT_CASE("pieces", .once = standin_load);

/* As some kernels and drivers do. */
WT_TEST(test_B19_large_registrations_are_refused_above_a_bound)
{
    enum { KIB = 1 << 10 };
    warm_options options = {.size = sizeof options,
                            .libraries = standin.libraries,
                            .pin = "register",
                            .pin_chunk = 512 * KIB};
    warm_runtime *runtime;
    void *block = NULL;

    standin.standin_register_most(256 * KIB);
    runtime = wt_runtime(&options);
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 512 * KIB, &block));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(runtime, 5120 * KIB, &block));
    ck_assert_ptr_null(block);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    wt_runtime_end(runtime);
    options.pin_chunk = 256 * KIB;
    runtime = wt_runtime(&options);
    block = wt_pinned(runtime, 5120 * KIB);
    ck_assert_uint_eq(wt_block_info(block).pieces, 20);
    wt_free(block);
    wt_runtime_end(runtime);
    standin.standin_register_most(SIZE_MAX);
}

WT_TEST(test_B19_copies_across_registrations_are_refused)
{
    enum { KIB = 1 << 10, PIECE = 256 << 10 };
    warm_options options = {.size = sizeof options,
                            .libraries = standin.libraries,
                            .pin = "register",
                            .pin_chunk = PIECE};
    warm_runtime *runtime = wt_runtime(&options);
    char *block = wt_pinned(runtime, 1024 * KIB);
    warm_stream stream = wt_stream(runtime, 0);
    wm_driver *d = runtime->driver;
    void *device = NULL;
    const wm_copy_2d good = {block, KIB, block + PIECE, KIB, KIB, 256},
                     bad = {block, KIB, block + PIECE, KIB, KIB, 257};

    wt_ok(warm_device_alloc_uncached(runtime, 0, 1024 * KIB, &device));
    for (size_t bytes = PIECE; bytes <= PIECE + 1; bytes++) {
        warm_status expected = bytes == PIECE ? WARM_OK : WARM_DRIVER_ERROR;

        wt_fails(expected, wm_driver_copy(d, device, block, bytes,
                                          WARM_COPY_TO_DEVICE, stream));
        wt_fails(expected, wm_driver_copy(d, block, device, bytes,
                                          WARM_COPY_TO_HOST, stream));
        wt_fails(expected,
                 wm_driver_copy(d, block, device, bytes, WM_COPY_ANY, stream));
    }
    wt_ok(wm_driver_copy_2d(d, &good, stream));
    wt_fails(WARM_DRIVER_ERROR, wm_driver_copy_2d(d, &bad, stream));
    wt_says("cuMemcpy2DAsync");
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_device_free_uncached(runtime, 0, device));
    wt_free(block);
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
    ck_assert_uint_eq(standin.standin_misuse(NULL, 0), 0);
}

/* own: the device sees registered memory elsewhere than the host does. */
WT_LOOP_TEST(test_B19_shared_buffers_are_cut_where_the_pieces_adjoin, 2)
{
    enum { CHUNK = 256 << 10 };
    warm_options options = {.size = sizeof options,
                            .libraries = standin.libraries,
                            .pin = "register",
                            .pin_chunk = CHUNK};
    bool own = _i == 1;
    warm_runtime *runtime;
    void *buffer = NULL;

    if (own) { /* no attribute is known */
        standin.standin_fail("cuDeviceGetAttribute", 1, 1,
                             CUDA_ERROR_INVALID_VALUE);
    }
    runtime = wt_runtime(&options);
    standin.standin_register_most(own ? SIZE_MAX : CHUNK);
    wt_ok(
        warm_shared_alloc(runtime, 0, 40 * CHUNK, WARM_USAGE_SHARED, &buffer));
    ck_assert_uint_eq(wt_block_info(buffer).pieces, own ? 1 : 40);
    wt_free(buffer);
    wt_ok(warm_shared_trim(runtime, 0, 0, NULL));
    standin.standin_fail("cuDeviceGetAttribute", 0, 0, 0);
    standin.standin_register_most(SIZE_MAX);
    wt_runtime_end(runtime);
}

/* can: as standin_registers(); with 2 a driver that answers 1 to all. */
static const struct {
    int can, nodes;
    const char *pin;
} never[] = {{0, 1, "auto"},  {0, 2, "auto"},   {-1, 1, "auto"},
             {-1, 2, "auto"}, {2, 1, "auto"},   {2, 2, "auto"},
             {0, 2, "alloc"}, {-1, 2, "alloc"}, {-1, 1, "alloc"}};

WT_LOOP_TEST(test_B19_one_call_serves_where_nothing_can_be_registered,
             sizeof never / sizeof never[0])
{
    enum { CHUNK = 256 << 10 };
    warm_options options = {.size = sizeof options,
                            .libraries = standin.libraries,
                            .test = wt_list("numa_nodes=%d", never[_i].nodes),
                            .pin = never[_i].pin,
                            .segment = CHUNK,
                            .pin_chunk = CHUNK};
    static const size_t sizes[] = {4096, CHUNK, 5 * CHUNK + 4096, 40 * CHUNK};
    warm_runtime *runtime;
    warm_stream stream;
    void *block[4], *shared = NULL, *device = NULL, *rows = NULL;

    standin.standin_registers(never[_i].can == 2 ? 1 : never[_i].can);
    standin.standin_register_most(never[_i].can == 2 ? 0 : SIZE_MAX);
    runtime = wt_runtime(&options);
    stream = wt_stream(runtime, 0);
    wt_ok(warm_device_alloc(runtime, 0, stream, 40 * CHUNK, &device));
    for (unsigned i = 0; i < 4; i++) {
        block[i] = wt_pinned(runtime, sizes[i]);
        ck_assert_uint_eq(wt_block_info(block[i]).pieces, 1);
        wt_ok(warm_copy_async(runtime, device, block[i], sizes[i],
                              WARM_COPY_TO_DEVICE, stream));
    }
    wt_ok(warm_pinned_alloc_rows(runtime, 5 * CHUNK, 12288, &rows));
    wt_ok(warm_shared_alloc(runtime, 0, 5 * CHUNK, WARM_USAGE_SHARED, &shared));
    ck_assert_uint_eq(wt_block_info(shared).pieces, 1);
    wt_ok(warm_stream_synchronize(runtime, stream));
    for (unsigned i = 0; i < 4; i++) {
        wt_free(block[i]);
    }
    /* What is idle, and larger than a piece, serves a large request. */
    block[0] = wt_pinned(runtime, 39 * CHUNK);
    ck_assert_ptr_eq(block[0], block[3]);
    wt_ok(warm_testing_check(runtime, 0));
    wt_free(block[0]);
    wt_free(rows);
    wt_free(shared);
    wt_free(device);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
    ck_assert_uint_eq(standin.standin_misuse(NULL, 0), 0);
    standin.standin_registers(1);
    standin.standin_register_most(SIZE_MAX);
}

/* What the driver does not support is told apart from what fails. */
WT_TEST(test_B19_registering_is_refused_where_the_devices_do_not_support_it)
{
    warm_options options = {.size = sizeof options,
                            .libraries = standin.libraries,
                            .device = "cuda",
                            .pin = "register"};
    static _Alignas(4096) char page[4096];
    warm_runtime *runtime = NULL;
    warm_ipc_handle handle = WARM_INIT(warm_ipc_handle);
    void *device = NULL;

    standin.standin_registers(0);
    wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&options, &runtime));
    wt_says("option pin:register: a device of this machine does not support");
    options.pin = "auto";
    options.huge_pages = "require";
    wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&options, &runtime));
    wt_says("use huge_pages:try");
    options.huge_pages = NULL;
    runtime = wt_runtime(&options);
    wt_fails(WARM_UNSUPPORTED, warm_pinned_adopt(runtime, page, 4096, 0));
    wt_says("cannot be adopted: cuMemHostRegister");
    wt_ok(warm_device_alloc(runtime, 0, NULL, 4096, &device));
    standin.standin_fail("cuIpcGetMemHandle", 1, 0, CUDA_ERROR_NOT_SUPPORTED);
    wt_fails(WARM_UNSUPPORTED, warm_ipc_export(device, &handle));
    wt_free(device);
    wt_runtime_end(runtime);
    standin.standin_registers(1);
}

SKIP_MAIN_IF(!standin_find(), "the stand-in libraries are not built")

#else
SKIP_MAIN("built without CUDA's headers")
#endif
