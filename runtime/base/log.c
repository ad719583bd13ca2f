/* log.c: the log sink of the process. Takes the process lock to read it. */
#include "runtime/base/log.h"

#include "runtime/base/callback.h"
#include "runtime/base/meta.h"
#include "runtime/base/named_file.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024 };

/* lock: wm_process_lock. The file's descriptor is never closed: a thread writes
 * to it without the lock, and another file gets the same descriptor. */
static struct {
    warm_log_fn log;
    void *context;
    bool warned, noticed, printing, has_file, helped;
    bool prints_all; /* option debug: each warning, not only the first */
    int file;
    wm_file_id id;
} sink;
/* Relaxed: a level is not tied to any other data. */
static _Atomic int threshold = WARM_LOG_WARNING;

void warm_log_set(warm_log_fn log, void *context)
{
    wm_process_init();
    wm_lock_acquire(&wm_process_lock);
    sink.log = log;
    sink.context = context;
    wm_lock_release(&wm_process_lock);
}

void wm_log_print_all(void)
{
    wm_lock_acquire(&wm_process_lock);
    sink.prints_all = true;
    wm_lock_release(&wm_process_lock);
}

void wm_log_set_level(int level)
{
    atomic_store_explicit(&threshold, level, memory_order_relaxed);
}

void wm_log_set_printing(bool printing)
{
    wm_lock_acquire(&wm_process_lock);
    sink.printing = printing;
    wm_lock_release(&wm_process_lock);
}

warm_status wm_log_open(const char *name)
{
    const wm_file_name named = {.option = "log_file", .name = name};
    char path[PATH_MAX];
    int fd = -1;
    warm_status status = wm_named_file_path(&named, path, sizeof path);

    if (status == WARM_OK) {
        status = wm_named_file_open("log_file", path, O_WRONLY | O_APPEND,
                                    false, &fd);
    }
    if (status != WARM_OK) {
        return status;
    }
    WM_CANCEL_OFF();
    wm_lock_acquire(&wm_process_lock);
    if (!sink.has_file || !wm_named_file_is(sink.file, &sink.id)) {
        sink.has_file = true;
        sink.file = fd;
    } else {
        (void)dup3(fd, sink.file, O_CLOEXEC);
        (void)close(fd);
    }
    sink.id = wm_named_file_id(sink.file);
    wm_lock_release(&wm_process_lock);
    return status;
}

void wm_log_help(void)
{
    size_t bytes = warm_options_help(NULL, 0);
    char *text = wm_meta_alloc(bytes);
    bool first;

    WM_CANCEL_OFF();
    wm_lock_acquire(&wm_process_lock);
    first = !sink.helped;
    sink.helped = true;
    wm_lock_release(&wm_process_lock);
    if (first && text != NULL) {
        (void)warm_options_help(text, bytes);
        (void)fputs(text, stderr);
    }
    wm_meta_free(text);
}

static const char *name_of(warm_log_level level)
{
    static const char *const names[] = {[WARM_LOG_WARNING] = "warning",
                                        [WARM_LOG_INFO] = "info",
                                        [WARM_LOG_DEBUG] = "debug"};

    return names[level];
}

static void print(warm_log_level level, const char *line)
{
    WM_CANCEL_OFF();
    fprintf(stderr, "warmpool: %s: %s\n", name_of(level), line);
}

/* One write a line: lines of several processes do not mix. A line that cannot
 * be written is dropped. */
static void append(int file, warm_log_level level, const char *line)
{
    char text[LINE_MAX_BYTES + 96], seconds[32];
    struct timespec now = {0};
    struct tm date = {0};
    int length;

    clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &date);
    (void)strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &date);
    length =
        snprintf(text, sizeof text, "%s.%03ldZ %ld %s: %s\n", seconds,
                 now.tv_nsec / 1000000, (long)getpid(), name_of(level), line);
    (void)wm_named_file_append(file, text, (size_t)length);
}

/* said: of the lines that are printed without being asked for, whether the one
 * of this sort was; lock process. */
__attribute__((format(printf, 3, 0))) static void
log_line(warm_log_level level, bool *said, const char *format, va_list list)
{
    char line[LINE_MAX_BYTES];
    warm_log_fn log;
    void *context;
    bool prints;
    int file;

    vsnprintf(line, sizeof line, format, list);
    wm_shown(line, sizeof line);
    wm_lock_acquire(&wm_process_lock);
    log = sink.log;
    context = sink.context;
    file =
        sink.has_file && wm_named_file_is(sink.file, &sink.id) ? sink.file : -1;
    prints = log == NULL && file < 0 &&
             (sink.printing ||
              (level == WARM_LOG_WARNING && (!*said || sink.prints_all)));
    *said = *said || (prints && level == WARM_LOG_WARNING);
    wm_lock_release(&wm_process_lock);
    if (log != NULL) {
        wm_callback_begin();
        log(context, level, line);
        wm_callback_end();
    } else if (file >= 0) {
        append(file, level, line);
    } else if (prints) {
        print(level, line);
    }
}

void wm_log(warm_log_level level, const char *format, ...)
{
    va_list list;

    if ((int)level > atomic_load_explicit(&threshold, memory_order_relaxed)) {
        return;
    }
    va_start(list, format);
    log_line(level, &sink.warned, format, list);
    va_end(list);
}

void wm_log_notice(const char *format, ...)
{
    va_list list;

    if ((int)WARM_LOG_WARNING >
        atomic_load_explicit(&threshold, memory_order_relaxed)) {
        return;
    }
    va_start(list, format);
    log_line(WARM_LOG_WARNING, &sink.noticed, format, list);
    va_end(list);
}

void wm_log_memory(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    log_line(WARM_LOG_DEBUG, &sink.warned, format, list);
    va_end(list);
}
