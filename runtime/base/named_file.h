/* named_file.h: files that options name: trace, log_file, stats_at_exit,
 * snapshot_file.
 *
 * In a name %p is the process id, %r the number of the runtime in its process,
 * %n the number of the snapshot, %% a percent sign. A name with a % that its
 * option does not know is refused. Takes no lock. No function is a cancellation
 * point. */
#ifndef WM_NAMED_FILE_H
#define WM_NAMED_FILE_H

#include "warmpool/base.h"

#include <stdbool.h>
#include <stdint.h>

/* What a name stands for. */
typedef struct wm_file_name {
    const char *option; /* for messages */
    const char *name;
    unsigned runtime; /* for %r; 0: the option does not know it */
    uint64_t count;   /* for %n; 0: the option does not know it */
} wm_file_name;

/* Copies the name to path (at most room bytes) and replaces what begins with a
 * percent sign. Status: INVALID_OPTION with the option and the name. */
warm_status wm_named_file_path(const wm_file_name *name, char *path,
                               size_t room);

/* Opens a file, and creates it if it does not exist. Only regular files and
 * character devices (/dev/null) are accepted: a pipe whose reader is gone would
 * kill the program with SIGPIPE. flags: of open(), beside O_CREAT. alone: locks
 * a regular file, so that no other runtime of any process opens it so. Status:
 * INVALID_OPTION with the option, the path and the reason. */
warm_status wm_named_file_open(const char *option, const char *path, int flags,
                               bool alone, int *fd);

/* Which file a descriptor is of: a program that closes all its descriptors may
 * get the same number for a file of its own. */
typedef struct wm_file_id {
    uint64_t device, number;
} wm_file_id;
wm_file_id wm_named_file_id(int fd);
bool wm_named_file_is(int fd, const wm_file_id *id);

/* INVALID_OPTION with the option, the path and the text of an errno. */
warm_status wm_named_file_refuse(const char *option, const char *path,
                                 int error);
/* INVALID_OPTION: another runtime's file. why: "is …". */
warm_status wm_named_file_taken(const char *option, const char *path,
                                const char *why);

/* Whether bytes may be written at that offset: a write beyond the limit on file
 * sizes would raise SIGXFSZ. 0, or EFBIG. */
int wm_named_file_room(uint64_t at, size_t bytes);

/* Writes all bytes to a file that was opened with O_APPEND. 0, or an errno. */
int wm_named_file_append(int fd, const char *data, size_t bytes);

#endif
