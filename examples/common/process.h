/* process.h: programs started by the demo and the tests. */
#ifndef EXAMPLE_PROCESS_H
#define EXAMPLE_PROCESS_H

#include "examples/common/images.h"

#include <stdio.h>
#include <sys/types.h>

typedef struct process {
    pid_t pid;
    FILE *out; /* its standard output */
} process;

/* Starts argv[0]; the arguments end with a null. The process is killed when
 * the thread that started it is gone. */
bool process_start(process *p, const char *const *argv, message *why);

/* Reads lines until one begins with prefix, which goes to line; the others
 * are printed if echo is set. False: the output ended. */
bool process_line(process *p, const char *prefix, bool echo, char *line,
                  size_t bytes);

/* Sends the signal (0: none), waits, and returns the exit status; 128 and
 * more if a signal ended it. */
int process_end(process *p, int signal);

#endif
