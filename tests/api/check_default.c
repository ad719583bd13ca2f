/* check_default.c: the default runtime while another thread makes it (rows G2,
 * G5). The log callback stops its maker in the middle. */
#include "wt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    pthread_barrier_t stopped, go_on;
    atomic_uint made;
    atomic_int tid; /* of the thread that comes second */
    warm_runtime *seen[2];
} at;

static void stop_the_first(void *context, warm_log_level level,
                           const char *line)
{
    if (level == WARM_LOG_INFO && strstr(line, "runtime made") != NULL &&
        atomic_fetch_add(&at.made, 1) == 0) {
        pthread_barrier_wait(&at.stopped);
        pthread_barrier_wait(&at.go_on);
    }
}

static void *first(void *argument)
{
    (void)warm_runtime_default(&at.seen[0]);
    return argument;
}

static void *second(void *argument)
{
    atomic_store(&at.tid, (int)syscall(SYS_gettid));
    (void)warm_runtime_default(&at.seen[1]);
    atomic_store(&at.tid, -1);
    return argument;
}

/* Until the second thread sleeps, or is through. */
static void await_second(void)
{
    char path[64], text[256] = "";
    int tid;

    while ((tid = atomic_load(&at.tid)) != -1) {
        FILE *file;
        const char *state;

        snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
        file = tid > 0 ? fopen(path, "r") : NULL;
        if (file != NULL) {
            state = fgets(text, sizeof text, file) != NULL ? strrchr(text, ')')
                                                           : NULL;
            fclose(file);
            if (state != NULL && state[2] == 'S') {
                return;
            }
        }
    }
}

static void set_up(void)
{
    memset(&at, 0, sizeof at);
    pthread_barrier_init(&at.stopped, NULL, 2);
    pthread_barrier_init(&at.go_on, NULL, 2);
    setenv("WARMPOOL_CONF",
           wt_on_host() ? "device:host,log:info" : "device:cuda,log:info", 1);
    warm_log_set(stop_the_first, NULL);
}

static void tear_down(void)
{
    warm_log_set(NULL, NULL);
    pthread_barrier_destroy(&at.stopped);
    pthread_barrier_destroy(&at.go_on);
}

WT_CASE("making", .setup = set_up, .teardown = tear_down);

WT_TEST(test_G2_a_default_runtime_in_the_making_is_waited_for)
{
    pthread_t threads[2];

    ck_assert_int_eq(pthread_create(&threads[0], NULL, first, NULL), 0);
    pthread_barrier_wait(&at.stopped);
    ck_assert_int_eq(pthread_create(&threads[1], NULL, second, NULL), 0);
    await_second();
    pthread_barrier_wait(&at.go_on);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    ck_assert_uint_eq(at.made, 1);
    ck_assert_ptr_nonnull(at.seen[0]);
    ck_assert_ptr_eq(at.seen[0], at.seen[1]);
    wt_runtime_end(at.seen[0]);
}

WT_TEST(test_G5_a_child_does_not_wait_for_its_parents_maker)
{
    pthread_t thread;
    int status = -1;
    pid_t pid;

    ck_assert_int_eq(pthread_create(&thread, NULL, first, NULL), 0);
    pthread_barrier_wait(&at.stopped);
    pid = fork();
    wt_require(pid >= 0, "no child");
    if (pid == 0) {
        warm_runtime *runtime = NULL;
        void *block = NULL;

        setenv("WARMPOOL_CONF", "device:host", 1);
        _exit(warm_runtime_default(&runtime) == WARM_OK &&
                      warm_pinned_alloc(runtime, 100, &block) == WARM_OK
                  ? 0
                  : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    pthread_barrier_wait(&at.go_on);
    pthread_join(thread, NULL);
    wt_runtime_end(at.seen[0]);
}

/* For ThreadSanitizer: the child starts the threads of its own runtime. */
WARM_API const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
