/* check_hot_path.c: hot operations stay cheap (row A7 and its table): the
 * number of locks, driver calls, records and system calls of each is counted
 * and compared with a bound.
 *
 * Counts, not times: they are the same on every machine and in every run, also
 * because an event of the bench driver completes four records later on its
 * stream, whatever the time. They are taken over a thousand operations after a
 * warm-up, since some operations refill a cache that the others use, and a
 * thread's batches are whole only after two periods without growth
 * (alloc/arena/economy.h), each of WM_PERIOD misses or full batches. */
#include "wt.h"
#include "wt_kind.h"

#include "runtime/base/clock.h"
#include "runtime/base/lock.h"
#include "runtime/base/meta.h"
#include "runtime/runtime.h"
#include "tests/bench/bench_driver.h"
#include "tests/bench/event.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { WARM = 65536, OPS = 1024, LIVE = 64 };

static warm_runtime *runtime;
static wt_toy toy;
static warm_kind kind;
static warm_stream stream;  /* pooled: adopted from birth */
static warm_stream foreign; /* the driver's: the library does not know it */
static void *live[LIVE];
static uint64_t random_state;

/* Time stands still: what is done once in a while would be done by chance. */
static uint64_t still(void)
{
    return 1000000000;
}

static void set_up(void)
{
    warm_options options = {.size = sizeof options};
    wm_driver *driver;
    void *handle;

    wm_clock_set(still);
    bench_event_price(0, 0, 4, false);
    driver = bench_driver_open(1);
    ck_assert_ptr_nonnull(driver);
    wt_ok(wm_runtime_create_on(driver, &options, &runtime));
    wt_toy_init(&toy);
    kind = wt_toy_register(&toy, runtime, "toy");
    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    wt_ok(wm_driver_stream_create(driver, 0, &foreign));
    wt_ok(warm_handle_reserve_on(runtime, kind, 0, stream, &handle));
    random_state = 1;
    memset(live, 0, sizeof live);
}

static void tear_down(void)
{
    wt_free_all(live, LIVE);
    wt_ok(warm_runtime_destroy(runtime, NULL)); /* with events still open */
}

/* ---- the paths --------------------------------------------------------- */

static warm_status reserve(void)
{
    void *handle;

    return warm_handle_reserve(runtime, kind, 0, &handle);
}

static warm_status reserve_on(void)
{
    void *handle;

    return warm_handle_reserve_on(runtime, kind, 0, stream, &handle);
}

static warm_status once(size_t bytes)
{
    void *pointer = NULL;
    warm_status status = warm_pinned_alloc(runtime, bytes, &pointer);

    return status == WARM_OK ? warm_free(pointer) : status;
}

static warm_status small(void)
{
    return once(1000);
}

static warm_status medium(void)
{
    return once(64 << 10);
}

static warm_status large(void)
{
    return once(1 << 20);
}

/* On the thread's own node; page-locked, whatever else would do. */
static warm_status of_node(void)
{
    void *pointer = NULL;
    warm_status status = warm_pinned_alloc_on(runtime, 64 << 10, 0,
                                              WARM_ALLOC_PAGEABLE_OK, &pointer);

    return status == WARM_OK ? warm_free(pointer) : status;
}

/* Of a device, in the order of the thread's own stream. */
static warm_status of_device(void)
{
    void *pointer = NULL;
    warm_status status =
        warm_device_alloc(runtime, 0, stream, 64 << 10, &pointer);

    return status == WARM_OK ? warm_free(pointer) : status;
}

static warm_status of_device_mixed(void)
{
    uint64_t random = wt_random(&random_state);
    void **slot = &live[random % LIVE];
    warm_status status = warm_free(*slot);

    *slot = NULL;
    return status == WARM_OK
               ? warm_device_alloc(runtime, 0, stream,
                                   (size_t)4096 << ((random >> 32) % 5), slot)
               : status;
}

/* What is used on the stream makes it go on. */
static warm_status use(void *pointer, warm_stream by)
{
    bench_stream_use(by);
    return warm_record_stream(pointer, by);
}

/* Free one of 64, of 4 KiB to 64 KiB, and allocate another; used: on the
 * thread's own stream. */
static warm_status exchange(bool used)
{
    uint64_t random = wt_random(&random_state);
    void **slot = &live[random % LIVE];
    warm_status status = warm_free(*slot);

    *slot = NULL;
    if (status == WARM_OK) {
        status = warm_pinned_alloc(runtime,
                                   (size_t)4096 << ((random >> 32) % 5), slot);
    }
    return used && status == WARM_OK ? use(*slot, stream) : status;
}

static warm_status mixed(void)
{
    return exchange(false);
}

static warm_status mixed_used(void)
{
    return exchange(true);
}

static warm_status used_by(warm_stream by)
{
    void *pointer = NULL;
    warm_status status = warm_pinned_alloc(runtime, 64 << 10, &pointer);

    if (status == WARM_OK) {
        status = use(pointer, by);
    }
    return status == WARM_OK ? warm_free(pointer) : status;
}

static warm_status used(void)
{
    return used_by(stream);
}

static warm_status used_by_foreign(void)
{
    return used_by(foreign);
}

static warm_status used_again(void)
{
    warm_status status = WARM_OK;

    if (live[0] == NULL) {
        status = warm_pinned_alloc(runtime, 4096, &live[0]);
    }
    return status == WARM_OK ? use(live[0], stream) : status;
}

static warm_status refused_free(void)
{
    return warm_free(&random_state) == WARM_INVALID_POINTER ? WARM_OK
                                                            : WARM_DRIVER_ERROR;
}

static warm_status refused_record(void)
{
    return warm_record_stream(&random_state, stream) == WARM_NOT_FOUND
               ? WARM_OK
               : WARM_DRIVER_ERROR;
}

static warm_status info(void)
{
    warm_block_info what = {.size = sizeof what};

    return warm_block_get_info(&random_state, &what) == WARM_NOT_FOUND
               ? WARM_OK
               : WARM_DRIVER_ERROR;
}

/* What one operation may cost, at most; to be made less whenever it is. By the
 * table of the design it shall be no lock and no call anywhere, but for 1/8
 * record and 1/8 query where a stream was recorded. */
struct cost {
    double locks, records, queries, others, meta;
};

static const struct path {
    const char *name;
    warm_status (*operation)(void);
    struct cost bound;
    bool calls_system; /* it may */
} paths[] = {
    {"reserve a handle held", reserve, {0, 0, 0, 0, 0}, false},
    {"reserve a handle bound", reserve_on, {0, 0, 0, 0, 0}, false},
    {"alloc + free 1000 B", small, {0, 0, 0, 0, 0}, false},
    {"alloc + free 64 KiB", medium, {0, 0, 0, 0, 0}, false},
    {"alloc + free 1 MiB", large, {0, 0, 0, 0, 0}, false},
    {"alloc on a node + free", of_node, {0, 0, 0, 0, 0}, false},
    {"mixed, 64 live", mixed, {0.01, 0, 0, 0, 0.001}, false},
    {"of a device", of_device, {0, 0, 0, 0, 0}, false},
    {"of a device, mixed", of_device_mixed, {0.05, 0, 0, 0, 0.001}, false},
    {"alloc + record + free", used, {1.1, 0.04, 0.07, 0.001, 0}, false},
    {"mixed, recorded", mixed_used, {0.1, 0.02, 0.02, 0.001, 0.001}, false},
    {"record again", used_again, {0, 0, 0, 0, 0}, false},
    {"the same, foreign stream", used_by_foreign, {12, 1, 1.1, 2, 0}, false},
    {"free of another's", refused_free, {0, 0, 0, 0, 0}, false},
    {"record on another's", refused_record, {0, 0, 0, 0, 0}, false},
    {"question about another's", info, {0, 0, 0, 0, 0}, false},
};
enum { PATHS = sizeof paths / sizeof *paths };

/* ---- counting ---------------------------------------------------------- */

static struct cost now(void)
{
    struct cost cost = {.locks = (double)wm_lock_taken(),
                        .meta = (double)wm_meta_calls()};

    for (int i = 0; i < WM_CALLS; i++) {
        double count = (double)wm_counter_read(&runtime->driver->calls[i]);

        if (i == WM_CALL_event_record || i == WM_CALL_event_mark) {
            cost.records += count;
        } else if (i == WM_CALL_event_query || i == WM_CALL_event_passed ||
                   i == WM_CALL_stream_passed) {
            cost.queries += count;
        } else {
            cost.others += count;
        }
    }
    return cost;
}

static void repeat(const struct path *path, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        wt_require(path->operation() == WARM_OK, "%s: %s", path->name,
                   warm_last_error_message());
    }
}

static struct cost cost_of(const struct path *path)
{
    struct cost before, after;

    repeat(path, WARM);
    before = now();
    repeat(path, OPS);
    after = now();
    return (struct cost){(after.locks - before.locks) / OPS,
                         (after.records - before.records) / OPS,
                         (after.queries - before.queries) / OPS,
                         (after.others - before.others) / OPS,
                         (after.meta - before.meta) / OPS};
}

#define WITHIN(field)                                                          \
    wt_require(cost.field <= path->bound.field,                                \
               "%s: %.3f " #field " an operation, more than %.3f", path->name, \
               cost.field, path->bound.field)

WT_CASE("counts", .setup = set_up, .teardown = tear_down);

WT_LOOP_TEST(test_A7_counted_costs_stay_within_their_bounds, PATHS)
{
    const struct path *path = &paths[_i];
    struct cost cost = cost_of(path);

    if (getenv("WT_SHOW") != NULL) {
        printf("%-26s %6.3f locks %6.3f records %6.3f queries %6.3f others "
               "%6.3f of metadata\n",
               path->name, cost.locks, cost.records, cost.queries, cost.others,
               cost.meta);
    }
    WITHIN(locks);
    WITHIN(records);
    WITHIN(queries);
    WITHIN(others);
    WITHIN(meta);
}

/* Log-uniform sizes from 4 KiB to 4 MiB, 64 of them live, as in the bench's
 * mixed: nearly all requests of at most 256 KiB take no lock, although the
 * thread caches a few MiB. */
WT_TEST(test_B25_small_requests_among_large_ones_are_hits)
{
    unsigned hits = 0, all = 0;

    for (unsigned i = 0; i < WARM; i++) {
        uint64_t random = wt_random(&random_state);
        uint64_t sixteenths = (random >> 32) % 160, before;
        size_t bytes = (size_t)4096 << (sixteenths / 16);
        void **slot = &live[random % LIVE];

        bytes += bytes / 16 * (sixteenths % 16);
        wt_ok(warm_free(*slot));
        before = wm_lock_taken();
        wt_ok(warm_pinned_alloc(runtime, bytes, slot));
        if (i >= WARM / 2 && bytes <= (256 << 10)) {
            hits += wm_lock_taken() == before;
            all++;
        }
    }
    wt_require(20 * hits >= 19 * all, "only %u of %u are hits", hits, all);
    ck_assert_uint_lt(wt_pinned_stats(runtime).cached_bytes, 8 << 20);
}

/* The counters count: or all of the above would hold of anything. */
static int never(void *context, warm_stream by)
{
    return 0;
}

WT_TEST(test_E6_hits_ask_no_pool_while_none_records)
{
    const struct path path = {
        "alloc + free 64 KiB", medium, {0, 0, 0, 0, 0}, false};
    warm_private_pool pool = {0};
    struct cost cost;

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, never, NULL));
    cost = cost_of(&path);
    ck_assert(cost.locks >= 1); /* it asks the filter */
    wt_ok(warm_private_pool_end(runtime, pool));
    cost = cost_of(&path);
    ck_assert(cost.locks <= 0);
    ck_assert(cost.others <= 0);
    wt_ok(warm_private_pool_release(runtime, pool));
}

WT_TEST(test_counters_count)
{
    uint64_t locks = wm_lock_taken(), meta = wm_meta_calls();
    struct cost before = now(), after;
    warm_event event;

    wt_ok(warm_thread_release(runtime));
    ck_assert_uint_gt(wm_lock_taken(), locks);
    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    wt_ok(wm_driver_event_create(runtime->driver, 0, &event));
    wt_ok(wm_driver_event_record(runtime->driver, event, stream));
    wt_ok(wm_driver_event_synchronize(runtime->driver, event));
    (void)wm_driver_event_query(runtime->driver, event);
    wt_ok(wm_driver_event_destroy(runtime->driver, event));
    wm_meta_free(wm_meta_alloc(1));
    after = now();
    ck_assert_uint_eq(wm_meta_calls(), meta + 1);
    ck_assert_double_eq(after.records - before.records, 1);
    ck_assert_double_eq(after.queries - before.queries, 1);
    ck_assert_double_ge(after.others - before.others, 3);
}

/* As many locks with a hundred thousand live blocks as with a thousand. */
WT_TEST(test_costs_do_not_grow_with_live_blocks)
{
    enum { FEW = 1000, MANY = 100000 };
    unsigned many = wt_scaled(MANY) > FEW ? wt_scaled(MANY) : 2 * FEW;
    void **block = calloc(many, sizeof *block);
    struct cost few, lots;

    ck_assert_ptr_nonnull(block);
    for (unsigned i = 0; i < FEW; i++) {
        wt_ok(warm_pinned_alloc(runtime, 512, &block[i]));
    }
    few = cost_of(&paths[2]);
    for (unsigned i = FEW; i < many; i++) {
        wt_ok(warm_pinned_alloc(runtime, 512, &block[i]));
    }
    lots = cost_of(&paths[2]);
    ck_assert_double_le(lots.locks, few.locks + 0.01);
    ck_assert_double_le(lots.others, few.others);
    ck_assert_double_le(lots.meta, few.meta);
    wt_free_all(block, many);
    free(block);
}

/* One lock for each kind held and each arena touched, whatever is cached. */
WT_TEST(test_thread_end_does_not_grow_with_what_is_cached)
{
    uint64_t locks[2];

    wt_ok(warm_thread_release(runtime));
    for (int round = 0; round < 2; round++) {
        void *block[32];
        int count = round == 0 ? 1 : 32;

        wt_ok(warm_stream_reserve(runtime, 0, &stream));
        for (int i = 0; i < count; i++) {
            wt_ok(warm_pinned_alloc(runtime, 1000, &block[i]));
        }
        wt_free_all(block, count);
        locks[round] = wm_lock_taken();
        wt_ok(warm_thread_release(runtime));
        locks[round] = wm_lock_taken() - locks[round];
    }
    ck_assert_uint_gt(locks[0], 0);
    ck_assert_uint_eq(locks[0], locks[1]);
}

/* ---- system calls --------------------------------------------------------
 *
 * The kernel can hand every system call of a thread to a signal handler
 * instead (syscall user dispatch, Linux 5.11 on x86-64), while a byte says so.
 * The handler counts, and lets the calls that follow pass. */

#if defined(__x86_64__) && defined(PR_SET_SYSCALL_USER_DISPATCH) &&            \
    !WT_TSAN && !WT_ASAN
enum { ALLOW = 0, BLOCK = 1 };
static volatile char dispatch = ALLOW;
static volatile sig_atomic_t system_calls, first_call;

static void on_system_call(int number, siginfo_t *what, void *context)
{
    ucontext_t *at = context;

    dispatch = ALLOW;
    system_calls++;
    first_call = (sig_atomic_t)what->si_syscall;
    at->uc_mcontext.gregs[REG_RAX] = -ENOSYS; /* it was not made */
}

/* Where the call returns from the handler is allowed: the C library's. */
static bool watch_system_calls(void)
{
    struct sigaction action = {.sa_sigaction = on_system_call,
                               .sa_flags = SA_SIGINFO};

    return sigaction(SIGSYS, &action, NULL) == 0 &&
           prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0,
                 &dispatch) == 0;
}
#else
enum { ALLOW, BLOCK };
static char dispatch;
static int system_calls, first_call;

static bool watch_system_calls(void)
{
    return false;
}
#endif

/* Whose system calls are made by somebody else. */
static bool on_valgrind(void)
{
    const char *libraries = getenv("LD_PRELOAD");

    return libraries != NULL && strstr(libraries, "vgpreload") != NULL;
}

static bool no_watch(void)
{
    if (!on_valgrind() && watch_system_calls()) {
        return false;
    }
    printf("skip: system calls: the kernel, the sanitizer or valgrind does not "
           "let them be watched\n");
    return true;
}

WT_TEST(test_system_calls_are_seen)
{
    if (no_watch()) {
        wt_skip("no system calls can be watched");
    }
    dispatch = BLOCK;
    (void)getppid();
    dispatch = ALLOW;
    ck_assert_int_eq(system_calls, 1);
    ck_assert_int_eq(first_call, SYS_getppid);
}

/* Metadata, of which some paths need a little, is there: brk() would be a call
 * of the C library's, and make it crash where it is not let through. */
static void grow_heap(void)
{
    void *volatile ahead;

    (void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
    ahead = malloc(16 << 20);
    free(ahead);
}

WT_LOOP_TEST(test_A7_hot_paths_make_no_system_call, PATHS)
{
    const struct path *path = &paths[_i];

    if (path->calls_system) {
        return;
    }
    grow_heap();
    repeat(path, WARM);
    if (no_watch()) {
        wt_skip("no system calls can be watched");
    }
    dispatch = BLOCK;
    for (unsigned i = 0; i < OPS; i++) {
        (void)path->operation();
    }
    dispatch = ALLOW;
    ck_assert_msg(system_calls == 0, "%s: %d system calls, the last one %d",
                  path->name, (int)system_calls, (int)first_call);
}
