/* cover.c: which instructions of the library a test has reached, for the map of
 * mutants.py. Part of the library in a cover build, where the compiler calls
 * the function below at the beginning of each basic block (gcc's
 * -fsanitize-coverage=trace-pc).
 *
 * WT_COVER names a file; with the program's name behind it, it gets a byte for
 * each address of the library's module, 1 if it was reached. It is shared with
 * children and survives however a process ends. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 16 << 20 }; /* more than the text of any test program */

/* The linker's: where this module begins. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

void __sanitizer_cov_trace_pc(void) __attribute__((no_sanitize_coverage));

static unsigned char *reached;

__attribute__((constructor(101))) static void open_map(void)
{
    const char *name = getenv("WT_COVER");
    char path[PATH_MAX];
    void *map;
    int file;

    if (name == NULL) {
        return;
    }
    snprintf(path, sizeof path, "%s.%s", name, program_invocation_short_name);
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || ftruncate(file, SIZE) != 0) {
        perror(path);
        abort();
    }
    map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED) {
        reached = map;
    }
}

void __sanitizer_cov_trace_pc(void)
{
    uintptr_t at =
        (uintptr_t)__builtin_return_address(0) - (uintptr_t)__ehdr_start;

    if (reached != NULL && at < SIZE) {
        reached[at] = 1;
    }
}
