/* trace_file.h: the bytes of a trace: records of one thread encoded into a
 * chunk (format: trace.h), and the file, written in whole pieces.
 *
 * Takes no lock: the caller guards its chunk and its file. No function is a
 * cancellation point. */
#ifndef WM_TRACE_FILE_H
#define WM_TRACE_FILE_H

#include "runtime/base/trace.h"

#include <sys/types.h>

typedef struct wm_trace_file {
    int fd;
    uint64_t bytes; /* written so far, in whole pieces */
    ssize_t (*write)(int fd, const void *data, size_t bytes); /* write(2) */
} wm_trace_file;

/* Opens the file and locks it without changing its content (named_file.h). name
 * may contain %p, %r and %%; path (at least PATH_MAX bytes) gets the expanded
 * name. Status: INVALID_OPTION with the file's name and the reason. */
warm_status wm_trace_file_open(wm_trace_file *file, const char *name,
                               unsigned runtime, char *path);

/* Truncates the file before the first write. 0, or an errno. */
int wm_trace_file_empty(const wm_trace_file *file);

/* Writes the part of the header that all traces of this process share (magic,
 * version, process, mark: trace.h) at at, at most WM_TRACE_FILE_HEAD bytes.
 * Returns its end. */
enum { WM_TRACE_FILE_HEAD = 40 };
unsigned char *wm_trace_file_head(unsigned char *at);

/* Writes all bytes and returns 0, or writes none and returns an errno. */
int wm_trace_file_write(wm_trace_file *file, const void *data, size_t bytes);

/* 0, or the errno of a delayed write. */
int wm_trace_file_close(wm_trace_file *file);

/* In the child of a fork: closes the child's descriptor, which would hold the
 * lock beyond the parent's end. The parent's lock stays. */
void wm_trace_file_forked(wm_trace_file *file);

/* ---- chunks -------------------------------------------------------------- */

enum {
    WM_CHUNK_HEAD = 64,       /* most bytes of a head */
    WM_CHUNK_ROOM = 16 << 10, /* bytes for records */
    WM_CHUNK_RECORD = 80,     /* most bytes of one record */
    WM_CHUNK_SUM = 4          /* bytes of a checksum */
};

/* All zeros: empty. */
typedef struct wm_trace_chunk {
    uint64_t first_order, first_ns;
    uint64_t last_order, last_ns;
    uint32_t last_block;
    unsigned records;
    size_t used;
    unsigned char bytes[WM_CHUNK_HEAD + WM_CHUNK_ROOM + WM_CHUNK_SUM];
} wm_trace_chunk;

/* Whether another record might not fit. */
static inline bool wm_trace_chunk_is_full(const wm_trace_chunk *chunk)
{
    return chunk->used > WM_CHUNK_ROOM - WM_CHUNK_RECORD;
}

/* Appends a record. order: larger than the last record's; ns: since the trace
 * began. */
void wm_trace_chunk_add(wm_trace_chunk *chunk, const wm_trace_record *record,
                        uint64_t order, uint64_t ns);

/* Completes the chunk with head and checksum and returns its bytes, which stay
 * valid until the next record is added. The chunk is empty afterwards. */
const void *wm_trace_chunk_end(wm_trace_chunk *chunk, uint64_t thread,
                               size_t *bytes);

void wm_trace_varint(unsigned char **at, uint64_t value);
/* Writes the checksum of [from, to) at to. */
void wm_trace_checksum(const unsigned char *from, unsigned char *to);

#endif
