/* trace_file.h: the file of a trace: its name, and writes of whole pieces.
 *
 * No lock: whoever has one guards it. No function is a cancellation point. */
#ifndef WM_TRACE_FILE_H
#define WM_TRACE_FILE_H

#include "warmpool/base.h"

#include <sys/types.h>

typedef struct wm_trace_file {
    int fd;
    uint64_t bytes; /* written so far, all in whole pieces */
    ssize_t (*write)(int fd, const void *data, size_t bytes); /* the system's */
} wm_trace_file;

/* Opens the file of that name, %p, %r and %% replaced, and locks it; what is in
 * it stays. path: at least PATH_MAX bytes, gets its name. Status:
 * INVALID_OPTION with the file's name and the system's reason, or that another
 * runtime has it. */
warm_status wm_trace_file_open(wm_trace_file *file, const char *name,
                               char *path);

/* Empties the file, on which nothing is written yet. 0, or an errno. */
int wm_trace_file_empty(const wm_trace_file *file);

/* Puts the beginning of each trace of this process to at, magic to mark (see
 * trace.h); at most WM_TRACE_FILE_HEAD bytes. Returns where it ends. */
enum { WM_TRACE_FILE_HEAD = 40 };
unsigned char *wm_trace_file_head(unsigned char *at);

/* Writes all of it, or nothing and returns an errno. */
int wm_trace_file_write(wm_trace_file *file, const void *data, size_t bytes);

/* 0, or an errno of a write that the system had put off. */
int wm_trace_file_close(wm_trace_file *file);

/* In the child of a fork: closes its copy of the open file, which would keep
 * the lock when the parent is gone, and leaves the parent's lock alone. */
void wm_trace_file_forked(wm_trace_file *file);

#endif
