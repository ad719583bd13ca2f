/* check_end.c: each way for a process to end, in each state that it can be in
 * (rows A4, A6, T3).
 *
 * A child enters the state and ends. Its output goes to a file, in which a
 * sanitizer's report would be seen; what its exit handler saw goes into shared
 * memory. One that hangs is killed by its alarm. Under libwarmpool-preload.so
 * (test_preload.sh) the state is that the program's calls of CUDA are served.
 */
#include "wt.h"
#include "wt_kind.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CODE = 3, THREADS = 3, PATIENCE_S = 100 };

struct report {
    wt_toy toy;
    /* Of calls in the handler that runs last. */
    warm_status late, held, destroyed;
    bool all_leaked; /* and so counted */
    atomic_bool handler_ran;
};
#include "wt_child.h"

static jmp_buf to_main;
static warm_runtime *runtime;
static warm_kind kind;
static warm_stream stream;
static atomic_bool over;
static atomic_int running; /* threads of the state */
static pthread_barrier_t begun;

/* ---- states -------------------------------------------------------------- */

static void require(bool condition)
{
    if (!condition) {
        fprintf(stderr, "%s\n", warm_last_error_message());
        _exit(100);
    }
}

static void use_once(void)
{
    warm_lease lease = {0};
    void *block = NULL, *handle = NULL;

    if (warm_pinned_alloc(runtime, 5000, &block) == WARM_OK) {
        (void)warm_free(block);
    }
    if (warm_device_alloc(runtime, 0, NULL, 70000, &block) == WARM_OK) {
        (void)warm_free(block);
    }
    if (warm_handle_lease(runtime, kind, 0, &lease, &handle) == WARM_OK) {
        (void)warm_handle_return(runtime, lease);
    }
    (void)warm_handle_reserve(runtime, kind, 0, &handle);
}

static void read_once(void)
{
    static _Thread_local char text[1 << 15];

    (void)warm_stats_json(runtime, text, sizeof text, NULL);
    (void)warm_pinned_trim(runtime, 0, NULL);
}

/* As a server that shows a page of them. */
static void show_once(void)
{
    static _Thread_local char text[1 << 15];

    (void)warm_snapshot_viz(runtime, text, sizeof text, NULL);
    (void)warm_stats_prometheus(runtime, text, sizeof text, NULL);
}

/* Functions of CUDA that are served; null without libwarmpool-preload.so. */
static int (*cuda_pin)(void **pointer, size_t bytes, unsigned flags);
static int (*cuda_unpin)(void *pointer);

static void find_served(void)
{
    if (wt_preloaded("libwarmpool-preload")) {
        *(void **)(void *)&cuda_pin = dlsym(RTLD_DEFAULT, "cudaHostAlloc");
        *(void **)(void *)&cuda_unpin = dlsym(RTLD_DEFAULT, "cudaFreeHost");
    }
}

static void be_served_once(void)
{
    void *block = NULL;

    if (cuda_pin(&block, 5000, 0) == 0) {
        (void)cuda_unpin(block);
    }
}

static void *run_thread(void *once)
{
    void (*fn)(void);

    memcpy(&fn, &once, sizeof fn);
    fn();
    pthread_barrier_wait(&begun);
    while (!over) {
        fn();
    }
    running--;
    return NULL;
}

static void start_threads(void (*once)(void))
{
    void *argument;
    pthread_t thread;

    memcpy(&argument, &once, sizeof argument);
    running = THREADS;
    pthread_barrier_init(&begun, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        require(pthread_create(&thread, NULL, run_thread, argument) == 0);
        pthread_detach(thread);
    }
    pthread_barrier_wait(&begun);
}

static void idle(void)
{
}

static void allocating(void)
{
    start_threads(use_once);
}

static void reading(void)
{
    use_once();
    start_threads(read_once);
}

static void showing(void)
{
    use_once();
    start_threads(show_once);
}

static void served(void)
{
    find_served();
    require(cuda_pin != NULL && cuda_unpin != NULL);
    start_threads(be_served_once);
}

static void holding(void)
{
    warm_lease lease = {0};
    void *block = NULL, *handle = NULL;

    require(warm_handle_reserve_on(runtime, kind, 0, stream, &handle) ==
            WARM_OK);
    require(warm_handle_lease(runtime, kind, 0, &lease, &handle) == WARM_OK);
    require(warm_pinned_alloc(runtime, 5000, &block) == WARM_OK);
    require(warm_device_alloc(runtime, 0, stream, 5000, &block) == WARM_OK);
}

static void wait_for_over(void *argument)
{
    while (!over) {
        sched_yield();
    }
}

static void in_flight(void)
{
    void *block = NULL;

    require(warm_stream_host_func(runtime, stream, wait_for_over, NULL) ==
            WARM_OK);
    require(warm_pinned_alloc(runtime, 5000, &block) == WARM_OK);
    require(warm_record_stream(block, stream) == WARM_OK);
    require(warm_free(block) == WARM_OK);
}

static void capturing(void)
{
    warm_private_pool pool = {0};
    void *block = NULL;

    require(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL) == WARM_OK);
    require(warm_capture_begin(runtime, stream) == WARM_OK);
    require(warm_device_alloc(runtime, 0, stream, 5000, &block) == WARM_OK);
}

/* Under libwarmpool-preload.so the last one, under memcheck the first. */
static void (*const states[])(void) = {holding, idle,      allocating, reading,
                                       showing, in_flight, capturing,  served};
enum { STATES = sizeof states / sizeof states[0] - 1 };

static int states_here(void)
{
    return wt_in_valgrind() || wt_preloaded("libwarmpool-preload") ? 1 : STATES;
}

/* ---- ways ---------------------------------------------------------------- */

static void by_return(void)
{
    longjmp(to_main, 1);
}

static void by_exit(void)
{
    exit(CODE);
}

static void by_underscore_exit(void)
{
    _exit(CODE);
}

static void by_quick_exit(void)
{
    quick_exit(CODE);
}

static void by_signal(void)
{
    raise(SIGTERM);
}

static void exit_in_handler(int number)
{
    exit(CODE); /* NOLINT(bugprone-signal-handler,cert-sig30-c): programs do */
}

static void by_a_handler(void)
{
    signal(SIGTERM, exit_in_handler);
    raise(SIGTERM);
}

static sigjmp_buf out_of_handler;

static void jump(int number)
{
    siglongjmp(out_of_handler, 1);
}

static void after_a_jump(void)
{
    signal(SIGTERM, jump);
    if (sigsetjmp(out_of_handler, 1) == 0) {
        raise(SIGTERM);
    }
    use_once();
    exit(CODE);
}

static void *exit_here(void *argument)
{
    use_once();
    exit(CODE);
    return argument;
}

static void start_exit(void)
{
    pthread_t thread;

    require(pthread_create(&thread, NULL, exit_here, NULL) == 0);
}

static void by_a_thread(void)
{
    start_exit();
    pause();
}

static void by_pthread_exit(void)
{
    start_exit();
    pthread_exit(NULL);
}

static void exit_in_host_function(void *argument)
{
    exit(CODE);
}

static void by_a_host_function(void)
{
    warm_stream other = NULL;

    require(warm_stream_create(runtime, 0, &other) == WARM_OK);
    require(warm_stream_host_func(runtime, other, exit_in_host_function,
                                  NULL) == WARM_OK);
    pause();
}

/* No other thread is in a call then. */
static void after_destroy(void)
{
    over = true;
    while (running > 0) {
        sched_yield();
    }
    require(warm_runtime_destroy(runtime, NULL) == WARM_OK);
    exit(CODE);
}

static void use_own_runtime(void)
{
    warm_options options = {
        .size = sizeof options, .device = "host", .log = "none"};
    void *block = NULL;

    require(warm_runtime_create(&options, &runtime) == WARM_OK);
    require(warm_pinned_alloc(runtime, 5000, &block) == WARM_OK);
    require(warm_free(block) == WARM_OK);
    kind = WARM_KIND_STREAM;
    use_once();
}

static void run_another_program(void)
{
    execl("/bin/true", "true", NULL);
    _exit(100);
}

/* A child that comes from a thread in the middle of an allocation has a lock
 * of a sanitizer's that is never released, and is left to its alarm then. It is
 * killed in the end, lest memcheck count what other threads had. */
static void after_fork_of(void (*fn)(void))
{
    bool tools = WT_ASAN || WT_TSAN || wt_in_valgrind();
    int status = -1;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    require(pid >= 0);
    if (pid == 0) {
        alarm(PATIENCE_S / 5);
        fn();
        raise(SIGKILL);
    }
    require(waitpid(pid, &status, 0) == pid &&
            (status == 0 || WTERMSIG(status) == SIGKILL ||
             (tools && running > 0 && WTERMSIG(status) == SIGALRM)));
    use_once();
    exit(CODE);
}

static void after_a_child(void)
{
    after_fork_of(use_own_runtime);
}

static void after_a_program(void)
{
    after_fork_of(run_another_program);
}

static const struct way {
    void (*leave)(void);
    int signal;            /* that the process dies of; 0: it ends with CODE */
    bool handlers, output; /* exit handlers run; output is written */
} ways[] = {{by_return, 0, true, true},
            {by_exit, 0, true, true},
            {by_underscore_exit, 0, false, false},
            {by_quick_exit, 0, true, false},
            {abort, SIGABRT, false, false},
            {by_signal, SIGTERM, false, false},
            {by_a_handler, 0, true, true},
            {after_a_jump, 0, true, true},
            {by_a_thread, 0, true, true},
            {by_pthread_exit, 0, true, true},
            {by_a_host_function, 0, true, true},
            {after_destroy, 0, true, true},
            {after_a_child, 0, true, true},
            {after_a_program, 0, true, true}};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* ---- the child ----------------------------------------------------------- */

static void late_handler(void)
{
    warm_handle_stats stats = WARM_INIT(warm_handle_stats);
    void *block = NULL, *handle = NULL;

    (void)warm_handle_get_stats(runtime, kind, 0, &stats);
    report->all_leaked = stats.idle + stats.in_use + stats.leased == 0 &&
                         stats.leaked == stats.created;
    report->held = warm_handle_reserve(runtime, kind, 0, &handle);
    report->late = warm_pinned_alloc(runtime, 1 << 20, &block);
    report->destroyed = warm_runtime_destroy(runtime, NULL);
    report->handler_ran = true;
}

static void be_child(int file, void (*state)(void), void (*leave)(void))
{
    const struct rlimit no_core = {0, 0};
    warm_options options = {.size = sizeof options,
                            .device = wt_on_host() ? "host" : "cuda",
                            .log = "none"};

    alarm(PATIENCE_S);
    signal(SIGTERM, SIG_DFL); /* the test framework has a handler */
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    setvbuf(stdout, NULL, _IOFBF, BUFSIZ);
    atexit(late_handler);
    (void)at_quick_exit(late_handler);
    require(warm_runtime_create(&options, &runtime) == WARM_OK);
    wt_toy_init(&report->toy);
    kind = wt_toy_register(&report->toy, runtime, "toy");
    require(warm_stream_create(runtime, 0, &stream) == WARM_OK);
    state();
    printf("out");
    leave();
    _exit(101);
}

/* Returns the status of the child that enters the state and leaves. */
static int run(void (*state)(void), void (*leave)(void), char *text,
               size_t bytes)
{
    int file = memfd_create("output", 0), status = 0;
    ssize_t got;
    pid_t pid;

    memset(report, 0, sizeof *report);
    fflush(stdout);
    pid = fork();
    wt_require(pid >= 0 && file >= 0, "no child");
    if (pid == 0) {
        be_child(file, state, leave);
    }
    wt_require(waitpid(pid, &status, 0) == pid, "no child");
    got = pread(file, text, bytes - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    close(file);
    return status;
}

WT_CASE("end", .setup = share_report, .teardown = unshare_report);

WT_LOOP_TEST(test_A4_A6_T3_a_process_ends_in_each_way_in_each_state,
             wt_on_gpu() ? 1 : WAYS *states_here())
{
    const struct way *way = &ways[_i / states_here()];
    void (*state)(void) = wt_preloaded("libwarmpool-preload")
                              ? served
                              : states[_i % states_here()];
    char text[8192];
    int status;

    if (wt_on_gpu()) {
        wt_skip("CUDA may wait for the device's work at exit");
    }
    if (WT_TSAN && way->leave == by_a_handler) {
        wt_skip("to ThreadSanitizer any allocation in a signal's handler is an "
                "error");
    }
    if ((WT_TSAN || wt_in_valgrind()) && way->leave == by_pthread_exit) {
        wt_skip("ThreadSanitizer does not end a first thread that leaves, and "
                "memcheck counts what it had");
    }
    if (!wt_on_host() && state == in_flight &&
        way->leave == by_a_host_function) {
        wt_skip("CUDA runs host functions one after another");
    }
    status = run(state, way->leave, text, sizeof text);
    wt_require(WIFEXITED(status) == (way->signal == 0) &&
                   (WIFEXITED(status) ? WEXITSTATUS(status) == CODE
                                      : WTERMSIG(status) == way->signal),
               "way %d, state %d: status %x: %s", _i / states_here(),
               _i % states_here(), (unsigned)status, text);
    /* An emulator adds a line of its own about a signal. */
    if (way->output ||
        !(WT_TSAN || wt_in_valgrind() || strncmp(text, "qemu: ", 6) == 0)) {
        ck_assert_str_eq(text, way->output ? "out" : "");
    }
    ck_assert_int_eq(report->handler_ran, way->handlers);
    if (way->leave == after_destroy) {
        ck_assert_int_eq(report->late, WARM_RUNTIME_GONE);
    } else if (way->handlers) {
        ck_assert_int_eq(report->late, WARM_EXITING);
        ck_assert_int_eq(report->held, WARM_EXITING);
        ck_assert_int_eq(report->destroyed, WARM_EXITING);
        ck_assert_uint_eq(report->toy.destroys, 0);
        ck_assert(report->all_leaked);
    }
}

int main(void)
{
    if (setjmp(to_main) != 0) {
        return CODE;
    }
    return wt_run();
}
