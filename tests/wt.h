/* wt.h: helpers for every test program; their names start with wt_.
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
 * After test_ the name lists the rows of the contract that the test checks, if
 * any. `make rows` reads the names. A program needs no main: that of wt_main.c
 * runs the tests of the file in their order.
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
#include <pthread.h>
#include <stdbool.h>

/* Begins a case with this name (for CK_RUN_CASE) and these properties: all
 * tests below, up to the next WT_CASE. Tests before the first WT_CASE are one
 * case, named like the program. */
#define WT_CASE(...) WT_ENTRY(__LINE__, NULL, 0, .name = __VA_ARGS__)

struct wt_case {
    const char *name;
    void (*setup)(void), (*teardown)(void); /* around each test */
    void (*also[5])(void); /* further setups: each test runs with each */
    void (*once)(void);    /* before the first test */
    double timeout;        /* seconds; 0: the default */
    int signal;            /* each test must die of it; 0: none */
    const char *tags;
};

/* A test that runs `times` times, with _i = 0, 1, …; 0: not at all. The
 * expression is evaluated once, before main. */
#define WT_LOOP_TEST(id, times)                                                \
    static const TTest *id;                                                    \
    WT_ENTRY(__LINE__, id, times, .name = NULL);                               \
    START_TEST(id)
#define WT_TEST(id) WT_LOOP_TEST(id, 1)

/* Ends a test that cannot run here (not for combinations that mean nothing):
 * printed, and a skip in the log, so that `make rows` does not count it. What
 * the test has begun is to be ended before. */
#define wt_skip(why)                                                           \
    do {                                                                       \
        wt_skip_note(__func__, why);                                           \
        return;                                                                \
    } while (0)
void wt_skip_note(const char *function, const char *why);

/* For a program with its own main: runs all tests, returns main's result. */
int wt_run(void);

/* An entry of the list of tests and cases; test: null for a case. The list is
 * ordered by line, because compilers run a file's constructors in any order. */
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
        static struct wt_entry wt_entry_;                                      \
                                                                               \
        wt_entry_ = (struct wt_entry){.line = at,                              \
                                      .times = (int)(how_often),               \
                                      .test = a_test,                          \
                                      .a_case = {__VA_ARGS__}};                \
        wt_add(&wt_entry_);                                                    \
    }                                                                          \
    struct wt_entry /* takes the semicolon */

/* "host", "standin" or "gpu". */
const char *wt_backend(void);
bool wt_on_host(void);
bool wt_on_gpu(void);

/* The text of a list, for option test; it lasts for three more calls. */
__attribute__((format(printf, 1, 2))) const char *wt_list(const char *format,
                                                          ...);
/* Option test for the runtimes of tests: one arena unless the options say how
 * many, so that no test depends on the number of CPUs or on contention;
 * WT_ARENAS=4 runs the tests with four. */
const char *wt_test(const warm_options *options);

/* Creates a runtime on the chosen backend with options (may be null); the test
 * fails if that fails. */
warm_runtime *wt_runtime(const warm_options *options);
/* wt_runtime() with options as arguments: wt_runtime_with(.segment = 2 * MIB).
 */
#define wt_runtime_with(...)                                                   \
    wt_runtime(&(const warm_options){.size = sizeof(warm_options), __VA_ARGS__})
/* A runtime with two devices. Null: the machine has one only, or the process
 * has begun with one; says so. */
warm_runtime *wt_two_devices(const warm_options *options);
/* Destroys the runtime and asserts that nothing was in use, and on the host
 * device that no record is left. */
void wt_runtime_end(warm_runtime *runtime);
/* Ends a relaxed capture mode of CUDA that a fault has left the thread in;
 * whether it was in one. wt_runtime_end() checks that it is in none. */
bool wt_relaxed_end(void);
/* Records may be left: the test's faults make the library give memory up. */
void wt_may_leak(void);

/* Makes a folder of its own for a test, and writes its path; end() removes it
 * with all that is in it. */
enum { WT_FOLDER = 64 };
void wt_folder(char path[WT_FOLDER]);
void wt_folder_end(const char *path);
/* Writes a file below the folder, and makes the folders between: name: "/a/b".
 */
void wt_folder_put(const char *folder, const char *name, const char *text);

/* Allocations of the library's records: made so far, and live now. */
uint64_t wt_metadata_calls(void);
int64_t wt_metadata_live(void);

/* At the beginning of a test: without that it cannot run here. */
#define wt_needs(condition, why)                                               \
    do {                                                                       \
        if (!(condition)) {                                                    \
            wt_skip(why);                                                      \
        }                                                                      \
    } while (0)
/* Whether the program runs in an emulator (qemu-user): that takes advice of
 * madvise(2) and ignores it, so that a forked child gets all memory; it answers
 * for the kernel's pages, and starts no thread in a child of threads. */
bool wt_emulated(void);
#define WT_EMULATED "an emulator answers for the kernel"

#if defined(__has_feature)
#define WT_HAS_FEATURE(feature) __has_feature(feature)
#else
#define WT_HAS_FEATURE(feature) 0
#endif

/* ThreadSanitizer runs a thread of its own, frees its state in the last round
 * of key destructors, and stops a forked child that starts threads: a test that
 * any of these breaks does not run under it. */
#if defined(__SANITIZE_THREAD__) || WT_HAS_FEATURE(thread_sanitizer)
#define WT_TSAN 1
#else
#define WT_TSAN 0
#endif

/* AddressSanitizer's allocator does not handle fork(): if another thread was
 * allocating, its lock stays locked in the child. */
#if defined(__SANITIZE_ADDRESS__) || WT_HAS_FEATURE(address_sanitizer)
#define WT_ASAN 1
#else
#define WT_ASAN 0
#endif

/* Whether a library with this in its name is preloaded. */
bool wt_preloaded(const char *name);
bool wt_in_valgrind(void);

/* Check writes a line to a file at every ck_assert. wt_require writes only on
 * failure: use it in loops of a million steps, and where two processes run
 * after a fork(), since Check cannot read a file that both write to. */
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

/* The first of the words (a null-terminated array) that is not in the text, or
 * null. */
const char *wt_missing(const char *text, const char *const *words);
/* wt_contains: every word is in the text; wt_says: in the message of the last
 * error. */
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

/* A door: the host function wt_door_run() waits until it is opened. */
typedef struct wt_door {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool entered, open, left; /* lock mutex */
} wt_door;
#define WT_DOOR_INIT                                                           \
    {                                                                          \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER   \
    }
void wt_door_run(void *argument);
void wt_door_wait_entered(wt_door *door);
void wt_door_open(wt_door *door);

/* A gate on a stream: work queued behind it waits until the gate opens. It is a
 * host function that waits, and so works on every backend under two rules:
 * - While a gate is closed a test must not return memory or handles to CUDA
 *   (warm_pinned_trim(), warm_runtime_destroy()): such calls wait for the
 *   device, and so for the gate.
 * - CUDA may run the host functions of several streams one at a time: of two
 *   gates, await the first before you close the second, and open it first. */
typedef struct wt_gate wt_gate;
wt_gate *wt_gate_close(warm_runtime *runtime, warm_stream stream);
void wt_gate_await(wt_gate *gate); /* waits until the stream reached it */
wt_gate *wt_gate_hold(warm_runtime *runtime, warm_stream stream); /* both */
void wt_gate_open(wt_gate *gate); /* waits for the function; frees */

/* On the host device wt_stall holds a stream before its next piece of work,
 * wt_stall_step lets count pieces run, and wt_stall_end all. On CUDA wt_stall
 * only delays the stream, by a host function that yields for a while: calls
 * that return memory wait for the device there, and would never return if the
 * stream were held. */
void wt_stall(warm_runtime *runtime, warm_stream stream);
void wt_stall_step(warm_runtime *runtime, warm_stream stream, unsigned count);
void wt_stall_end(warm_runtime *runtime, warm_stream stream);

/* ---- blocks, streams and figures: each asserts its own success ----------- */

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
    do {                                                                       \
        void *wt_blocks_[] = {__VA_ARGS__}; /* each evaluated once */          \
                                                                               \
        wt_free_all(wt_blocks_, sizeof wt_blocks_ / sizeof(void *));           \
    } while (0)
/* Records the stream on the block, then frees it. */
void wt_free_used(void *block, warm_stream stream);

warm_space_stats wt_pinned_stats(warm_runtime *runtime);
warm_device_stats wt_device_stats(warm_runtime *runtime); /* of device 0 */
warm_device_stats wt_stats_of_device(warm_runtime *runtime, int device);
/* Limits the bytes held of device 0, by its high watermark. */
void wt_limit(warm_runtime *runtime, double bytes);
/* A reported peak of live blocks is at least the true peak, and above it by at
 * most what each thread claims ahead (stats.h). */
enum { WT_ROOM_BYTES = 2 << 20, WT_ROOM_BLOCKS = 64 };
#define wt_peak(shown, truth, room)                                            \
    do {                                                                       \
        ck_assert_uint_ge(shown, truth);                                       \
        ck_assert_uint_le(shown, (truth) + (uint64_t)(room));                  \
    } while (0)
/* How often a call of the driver was made. */
uint64_t wt_calls(warm_runtime *runtime, const char *call);
long wt_address_space(void); /* of the process, in pages */

/* Host device: wt_stop holds a stream before a piece of work that it queues;
 * wt_go resumes the stream and waits for its work. */
void wt_stop(warm_runtime *runtime, warm_stream stream);
void wt_go(warm_runtime *runtime, warm_stream stream);
/* Ends a capture and destroys its graph. */
void wt_capture_drop(warm_runtime *runtime, warm_stream stream);
/* wt_settle waits for the stream's work and polls, so that freed blocks which
 * waited for the work are idle. wt_stream_end waits, and destroys the stream.
 */
void wt_settle(warm_runtime *runtime, warm_stream stream);
void wt_stream_end(warm_runtime *runtime, warm_stream stream);

/* ---- threads ----------------------------------------------------------- */

/* Runs fn(argument, index) in count threads at once and joins them. */
void wt_threads(unsigned count, void (*fn)(void *argument, unsigned index),
                void *argument);

/* While true, every pthread_create() without attributes fails, as on a machine
 * without room for threads: the default stack exceeds any address space. */
void wt_refuse_threads(bool refuse);

/* For loops that wait for an event that must not, or need not, happen: yields,
 * and returns false after 2000 turns or 50 ms. On a busy machine that may be
 * too early to see a fault, but never makes a correct library fail. Loops that
 * wait for an event that must happen have no bound. */
typedef struct wt_linger {
    unsigned turns;
    uint64_t since_ns;
} wt_linger;
bool wt_lingers(wt_linger *linger);

/* The seed of random tests: WT_SEED, or a fixed one. */
uint64_t wt_seed(void);
/* xorshift64*; *state is not 0. */
uint64_t wt_random(uint64_t *state);

/* Scales the load of random and churn tests: WT_SCALE percent of full, at least
 * 1; sanitizers and valgrind run less than 100. */
unsigned wt_scaled(unsigned full);

#endif
