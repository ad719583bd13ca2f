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
                            .cudart = standin.cudart,
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
                            .cudart = standin.cudart,
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

SKIP_MAIN_IF(!standin_find(), "the stand-in libraries are not built")

#else
SKIP_MAIN("built without CUDA's headers")
#endif
