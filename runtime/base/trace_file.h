/* trace_file.h: the file of a trace: its name, and writes of whole pieces.
 *
 * No lock: whoever has one guards it. No function is a cancellation point. */
#ifndef WM_TRACE_FILE_H
#define WM_TRACE_FILE_H

#include "warmpool/base.h"

typedef struct wm_trace_file {
    int fd;
    uint64_t bytes; /* written so far, all in whole pieces */
} wm_trace_file;

/* Opens the file of that name, %p, %r and %% replaced, and empties it; path: at
 * least PATH_MAX bytes, gets its name. Status: INVALID_OPTION with the file's
 * name and the system's reason, or that another runtime has it. */
warm_status wm_trace_file_open(wm_trace_file *file, const char *name,
                               char *path);

/* Puts the beginning of each trace of this process to at, magic to mark (see
 * trace.h); at most WM_TRACE_FILE_HEAD bytes. Returns where it ends. */
enum { WM_TRACE_FILE_HEAD = 40 };
unsigned char *wm_trace_file_head(unsigned char *at);

/* Writes all of it, or nothing and returns an errno. */
int wm_trace_file_write(wm_trace_file *file, const void *data, size_t bytes);

/* 0, or an errno of a write that the system had put off. */
int wm_trace_file_close(wm_trace_file *file);

#endif
