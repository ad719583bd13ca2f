/* stats_file.c: see stats_file.h. */
#include "runtime/stats_file.h"

#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/named_file.h"
#include "runtime/fields.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

struct wm_stats_file {
    int fd; /* -1: the process was forked */
    wm_file_id id;
    _Atomic bool written;
    char path[PATH_MAX];
};

warm_status wm_stats_file_open(const wm_options *options,
                               struct wm_stats_file **file)
{
    const wm_file_name name = {.option = "stats_at_exit",
                               .name = options->stats_at_exit,
                               .runtime = options->number};
    struct wm_stats_file *made;
    warm_status status;

    *file = NULL;
    if (*name.name == '\0') {
        return WARM_OK;
    }
    made = wm_meta_alloc(sizeof *made);
    if (made == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    status = wm_named_file_path(&name, made->path, sizeof made->path);
    if (status == WARM_OK) {
        status = wm_named_file_open(name.option, made->path,
                                    O_WRONLY | O_APPEND, true, &made->fd);
    }
    if (status != WARM_OK) {
        wm_meta_free(made);
        return status;
    }
    made->id = wm_named_file_id(made->fd);
    *file = made;
    return status;
}

/* As in wm_trace_file_close(): a child that is being forked right now may still
 * hold the open file, and with it the lock. */
static void close_own(const struct wm_stats_file *file)
{
    (void)flock(file->fd, LOCK_UN);
    (void)close(file->fd);
}

void wm_stats_file_close(struct wm_stats_file *file)
{
    if (file == NULL) {
        return;
    }
    if (file->fd >= 0 && wm_named_file_is(file->fd, &file->id)) {
        close_own(file);
    }
    wm_meta_free(file);
}

void wm_stats_file_forked(struct wm_stats_file *file)
{
    int before = errno;

    if (file != NULL && file->fd >= 0) {
        if (wm_named_file_is(file->fd, &file->id)) {
            (void)close(file->fd);
        }
        file->fd = -1;
    }
    errno = before;
}

static warm_status put_line(warm_runtime *runtime, const void *what,
                            wm_text *text)
{
    warm_status status = wm_stats_put_json(runtime, what, text);

    wm_text_put(text, "\n");
    return status;
}

/* 0, or an errno. A device (EINVAL) has nothing to truncate. */
static int replace(const struct wm_stats_file *file, const char *text,
                   size_t bytes)
{
    int error = 0;

    if (!wm_named_file_is(file->fd, &file->id)) {
        return EBADF; /* the program closed it */
    }
    if (ftruncate(file->fd, 0) != 0 && errno != EINVAL) {
        error = errno;
    }
    return error != 0 ? error : wm_named_file_append(file->fd, text, bytes);
}

void wm_stats_file_write(struct wm_stats_file *file, warm_runtime *runtime)
{
    char *text, reason[96];
    int error;

    /* Relaxed: of a thread that destroys and one that exits, one writes. */
    if (file == NULL || file->fd < 0 ||
        atomic_exchange_explicit(&file->written, true, memory_order_relaxed)) {
        return;
    }
    WM_CANCEL_OFF();
    WM_KEEP_ERROR();
    if (wm_text_call_whole(runtime, put_line, NULL, &text) != WARM_OK) {
        wm_log(WARM_LOG_WARNING, "could not write the statistics to %.300s: %s",
               file->path, warm_last_error_message());
    } else if ((error = replace(file, text, strlen(text))) != 0) {
        wm_log(WARM_LOG_WARNING, "could not write the statistics to %.300s: %s",
               file->path, strerror_r(error, reason, sizeof reason));
    }
    wm_meta_free(text);
}
