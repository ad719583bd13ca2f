/* wt_system.h: functions of the C library and the kernel that the library
 * calls, which a test can make fail. Include it once in a program: it defines
 * them, and so comes before the C library for all shared libraries.
 *
 * They fail, and are counted, in a thread that has set wt_system_inside; under
 * ThreadSanitizer, which has its own of most of them, none is. */
#ifndef WT_SYSTEM_H
#define WT_SYSTEM_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wt.h"

static _Thread_local bool wt_system_inside;

/* X(name, type, failure, errno, parameters, arguments); errno 0: the failure is
 * the code. */
#define WT_SYSTEM(X)                                                           \
    X(mmap, void *, MAP_FAILED, ENOMEM,                                        \
      (void *at, size_t bytes, int prot, int flags, int fd, off_t offset),     \
      (at, bytes, prot, flags, fd, offset))                                    \
    X(munmap, int, -1, ENOMEM, (void *at, size_t bytes), (at, bytes))          \
    X(mprotect, int, -1, ENOMEM, (void *at, size_t bytes, int prot),           \
      (at, bytes, prot))                                                       \
    X(madvise, int, -1, EAGAIN, (void *at, size_t bytes, int advice),          \
      (at, bytes, advice))                                                     \
    X(mincore, int, -1, EAGAIN,                                                \
      (void *at, size_t bytes, unsigned char *pages), (at, bytes, pages))      \
    X(mlock, int, -1, ENOMEM, (const void *at, size_t bytes), (at, bytes))     \
    X(memfd_create, int, -1, EMFILE, (const char *name, unsigned flags),       \
      (name, flags))                                                           \
    X(ftruncate, int, -1, ENOSPC, (int fd, off_t bytes), (fd, bytes))          \
    X(fallocate, int, -1, ENOSPC, (int fd, int mode, off_t at, off_t bytes),   \
      (fd, mode, at, bytes))                                                   \
    X(pthread_create, int, EAGAIN, 0,                                          \
      (pthread_t * thread, const pthread_attr_t *attr, void *(*main)(void *),  \
       void *argument),                                                        \
      (thread, attr, main, argument))                                          \
    X(open, int, -1, ENOENT, (const char *path, int flags, ...),               \
      (path, flags, 0600))                                                     \
    X(fopen, FILE *, NULL, EMFILE, (const char *path, const char *mode),       \
      (path, mode))                                                            \
    X(read, ssize_t, -1, EIO, (int fd, void *to, size_t bytes),                \
      (fd, to, bytes))                                                         \
    X(pread, ssize_t, -1, EIO, (int fd, void *to, size_t bytes, off_t at),     \
      (fd, to, bytes, at))                                                     \
    X(write, ssize_t, -1, ENOSPC, (int fd, const void *from, size_t bytes),    \
      (fd, from, bytes))                                                       \
    X(mkostemp, int, -1, EMFILE, (char *path, int flags), (path, flags))       \
    X(rename, int, -1, EXDEV, (const char *from, const char *to), (from, to))

enum {
#define WT_SYSTEM_ENUM(name, type, failure, code, parameters, arguments)       \
    WT_SYSTEM_##name,
    WT_SYSTEM(WT_SYSTEM_ENUM) WT_SYSTEM_syscall,
    WT_SYSTEM_CALLS
#undef WT_SYSTEM_ENUM
};

static struct {
    const char *name;
    uint64_t calls, fail_in; /* of one thread at a time */
    bool on;
} wt_system[WT_SYSTEM_CALLS] = {
#define WT_SYSTEM_NAME(name, type, failure, code, parameters, arguments)       \
    {#name, 0, 0, false},
    WT_SYSTEM(WT_SYSTEM_NAME){"syscall", 0, 0, false},
#undef WT_SYSTEM_NAME
};

/* As warm_testing_fail(). */
static inline void wt_system_fail(int which, uint64_t n, bool on)
{
    wt_system[which].fail_in = n;
    wt_system[which].on = on;
}

static inline bool wt_system_fails(int which)
{
    if (!wt_system_inside) {
        return false;
    }
    wt_system[which].calls++;
    if (wt_system[which].fail_in == 0 || --wt_system[which].fail_in > 0) {
        return false;
    }
    wt_system[which].fail_in = wt_system[which].on;
    return true;
}

#if !WT_TSAN
/* The C library names its parameters otherwise. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
#define WT_SYSTEM_EXPORT __attribute__((visibility("default")))
#define WT_SYSTEM_DEFINE(name, type, failure, code, parameters, arguments)     \
    WT_SYSTEM_EXPORT type name parameters                                      \
    {                                                                          \
        static __typeof__(&name) real;                                         \
                                                                               \
        if (wt_system_fails(WT_SYSTEM_##name)) {                               \
            errno = code != 0 ? code : errno;                                  \
            return failure;                                                    \
        }                                                                      \
        if (real == NULL) {                                                    \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                         \
        }                                                                      \
        return real arguments;                                                 \
    }
WT_SYSTEM(WT_SYSTEM_DEFINE)

WT_SYSTEM_EXPORT long syscall(long number, ...)
{
    static __typeof__(&syscall) real;
    long rest[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        rest[i] = va_arg(list, long);
    }
    va_end(list);
    /* A futex wakes and waits; no kernel refuses that. */
    if (number != SYS_futex && wt_system_fails(WT_SYSTEM_syscall)) {
        errno = ENOSYS;
        return -1;
    }
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    }
    return real(number, rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
#endif

#endif
