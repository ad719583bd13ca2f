/* trace_file.h: the file of a trace: its name, and writes of whole pieces.
 *
 * Takes no lock: the caller guards its file. No function is a cancellation
 * point. */
#ifndef WM_TRACE_FILE_H
#define WM_TRACE_FILE_H

#include "warmpool/base.h"

#include <sys/types.h>

typedef struct wm_trace_file {
    int fd;
    uint64_t bytes; /* written so far, in whole pieces */
    ssize_t (*write)(int fd, const void *data, size_t bytes); /* write(2) */
} wm_trace_file;

/* Opens the file and locks it without changing its content. name may contain
 * %p, %r and %%; path (at least PATH_MAX bytes) gets the expanded name. Status:
 * INVALID_OPTION with the file's name and the reason. */
warm_status wm_trace_file_open(wm_trace_file *file, const char *name,
                               char *path);

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
 * lock beyond the parent's end. The parent stays locked. */
void wm_trace_file_forked(wm_trace_file *file);

#endif
