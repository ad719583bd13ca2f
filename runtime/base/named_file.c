/* named_file.c: see named_file.h. flock() locks the open file, not the process:
 * two runtimes of one process exclude each other too. */
#include "runtime/base/named_file.h"

#include "runtime/base/lock.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- names --------------------------------------------------------------- */

warm_status wm_named_file_refuse(const char *option, const char *path,
                                 int error)
{
    char text[96];
    const char *reason = strerror_r(error, text, sizeof text);

    return wm_fail_code(WARM_INVALID_OPTION, "file", error, reason,
                        "option %s: %.300s: %s", option, path, reason);
}

warm_status wm_named_file_taken(const char *option, const char *path,
                                const char *why)
{
    return wm_fail(
        WARM_INVALID_OPTION,
        "option %s: %.300s %s; put %%p (the process's number) or %%r "
        "(the runtime's in it) into the name",
        option, path, why);
}

static warm_status unknown_sign(const wm_file_name *name, const char *sign)
{
    return wm_fail(WARM_INVALID_OPTION,
                   "option %s: %.300s: %%p is the process's number%s%s, %%%% a "
                   "percent sign, and '%.2s' is unknown",
                   name->option, name->name,
                   name->runtime > 0 ? ", %r the runtime's" : "",
                   name->count > 0 ? ", %n the snapshot's" : "", sign);
}

/* What sign (a letter after %) stands for; an empty text: it is unknown. */
static int put_sign(const wm_file_name *name, char sign, char *at, size_t room)
{
    if (sign == '%') {
        return snprintf(at, room, "%%");
    }
    if (sign == 'p') {
        return snprintf(at, room, "%ld", (long)getpid());
    }
    if (sign == 'r' && name->runtime > 0) {
        return snprintf(at, room, "%u", name->runtime);
    }
    if (sign == 'n' && name->count > 0) {
        return snprintf(at, room, "%" PRIu64, name->count);
    }
    return 0;
}

warm_status wm_named_file_path(const wm_file_name *name, char *path,
                               size_t room)
{
    size_t used = 0;

    for (const char *c = name->name; *c != '\0' && used + 1 < room; c++) {
        int length = 1;

        if (*c == '%') {
            length = put_sign(name, c[1], path + used, room - used);
            if (length == 0) {
                return unknown_sign(name, c);
            }
            c++;
        } else {
            path[used] = *c;
        }
        used += (size_t)length;
    }
    if (used + 1 >= room) {
        return wm_named_file_refuse(name->option, name->name, ENAMETOOLONG);
    }
    path[used] = '\0';
    return WARM_OK;
}

/* ---- files --------------------------------------------------------------- */

/* 0, or the errno of why the file cannot be used. */
static int check(int fd, bool alone)
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
    if (alone && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK ? EBUSY : errno;
    }
    return 0;
}

warm_status wm_named_file_open(const char *option, const char *path, int flags,
                               bool alone, int *fd)
{
    WM_CANCEL_OFF();
    /* O_NONBLOCK: the open of a pipe without a reader would wait. */
    int made =
        open(path, flags | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    int error = made < 0 ? errno : check(made, alone);

    if (error != 0 && made >= 0) {
        (void)close(made);
    }
    if (error == 0) {
        *fd = made;
        return WARM_OK;
    }
    if (error == EBUSY) {
        return wm_named_file_taken(option, path,
                                   "is being written by another runtime");
    }
    if (error == EINVAL || error == ENXIO) {
        return wm_fail(WARM_INVALID_OPTION,
                       "option %s: %.300s is not a file that can be written "
                       "from its start",
                       option, path);
    }
    return wm_named_file_refuse(option, path, error);
}

wm_file_id wm_named_file_id(int fd)
{
    int before = errno;
    struct stat what = {.st_ino = 0};

    (void)fstat(fd, &what);
    errno = before;
    return (wm_file_id){(uint64_t)what.st_dev, (uint64_t)what.st_ino};
}

bool wm_named_file_is(int fd, const wm_file_id *id)
{
    wm_file_id now = wm_named_file_id(fd);

    return now.device == id->device && now.number == id->number;
}

int wm_named_file_room(uint64_t at, size_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
                   limit.rlim_cur != RLIM_INFINITY &&
                   at + bytes > limit.rlim_cur
               ? EFBIG
               : 0;
}

static int append_all(int fd, const char *data, size_t bytes)
{
    struct stat what;
    int error = fstat(fd, &what) != 0 ? errno : 0;

    if (error == 0 && S_ISREG(what.st_mode)) {
        error = wm_named_file_room((uint64_t)what.st_size, bytes);
    }
    while (error == 0 && bytes > 0) {
        ssize_t done = write(fd, data, bytes);

        if (done > 0) {
            data += done;
            bytes -= (size_t)done;
        } else if (done < 0 && errno != EINTR) {
            error = errno;
        }
    }
    return error;
}

int wm_named_file_append(int fd, const char *data, size_t bytes)
{
    int before = errno;
    WM_CANCEL_OFF();
    int error = append_all(fd, data, bytes);

    errno = before;
    return error;
}
