/* check_exit.c: what happens when the process ends (row A6).
 *
 * Children exit while handles are held and idle. What they saw goes into
 * memory shared with the test: a handler that is registered before the first
 * runtime runs after the library's own, one registered later before it, and a
 * destroy callback that runs where it should not is a failure. */
#include "wt.h"
#include "wt_kind.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct report {
    wt_toy toy;
    long leaked, idle, in_use, created; /* seen by the late handler */
    warm_status reserve, destroy, pinned;
    warm_status held, held_bound; /* of handles that the thread has */
    warm_status early_pinned, early_lease, early_destroy;
    unsigned leak_lines;
    char leak_line[256];
    atomic_bool handler_ran, destroyed;
    /* What a handler saw that was registered in between, and how often CUDA was
     * called after its own handler (on the stand-in, which counts it). */
    warm_status between_pinned, between_lease, between_create;
    _Atomic uint64_t late_calls;
};

#include "wt_child.h"

static warm_runtime *runtime;
static warm_kind kind;

static void log_line(void *context, warm_log_level level, const char *line)
{
    if (strstr(line, "left to the system") != NULL) {
        report->leak_lines++;
        snprintf(report->leak_line, sizeof report->leak_line, "%s", line);
    }
}

static void late_handler(void)
{
    warm_handle_stats stats = WARM_INIT(warm_handle_stats);
    void *handle = NULL;

    /* Reading memory is allowed to the end; other threads may still run. */
    (void)warm_handle_get_stats(runtime, kind, 0, &stats);
    report->leaked = (long)stats.leaked;
    report->idle = (long)stats.idle;
    report->in_use = (long)(stats.in_use + stats.leased);
    report->created = (long)stats.created;
    report->reserve = warm_handle_reserve(runtime, kind, 1000, &handle);
    report->held = warm_handle_reserve(runtime, kind, 0, &handle);
    report->held_bound =
        warm_handle_reserve_on(runtime, kind, 0, NULL, &handle);
    report->pinned = warm_pinned_alloc(runtime, 1 << 20, &handle);
    report->destroy = warm_runtime_destroy(runtime, NULL);
    report->handler_ran = true;
}

static void reserve_one(void *argument, unsigned index)
{
    pthread_barrier_t *barrier = argument;
    void *handle = NULL;

    (void)warm_handle_reserve(runtime, kind, 0, &handle);
    pthread_barrier_wait(barrier);
}

/* Leaves two handles idle and one held, and gets streams and blocks. */
static void prepare(void)
{
    warm_options options = {.size = sizeof options,
                            .device = wt_on_host() ? "host" : "cuda",
                            .log = "info"};
    pthread_barrier_t barrier;
    warm_stream stream = NULL;
    void *handle = NULL, *block = NULL;

    atexit(late_handler);
    warm_log_set(log_line, NULL);
    if (warm_runtime_create(&options, &runtime) != WARM_OK) {
        _exit(2);
    }
    wt_toy_init(&report->toy);
    kind = wt_toy_register(&report->toy, runtime, "toy");
    pthread_barrier_init(&barrier, NULL, 3);
    wt_threads(3, reserve_one, &barrier);
    if (warm_handle_reserve_on(runtime, kind, 0, NULL, &handle) != WARM_OK ||
        warm_stream_reserve(runtime, 0, &stream) != WARM_OK ||
        warm_pinned_alloc(runtime, 10000, &block) != WARM_OK ||
        warm_record_stream(block, stream) != WARM_OK) {
        _exit(3);
    }
}

static void leave_by_exit(void)
{
    prepare();
    exit(0);
}

/* Registered after the first runtime was made: runs before the library's. */
static void early_handler(void)
{
    warm_lease lease = {0};
    void *block = NULL, *handle = NULL;

    report->early_pinned = warm_pinned_alloc(runtime, 64 << 20, &block);
    if (report->early_pinned == WARM_OK) {
        report->early_pinned = warm_free(block);
    }
    report->early_lease = warm_handle_lease(runtime, kind, 0, &lease, &handle);
    if (report->early_lease == WARM_OK) {
        report->early_lease = warm_handle_return(runtime, lease);
    }
}

static void destroy_early(void)
{
    report->early_destroy = warm_runtime_destroy(runtime, NULL);
}

static void leave_with_an_early_handler(void)
{
    prepare();
    atexit(early_handler);
    exit(0);
}

static void leave_with_an_early_end(void)
{
    prepare();
    atexit(destroy_early);
    atexit(early_handler);
    exit(0);
}

static void *exit_from_here(void *argument)
{
    void *handle = NULL;

    (void)warm_handle_reserve_on(runtime, kind, 0, NULL, &handle);
    exit(0);
    return argument;
}

static void leave_by_exit_in_a_thread(void)
{
    pthread_t thread;

    prepare();
    pthread_create(&thread, NULL, exit_from_here, NULL);
    pthread_join(thread, NULL);
    _exit(4);
}

/* The last of the handlers that a child has. */
static void wait_for_destroy(void)
{
    while (!report->destroyed) {
        sched_yield();
    }
}

static int destroy_and_exit(void *context, int device, void *handle)
{
    static atomic_bool called;

    if (!atomic_exchange(&called, true)) {
        pthread_t thread;

        /* The process begins to end while its runtime is being destroyed. */
        pthread_create(&thread, NULL, exit_from_here, NULL);
        while (!report->handler_ran) {
            sched_yield();
        }
    }
    return wt_toy_destroy(context, device, handle);
}

/* The other thread ends the process while this one destroys the runtime; the
 * late handler keeps it alive until this one is through. */
static void leave_while_destroying(void)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "slow",
                         .context = &report->toy,
                         .create = wt_toy_create,
                         .destroy = destroy_and_exit};
    pthread_barrier_t barrier;

    atexit(wait_for_destroy);
    prepare();
    if (warm_kind_register(runtime, &ops, &kind) != WARM_OK) {
        _exit(2);
    }
    pthread_barrier_init(&barrier, NULL, 3);
    wt_threads(3, reserve_one, &barrier);
    report->destroy = warm_runtime_destroy(runtime, NULL);
    report->destroyed = true;
    pause();
}

static void run(void (*fn)(void))
{
    int status = 0;
    pid_t pid = fork();

    wt_require(pid >= 0, "no child");
    if (pid == 0) {
        fn();
        _exit(5);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "the child died of signal %d",
                  WTERMSIG(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert(report->handler_ran);
}

static void check_nothing_was_called(void)
{
    ck_assert_uint_eq(report->toy.destroys, 0);
    ck_assert_int_eq(report->toy.alive, (int)report->toy.creates);
    ck_assert_int_eq(report->reserve, WARM_EXITING);
    ck_assert_int_eq(report->held, WARM_EXITING);
    ck_assert_int_eq(report->held_bound, WARM_EXITING);
    ck_assert_int_eq(report->pinned, WARM_EXITING);
    ck_assert_int_eq(report->destroy, WARM_EXITING);
    ck_assert_int_eq(report->idle, 0);
    ck_assert_int_eq(report->in_use, 0);
    ck_assert_int_eq(report->leaked, report->created);
    ck_assert_uint_eq(report->leak_lines, 1);
}

WT_CASE("exit", .setup = share_report, .teardown = unshare_report);

WT_TEST(test_A6_exit_with_held_and_idle_handles)
{
    run(leave_by_exit);
    check_nothing_was_called();
    ck_assert_int_eq(report->leaked, 3);
    /* Three toys and the stream of the main thread. */
    wt_contains(report->leak_line, " 4 handles");
}

/* All works in a handler that runs before the library's own, nothing later. */
WT_TEST(test_A6_handlers_registered_later_run_before_the_librarys)
{
    report->early_pinned = report->early_lease = WARM_NOT_FOUND;
    run(leave_with_an_early_handler);
    ck_assert_int_eq(report->early_pinned, WARM_OK);
    ck_assert_int_eq(report->early_lease, WARM_OK);
    check_nothing_was_called();
    ck_assert_int_eq(report->leaked, 3);
}

WT_TEST(test_A6_G2_a_runtime_destroyed_by_a_handler_leaks_nothing)
{
    report->early_destroy = WARM_NOT_FOUND;
    run(leave_with_an_early_end);
    ck_assert_int_eq(report->early_lease, WARM_OK);
    ck_assert_int_eq(report->early_destroy, WARM_OK);
    ck_assert_int_eq(report->destroy, WARM_RUNTIME_GONE);
    ck_assert_uint_eq(report->toy.destroys, 3);
    ck_assert_int_eq(report->toy.alive, 0);
    ck_assert_uint_eq(report->leak_lines, 0);
}

WT_TEST(test_A6_exit_called_by_another_thread)
{
    run(leave_by_exit_in_a_thread);
    check_nothing_was_called();
    ck_assert_int_eq(report->leaked, 3);
}

/* ---- CUDA shuts down in exit handlers of its own ---- */

static void count_late_calls(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    void (*late_to)(_Atomic uint64_t *) = NULL;

    if (cuda != NULL) {
        *(void **)(void *)&late_to = dlsym(cuda, "standin_late_to");
    }
    if (late_to != NULL) {
        late_to(&report->late_calls);
    } else if (!wt_on_host() && !wt_on_gpu()) {
        _exit(6);
    }
}

static void between_handler(void)
{
    warm_lease lease = {0};
    void *block = NULL, *handle = NULL;

    report->between_pinned = warm_pinned_alloc(runtime, 64 << 20, &block);
    report->between_lease =
        warm_handle_lease(runtime, kind, 0, &lease, &handle);
    report->handler_ran = true;
}

static void make_runtime(const char *device, warm_runtime **made)
{
    warm_options options = {.size = sizeof options, .device = device};

    if (warm_runtime_create(&options, made) != WARM_OK) {
        _exit(2);
    }
}

/* CUDA is opened, though after the first runtime, which is of the host device;
 * a device is used; a handle of cuBLAS is made. The handler is registered
 * before the last of these steps that is done. */
static void leave_with_a_handler_between(int last)
{
    warm_runtime *first = NULL;
    warm_lease lease = {0};
    void *handle = NULL, *block = NULL;

    count_late_calls();
    make_runtime("host", &first);
    kind = last == 2 ? WARM_KIND_CUBLAS : WARM_KIND_STREAM;
    for (int step = 0; step <= last; step++) {
        if (step == last) {
            atexit(between_handler);
        }
        if (step == 0) {
            make_runtime("cuda", &runtime);
        } else if (step == 1 &&
                   warm_pinned_alloc(runtime, 10000, &block) != WARM_OK) {
            _exit(3);
        } else if (step == 2 &&
                   (warm_handle_lease(runtime, kind, 0, &lease, &handle) !=
                        WARM_OK ||
                    warm_handle_return(runtime, lease) != WARM_OK)) {
            _exit(4);
        }
    }
    exit(0);
}

static void leave_with_a_handler_before_cuda(void)
{
    leave_with_a_handler_between(0);
}

static void leave_with_a_handler_before_a_context(void)
{
    leave_with_a_handler_between(1);
}

static void leave_with_a_handler_before_cublas(void)
{
    leave_with_a_handler_between(2);
}

WT_LOOP_TEST(test_A6_cuda_is_not_called_after_its_own_exit_handlers,
             !wt_on_host() ? 3 : 0)
{
    static void (*const ways[])(void) = {leave_with_a_handler_before_cuda,
                                         leave_with_a_handler_before_a_context,
                                         leave_with_a_handler_before_cublas};

    run(ways[_i]);
    ck_assert_int_eq(report->between_pinned, WARM_EXITING);
    ck_assert_int_eq(report->between_lease, WARM_EXITING);
    ck_assert_uint_eq(report->late_calls, 0);
}

static void create_handler(void)
{
    warm_options options = {.size = sizeof options,
                            .device = wt_on_host() ? "host" : NULL};
    warm_runtime *late = NULL;
    warm_stream stream = NULL;

    report->between_create = warm_runtime_create(&options, &late);
    if (report->between_create == WARM_OK) {
        report->between_lease = warm_stream_reserve(late, 0, &stream);
    }
    report->handler_ran = true;
}

static void leave_with_a_first_runtime_in_a_handler(void)
{
    count_late_calls();
    atexit(create_handler);
    exit(0);
}

/* The process is not known to end, and all that is made is left in order. */
WT_TEST(test_A6_first_runtime_made_by_an_exit_handler_works)
{
    report->between_create = report->between_lease = WARM_NOT_FOUND;
    run(leave_with_a_first_runtime_in_a_handler);
    ck_assert_int_eq(report->between_create, WARM_OK);
    ck_assert_int_eq(report->between_lease, WARM_OK);
    ck_assert_uint_eq(report->late_calls, 0);
}

/* A program that used CUDA by itself, and makes its first runtime late. */
static void leave_with_a_runtime_after_cuda(void)
{
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12"};
    int count = 0;

    atexit(create_handler);
    for (int i = 0; i < 2 && count == 0; i++) {
        void *cudart = dlopen(names[i], RTLD_NOW);
        int (*device_count)(int *) = NULL;

        if (cudart != NULL) {
            *(void **)(void *)&device_count =
                dlsym(cudart, "cudaGetDeviceCount");
        }
        if (device_count != NULL && device_count(&count) != 0) {
            count = 0; /* the driver does not serve this one */
        }
    }
    if (count == 0) {
        _exit(2);
    }
    exit(0);
}

WT_LOOP_TEST(test_A6_G3_runtime_after_cuda_has_shut_down_is_refused,
             !wt_on_host())
{
    run(leave_with_a_runtime_after_cuda);
    /* No host device in its place: nobody asked for another one. */
    ck_assert_int_eq(report->between_create, WARM_EXITING);
}

/* One handle is on lease, one is made by the runtime's own thread while the
 * process exits, and many more are wanted of it. */
static void leave_while_prewarming(void)
{
    warm_lease lease = {0};
    void *handle = NULL;

    prepare();
    if (warm_handle_lease(runtime, kind, 0, &lease, &handle) != WARM_OK) {
        _exit(3);
    }
    wt_toy_close_gate(&report->toy);
    if (warm_handle_prewarm(runtime, kind, 0, 1000000,
                            WARM_PREWARM_BACKGROUND) != WARM_OK) {
        _exit(4);
    }
    wt_toy_await(&report->toy, 1);
    exit(0);
}

WT_TEST(test_A6_A11_A13_exit_with_leases_and_while_handles_are_made)
{
    run(leave_while_prewarming);
    ck_assert_uint_eq(report->toy.destroys, 0);
    ck_assert_int_eq(report->idle, 0);
    ck_assert_int_eq(report->in_use, 0);
    ck_assert_int_eq(report->leaked, 3); /* the fourth is never finished */
    ck_assert_uint_eq(report->toy.creates, 4);
    ck_assert_int_eq(report->destroy, WARM_EXITING);
}

WT_TEST(test_A6_G2_exit_while_the_runtime_is_destroyed)
{
    run(leave_while_destroying);
    ck_assert_int_eq(report->destroy, WARM_OK);
    ck_assert_uint_eq(report->toy.destroys, 1); /* that was under way */
}
