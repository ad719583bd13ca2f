/* trace_file.c: encodes chunks, and opens and writes the file (trace_file.h).
 */
#include "runtime/base/trace_file.h"

#include "runtime/base/named_file.h"
#include "runtime/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
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

/* Whether an earlier runtime of this process wrote the file. */
static bool is_ours(int fd)
{
    unsigned char head[WM_TRACE_FILE_HEAD], there[WM_TRACE_FILE_HEAD];
    size_t bytes = (size_t)(wm_trace_file_head(head) - head);

    return pread(fd, there, bytes, 0) == (ssize_t)bytes &&
           memcmp(head, there, bytes) == 0;
}

warm_status wm_trace_file_open(wm_trace_file *file, const char *name,
                               unsigned runtime, char *path)
{
    const wm_file_name named = {
        .option = "trace", .name = name, .runtime = runtime};
    int fd = -1;
    warm_status status = wm_named_file_path(&named, path, PATH_MAX);

    if (status == WARM_OK) {
        status = wm_named_file_open("trace", path, O_RDWR, true, &fd);
    }
    if (status == WARM_OK && is_ours(fd)) {
        WM_CANCEL_OFF();
        (void)close(fd);
        return wm_named_file_taken("trace", path,
                                   "contains the trace of another runtime of "
                                   "this process");
    }
    if (status == WARM_OK) {
        *file = (wm_trace_file){.fd = fd, .write = write};
    }
    return status;
}

/* EINVAL means a device, which has nothing to truncate. */
int wm_trace_file_empty(const wm_trace_file *file)
{
    int before = errno;
    int error = ftruncate(file->fd, 0) != 0 && errno != EINVAL ? errno : 0;

    errno = before;
    return error;
}

static int write_all(const wm_trace_file *file, const char *data, size_t bytes)
{
    if (wm_named_file_room(file->bytes, bytes) != 0) {
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
    WM_CANCEL_OFF();
    int before = errno;
    int error = write_all(file, data, bytes);

    if (error == 0) {
        file->bytes += bytes;
    } else {
        take_back(file);
    }
    errno = before;
    return error;
}

int wm_trace_file_close(wm_trace_file *file)
{
    int before = errno;
    int error;

    WM_CANCEL_OFF();
    /* Unlocks before the close: a child that is being forked right now may
     * still hold the open file, and with it the lock. */
    (void)flock(file->fd, LOCK_UN);
    error = close(file->fd) == 0 ? 0 : errno;
    errno = before;
    return error;
}

void wm_trace_file_forked(wm_trace_file *file)
{
    int before = errno;

    (void)close(file->fd);
    file->fd = -1;
    errno = before;
}
