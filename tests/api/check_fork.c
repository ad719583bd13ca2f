/* check_fork.c: what a child made by fork() can and cannot do (row G5).
 *
 * Each test forks a child that reports through its exit code: 0, or the number
 * of its first check that failed. */
#include "wt_one_kind.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* For ThreadSanitizer: the child starts the threads of its own runtime. */
WARM_API const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

/* Runs fn in a child, which exits normally with its result. */
static void in_child(int (*fn)(void))
{
    int status = 0;
    pid_t pid = fork();

    wt_require(pid >= 0, "no child");
    if (pid == 0) {
        exit(fn());
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "the child died of signal %d",
                  WTERMSIG(status));
    ck_assert_msg(WEXITSTATUS(status) == 0, "check %d of the child failed",
                  WEXITSTATUS(status));
}

#define must(condition)                                                        \
    do {                                                                       \
        check++;                                                               \
        if (!(condition)) {                                                    \
            return check;                                                      \
        }                                                                      \
    } while (0)

/* What check_misuse.c does not see of the calls that it makes in a child. */
static int use_parents_runtime(void)
{
    warm_destroy_report report = {.size = sizeof report, .handles = 7};
    int check = 0;

    must(warm_kind_name(runtime, 0) == NULL);
    must(warm_runtime_destroy(runtime, &report) == WARM_FORKED);
    must(report.handles == 7);
    must(warm_runtime_destroy(runtime, NULL) == WARM_FORKED);
    must(toy.destroys == 0);
    return 0;
}

/* What names no runtime, but is memory of one. */
static void *shared;
static warm_storage *stored;
static warm_data_pointer owned;

static void keep_context(void *context)
{
    (void)context;
}

static int use_parents_storages(void)
{
    warm_storage_info info = WARM_INIT(warm_storage_info);
    warm_data_pointer data = WARM_INIT(warm_data_pointer);
    warm_storage *made = NULL;
    warm_deleter_fn deleter = NULL;
    void *base = NULL;
    size_t bytes = 7;
    int check = 0;

    must(warm_device_base_allocation(shared, &base, &bytes) == WARM_FORKED);
    must(base == NULL && bytes == 7);
    must(warm_storage_get_info(stored, &info) == WARM_FORKED);
    must(info.data == NULL);
    must(warm_last_error_message()[0] != '\0');
    must(warm_storage_data(stored) == NULL);
    must(warm_storage_record(stored, NULL) == WARM_FORKED);
    must(warm_storage_exchange(stored, &data, 0) == WARM_FORKED);
    must(warm_data_pointer_move_context(&owned, &base, &deleter) ==
         WARM_FORKED);
    must(owned.context != NULL && base == NULL && deleter == NULL);
    must(warm_storage_wrap(&owned, 100, NULL, &made) == WARM_FORKED);
    must(made == NULL && owned.context != NULL);
    /* Memory of the program's own is the child's, too. */
    data.data = data.context = &check;
    must(warm_storage_wrap(&data, sizeof check, NULL, &made) == WARM_OK);
    must(warm_storage_data(made) == &check);
    must(warm_storage_get_info(made, &info) == WARM_OK);
    warm_storage_release(made);
    return 0;
}

WT_CASE("fork", .setup = set_up, .teardown = tear_down);

WT_TEST(test_G5_the_parent_goes_on_as_if_nothing_had_been)
{
    const warm_allocator *pinned = NULL;
    void *handle = NULL, *again = NULL;

    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    in_child(use_parents_runtime);
    shared = wt_device(runtime, NULL, 5000);
    wt_ok(warm_allocator_get(runtime, WARM_MEMORY_PINNED, WARM_NO_DEVICE,
                             &pinned));
    wt_ok(warm_storage_create(pinned, 5000, NULL, &stored));
    owned = (warm_data_pointer){.size = sizeof owned,
                                .data = shared,
                                .context = &owned,
                                .deleter = keep_context,
                                .memory = WARM_MEMORY_DEVICE};
    in_child(use_parents_storages);
    ck_assert_ptr_nonnull(warm_storage_data(stored));
    warm_storage_release(stored);
    wt_ok(warm_free(shared));
    wt_ok(warm_handle_reserve(runtime, kind, 0, &again));
    ck_assert_ptr_eq(again, handle);
    ck_assert(wt_balanced(runtime, kind, 0));
}

/* A block of the parent, used by a stream of the parent. */
static char *parents;

static int use_parents_block(void)
{
    warm_options options = {.size = sizeof options, .device = "host"};
    warm_space_stats stats = WARM_INIT(warm_space_stats);
    warm_block_info info = WARM_INIT(warm_block_info);
    warm_runtime *own = NULL;
    void *block = NULL;
    size_t bytes = 7;
    int check = 0;

    must(warm_free(parents) == WARM_FORKED);
    must(warm_free(parents + 1) == WARM_INVALID_POINTER);
    must(warm_record_stream(parents + 1, NULL) == WARM_FORKED);
    must(warm_block_get_info(parents, &info) == WARM_FORKED);
    must(warm_copy_async(runtime, parents, parents, 1, WARM_COPY_TO_DEVICE,
                         NULL) == WARM_FORKED);
    must(warm_poll(runtime) == WARM_FORKED);
    must(warm_pinned_trim(runtime, 0, &bytes) == WARM_FORKED && bytes == 7);
    must(warm_pinned_trim(runtime, 0, &bytes) == WARM_FORKED && bytes == 7);
    must(warm_pinned_get_stats(runtime, &stats) == WARM_FORKED);
    /* Its own memory lies beside the parent's in one page map. */
    must(warm_runtime_create(&options, &own) == WARM_OK);
    must(warm_pinned_alloc(own, 100000, &block) == WARM_OK);
    must(warm_free(parents) == WARM_FORKED);
    must(warm_record_stream(block, NULL) == WARM_OK);
    must(warm_free(block) == WARM_OK);
    must(warm_runtime_destroy(own, NULL) == WARM_OK);
    return 0;
}

WT_TEST(test_G5_parents_blocks_stay_with_the_parent)
{
    warm_space_stats stats;
    void *block = wt_pinned(runtime, 100000);
    warm_stream stream = wt_stream(runtime, 0);

    wt_ok(warm_record_stream(block, stream));
    parents = block;
    in_child(use_parents_block);
    wt_ok(warm_free(block));
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_poll(runtime));
    stats = wt_pinned_stats(runtime);
    ck_assert_uint_eq(stats.pending.current, 0);
    ck_assert_uint_eq(stats.live.freed, 1);
}

static int make_own_runtime(void)
{
    warm_options options = {.size = sizeof options, .device = "host"};
    warm_runtime *own = NULL;
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    warm_stream stream = NULL;
    void *handle = NULL, *block = NULL;
    wt_toy mine;
    warm_kind k;
    int check = 0;

    wt_toy_init(&mine);
    must(warm_runtime_create(&options, &own) == WARM_OK);
    k = wt_toy_register(&mine, own, "toy");
    must(k >= 0);
    must(warm_stream_reserve(own, 0, &stream) == WARM_OK);
    must(warm_handle_reserve_on(own, k, 0, stream, &handle) == WARM_OK);
    must(warm_pinned_alloc(own, 10000, &block) == WARM_OK);
    must(warm_record_stream(block, stream) == WARM_OK);
    must(warm_free(block) == WARM_OK);
    must(warm_stream_synchronize(own, stream) == WARM_OK);
    must(warm_handle_reserve(runtime, kind, 0, &handle) == WARM_FORKED);
    must(warm_runtime_destroy(own, &report) == WARM_OK);
    must(report.handles == 0 && report.live == 0);
    must(mine.alive == 0);
    return 0;
}

WT_LOOP_TEST(test_G5_the_child_can_make_its_own_runtime, 2)
{
    void *handle = NULL;
    warm_stream stream = NULL;

    if (_i == 1) { /* with a window and a driver's threads in the parent */
        wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
        wt_ok(warm_stream_reserve(runtime, 0, &stream));
    }
    in_child(make_own_runtime);
}

/* A cancelled thread forks: the child must not end in the library's handler,
 * which closes files of the parent. */
static void *fork_cancelled(void *argument)
{
    int old;
    pid_t pid;

    pthread_cancel(pthread_self());
    pid = fork();
    if (pid == 0) {
        _exit(7);
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    waitpid(pid, argument, 0);
    return NULL;
}

WT_TEST(test_G5_T3_a_fork_is_no_cancellation_point)
{
    char folder[WT_FOLDER], path[WT_FOLDER + 8];
    pthread_t thread;
    warm_runtime *r;
    int status = 0;

    wt_folder(folder);
    snprintf(path, sizeof path, "%s/stats", folder);
    r = wt_runtime_with(.stats_at_exit = path);
    pthread_create(&thread, NULL, fork_cancelled, &status);
    pthread_join(thread, NULL);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 7);
    wt_runtime_end(r);
    wt_folder_end(folder);
}

static void *reserve_in_child(void *argument)
{
    void *handle = NULL;

    *(warm_status *)argument = warm_handle_reserve(runtime, kind, 0, &handle);
    return NULL;
}

static int leave_by_pthread_exit(void)
{
    warm_status status = WARM_OK;
    pthread_t thread;
    int check = 0;

    must(pthread_create(&thread, NULL, reserve_in_child, &status) == 0);
    must(pthread_join(thread, NULL) == 0);
    must(status == WARM_FORKED);
    pthread_exit(NULL); /* runs the key destructors of the thread that forked */
}

WT_LOOP_TEST(test_G5_A5_the_childs_thread_exits_without_the_parents_pool,
             !WT_TSAN)
{
    void *handle = NULL;

    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    in_child(leave_by_pthread_exit);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 1);
}

static void refuse_leaks(void *context, warm_log_level level, const char *line)
{
    if (strstr(line, "left to the system") != NULL) {
        _exit(100);
    }
}

static int exit_beside_parents_handles(void)
{
    warm_log_set(refuse_leaks, NULL); /* at level info, by own runtime */
    return make_own_runtime();
}

/* The parent's locks may be held for ever: its pools are not looked at. */
WT_TEST(test_G5_A6_the_childs_exit_leaves_the_parents_handles_alone)
{
    void *handle = NULL;

    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    setenv("WARMPOOL_CONF", "log:info", 1);
    in_child(exit_beside_parents_handles);
}

static warm_runtime *standard;

static int use_default(void)
{
    warm_runtime *own = NULL;
    warm_stream stream = NULL;
    int check = 0;

    must(warm_stream_reserve(standard, 0, &stream) == WARM_FORKED);
    must(warm_runtime_default(&own) == WARM_OK);
    must(own != standard);
    must(warm_stream_reserve(own, 0, &stream) == WARM_OK);
    return 0; /* exits with a live runtime and a held handle */
}

WT_TEST(test_G5_G2_the_child_gets_a_default_runtime_of_its_own)
{
    setenv("WARMPOOL_CONF", "device:host", 1);
    wt_ok(warm_runtime_default(&standard));
    in_child(use_default);
    wt_runtime_end(standard);
}

/* Forks while other threads create, give back and read: the child must not
 * meet a lock that one of them held. */
static atomic_bool stop;

static void *churn_once(void *argument)
{
    void *handle = NULL;

    if (warm_handle_reserve(runtime, kind, 0, &handle) == WARM_OK) {
        wt_toy_use(handle);
        wt_toy_leave(handle);
    }
    return argument;
}

static void *churn(void *argument)
{
    pthread_t thread;

    while (!stop) {
        if (pthread_create(&thread, NULL, churn_once, NULL) == 0) {
            pthread_join(thread, NULL);
        }
    }
    return argument;
}

/* ThreadSanitizer's allocator has locks that it does not take around fork():
 * there the child allocates nothing, and leaves without exit handlers. */
static int quick_look(void)
{
    int check = 0;
    void *handle = NULL;
    bool forked = warm_handle_reserve(runtime, kind, 0, &handle) == WARM_FORKED;

    if (WT_TSAN) {
        _exit(forked ? 0 : 1);
    }
    must(forked);
    return make_own_runtime();
}

WT_LOOP_TEST(test_G5_fork_in_the_middle_of_other_threads_work, !WT_ASAN)
{
    pthread_t threads[2];

    stop = false;
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, churn, NULL);
    }
    for (unsigned i = 0; i < wt_scaled(50); i++) {
        in_child(quick_look);
    }
    stop = true;
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_int_eq(toy.shared, 0);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 0);
}
