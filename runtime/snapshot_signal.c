/* snapshot_signal.c: see snapshot_signal.h. */
#include "runtime/snapshot_signal.h"

#include "alloc/snapshot/snapshot.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/named_file.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/base/thread_start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char part[] = ".part";

struct wm_snapshot_watch {
    struct wm_snapshot_watch *next; /* const once in the list */
    sem_t signals;                  /* signals to answer, and the end */
    /* Relaxed: the semaphore orders what follows. active: the handler posts.
     * over: the thread ends. */
    _Atomic bool active, over;
    int signal;            /* const */
    unsigned number;       /* const: of the runtime */
    uint64_t count;        /* its thread: snapshots so far */
    warm_runtime *runtime; /* const until stopped */
    pthread_t thread;
    char name[PATH_MAX]; /* const: absolute, with its % */
    char path[PATH_MAX], unfinished[PATH_MAX + sizeof part]; /* its thread */
};

static const struct {
    const char *name;
    int signal;
} known[] = {{"HUP", SIGHUP}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
enum { KNOWN = sizeof known / sizeof known[0] };

/* All watches that were ever started. Release pairs with the acquire of the
 * handler. */
static _Atomic(struct wm_snapshot_watch *) watches;

/* lock: wm_process_lock; as known. */
static struct {
    unsigned users;
    struct sigaction before;
} handled[KNOWN];

static void on_signal(int signal)
{
    int before = errno;
    struct wm_snapshot_watch *w =
        atomic_load_explicit(&watches, memory_order_acquire);

    for (; w != NULL; w = w->next) {
        if (w->signal == signal &&
            atomic_load_explicit(&w->active, memory_order_relaxed)) {
            (void)sem_post(&w->signals);
        }
    }
    errno = before;
}

/* ---- the file ------------------------------------------------------------ */

/* Sets the names of the next snapshot's files. Only a regular file is replaced:
 * never a device. */
static warm_status name_files(struct wm_snapshot_watch *w)
{
    const wm_file_name name = {.option = "snapshot_file",
                               .name = w->name,
                               .runtime = w->number,
                               .count = w->count + 1};
    struct stat what;
    warm_status status = wm_named_file_path(&name, w->path, sizeof w->path);

    if (status != WARM_OK) {
        return status;
    }
    snprintf(w->unfinished, sizeof w->unfinished, "%s%s", w->path, part);
    if (stat(w->path, &what) == 0 && !S_ISREG(what.st_mode)) {
        return wm_fail(WARM_INVALID_OPTION,
                       "option snapshot_file: %.300s is not a regular file",
                       w->path);
    }
    return WARM_OK;
}

static warm_status write_file(struct wm_snapshot_watch *w, const char *text)
{
    int fd = -1, error;
    /* A new file, no link that somebody put there. */
    warm_status status =
        wm_named_file_open("snapshot_file", w->unfinished,
                           O_WRONLY | O_APPEND | O_EXCL, true, &fd);

    if (status != WARM_OK) {
        return status;
    }
    error = ftruncate(fd, 0) != 0 ? errno : 0;
    if (error == 0) {
        error = wm_named_file_append(fd, text, strlen(text));
    }
    if (error == 0 && rename(w->unfinished, w->path) != 0) {
        error = errno;
    }
    if (error != 0) {
        (void)unlink(w->unfinished);
        status = wm_named_file_refuse("snapshot_file", w->path, error);
    }
    (void)close(fd);
    return status;
}

static void answer(struct wm_snapshot_watch *w)
{
    char *text = NULL;
    warm_status status =
        wm_text_call_whole(w->runtime, wm_snapshot_put, NULL, &text);

    if (status == WARM_OK && (status = name_files(w)) == WARM_OK) {
        status = write_file(w, text);
    }
    wm_meta_free(text);
    if (status == WARM_OK) {
        w->count++;
        wm_log(WARM_LOG_INFO, "a snapshot was written to %.300s", w->path);
    } else if (status != WARM_EXITING && status != WARM_RUNTIME_GONE) {
        wm_log(WARM_LOG_WARNING, "no snapshot was written: %s",
               warm_last_error_message());
    }
}

static void *watch_main(void *argument)
{
    struct wm_snapshot_watch *w = argument;

    for (;;) {
        while (sem_wait(&w->signals) != 0) {
        }
        if (atomic_load_explicit(&w->over, memory_order_relaxed)) {
            return NULL;
        }
        answer(w);
    }
}

/* ---- the signal ---------------------------------------------------------- */

static int index_of(int signal)
{
    int i = 0;

    while (known[i].signal != signal) {
        i++;
    }
    return i;
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) == 0 &&
           action->sa_handler == on_signal;
}

static bool is_programs(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN &&
            action->sa_handler != on_signal);
}

/* False: the program has a handler. SA_ONSTACK: a thread of another language
 * may have a small stack. */
static bool handle_locked(int i)
{
    struct sigaction ours = {.sa_flags = SA_RESTART | SA_ONSTACK};
    struct sigaction now;

    (void)sigaction(known[i].signal, NULL, &now);
    if (is_programs(&now)) {
        return false;
    }
    if (!is_ours(&now)) {
        ours.sa_handler = on_signal;
        sigfillset(&ours.sa_mask);
        handled[i].before = now;
        (void)sigaction(known[i].signal, &ours, NULL);
    }
    handled[i].users++;
    return true;
}

/* A handler that the program has set since stays. */
static void restore_locked(int i)
{
    struct sigaction now;

    (void)sigaction(known[i].signal, NULL, &now);
    if (is_ours(&now)) {
        (void)sigaction(known[i].signal, &handled[i].before, NULL);
    }
}

static warm_status handle(struct wm_snapshot_watch *w)
{
    int i = index_of(w->signal);
    bool free;

    wm_lock_acquire(&wm_process_lock);
    free = handle_locked(i);
    wm_lock_release(&wm_process_lock);
    return free ? WARM_OK
                : wm_fail(WARM_INVALID_OPTION,
                          "option snapshot_signal: the program has a handler "
                          "for SIG%s; choose another of the signals, or none",
                          known[i].name);
}

static void unhandle(struct wm_snapshot_watch *w)
{
    int i = index_of(w->signal);

    atomic_store_explicit(&w->active, false, memory_order_relaxed);
    wm_lock_acquire(&wm_process_lock);
    if (handled[i].users > 0 && --handled[i].users == 0) {
        restore_locked(i);
    }
    wm_lock_release(&wm_process_lock);
}

void wm_snapshot_watch_forked(void)
{
    struct wm_snapshot_watch *w =
        atomic_load_explicit(&watches, memory_order_acquire);

    for (; w != NULL; w = w->next) {
        atomic_store_explicit(&w->active, false, memory_order_relaxed);
    }
    wm_lock_acquire(&wm_process_lock);
    for (int i = 0; i < KNOWN; i++) {
        if (handled[i].users > 0) {
            restore_locked(i);
            handled[i].users = 0;
        }
    }
    wm_lock_release(&wm_process_lock);
}

/* ---- begin and end ------------------------------------------------------- */

/* Appends text to the name if there is room; doubled: each % twice, which then
 * stands for itself. */
static bool append(struct wm_snapshot_watch *w, const char *text, bool doubled)
{
    size_t used = strlen(w->name);

    for (; *text != '\0' && used + 2 < sizeof w->name; text++) {
        w->name[used++] = *text;
        if (doubled && *text == '%') {
            w->name[used++] = '%';
        }
    }
    return *text == '\0';
}

/* The name, absolute: the program may change its folder. */
static warm_status set_name(struct wm_snapshot_watch *w, const char *given)
{
    const char *name = *given != '\0' ? given : "warmpool-%p-%r-%n.json";
    bool fits = true;

    if (*name != '/') {
        if (getcwd(w->path, sizeof w->path) == NULL) {
            return wm_named_file_refuse("snapshot_file", name, errno);
        }
        fits = append(w, w->path, true) && append(w, "/", false);
    }
    fits = fits && append(w, name, false);
    return fits ? WARM_OK
                : wm_named_file_refuse("snapshot_file", name, ENAMETOOLONG);
}

/* Whether the file can be written: its unfinished form must not be there. */
static warm_status try_file(struct wm_snapshot_watch *w)
{
    int fd = -1;
    warm_status status = name_files(w);

    if (status == WARM_OK && (status = wm_named_file_open(
                                  "snapshot_file", w->unfinished,
                                  O_WRONLY | O_EXCL, true, &fd)) == WARM_OK) {
        (void)unlink(w->unfinished);
        (void)close(fd);
    }
    return status;
}

static warm_status make_watch(warm_runtime *runtime, const wm_options *options,
                              int signal, struct wm_snapshot_watch **watch)
{
    struct wm_snapshot_watch *w = wm_meta_alloc(sizeof *w);
    warm_status status;

    if (w == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    w->signal = signal;
    w->number = options->number;
    w->runtime = runtime;
    if ((status = set_name(w, options->snapshot_file)) != WARM_OK ||
        (status = try_file(w)) != WARM_OK) {
        wm_meta_free(w);
        return status;
    }
    (void)sem_init(&w->signals, 0, 0);
    *watch = w;
    return status;
}

static void enlist(struct wm_snapshot_watch *w)
{
    wm_lock_acquire(&wm_process_lock);
    w->next = atomic_load_explicit(&watches, memory_order_relaxed);
    atomic_store_explicit(&w->active, true, memory_order_relaxed);
    /* Release: the handler, which takes no lock, sees the whole watch. */
    atomic_store_explicit(&watches, w, memory_order_release);
    wm_lock_release(&wm_process_lock);
}

static warm_status start(struct wm_snapshot_watch *w)
{
    warm_status status = handle(w);

    if (status != WARM_OK) {
        wm_meta_free(w);
        return status;
    }
    if (!wm_thread_start(&w->thread, NULL, watch_main, w)) {
        unhandle(w);
        wm_meta_free(w);
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no thread could be started for option "
                       "snapshot_signal");
    }
    enlist(w);
    return WARM_OK;
}

warm_status wm_snapshot_watch_start(warm_runtime *runtime,
                                    const wm_options *options,
                                    struct wm_snapshot_watch **watch)
{
    struct wm_snapshot_watch *w = NULL;
    warm_status status = WARM_OK;

    *watch = NULL;
    for (int i = 0; i < KNOWN && status == WARM_OK; i++) {
        if (strcmp(options->snapshot_signal, known[i].name) == 0) {
            status = make_watch(runtime, options, known[i].signal, &w);
        }
    }
    if (status == WARM_OK && w != NULL) {
        status = start(w);
        *watch = status == WARM_OK ? w : NULL;
    }
    return status;
}

void wm_snapshot_watch_stop(struct wm_snapshot_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    unhandle(watch);
    atomic_store_explicit(&watch->over, true, memory_order_relaxed);
    (void)sem_post(&watch->signals);
    pthread_join(watch->thread, NULL);
}
