/* trace_file.c: see trace_file.h.
 *
 * Only files are written, and /dev/null and its like: a pipe could end the
 * program with a signal when its reader goes, and so could a file that reaches
 * the process's limit, which is asked for before each write. The lock on the
 * file belongs to the open file, not to the process: two runtimes of one
 * process exclude each other, too. */
#include "runtime/base/trace_file.h"

#include "runtime/base/lock.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Relaxed: a number, tied to nothing else. */
static _Atomic unsigned runtimes_traced;

static warm_status refused(const char *name, int error)
{
    char text[96];

    return wm_fail_code(WARM_INVALID_OPTION, "file", error,
                        strerror_r(error, text, sizeof text),
                        "option trace: %.300s: %s", name,
                        strerror_r(error, text, sizeof text));
}

/* name with its % replaced, into path. */
static warm_status expand(const char *name, char *path, size_t room)
{
    size_t used = 0;
    int length = 0;

    for (const char *c = name; *c != '\0' && used + 1 < room; c++) {
        if (*c != '%' || c[1] == '%') {
            c += *c == '%';
            length = snprintf(path + used, room - used, "%c", *c);
        } else if (c[1] == 'p') {
            length = snprintf(path + used, room - used, "%ld", (long)getpid());
            c++;
        } else if (c[1] == 'r') {
            unsigned number = atomic_fetch_add_explicit(&runtimes_traced, 1,
                                                        memory_order_relaxed);

            length = snprintf(path + used, room - used, "%u", number + 1);
            c++;
        } else {
            return wm_fail(WARM_INVALID_OPTION,
                           "option trace: %.300s: %%p is the process's number, "
                           "%%r the runtime's, %%%% a percent sign, and "
                           "'%.2s' is nothing",
                           name, c);
        }
        used += (size_t)length;
    }
    return used + 1 < room ? WARM_OK : refused(name, ENAMETOOLONG);
}

/* 0, or why this is not a file that can be written from its start. */
static int take(int fd)
{
    struct stat what;
    int flags = fcntl(fd, F_GETFL);

    if (fstat(fd, &what) != 0 || flags < 0 ||
        fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0) {
        return errno;
    }
    if (S_ISCHR(what.st_mode)) {
        return 0;
    }
    if (!S_ISREG(what.st_mode)) {
        return EINVAL;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK ? EBUSY : errno;
    }
    return ftruncate(fd, 0) != 0 ? errno : 0;
}

static warm_status open_path(wm_trace_file *file, const char *path)
{
    /* Not blocking: the open of a pipe that nobody reads would wait. */
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
                  0666);
    int error = fd < 0 ? errno : take(fd);

    if (error == 0) {
        *file = (wm_trace_file){fd, 0};
        return WARM_OK;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (error == EBUSY) {
        return wm_fail(WARM_INVALID_OPTION,
                       "option trace: %.300s is being written by another "
                       "runtime; %%p in the name is the process's number, %%r "
                       "the runtime's in it",
                       path);
    }
    if (error == EINVAL || error == ENXIO) {
        return wm_fail(WARM_INVALID_OPTION,
                       "option trace: %.300s is not a file", path);
    }
    return refused(path, error);
}

warm_status wm_trace_file_open(wm_trace_file *file, const char *name)
{
    int cancel = wm_cancel_off();
    char path[PATH_MAX];
    warm_status status = expand(name, path, sizeof path);

    if (status == WARM_OK) {
        status = open_path(file, path);
    }
    wm_cancel_restore(cancel);
    return status;
}

static int write_all(const wm_trace_file *file, const char *data, size_t bytes)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY &&
        file->bytes + bytes > limit.rlim_cur) {
        return EFBIG;
    }
    while (bytes > 0) {
        ssize_t done = write(file->fd, data, bytes);

        if (done < 0 && errno != EINTR) {
            return errno;
        }
        if (done > 0) {
            data += done;
            bytes -= (size_t)done;
        }
    }
    return 0;
}

int wm_trace_file_write(wm_trace_file *file, const void *data, size_t bytes)
{
    int cancel = wm_cancel_off();
    int before = errno;
    int error = write_all(file, data, bytes);

    if (error == 0) {
        file->bytes += bytes;
    } else if (ftruncate(file->fd, (off_t)file->bytes) != 0) {
        /* A device; of a file, the reader sees that its end is torn. */
    }
    errno = before;
    wm_cancel_restore(cancel);
    return error;
}

int wm_trace_file_close(wm_trace_file *file)
{
    int cancel = wm_cancel_off();
    int before = errno;
    int error;

    /* A forked child may hold the open file for longer than this process. */
    (void)flock(file->fd, LOCK_UN);
    error = close(file->fd) == 0 ? 0 : errno;
    errno = before;
    wm_cancel_restore(cancel);
    return error;
}
