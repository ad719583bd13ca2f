/* check_surroundings.c: a process that lacks something that others have: memory
 * to lock, addresses, threads, descriptors, /proc, a system call, memory of any
 * sort, a device that works, a driver that is still there (row T2).
 *
 * A child loses it before or after it has a runtime, then does everything once.
 * Whatever is refused is refused with words, all else works, and the runtime
 * ends with nothing in use. A child that hangs is killed by its alarm. */
#include "wt.h"
#include "wt_kind.h"

#include "warmpool/testing.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT = 77, PATIENCE_S = 60, THREADS = 4, NOBODY = 65534 };
#define MIB ((size_t)1 << 20)

/* ---- the job ------------------------------------------------------------- */

#define STEPS(X)                                                               \
    X(create)                                                                  \
    X(stream)                                                                  \
    X(pinned)                                                                  \
    X(device)                                                                  \
    X(shared)                                                                  \
    X(reserve)                                                                 \
    X(lease)                                                                   \
    X(work)                                                                    \
    X(threads)                                                                 \
    X(trim)                                                                    \
    X(figures)                                                                 \
    X(release)                                                                 \
    X(destroy)

enum {
#define STEP_ENUM(name) STEP_##name,
    STEPS(STEP_ENUM) STEP_COUNT,
#undef STEP_ENUM
    ALL = (1 << STEP_COUNT) - 1,
    MEMORY = 1 << STEP_pinned | 1 << STEP_device | 1 << STEP_shared |
             1 << STEP_threads,
    USES = (1 << STEP_trim) - 1, /* what needs the device */
};
static const char *const step_names[] = {
#define STEP_NAME(name) #name,
    STEPS(STEP_NAME)
#undef STEP_NAME
};

struct report {
    warm_status status[STEP_COUNT];
    char message[STEP_COUNT][sizeof((warm_error *)0)->message];
    warm_destroy_report left;
};
#include "wt_child.h"

static warm_runtime *runtime;
static warm_kind kind;
static warm_stream stream;
static wt_toy toy;

static warm_status step_create(void)
{
    warm_options options = {.size = sizeof options,
                            .device = wt_on_host() ? "host" : "cuda",
                            .log = "none"};
    warm_status status = warm_runtime_create(&options, &runtime);

    if (status == WARM_OK) {
        wt_toy_init(&toy);
        kind = wt_toy_register(&toy, runtime, "toy");
    }
    return status;
}

static warm_status step_stream(void)
{
    return warm_stream_create(runtime, 0, &stream);
}

/* Small blocks, and a large one that no segment has room for. */
static warm_status step_pinned(void)
{
    static const size_t bytes[] = {100, 70000, 12 * MIB};
    warm_status status = WARM_OK;
    void *block;

    for (int i = 0; i < 3 && status == WARM_OK; i++) {
        status = warm_pinned_alloc(runtime, bytes[i], &block);
        if (status == WARM_OK) {
            memset(block, 1, bytes[i]);
            status = warm_free(block);
        }
    }
    return status;
}

static warm_status step_device(void)
{
    void *block;
    warm_status status = warm_device_alloc(runtime, 0, stream, 3 * MIB, &block);

    return status == WARM_OK ? warm_free(block) : status;
}

static warm_status step_shared(void)
{
    void *block;
    warm_status status =
        warm_shared_alloc(runtime, 0, MIB, WARM_USAGE_SHARED, &block);

    return status == WARM_OK ? warm_free(block) : status;
}

static warm_status step_reserve(void)
{
    void *handle;

    return warm_handle_reserve(runtime, kind, 0, &handle);
}

static warm_status step_lease(void)
{
    warm_lease lease = {0};
    void *handle;
    warm_status status =
        warm_handle_lease_on(runtime, kind, 0, stream, &lease, &handle);

    return status == WARM_OK ? warm_handle_return(runtime, lease) : status;
}

static void count_up(void *counter)
{
    ++*(atomic_int *)counter;
}

static warm_status step_work(void)
{
    static atomic_int counter; /* of a call that may be late */
    int before = counter;
    warm_status status =
        warm_stream_host_func(runtime, stream, count_up, &counter);

    status =
        status == WARM_OK ? warm_stream_synchronize(runtime, stream) : status;
    return status == WARM_OK && counter != before + 1 ? WARM_DRIVER_ERROR
                                                      : status;
}

static void *run_thread(void *result)
{
    warm_status *status = result;

    *status = step_pinned();
    if (*status == WARM_OK) {
        *status = step_reserve();
    }
    return NULL;
}

static warm_status step_threads(void)
{
    warm_status status[THREADS] = {WARM_OK}, worst = WARM_OK;
    pthread_t thread[THREADS];
    int started = 0;

    while (started < THREADS &&
           pthread_create(&thread[started], NULL, run_thread,
                          &status[started]) == 0) {
        started++;
    }
    while (started-- > 0) {
        pthread_join(thread[started], NULL);
        worst = status[started] != WARM_OK ? status[started] : worst;
    }
    return worst;
}

static warm_status step_trim(void)
{
    return warm_pinned_trim(runtime, 0, NULL);
}

static warm_status step_figures(void)
{
    static char text[1 << 18];

    return warm_stats_json(runtime, text, sizeof text, NULL);
}

static warm_status step_release(void)
{
    if (stream != NULL) {
        (void)warm_stream_destroy(runtime, stream);
    }
    return warm_thread_release(runtime);
}

static warm_status step_destroy(void)
{
    report->left.size = sizeof report->left;
    return warm_runtime_destroy(runtime, &report->left);
}

static warm_status (*const steps[])(void) = {
#define STEP_CALL(name) step_##name,
    STEPS(STEP_CALL)
#undef STEP_CALL
};

static void take(int i)
{
    warm_error error = WARM_INIT(warm_error);

    report->status[i] = steps[i]();
    warm_last_error(&error);
    memcpy(report->message[i], error.message, sizeof error.message);
}

/* ---- what is lacking ----------------------------------------------------- */

static bool limit(int which, rlim_t most)
{
    const struct rlimit wanted = {most, most};

    return setrlimit((__rlimit_resource_t)which, &wanted) == 0;
}

/* As a user that may not exceed limits. */
static bool lacks_rights(void)
{
    return geteuid() != 0 || (setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
}

static bool no_locked_memory(void)
{
    return limit(RLIMIT_MEMLOCK, 0) && lacks_rights();
}

static bool no_addresses(void)
{
    return limit(RLIMIT_AS, 0); /* what is mapped stays */
}

static bool no_threads(void)
{
    return lacks_rights() && limit(RLIMIT_NPROC, 0);
}

static bool no_descriptors(void)
{
    return limit(RLIMIT_NOFILE, 0);
}

static bool no_proc(void)
{
    return unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", "/proc", "tmpfs", 0, NULL) == 0;
}

static bool no_sys(void)
{
    return no_proc() && mount("none", "/sys", "tmpfs", 0, NULL) == 0;
}

static bool deny(unsigned number)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {4, filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Containers deny some of these unless they are told to allow them. */
static bool no_rare_calls(void)
{
    static const unsigned numbers[] = {
        SYS_membarrier,       SYS_mbind,        SYS_get_mempolicy,
        SYS_set_mempolicy,    SYS_move_pages,   SYS_madvise,
        SYS_mincore,          SYS_memfd_create, SYS_getrandom,
        SYS_sched_getaffinity};
    size_t count = sizeof numbers / sizeof numbers[0];
    bool denied = true;

    count -= WT_ASAN || WT_TSAN; /* they need the last one themselves */
    for (size_t i = 0; i < count; i++) {
        denied = denied && deny(numbers[i]);
    }
    return denied;
}

static bool no_mlock(void)
{
    return deny(SYS_mlock);
}

/* Every sort of memory at once. */
static bool no_memory(void)
{
    static const char *const calls[] = {"pinned_alloc", "pinned_register",
                                        "device_alloc"};
    bool found = true;

    warm_testing_fail_metadata(1, 1);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        found = found && warm_testing_fail(runtime, calls[i], 1, 1) == WARM_OK;
    }
    return found;
}

static bool fail_all_of_cuda(int code, bool stick)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void (*end)(int), (*refuse)(const char *, uint64_t, int, int);
    const char *(*function)(unsigned), *name;

    if (library == NULL || wt_on_gpu()) {
        return false;
    }
    *(void **)&end = dlsym(library, "standin_stick");
    *(void **)&refuse = dlsym(library, "standin_fail");
    *(void **)&function = dlsym(library, "standin_function");
    if (stick) {
        end(code);
    }
    for (unsigned i = 0; !stick && (name = function(i)) != NULL; i++) {
        refuse(name, 1, 1, code);
    }
    return true;
}

static bool no_device(void)
{
    return fail_all_of_cuda(700, true); /* an illegal address */
}

static bool no_driver(void)
{
    return fail_all_of_cuda(4, false); /* it unloads */
}

/* may: steps that may be refused; the others work: both devices do without
 * locked pages. must: steps that are refused if the lack comes last. */
static const struct lack {
    const char *name;
    bool (*lose)(void);
    int may, must;
    bool first;       /* may lack before there is a runtime */
    const char *word; /* in the message that refuses page-locked memory */
} lacks[] = {
    {"locked memory", no_locked_memory, 0, 0, true, NULL},
    {"addresses", no_addresses, ALL, 1 << STEP_pinned, true, "RLIMIT_AS"},
    {"threads", no_threads, 1 << STEP_work, 0, true, NULL},
    {"descriptors", no_descriptors, 1 << STEP_create, 0, true, NULL},
    {"/proc", no_proc, 0, 0, true, NULL},
    {"/proc and /sys", no_sys, 0, 0, true, NULL},
    {"rare system calls", no_rare_calls, 0, 0, true, NULL},
    {"mlock()", no_mlock, 0, 0, true, NULL},
    {"memory of any sort", no_memory, MEMORY, 1 << STEP_pinned, false, NULL},
    {"a device", no_device, USES, 1 << STEP_work, false, NULL},
    {"a driver", no_driver, ALL, 1 << STEP_destroy, false, NULL},
};
enum { LACKS = sizeof lacks / sizeof lacks[0] };

/* ---- the child ----------------------------------------------------------- */

static void be_child(const struct lack *lack, bool first)
{
    alarm(PATIENCE_S);
    if (first && !lack->lose()) {
        _exit(CANNOT);
    }
    take(STEP_create);
    for (int i = STEP_create + 1; i < STEP_COUNT && runtime != NULL; i++) {
        /* Once everything is warm, and again. */
        if (i == STEP_release && !first) {
            if (!lack->lose()) {
                _exit(CANNOT);
            }
            for (int j = STEP_stream + 1; j < STEP_release; j++) {
                take(j);
            }
        }
        take(i);
    }
    _exit(0);
}

WT_CASE("surroundings", .setup = share_report, .teardown = unshare_report,
        .timeout = 90);

WT_LOOP_TEST(test_T2_what_lacks_is_refused_with_words,
             wt_on_gpu() || wt_in_valgrind() ? 1 : LACKS * 2)
{
    const struct lack *lack = &lacks[_i / 2];
    bool first = _i % 2 == 0;
    int status = 0;
    pid_t pid;

    if (first && !lack->first) {
        return;
    }
    if ((WT_ASAN || WT_TSAN) && lack->lose == no_addresses) {
        wt_skip("a sanitizer needs addresses");
    }
    if (wt_on_gpu() || wt_in_valgrind()) {
        wt_skip("CUDA and memcheck need themselves what is taken away");
    }
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        be_child(lack, first);
    }
    wt_require(waitpid(pid, &status, 0) == pid, "no child");
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT) {
        wt_skip("this cannot be taken away here");
    }
    wt_require(status == 0, "without %s, %s: status %x", lack->name,
               first ? "from the first" : "at last", (unsigned)status);
    for (int i = 0; i < STEP_COUNT; i++) {
        if (report->status[i] == WARM_OK) {
            wt_require(first || (lack->must >> i & 1) == 0, "%s without %s",
                       step_names[i], lack->name);
            continue;
        }
        wt_require((lack->may >> i & 1) != 0 &&
                       (i == STEP_threads || report->message[i][0] != '\0') &&
                       report->status[i] != WARM_INVALID_ARGUMENT &&
                       report->status[i] != WARM_INTERNAL,
                   "without %s, %s: %s: %s: %s", lack->name,
                   first ? "from the first" : "at last", step_names[i],
                   warm_status_name(report->status[i]), report->message[i]);
        if (lack->word != NULL && i == STEP_pinned) {
            wt_contains(report->message[i], lack->word);
        }
    }
    ck_assert_uint_eq(report->left.live + report->left.pending +
                          report->left.handles + report->left.imports +
                          report->left.pools,
                      0);
}
