/* check_adopt_cuda.c: what CUDA makes of memory that is adopted (row B23), over
 * the stand-in libraries.
 * backends: standin */
#include "runtime/cuda/cuda.h"
#include "tests/skip.h"

#if WM_HAVE_CUDA
#include "tests/unit/standin_load.h"

#include "alloc/kinds/pinned.h"
#include "warmpool/warmpool.h"

#include <sys/mman.h>

#define MIB ((size_t)1 << 20)

enum { PIECES = 3 };

static warm_runtime *runtime;
static char *memory;

static void setup(void)
{
    warm_options options = {
        .size = sizeof options, .device = "cuda", .pin_chunk = MIB};

    standin_load();
    options.libraries = standin.libraries;
    wt_ok(warm_runtime_create(&options, &runtime));
    memory = mmap(NULL, PIECES * MIB, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
}

static void teardown(void)
{
    char text[256];

    wt_runtime_end(runtime);
    ck_assert_msg(standin.standin_misuse(text, sizeof text) == 0, "%s", text);
    munmap(memory, PIECES * MIB);
}

static warm_status adopt(unsigned flags)
{
    return warm_pinned_adopt(runtime, memory, PIECES * MIB, flags);
}

static warm_status give_up(void)
{
    return warm_pinned_adopt_end(runtime, memory, NULL, NULL);
}

WT_CASE("adopt cuda", .setup = setup, .teardown = teardown);

/* The program has registered a part itself: the others stay as they were. */
WT_LOOP_TEST(test_B23_B20_memory_that_the_program_registered_is_refused, PIECES)
{
    char *own = memory + (size_t)_i * MIB;
    warm_error error = {.size = sizeof error};

    wt_ok(wm_driver_pinned_register(runtime->driver, own, MIB));
    wt_invalid(adopt(0));
    wt_says("cannot be adopted", "already");
    warm_last_error(&error);
    ck_assert_int_eq(error.code, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_unregister"), (unsigned)_i);
    ck_assert_int_eq(standin.cudaPeekAtLastError(), 0);
    wm_driver_break_begin();
    wt_ok(wm_driver_pinned_unregister(runtime->driver, own));
    wm_driver_break_end();
    wt_ok(adopt(0));
    wt_ok(give_up());
}

WT_TEST(test_B23_memory_that_devices_only_read_is_registered_so)
{
    const unsigned flag = CU_MEMHOSTREGISTER_READ_ONLY;

    wt_ok(adopt(0));
    ck_assert_uint_eq(standin.standin_flags("cuMemHostRegister_v2") & flag, 0);
    wt_ok(give_up());
    ck_assert_int_eq(mprotect(memory, PIECES * MIB, PROT_READ), 0);
    wt_ok(adopt(WARM_ADOPT_READ_ONLY));
    ck_assert_uint_ne(standin.standin_flags("cuMemHostRegister_v2") & flag, 0);
    wt_ok(give_up());
    standin.standin_read_only(0);
    wt_fails(WARM_UNSUPPORTED, adopt(WARM_ADOPT_READ_ONLY));
    wt_says("device 0", "read-only");
    standin.standin_read_only(1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).adopted_held.current, 0);
}

/* What a reset unlocked is not named to CUDA any more. */
WT_LOOP_TEST(test_A17_B23_memory_is_given_up_after_a_reset, 2)
{
    uint64_t calls;

    wt_ok(adopt(_i == 0 ? 0 : WARM_ADOPT_SERVE));
    cuda_ok(standin.cudaSetDevice(0));
    cuda_ok(standin.cudaDeviceReset());
    (void)warm_poll(runtime); /* notices */
    calls = standin.standin_calls("cuMemHostUnregister");
    wt_ok(give_up());
    ck_assert_uint_eq(standin.standin_calls("cuMemHostUnregister"), calls);
    wt_fails(WARM_DRIVER_ERROR, adopt(0));
    wt_says("was reset");
    ck_assert_uint_eq(wt_pinned_stats(runtime).adopted_held.current, 0);
}

#else
SKIP_MAIN("built without CUDA's headers")
#endif
