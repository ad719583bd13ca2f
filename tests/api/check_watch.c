/* check_watch.c: a program that cannot be changed is looked into, by the
 * environment alone (rows G6, G8).
 *
 * A child process is that program: it gets WARMPOOL_CONF, and its standard
 * error goes to a file, which the test reads when the child has ended. */
#include "wt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static char folder[] = "/tmp/warmpool-watch-......";
static char text[1 << 16];

static void set_up(void)
{
    memset(folder + strlen(folder) - 6, 'X', 6);
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void tear_down(void)
{
    DIR *all = opendir(folder);
    struct dirent *entry;
    char path[400];

    while ((entry = readdir(all)) != NULL) {
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            ck_assert_int_eq(unlink(path), 0);
        }
    }
    closedir(all);
    ck_assert_int_eq(rmdir(folder), 0);
}

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* The whole file; "" if it is not there. */
static const char *read_file(const char *name)
{
    FILE *file = fopen(path_of(name), "r");
    size_t used = 0;

    if (file != NULL) {
        used = fread(text, 1, sizeof text - 1, file);
        fclose(file);
    }
    text[used] = '\0';
    return text;
}

static unsigned count(const char *lines, const char *word)
{
    unsigned found = 0;

    while ((lines = strstr(lines, word)) != NULL) {
        found++;
        lines += strlen(word);
    }
    return found;
}

static pid_t child; /* the last one */

/* Runs program in a child with this WARMPOOL_CONF, in which @ is the folder.
 * Returns the child's exit status. */
static int run(const char *conf, int (*program)(void))
{
    char whole[512];
    const char *at = strchr(conf, '@');
    int status = 0;

    snprintf(whole, sizeof whole, "%.*s%s%s",
             (int)(at != NULL ? at - conf : (long)strlen(conf)), conf,
             at != NULL ? folder : "", at != NULL ? at + 1 : "");
    ck_assert_int_eq(setenv("WARMPOOL_CONF", whole, 1), 0);
    child = fork();
    if (child == 0) {
        int error = open(path_of("err"), O_WRONLY | O_CREAT | O_TRUNC, 0600);

        if (error < 0 || dup2(error, STDERR_FILENO) < 0) {
            _exit(77);
        }
        close(error);
        exit(program());
    }
    ck_assert_int_eq(unsetenv("WARMPOOL_CONF"), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "%s", read_file("err"));
    return WEXITSTATUS(status);
}

static warm_status make(warm_runtime **runtime)
{
    warm_options options = {.size = sizeof options,
                            .device = wt_on_host() ? "host" : "cuda"};

    return warm_runtime_create(&options, runtime);
}

static int use(warm_runtime *runtime)
{
    void *small = NULL, *large = NULL;

    for (size_t mib = 1; mib <= 3; mib += 2) { /* 1 MiB is large */
        if (warm_pinned_alloc(runtime, 5000, &small) != WARM_OK ||
            warm_pinned_alloc(runtime, mib * MIB, &large) != WARM_OK ||
            warm_free(small) != WARM_OK || warm_free(large) != WARM_OK) {
            return 3;
        }
    }
    return warm_pinned_trim(runtime, 0, NULL) == WARM_OK ? 0 : 4;
}

static int make_use_destroy(void)
{
    warm_runtime *runtime;

    if (make(&runtime) != WARM_OK) {
        return 2;
    }
    return use(runtime) == 0 && warm_runtime_destroy(runtime, NULL) == WARM_OK
               ? 0
               : 3;
}

static int make_use_exit(void)
{
    warm_runtime *runtime;

    return make(&runtime) == WARM_OK ? use(runtime) : 2;
}

WT_CASE("watch", .setup = set_up, .teardown = tear_down);

/* ---- log, log_file ------------------------------------------------------- */

WT_TEST(test_G8_log_in_the_environment_prints_without_a_callback)
{
    ck_assert_int_eq(run("log:info", make_use_destroy), 0);
    wt_contains(read_file("err"), "warmpool: info: runtime made: driver ");
}

WT_TEST(test_G6_nothing_is_printed_that_the_environment_does_not_ask_for)
{
    ck_assert_int_eq(run("segment:4M", make_use_destroy), 0);
    ck_assert_str_eq(read_file("err"), "");
}

static int make_with_log(void)
{
    warm_options options = {.size = sizeof options,
                            .device = wt_on_host() ? "host" : "cuda",
                            .log = "debug",
                            .log_memory = "alloc"};
    warm_runtime *runtime;

    return warm_runtime_create(&options, &runtime) == WARM_OK ? use(runtime)
                                                              : 2;
}

WT_TEST(test_G6_a_level_that_the_program_sets_prints_nothing)
{
    ck_assert_int_eq(run("", make_with_log), 0);
    ck_assert_str_eq(read_file("err"), "");
}

static void ignore_line(void *context, warm_log_level level, const char *line)
{
}

static int make_with_callback(void)
{
    warm_log_set(ignore_line, NULL);
    return make_use_destroy();
}

WT_TEST(test_G8_the_programs_log_callback_comes_first)
{
    ck_assert_int_eq(run("log:info,log_file:@/log", make_with_callback), 0);
    ck_assert_str_eq(read_file("err"), "");
    ck_assert_str_eq(read_file("log"), "");
}

enum { SECOND = 20 };

static void get_second(char utc[SECOND])
{
    struct timespec now;
    struct tm date;

    clock_gettime(CLOCK_REALTIME, &now);
    ck_assert_uint_eq(strftime(utc, SECOND, "%Y-%m-%dT%H:%M:%S",
                               gmtime_r(&now.tv_sec, &date)),
                      SECOND - 1);
}

/* "2026-01-31T23:59:59.999Z 4711 info: …" */
static void check_line(const char *line, const char *before, const char *after)
{
    char rest[40];

    ck_assert_msg(strncmp(before, line, SECOND - 1) <= 0 &&
                      strncmp(line, after, SECOND - 1) <= 0,
                  "%.40s", line);
    ck_assert_int_eq(line[SECOND - 1], '.');
    ck_assert_uint_eq(strspn(line + SECOND, "0123456789"), 3);
    snprintf(rest, sizeof rest, "Z %ld info: ", (long)child);
    ck_assert_int_eq(strncmp(line + SECOND + 3, rest, strlen(rest)), 0);
}

WT_TEST(test_G8_log_file_is_appended_to_and_has_the_process_in_its_name)
{
    char name[32], before[SECOND], after[SECOND];

    get_second(before);
    ck_assert_int_eq(run("log:info,log_file:@/log", make_use_destroy), 0);
    get_second(after);
    check_line(read_file("log"), before, after);
    ck_assert_int_eq(run("log:info,log_file:@/log", make_use_destroy), 0);
    ck_assert_uint_eq(count(read_file("log"), "info: runtime made"), 2);
    ck_assert_str_eq(read_file("err"), "");
    ck_assert_int_eq(run("log:info,log_file:@/log-%p", make_use_destroy), 0);
    snprintf(name, sizeof name, "log-%ld", (long)child);
    ck_assert_uint_eq(count(read_file(name), "info: runtime made"), 1);
}

static warm_status log_to(const char *name)
{
    warm_options options = {.size = sizeof options,
                            .device = wt_on_host() ? "host" : "cuda",
                            .log = "info",
                            .log_file = path_of(name)};
    warm_runtime *runtime;

    return warm_runtime_create(&options, &runtime);
}

/* The descriptor of a file of the folder, or -1. */
static int descriptor_of(const char *name)
{
    char link[32], path[256];

    for (int fd = 3; fd < 256; fd++) {
        ssize_t length;

        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        length = readlink(link, path, sizeof path - 1);
        if (length > 0) {
            path[length] = '\0';
            if (strcmp(path, path_of(name)) == 0) {
                return fd;
            }
        }
    }
    return -1;
}

/* Then as a program that has closed all its files, and opens one. */
static int make_thrice(void)
{
    int file, own;

    if (log_to("log0") != WARM_OK || log_to("log1") != WARM_OK) {
        return 2;
    }
    file = descriptor_of("log1");
    own = open(path_of("own"), O_WRONLY | O_CREAT, 0600);
    if (file < 0 || descriptor_of("log0") >= 0 || dup2(own, file) != file ||
        close(own) != 0) {
        return 3;
    }
    return log_to("log2") == WARM_OK && descriptor_of("own") == file ? 0 : 4;
}

WT_TEST(test_G8_the_runtime_created_last_says_which_file_it_is)
{
    ck_assert_int_eq(run("", make_thrice), 0);
    ck_assert_uint_eq(count(read_file("log0"), "runtime made"), 1);
    ck_assert_uint_eq(count(read_file("log1"), "runtime made"), 1);
    ck_assert_uint_eq(count(read_file("log2"), "runtime made"), 1);
    ck_assert_str_eq(read_file("own"), "");
}

/* ---- log_memory ---------------------------------------------------------- */

static const struct {
    const char *words;
    unsigned grew, allocated, recycled, freed, returned;
} words[] = {
    {"alloc", 0, 1, 0, 0, 0},
    {"recycle", 0, 0, 3, 0, 0},
    {"alloc+recycle+free", 0, 1, 3, 4, 0},
    {"recycle+large", 0, 0, 2, 0, 0},
    {"profile", 1, 0, 0, 0, 0},
    {"profile+release+large", 1, 0, 0, 0, 1},
};

WT_LOOP_TEST(test_G8_log_memory_says_what_its_words_name,
             sizeof words / sizeof words[0])
{
    char conf[160];
    const char *lines;

    snprintf(conf, sizeof conf, "log_memory:%s,log_file:@/log,segment:8M",
             words[_i].words);
    ck_assert_int_eq(run(conf, make_use_destroy), 0);
    lines = read_file("log");
    ck_assert_msg(count(lines, " grew by ") == words[_i].grew, "%s", lines);
    ck_assert_msg(count(lines, ": allocated ") == words[_i].allocated, "%s",
                  lines);
    ck_assert_msg(count(lines, ": recycled ") == words[_i].recycled, "%s",
                  lines);
    ck_assert_msg(count(lines, ": freed ") == words[_i].freed, "%s", lines);
    ck_assert_msg(count(lines, " returned to ") == words[_i].returned, "%s",
                  lines);
    if (words[_i].grew > 0) {
        wt_contains(lines, "pinned memory grew by 8.0 MiB: 8.0 MiB held (at "
                           "most 8.0 MiB)");
    }
    if (words[_i].freed > 0) {
        wt_contains(lines, "freed 3.0 MiB of pinned memory for 3.0 MiB at 0x");
    }
}

static warm_runtime *nested_runtime;

static void allocate_in_line(void *context, warm_log_level level,
                             const char *line)
{
    unsigned *lines = context;
    void *block = NULL;

    *lines += strstr(line, "allocated") != NULL;
    if (nested_runtime != NULL &&
        warm_pinned_alloc(nested_runtime, 100, &block) == WARM_OK) {
        (void)warm_free(block);
    }
}

/* Else the callback would be called for its own allocations, without end. */
WT_TEST(test_G8_a_callback_that_allocates_gets_no_line_for_that)
{
    unsigned lines = 0;

    nested_runtime = wt_runtime_with(.log_memory = "alloc+recycle+free");
    warm_log_set(allocate_in_line, &lines);
    wt_free(wt_pinned(nested_runtime, MIB));
    warm_log_set(NULL, NULL);
    ck_assert_uint_eq(lines, 1);
    wt_runtime_end(nested_runtime);
    nested_runtime = NULL;
}

/* ---- stats_at_exit ------------------------------------------------------- */

static int (*const ends[])(void) = {make_use_destroy, make_use_exit};

WT_LOOP_TEST(test_G8_stats_are_written_when_the_runtime_ends, 2)
{
    const char *json;

    ck_assert_int_eq(run("stats_at_exit:@/stats-%r", ends[_i]), 0);
    json = read_file("stats-1");
    wt_contains(json, "{\"version\":\"", "\"pinned\":{\"space\":\"pinned\"",
                "\"live\":{\"current\":0,", "\"allocated\":4,");
    ck_assert_str_eq(json + strlen(json) - 2, "}\n");
    /* Again: the old content is replaced. */
    ck_assert_int_eq(run("stats_at_exit:@/stats-%r", ends[_i]), 0);
    ck_assert_uint_eq(count(read_file("stats-1"), "{\"version\""), 1);
    ck_assert_str_eq(read_file("err"), "");
}

/* Whether the process has the file open. */
static bool has_open(const char *name)
{
    char link[32], target[256];
    bool open = false;

    for (int fd = 0; fd < 256 && !open; fd++) {
        ssize_t length;

        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        length = readlink(link, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        open = strcmp(target, path_of(name)) == 0;
    }
    return open;
}

static int fork_and_exit(void)
{
    int status = 0;
    warm_runtime *runtime;

    if (make(&runtime) != WARM_OK || use(runtime) != 0) {
        return 2;
    }
    child = fork();
    if (child == 0) {
        /* Its handlers run too; the runtime is not the child's. */
        exit(has_open("stats") ? 1 : 0);
    }
    if (waitpid(child, &status, 0) != child || status != 0 ||
        !has_open("stats")) {
        return 3;
    }
    return access(path_of("stats"), R_OK) == 0 && *read_file("stats") == '\0'
               ? 0
               : 4;
}

/* A program that closes what it did not open gets the number again, for a file
 * of its own. */
static int close_what_it_did_not_open(void)
{
    warm_runtime *runtime = NULL;
    int ours = -1, own;

    if (make(&runtime) == WARM_OK) {
        ours = descriptor_of("stats");
    }
    if (ours < 0 || close(ours) != 0) {
        return 1;
    }
    own = open(path_of("own"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (own != ours || write(own, "mine\n", 5) != 5 || use(runtime) != 0 ||
        warm_runtime_destroy(runtime, NULL) != WARM_OK) {
        return 2;
    }
    return fcntl(own, F_GETFD) >= 0 ? 0 : 3; /* it is still open */
}

WT_TEST(test_G8_a_file_of_the_programs_with_the_same_number_is_left_alone)
{
    ck_assert_int_eq(run("stats_at_exit:@/stats", close_what_it_did_not_open),
                     0);
    ck_assert_str_eq(read_file("own"), "mine\n");
    ck_assert_str_eq(read_file("stats"), "");
    wt_contains(read_file("err"), "could not write the statistics to ",
                "/stats: Bad file descriptor");
}

static int try_to_make(void)
{
    warm_runtime *runtime = NULL;

    return make(&runtime) == WARM_INVALID_OPTION ? 0 : 1;
}

/* Not even if it is a link. */
WT_TEST(test_G8_an_unfinished_snapshot_that_is_there_stays)
{
    static const char conf[] =
        "snapshot_signal:USR2,snapshot_file:@/shot,device:host";
    FILE *file = fopen(path_of("shot.part"), "w");

    ck_assert_ptr_nonnull(file);
    fputs("precious", file);
    fclose(file);
    ck_assert_int_eq(run(conf, try_to_make), 0);
    ck_assert_str_eq(read_file("shot.part"), "precious");
}

WT_TEST(test_G5_G8_a_forked_child_writes_nothing)
{
    ck_assert_int_eq(run("stats_at_exit:@/stats", fork_and_exit), 0);
    wt_contains(read_file("stats"), "\"allocated\":4,");
}

/* ---- snapshot_signal ----------------------------------------------------- */

static void await_file(const char *name)
{
    while (access(path_of(name), R_OK) != 0) {
        sched_yield();
    }
}

static int snapshots(void)
{
    warm_runtime *runtime;
    struct sigaction now;

    if (make(&runtime) != WARM_OK) {
        return 2;
    }
    for (int i = 1; i <= 2; i++) {
        char name[32];
        void *block = NULL;

        if (warm_pinned_alloc(runtime, 5 * MIB, &block) != WARM_OK ||
            raise(SIGUSR2) != 0) {
            return 3;
        }
        snprintf(name, sizeof name, "shot-1-%d", i);
        await_file(name);
    }
    (void)warm_runtime_destroy(runtime, NULL);
    (void)sigaction(SIGUSR2, NULL, &now);
    return now.sa_handler == SIG_DFL ? 0 : 4;
}

WT_TEST(test_G8_a_signal_writes_a_snapshot_and_is_restored)
{
    ck_assert_int_eq(
        run("snapshot_signal:USR2,snapshot_file:@/shot-%r-%n", snapshots), 0);
    ck_assert_uint_eq(count(read_file("shot-1-1"), "active_allocated"), 1);
    ck_assert_uint_eq(count(read_file("shot-1-2"), "active_allocated"), 2);
    ck_assert_int_eq(access(path_of("shot-1-2.part"), F_OK), -1);
}

static int snapshot_without_room(void)
{
    const struct rlimit limit = {.rlim_cur = 2000, .rlim_max = RLIM_INFINITY};
    void *block[20];
    warm_runtime *runtime;

    (void)signal(SIGXFSZ, SIG_IGN);
    if (make(&runtime) != WARM_OK || setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return 2;
    }
    for (int i = 0; i < 20; i++) {
        if (warm_pinned_alloc(runtime, MIB, &block[i]) != WARM_OK) {
            return 3;
        }
    }
    if (raise(SIGUSR2) != 0) {
        return 4;
    }
    while (count(read_file("err"), "snapshot was written") == 0) {
        sched_yield();
    }
    (void)warm_runtime_destroy(runtime, NULL);
    return 0;
}

WT_TEST(test_G8_a_snapshot_without_room_is_told_and_removed)
{
    ck_assert_int_eq(run("snapshot_signal:USR2,snapshot_file:@/shot,log:info",
                         snapshot_without_room),
                     0);
    wt_contains(read_file("err"), "no snapshot was written: option ",
                "snapshot_file: ", strerror(EFBIG));
    ck_assert_int_eq(access(path_of("shot"), F_OK), -1);
    ck_assert_int_eq(access(path_of("shot.part"), F_OK), -1);
}

static void on_signal(int signal)
{
}

static int make_with_handler(void)
{
    warm_runtime *runtime = NULL;
    struct sigaction mine = {.sa_handler = on_signal}, now;

    (void)sigaction(SIGUSR1, &mine, NULL);
    if (make(&runtime) != WARM_INVALID_OPTION ||
        strstr(warm_last_error_message(), "handler for SIGUSR1") == NULL) {
        return 2;
    }
    (void)sigaction(SIGUSR1, NULL, &now);
    return now.sa_handler == on_signal ? 0 : 3;
}

WT_TEST(test_G8_a_handler_of_the_programs_is_never_replaced)
{
    ck_assert_int_eq(
        run("snapshot_signal:USR1,snapshot_file:@/shot", make_with_handler), 0);
}

/* Two runtimes have one handler; it goes with the second. */
static int two_runtimes(void)
{
    warm_runtime *one, *two;
    struct sigaction now;

    (void)signal(SIGHUP, SIG_DFL); /* nohup ignores it */
    if (make(&one) != WARM_OK || make(&two) != WARM_OK) {
        return 2;
    }
    (void)warm_runtime_destroy(one, NULL);
    if (raise(SIGHUP) != 0) {
        return 3;
    }
    await_file("shot-2");
    (void)warm_runtime_destroy(two, NULL);
    (void)sigaction(SIGHUP, NULL, &now);
    return now.sa_handler == SIG_DFL && access(path_of("shot-1"), F_OK) != 0
               ? 0
               : 4;
}

WT_TEST(test_G8_runtimes_share_the_signal)
{
    ck_assert_int_eq(
        run("snapshot_signal:HUP,snapshot_file:@/shot-%r", two_runtimes), 0);
}

/* In a forked child the signal means again what it meant before. */
static int fork_with_signal(void)
{
    warm_runtime *runtime;
    int status = 0;

    if (make(&runtime) != WARM_OK) {
        return 2;
    }
    child = fork();
    if (child == 0) {
        (void)raise(SIGUSR1);
        _exit(0);
    }
    return waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
                   WTERMSIG(status) == SIGUSR1
               ? 0
               : 3;
}

WT_TEST(test_G5_G8_a_forked_child_has_its_signal_back)
{
    ck_assert_int_eq(
        run("snapshot_signal:USR1,snapshot_file:@/shot", fork_with_signal), 0);
}

/* ---- what is refused ----------------------------------------------------- */

static const struct {
    const char *conf, *says;
} refused[] = {
    {"log_file:@/none/log", "option log_file: "},
    {"stats_at_exit:@/none/stats", "option stats_at_exit: "},
    {"stats_at_exit:@", "Is a directory"},
    {"snapshot_signal:USR1,snapshot_file:@/none/shot",
     "option snapshot_file: "},
    {"snapshot_signal:USR1,snapshot_file:/dev/null", "is not a regular file"},
    {"snapshot_signal:KILL", "none|HUP|USR1|USR2"},
    {"log_file:@/%r", "'%r' is unknown"},
    {"stats_at_exit:@/%n", "'%n' is unknown"},
    {"log_memory:alloc+all", "alloc|recycle"},
    {"log_memory:alloc+", "each once, joined by +"},
};

static const char *expected;

static int make_refused(void)
{
    warm_runtime *runtime = NULL;
    warm_status status = make(&runtime);

    fprintf(stderr, "%s", warm_last_error_message());
    return status == WARM_INVALID_OPTION && runtime == NULL &&
                   strstr(warm_last_error_message(), expected) != NULL
               ? 0
               : 2;
}

WT_LOOP_TEST(test_G4_G8_a_file_or_word_that_is_not_allowed_is_named,
             sizeof refused / sizeof refused[0])
{
    int status;

    expected = refused[_i].says;
    status = run(refused[_i].conf, make_refused);
    ck_assert_msg(status == 0, "%s", read_file("err"));
}

static int make_two_of_one_file(void)
{
    warm_runtime *one, *two = NULL;

    return make(&one) == WARM_OK && make(&two) == WARM_INVALID_OPTION &&
                   strstr(warm_last_error_message(), "%r") != NULL
               ? 0
               : 2;
}

WT_TEST(test_G8_two_runtimes_cannot_write_one_file)
{
    ck_assert_int_eq(run("stats_at_exit:@/stats", make_two_of_one_file), 0);
}

/* ---- help ---------------------------------------------------------------- */

static int make_default_twice(void)
{
    warm_runtime *one, *two;

    return make(&one) == WARM_OK && make(&two) == WARM_OK ? 0 : 2;
}

WT_TEST(test_G8_help_is_printed_once_also_beside_other_options)
{
    ck_assert_int_eq(run("segment:4M, help", make_default_twice), 0);
    ck_assert_uint_eq(count(read_file("err"), "\nsegment: 4M bytes"), 1);
    ck_assert_uint_eq(count(read_file("err"), "\nlog_memory: off"), 1);
    ck_assert_int_eq(run("help", make_default_twice), 0);
    ck_assert_uint_eq(count(read_file("err"), "\nsegment: 4M bytes"), 1);
}
