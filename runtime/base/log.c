/* log.c: the log sink of the process. Takes the process lock to read it. */
#include "runtime/base/log.h"

#include "runtime/base/callback.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

/* lock: wm_process_lock */
static struct {
    warm_log_fn log;
    void *context;
    bool warned;
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

void wm_log_set_level(int level)
{
    atomic_store_explicit(&threshold, level, memory_order_relaxed);
}

void wm_log(warm_log_level level, const char *format, ...)
{
    char line[512];
    warm_log_fn log;
    void *context;
    bool print;
    va_list list;

    if ((int)level > atomic_load_explicit(&threshold, memory_order_relaxed)) {
        return;
    }
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    wm_shown(line, sizeof line);
    wm_lock_acquire(&wm_process_lock);
    log = sink.log;
    context = sink.context;
    print = log == NULL && level == WARM_LOG_WARNING && !sink.warned;
    sink.warned = sink.warned || print;
    wm_lock_release(&wm_process_lock);
    if (log != NULL) {
        wm_callback_begin();
        log(context, level, line);
        wm_callback_end();
    } else if (print) {
        int cancel = wm_cancel_off();

        fprintf(stderr, "warmpool: warning: %s\n", line);
        wm_cancel_restore(cancel);
    }
}
