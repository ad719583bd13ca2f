/* check_pin_cuda.c: which context of CUDA pinning uses (row B13), over the
 * stand-in libraries.
 * backends: standin */
#include "runtime/cuda/cuda.h"
#include "tests/skip.h"

#if WM_HAVE_CUDA
#include "tests/unit/standin_load.h"

#include "warmpool/warmpool.h"

#include <sys/mman.h>

#define MIB ((size_t)1 << 20)

enum { UNUSED = 0, USED = 1, DEVICES = 2 };

static const char *const ways[] = {"alloc", "register"};

static void load(void)
{
    standin_load();
    standin.standin_devices(DEVICES);
}

WT_CASE("pin cuda", .setup = load);

static warm_runtime *runtime;
static warm_stream stream;

static void use_pinned(void *unused, unsigned index)
{
    void *block = NULL;

    wt_ok(warm_pinned_alloc(runtime, 3 * MIB, &block));
    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_free(block));
    wt_ok(warm_stream_synchronize(runtime, stream));
}

static void use_adopted(void *unused, unsigned index)
{
    void *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    wt_ok(warm_pinned_adopt(runtime, memory, MIB, 0));
    wt_ok(warm_pinned_adopt_end(runtime, memory, NULL, NULL));
    munmap(memory, MIB);
}

/* The default streams are those of a device that has no work. */
static void use_defaults(void *unused, unsigned index)
{
    static const warm_stream names[] = {NULL, WARM_STREAM_PER_THREAD};
    void *block = NULL;

    for (int i = 0; i < 2; i++) {
        wt_ok(warm_pinned_alloc(runtime, 3 * MIB, &block));
        wt_ok(warm_record_stream(block, names[i]));
        wt_ok(warm_free(block));
        wt_ok(warm_pinned_alloc(runtime, 3 * MIB, &block));
        wt_ok(warm_record_stream(block, names[i]));
        wt_ok(warm_free_deferred(block));
    }
    wt_ok(warm_poll(runtime));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
}

/* The program uses the second device only. Pinned by the thread that does, or
 * by one whose current device, if it asked, would be the first. */
WT_LOOP_TEST(test_B13_pinning_makes_no_context_on_a_device_that_is_not_used, 12)
{
    warm_options options = {
        .size = sizeof options, .device = "cuda", .pin = ways[_i % 2]};
    void (*const uses[])(void *, unsigned) = {use_pinned, use_adopted,
                                              use_defaults};
    void (*use)(void *, unsigned) = uses[_i / 4];

    options.libraries = standin.libraries;
    wt_ok(warm_runtime_create(&options, &runtime));
    cuda_ok(standin.cudaSetDevice(USED));
    wt_ok(warm_stream_create(runtime, USED, &stream));
    ck_assert_uint_eq(standin.standin_contexts(USED), 1);
    if (_i / 2 % 2 == 0) {
        use(NULL, 0);
    } else {
        wt_threads(1, use, NULL);
    }
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_runtime_end(runtime);
    ck_assert_uint_eq(standin.standin_contexts(UNUSED), 0);
    ck_assert_uint_eq(standin.standin_contexts(USED), 1);
}

#else
SKIP_MAIN("built without CUDA's headers")
#endif
