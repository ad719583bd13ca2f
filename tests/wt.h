/* wt.h: what every test program shares. Helpers start with wt_.
 *
 * A test registers itself, by its definition:
 *
 *     WT_CASE("two streams", .setup = setup, .teardown = teardown);
 *
 *     WT_TEST(test_B4_B5_held_stream_delays_only_its_blocks)
 *     {
 *         ck_assert(...);
 *     }
 *
 * Its name begins with the rows of the contract that it shows; tests that show
 * no row start with test_<what>. `make rows` reads the names. A program needs
 * no main: that of wt_main.c runs the tests of the file in their order.
 *
 * The same programs run on several backends, chosen by WT_BACKEND:
 *   host     the host device (default)
 *   standin  the CUDA driver over the stand-in libraries
 *   gpu      the CUDA driver over the real ones
 * Worker threads never assert: they fill a result, the test asserts after the
 * join. Nothing sleeps, and nothing is asserted of wall-clock time.
 */
#ifndef WT_H
#define WT_H

#include "warmpool/warmpool.h"

#include <check.h>
#include <stdbool.h>

/* The tests below it, up to the next WT_CASE, are a case of this name (for
 * CK_RUN_CASE) with these properties; without any, a program has one case. */
#define WT_CASE(...) WT_ENTRY(__LINE__, NULL, 0, .name = __VA_ARGS__)

struct wt_case {
    const char *name;
    void (*setup)(void), (*teardown)(void); /* around each test */
    void (*also[5])(void); /* each runs once more with these for setup */
    void (*once)(void);    /* before the first test */
    double timeout;        /* seconds; 0: the usual one */
    int signal;            /* that each test dies of */
    const char *tags;
};

/* A test that runs `times` times, with _i = 0, 1, …; 0: not at all. The
 * expression is evaluated once, before main. */
#define WT_LOOP_TEST(id, times)                                                \
    static const TTest *id;                                                    \
    WT_ENTRY(__LINE__, id, times, .name = NULL);                               \
    START_TEST(id)
#define WT_TEST(id) WT_LOOP_TEST(id, 1)

/* For a main of one's own: runs all tests, returns main's result. */
int wt_run(void);
/* The same for a suite that was put together by hand. */
int wt_main(Suite *suite);

/* What registers: a test, or a case (no test). Compilers run a file's
 * constructors in any order, hence the line. */
struct wt_entry {
    struct wt_entry *next;
    int line, times;
    const TTest *test;
    struct wt_case a_case;
};
void wt_add(struct wt_entry *entry);

#define WT_ENTRY(at, ...) WT_ENTRY_(at, __VA_ARGS__)
#define WT_ENTRY_(at, a_test, how_often, ...)                                  \
    __attribute__((constructor)) static void add_##at(void)                    \
    {                                                                          \
        static struct wt_entry entry;                                          \
                                                                               \
        entry = (struct wt_entry){.line = at,                                  \
                                  .times = (int)(how_often),                   \
                                  .test = a_test,                              \
                                  .a_case = {__VA_ARGS__}};                    \
        wt_add(&entry);                                                        \
    }                                                                          \
    struct wt_entry /* takes the semicolon */

/* "host", "standin" or "gpu". */
const char *wt_backend(void);
bool wt_on_host(void);
bool wt_on_gpu(void);

/* Option arenas of the runtimes of tests: one, so that no test hangs on how
 * many CPUs there are and whether threads meet; WT_ARENAS=4 runs tests with
 * more. */
uint64_t wt_arenas(void);

/* A runtime on the chosen backend, with options (may be null) on top; the
 * test fails if there is none. */
warm_runtime *wt_runtime(const warm_options *options);
/* The same with some options: wt_runtime_with(.segment = 2 * MIB). */
#define wt_runtime_with(...)                                                   \
    wt_runtime(&(const warm_options){.size = sizeof(warm_options), __VA_ARGS__})
/* Destroys it and asserts that nothing was left in use. */
void wt_runtime_end(warm_runtime *runtime);

/* How many records the library asked memory for so far, and has now. */
uint64_t wt_metadata_calls(void);
int64_t wt_metadata_live(void);

#if defined(__has_feature)
#define WT_HAS_FEATURE(feature) __has_feature(feature)
#else
#define WT_HAS_FEATURE(feature) 0
#endif

/* Under ThreadSanitizer a thread of its own counts as one of the process, it
 * takes its state down in the last round of key destructors, and it stops a
 * forked child that starts threads. */
#if defined(__SANITIZE_THREAD__) || WT_HAS_FEATURE(thread_sanitizer)
#define WT_TSAN 1
#else
#define WT_TSAN 0
#endif

/* AddressSanitizer's allocator takes no care of a fork: in a child that was
 * forked while another thread allocated, its lock stays taken for ever. */
#if defined(__SANITIZE_ADDRESS__) || WT_HAS_FEATURE(address_sanitizer)
#define WT_ASAN 1
#else
#define WT_ASAN 0
#endif

/* Check writes a line to a file at every ck_assert; these cost nothing until
 * they fail, and may stand in loops of a million steps. And after a fork(),
 * which both processes return from: what two write at once into that file is
 * not what Check reads. */
#define wt_require(condition, ...)                                             \
    do {                                                                       \
        if (!(condition)) {                                                    \
            ck_abort_msg(__VA_ARGS__);                                         \
        }                                                                      \
    } while (0)

#define wt_ok(call)                                                            \
    do {                                                                       \
        warm_status wt_status_ = (call);                                       \
        wt_require(wt_status_ == WARM_OK, "%s: %s: %s", #call,                 \
                   warm_status_name(wt_status_), warm_last_error_message());   \
    } while (0)

#define wt_fails(expected, call)                                               \
    do {                                                                       \
        warm_status wt_status_ = (call);                                       \
        wt_require(wt_status_ == (expected), "%s: %s, not %s", #call,          \
                   warm_status_name(wt_status_), warm_status_name(expected));  \
    } while (0)

#define wt_invalid(call) wt_fails(WARM_INVALID_ARGUMENT, call)

/* The text has each of the words in it; or the message of the last error. */
const char *wt_missing(const char *text, const char *const *words);
#define wt_contains(text, ...)                                                 \
    do {                                                                       \
        const char *wt_text_ = (text);                                         \
        const char *wt_missing_ =                                              \
            wt_missing(wt_text_, (const char *const[]){__VA_ARGS__, NULL});    \
                                                                               \
        wt_require(wt_missing_ == NULL, "\"%s\" is not in: %s", wt_missing_,   \
                   wt_text_);                                                  \
    } while (0)
#define wt_says(...) wt_contains(warm_last_error_message(), __VA_ARGS__)

/* A gate on a stream: work queued behind it waits until the gate opens. Works
 * on every backend (a host function that waits), if the test keeps to what
 * CUDA promises. While a gate is closed nothing may be given back to CUDA
 * (warm_pinned_empty_cache(), warm_pinned_trim(), the end of a runtime or of a
 * handle, device memory): it waits for the device. And host functions of
 * several streams may run one at a time: of two gates the first one is awaited
 * before the second is closed, and opened first. */
typedef struct wt_gate wt_gate;
wt_gate *wt_gate_close(warm_runtime *runtime, warm_stream stream);
void wt_gate_await(wt_gate *gate); /* until the stream stands before it */
wt_gate *wt_gate_hold(warm_runtime *runtime, warm_stream stream); /* both */
void wt_gate_open(wt_gate *gate); /* and waits until it has let go; frees */

/* Holds a stream before its next piece of work on the host device, until count
 * pieces may run, or all. On CUDA the stream is only late then, by a host
 * function that yields for a while: what gives memory back waits for the device
 * there, and would wait for ever. */
void wt_stall(warm_runtime *runtime, warm_stream stream);
void wt_stall_step(warm_runtime *runtime, warm_stream stream, unsigned count);
void wt_stall_end(warm_runtime *runtime, warm_stream stream);

/* ---- blocks, streams and figures: the test fails if they cannot be had ----
 */

void *wt_pinned(warm_runtime *runtime, size_t bytes);
void *wt_device(warm_runtime *runtime, warm_stream stream, size_t bytes);
warm_stream wt_stream(warm_runtime *runtime, int device);
warm_block_info wt_block_info(const void *block);
#define wt_free_all(blocks, count)                                             \
    do {                                                                       \
        for (size_t wt_i_ = 0; wt_i_ < (size_t)(count); wt_i_++) {             \
            wt_ok(warm_free((blocks)[wt_i_]));                                 \
        }                                                                      \
    } while (0)
#define wt_free(...)                                                           \
    wt_free_all(((void *[]){__VA_ARGS__}),                                     \
                sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))
/* Freed while a stream uses it, for all that is known. */
void wt_free_used(void *block, warm_stream stream);

warm_space_stats wt_pinned_stats(warm_runtime *runtime);
warm_device_stats wt_device_stats(warm_runtime *runtime); /* of device 0 */
/* Limits what may be held of device 0, through its memory fraction. */
void wt_limit(warm_runtime *runtime, double bytes);
/* A peak of what callers have is at least theirs, and above it by at most what
 * each thread may claim ahead (stats.h): so many blocks, or bytes. */
enum { WT_ROOM_BLOCKS = 64, WT_ROOM_BYTES = 1 << 20 };
#define wt_peak(shown, truth, room)                                            \
    do {                                                                       \
        ck_assert_uint_ge(shown, truth);                                       \
        ck_assert_uint_le(shown, (truth) + (uint64_t)(room));                  \
    } while (0)
/* How often a call of the driver was made. */
uint64_t wt_calls(warm_runtime *runtime, const char *call);
long wt_address_space(void); /* pages that the process has of it */

/* Host device: holds a stream before a piece of work. Lets it go, and waits. */
void wt_stop(warm_runtime *runtime, warm_stream stream);
void wt_go(warm_runtime *runtime, warm_stream stream);
/* Ends a capture; nobody launches its graph. */
void wt_capture_drop(warm_runtime *runtime, warm_stream stream);
/* All of its work is done, and what that held up has come back. And its end,
 * when all work is done. */
void wt_settle(warm_runtime *runtime, warm_stream stream);
void wt_stream_end(warm_runtime *runtime, warm_stream stream);

/* Adds tests to a case, each with the number of runs of its loop (_i). */
typedef struct wt_test {
    const TTest *test;
    int runs;
} wt_test;
void wt_add_tests(TCase *tcase, const wt_test *tests, size_t count);

/* ---- threads ----------------------------------------------------------- */

/* Runs fn(argument, index) in count threads at once and joins them. */
void wt_threads(unsigned count, void (*fn)(void *argument, unsigned index),
                void *argument);

/* Whether every pthread_create() without attributes fails from now on, as where
 * there can be no more threads: it wants a stack that no address space has. */
void wt_refuse_threads(bool refuse);

/* For who waits for what must not happen, or need not: yields, and is false
 * once that was often enough. On a busy machine, where a yield takes as long
 * as others like, it is for a moment only: a test is weaker then, never red.
 * What must happen is waited for without a bound. */
typedef struct wt_linger {
    unsigned turns;
    uint64_t since_ns;
} wt_linger;
bool wt_lingers(wt_linger *linger);

/* A seed that is printed if the test fails: WT_SEED, or a fixed one. */
uint64_t wt_seed(void);
/* xorshift64*; *state is not 0. */
uint64_t wt_random(uint64_t *state);

/* Load for random and churn tests: full, or a part of it under sanitizers
 * and valgrind (WT_SCALE=percent). */
unsigned wt_scaled(unsigned full);

#endif
