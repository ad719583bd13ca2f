/* process.c: see process.h. */
#include "examples/common/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void run(const char *const *argv, int out)
{
    /* execv() takes the arguments without const, and leaves them alone. */
    char *const *arguments = (char *const *)(uintptr_t)argv;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, STDOUT_FILENO);
    execv(argv[0], arguments);
    fprintf(stderr, "%s: %s\n", argv[0], strerrordesc_np(errno));
    _exit(127);
}

bool process_start(process *p, const char *const *argv, message *why)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return failed(why, "pipe: %s", strerrordesc_np(errno));
    }
    fflush(NULL);
    p->pid = fork();
    if (p->pid == 0) {
        run(argv, ends[1]);
    }
    close(ends[1]);
    p->out = p->pid > 0 ? fdopen(ends[0], "r") : NULL;
    if (p->out == NULL) {
        close(ends[0]);
        return failed(why, "could not start %s: %s", argv[0],
                      strerrordesc_np(errno));
    }
    return true;
}

bool process_line(process *p, const char *prefix, bool echo, char *line,
                  size_t bytes)
{
    while (fgets(line, (int)bytes, p->out) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, prefix, strlen(prefix)) == 0) {
            return true;
        }
        if (echo) {
            printf("  %s\n", line);
            fflush(stdout);
        }
    }
    return false;
}

int process_end(process *p, int signal)
{
    int status = 0;

    if (signal != 0) {
        kill(p->pid, signal);
    }
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR) {
    }
    fclose(p->out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
