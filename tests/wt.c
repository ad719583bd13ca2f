/* wt.c: see wt.h. */
#include "wt.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Before any case is made, which remembers its limit then. By hand, that is;
 * run.sh gives half of what the program may take. Check's own is 4 s. */
__attribute__((constructor)) static void allow_a_minute(void)
{
    setenv("CK_DEFAULT_TIMEOUT", "60", 0);
}

static struct wt_entry *entries; /* by line */

void wt_add(struct wt_entry *entry)
{
    struct wt_entry **at = &entries;

    while (*at != NULL && (*at)->line < entry->line) {
        at = &(*at)->next;
    }
    entry->next = *at;
    *at = entry;
}

enum { SETUPS = 6 };

/* Whatever a test calls, its thread can be cancelled as before. */
static void check_cancel_state(void)
{
    int state;

    ck_assert_int_eq(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state), 0);
    ck_assert_int_eq(state, PTHREAD_CANCEL_ENABLE);
}

/* Makes tcase[0] for the case's setup, which may be null, and tcase[i] for
 * also[i - 1]; null if there is none. */
static void make_cases(Suite *suite, const struct wt_case *of, TCase **tcase)
{
    for (int i = 0; i < SETUPS; i++) {
        void (*setup)(void) = i == 0 ? of->setup : of->also[i - 1];

        tcase[i] = NULL;
        if (i > 0 && setup == NULL) {
            continue;
        }
        tcase[i] = tcase_create(of->name);
        tcase_add_checked_fixture(tcase[i], setup, of->teardown);
        tcase_add_checked_fixture(tcase[i], NULL, check_cancel_state);
        tcase_add_unchecked_fixture(tcase[i], of->once, NULL);
        if (of->timeout > 0) {
            tcase_set_timeout(tcase[i], of->timeout);
        }
        if (of->tags != NULL) {
            tcase_set_tags(tcase[i], of->tags);
        }
        suite_add_tcase(suite, tcase[i]);
    }
}

/* On a GPU tests share a process, which cannot read the device's memory: a test
 * that does fails alone, and not all those after it. Only the thread of the
 * tests can leave a test: a fault of another thread ends the program. */
static pthread_t of_tests;

static void on_fault(int signal)
{
    if (pthread_equal(pthread_self(), of_tests)) {
        ck_abort_msg("signal %d (%s)", signal, strsignal(signal));
    }
    _exit(128 + signal);
}

static void fail_on_faults(void)
{
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    const char *fork_mode = getenv("CK_FORK");

    if (wt_on_gpu() && fork_mode != NULL && strcmp(fork_mode, "no") == 0) {
        of_tests = pthread_self();
        sigaction(SIGSEGV, &action, NULL);
        sigaction(SIGBUS, &action, NULL);
    }
}

/* ---- skipped tests ------------------------------------------------------- */

enum { LOG_LINE = 4096 };

/* Opens the file beside the log in which tests, each perhaps in a process of
 * its own, note that they were skipped. Null: nobody wants a log. */
static FILE *open_beside_log(const char *end, const char *mode)
{
    const char *log = getenv("CK_TAP_LOG_FILE_NAME");
    char path[PATH_MAX];

    if (log == NULL ||
        (size_t)snprintf(path, sizeof path, "%s%s", log, end) >= sizeof path) {
        return NULL;
    }
    if (mode == NULL) {
        (void)remove(path);
        return NULL;
    }
    return fopen(path, mode);
}

void wt_skip_note(const char *function, const char *why)
{
    /* Check calls the function of a test test_x test_x_fn. */
    int length = (int)strlen(function) - (int)strlen("_fn");
    FILE *file = open_beside_log(".skip", "a");

    printf("skip: %.*s: %s\n", length, function, why);
    fflush(stdout);
    if (file != NULL) {
        fprintf(file, "%.*s: # skip %s\n", length, function, why);
        fclose(file);
    }
}

/* The end of a line of the log, if the test that it names was skipped: its
 * note, which is used up; else "". A looped test has a line and a note each
 * time. */
static const char *find_note(const char *line, char *notes)
{
    for (char *note = notes; *note != '\0'; note += strlen(note) + 1) {
        const char *why = strstr(note, " # skip");
        char key[LOG_LINE];

        if (why == NULL || strncmp(line, "ok ", 3) != 0) {
            continue;
        }
        snprintf(key, sizeof key, ":%.*s", (int)(why - note), note);
        if (strstr(line, key) != NULL) {
            *note = '#'; /* no test has this name */
            return why;
        }
    }
    return "";
}

/* Writes the notes into the log, which is complete. */
static void log_skips(void)
{
    static char notes[1 << 16], text[1 << 20];
    FILE *file = open_beside_log(".skip", "r");
    size_t got = 0;
    char *next;

    if (file == NULL) {
        return;
    }
    got = fread(notes, 1, sizeof notes - 2, file);
    fclose(file);
    for (size_t i = 0; i < got; i++) {
        notes[i] = notes[i] == '\n' ? '\0' : notes[i];
    }
    file = open_beside_log("", "r");
    if (file == NULL) {
        return;
    }
    got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    file = open_beside_log("", "w");
    text[got] = '\0';
    for (char *line = text; *line != '\0'; line = next) {
        next = line + strcspn(line, "\n");
        if (*next == '\n') {
            *next++ = '\0';
        }
        fprintf(file, "%s%s\n", line, find_note(line, notes));
    }
    fclose(file);
    (void)open_beside_log(".skip", NULL);
}

/* Whether a list, with a space between two names, has this one. */
static bool is_named(const char *list, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = list; (at = strstr(at, name)) != NULL; at++) {
        if ((at == list || at[-1] == ' ') &&
            (at[length] == ' ' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Whether the list of the environment's WT_LEAVE_OUT, a file with a name at the
 * beginning of a line, has the test. */
static bool is_left_out(const char *name)
{
    const char *path = getenv("WT_LEAVE_OUT");
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    char line[LOG_LINE];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, " \n")] = '\0';
        found = strcmp(line, name) == 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

int wt_run(void)
{
    const char *program = program_invocation_short_name;
    Suite *suite = suite_create(program);
    const struct wt_case *of = &(struct wt_case){.name = program};
    TCase *tcase[SETUPS] = {NULL};
    const char *only = getenv("WT_ONLY");
    SRunner *runner;
    int failed;

    for (const struct wt_entry *at = entries; at != NULL; at = at->next) {
        if (at->test == NULL) {
            of = &at->a_case;
            tcase[0] = NULL;
            continue;
        }
        if ((only != NULL && !is_named(only, at->test->name)) ||
            is_left_out(at->test->name)) {
            continue;
        }
        if (tcase[0] == NULL) {
            make_cases(suite, of, tcase);
        }
        for (int i = 0; i < SETUPS; i++) {
            if (tcase[i] != NULL) {
                tcase_add_loop_test_raise_signal(tcase[i], at->test, of->signal,
                                                 0, at->times);
            }
        }
    }
    runner = srunner_create(suite);
    fail_on_faults();
    (void)open_beside_log(".skip", NULL);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    log_skips();
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

struct call {
    void (*fn)(void *argument, unsigned index);
    void *argument;
    unsigned index;
};

static void *run_call(void *argument)
{
    struct call *call = argument;

    call->fn(call->argument, call->index);
    return NULL;
}

void wt_threads(unsigned count, void (*fn)(void *argument, unsigned index),
                void *argument)
{
    pthread_t *threads = calloc(count, sizeof *threads);
    struct call *calls = calloc(count, sizeof *calls);

    ck_assert(threads != NULL && calls != NULL);
    for (unsigned i = 0; i < count; i++) {
        calls[i] = (struct call){fn, argument, i};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_call, &calls[i]),
                         0);
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    free(calls);
    free(threads);
}

void wt_refuse_threads(bool refuse)
{
    static size_t usual;
    pthread_attr_t attributes;
    size_t bytes = (size_t)1 << 60;

    ck_assert_int_eq(pthread_getattr_default_np(&attributes), 0);
    if (usual == 0) {
        pthread_attr_getstacksize(&attributes, &usual);
    }
    pthread_attr_setstacksize(&attributes, refuse ? bytes : usual);
    ck_assert_int_eq(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
}

bool wt_emulated(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *at = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char there;
    int status = 0;
    pid_t pid;

    wt_require(madvise(at, page, MADV_DONTFORK) == 0, "no marks");
    pid = fork();
    if (pid == 0) {
        _exit(mincore(at, page, &there) == 0);
    }
    wt_require(waitpid(pid, &status, 0) == pid, "no child");
    munmap(at, page);
    return status != 0;
}

bool wt_lingers(wt_linger *linger)
{
    enum { TURNS = 2000, MOST_NS = 50000000 };
    struct timespec now;
    uint64_t ns;

    clock_gettime(CLOCK_MONOTONIC, &now);
    ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    if (linger->turns++ == 0) {
        linger->since_ns = ns;
    }
    sched_yield();
    return linger->turns < TURNS && ns - linger->since_ns < MOST_NS;
}

uint64_t wt_seed(void)
{
    const char *text = getenv("WT_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 20260101;

    return seed != 0 ? seed : 1;
}

uint64_t wt_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

unsigned wt_scaled(unsigned full)
{
    const char *text = getenv("WT_SCALE");
    unsigned percent = text != NULL ? (unsigned)strtoul(text, NULL, 10) : 100;
    unsigned scaled = (unsigned)((uint64_t)full * percent / 100);

    return scaled > 0 ? scaled : 1;
}
