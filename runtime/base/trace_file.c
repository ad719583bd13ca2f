/* trace_file.c: encodes chunks, and opens and writes the file (trace_file.h).
 *
 * Only regular files and character devices (/dev/null) are accepted: a pipe
 * whose reader is gone would kill the program with SIGPIPE. A write beyond the
 * limit on file sizes would raise SIGXFSZ, so the limit is checked before each
 * write. flock() locks the open file, not the process: two runtimes of one
 * process exclude each other too. */
#include "runtime/base/trace_file.h"

#include "runtime/base/process.h"
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

/* ---- chunks -------------------------------------------------------------- */

void wm_trace_varint(unsigned char **at, uint64_t value)
{
    while (value >= 128) {
        *(*at)++ = (unsigned char)(value | 128);
        value >>= 7;
    }
    *(*at)++ = (unsigned char)value;
}

void wm_trace_checksum(const unsigned char *from, unsigned char *to)
{
    uint32_t sum = 2166136261u;

    for (const unsigned char *c = from; c < to; c++) {
        sum = (sum ^ *c) * 16777619u;
    }
    for (int i = 0; i < WM_CHUNK_SUM; i++) {
        to[i] = (unsigned char)(sum >> (8 * i));
    }
}

static uint64_t zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

/* Sets the base of the differences that the first record stores. */
static void start(wm_trace_chunk *c, uint64_t order, uint64_t ns)
{
    c->first_order = order;
    c->first_ns = ns;
    c->last_order = order - 1;
    c->last_ns = ns;
    c->last_block = 0;
}

/* Appends the fields that the record's op has. */
static void put_fields(wm_trace_chunk *c, unsigned char **at,
                       const wm_trace_record *r)
{
    unsigned has = wm_trace_fields(r->op);

    if ((has & WM_TRACE_HAS_BLOCK) != 0) {
        wm_trace_varint(at, zigzag((int64_t)r->block - (int64_t)c->last_block));
        c->last_block = r->block;
    }
    if ((has & WM_TRACE_HAS_BYTES) != 0) {
        wm_trace_varint(at, r->bytes);
    }
    if ((has & WM_TRACE_HAS_STREAM) != 0) {
        wm_trace_varint(at, r->stream);
    }
    if ((has & WM_TRACE_HAS_PLACE) != 0) {
        wm_trace_varint(at, r->place);
    }
    if ((has & WM_TRACE_HAS_POOL) != 0) {
        wm_trace_varint(at, r->pool);
    }
}

void wm_trace_chunk_add(wm_trace_chunk *c, const wm_trace_record *record,
                        uint64_t order, uint64_t ns)
{
    unsigned char *at = c->bytes + WM_CHUNK_HEAD + c->used;
    uint64_t gap;

    if (c->records == 0) {
        start(c, order, ns);
    }
    ns = ns > c->last_ns ? ns : c->last_ns; /* a test's clock may run back */
    gap = order - c->last_order - 1;
    *at++ = (unsigned char)((unsigned)record->op +
                            16 * (gap < WM_TRACE_GAP ? gap : WM_TRACE_GAP));
    if (gap >= WM_TRACE_GAP) {
        wm_trace_varint(&at, gap - WM_TRACE_GAP);
    }
    wm_trace_varint(&at, ns - c->last_ns);
    put_fields(c, &at, record);
    c->last_order = order;
    c->last_ns = ns;
    c->used = (size_t)(at - c->bytes) - WM_CHUNK_HEAD;
    c->records++;
}

/* The head is written directly before the records, so that both are one write.
 */
const void *wm_trace_chunk_end(wm_trace_chunk *c, uint64_t thread,
                               size_t *bytes)
{
    unsigned char head[WM_CHUNK_HEAD], *at = head, *from;
    size_t length;

    *at++ = 'C';
    wm_trace_varint(&at, thread);
    wm_trace_varint(&at, c->first_order);
    wm_trace_varint(&at, c->first_ns);
    wm_trace_varint(&at, c->records);
    wm_trace_varint(&at, c->used);
    length = (size_t)(at - head);
    from = c->bytes + WM_CHUNK_HEAD - length;
    memcpy(from, head, length);
    length += c->used;
    wm_trace_checksum(from, from + length);
    *bytes = length + WM_CHUNK_SUM;
    c->records = 0;
    c->used = 0;
    return from;
}

/* ---- the file -------------------------------------------------------------
 */

/* Relaxed: a number, tied to no other data. */
static _Atomic unsigned runtimes_traced;

/* The identity distinguishes the files of this process from those of an earlier
 * process with the same pid. */
unsigned char *wm_trace_file_head(unsigned char *at)
{
    memcpy(at, WM_TRACE_MAGIC, sizeof WM_TRACE_MAGIC - 1);
    at += sizeof WM_TRACE_MAGIC - 1;
    wm_trace_varint(&at, WM_TRACE_VERSION);
    wm_trace_varint(&at, (uint64_t)getpid());
    wm_trace_varint(&at, wm_process_identity());
    return at;
}

static warm_status refused(const char *name, int error)
{
    char text[96];

    return wm_fail_code(WARM_INVALID_OPTION, "file", error,
                        strerror_r(error, text, sizeof text),
                        "option trace: %.300s: %s", name,
                        strerror_r(error, text, sizeof text));
}

/* Copies name to path and replaces %p, %r and %%. */
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
                           "'%.2s' is unknown",
                           name, c);
        }
        used += (size_t)length;
    }
    return used + 1 < room ? WARM_OK : refused(name, ENAMETOOLONG);
}

/* Whether an earlier runtime of this process wrote the file. */
static bool is_ours(int fd)
{
    unsigned char head[WM_TRACE_FILE_HEAD], there[WM_TRACE_FILE_HEAD];
    size_t bytes = (size_t)(wm_trace_file_head(head) - head);

    return pread(fd, there, bytes, 0) == (ssize_t)bytes &&
           memcmp(head, there, bytes) == 0;
}

/* Locks the file. 0, or the errno of why it cannot hold a trace. */
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
    return is_ours(fd) ? EEXIST : 0;
}

static warm_status open_path(wm_trace_file *file, const char *path)
{
    /* O_NONBLOCK: the open of a pipe without a reader would wait. */
    int fd =
        open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    int error = fd < 0 ? errno : take(fd);

    if (error == 0) {
        *file = (wm_trace_file){.fd = fd, .write = write};
        return WARM_OK;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (error == EBUSY || error == EEXIST) {
        return wm_fail(WARM_INVALID_OPTION,
                       "option trace: %.300s %s; put %%p (the process's "
                       "number) or %%r (the runtime's in it) into the name",
                       path,
                       error == EBUSY
                           ? "is being written by another runtime"
                           : "contains the trace of another runtime of this "
                             "process");
    }
    if (error == EINVAL || error == ENXIO) {
        return wm_fail(WARM_INVALID_OPTION,
                       "option trace: %.300s is not a file that can be "
                       "written from its start",
                       path);
    }
    return refused(path, error);
}

warm_status wm_trace_file_open(wm_trace_file *file, const char *name,
                               char *path)
{
    int cancel = wm_cancel_off();
    warm_status status = expand(name, path, PATH_MAX);

    if (status == WARM_OK) {
        status = open_path(file, path);
    }
    wm_cancel_restore(cancel);
    return status;
}

/* EINVAL means a device, which has nothing to truncate. */
int wm_trace_file_empty(const wm_trace_file *file)
{
    int cancel = wm_cancel_off();
    int before = errno;
    int error = ftruncate(file->fd, 0) != 0 && errno != EINVAL ? errno : 0;

    errno = before;
    wm_cancel_restore(cancel);
    return error;
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
        ssize_t done = file->write(file->fd, data, bytes);

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

/* Removes a partly written piece, and moves the file offset back. Fails on a
 * device, which has neither; if a file cannot be truncated, its reader finds a
 * torn end. */
static void take_back(const wm_trace_file *file)
{
    if (ftruncate(file->fd, (off_t)file->bytes) != 0 ||
        lseek(file->fd, (off_t)file->bytes, SEEK_SET) < 0) {
        return;
    }
}

int wm_trace_file_write(wm_trace_file *file, const void *data, size_t bytes)
{
    int cancel = wm_cancel_off();
    int before = errno;
    int error = write_all(file, data, bytes);

    if (error == 0) {
        file->bytes += bytes;
    } else {
        take_back(file);
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

    /* Unlocks before the close: a child that is being forked right now may
     * still hold the open file, and with it the lock. */
    (void)flock(file->fd, LOCK_UN);
    error = close(file->fd) == 0 ? 0 : errno;
    errno = before;
    wm_cancel_restore(cancel);
    return error;
}

void wm_trace_file_forked(wm_trace_file *file)
{
    int before = errno;

    (void)close(file->fd);
    file->fd = -1;
    errno = before;
}
