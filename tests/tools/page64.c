/* page64.c: a preloaded library that makes a kernel with pages of 64 KiB of one
 * with pages of 4 KiB, for `make check-page64`.
 *
 *   mmap               at multiples of 64 KiB; sizes are rounded up
 *   munmap, mprotect,  EINVAL if the start is none; sizes are rounded up, so
 *   madvise            that the start of what lies behind is hit as well
 *   mlock, munlock     the start is rounded down and the end up
 *   mincore            a byte for each 64 KiB
 *   sysconf, getpagesize, getauxval
 *
 * What the C library asks of itself (thread stacks, large mallocs) and system
 * calls by number are not seen. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define PAGE   ((uintptr_t)64 << 10)
#define SMALL  ((uintptr_t)4 << 10) /* the machine's own */

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static uintptr_t up(uintptr_t at)
{
    return (at + PAGE - 1) & ~(PAGE - 1);
}

static bool is_whole(uintptr_t at)
{
    return at % PAGE == 0;
}

static long fail(int error)
{
    errno = error;
    return -1;
}

/* ---- mappings ------------------------------------------------------------ */

static void *map(void *at, size_t bytes, int access, int flags, int file,
                 off_t offset)
{
    return (void *)syscall(SYS_mmap, at, bytes, access, flags, file, offset);
}

static void unmap_between(uintptr_t from, uintptr_t to)
{
    if (to > from) {
        syscall(SYS_munmap, from, to - from);
    }
}

/* Whole pages anywhere. */
static void *map_whole(size_t bytes, int access, int flags)
{
    size_t whole = up(bytes) + PAGE;
    uintptr_t all = (uintptr_t)map(NULL, whole, access, flags, -1, 0);

    if ((void *)all == MAP_FAILED) {
        return MAP_FAILED;
    }
    unmap_between(all, up(all));
    unmap_between(up(all) + up(bytes), all + whole);
    return (void *)up(all);
}

/* The rest of a file's last page is zeros. */
static void *map_file(size_t bytes, int access, int flags, int file,
                      off_t offset)
{
    void *base =
        map_whole(bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    int error;

    if (base == MAP_FAILED ||
        map(base, bytes, access, flags | MAP_FIXED, file, offset) == base) {
        return base;
    }
    error = errno;
    syscall(SYS_munmap, base, up(bytes));
    errno = error;
    return MAP_FAILED;
}

/* glibc's names of parameters are reserved. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
EXPORT void *mmap(void *at, size_t bytes, int access, int flags, int file,
                  off_t offset)
{
    bool fixed = (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;

    if (!is_whole((uintptr_t)offset) || (fixed && !is_whole((uintptr_t)at)) ||
        bytes == 0) {
        return (void *)fail(EINVAL);
    }
    if (bytes > SIZE_MAX - 2 * PAGE) {
        return (void *)fail(ENOMEM);
    }
    if (fixed || (flags & MAP_HUGETLB) != 0) {
        return map(at, file < 0 ? up(bytes) : bytes, access, flags, file,
                   offset);
    }
    return (flags & MAP_ANONYMOUS) != 0
               ? map_whole(bytes, access, flags)
               : map_file(bytes, access, flags, file, offset);
}

EXPORT void *mmap64(void *at, size_t bytes, int access, int flags, int file,
                    off_t offset)
{
    return mmap(at, bytes, access, flags, file, offset);
}

EXPORT int munmap(void *at, size_t bytes)
{
    return (int)(is_whole((uintptr_t)at) ? syscall(SYS_munmap, at, up(bytes))
                                         : fail(EINVAL));
}

EXPORT int mprotect(void *at, size_t bytes, int access)
{
    return (int)(is_whole((uintptr_t)at)
                     ? syscall(SYS_mprotect, at, up(bytes), access)
                     : fail(EINVAL));
}

EXPORT int madvise(void *at, size_t bytes, int advice)
{
    return (int)(is_whole((uintptr_t)at)
                     ? syscall(SYS_madvise, at, up(bytes), advice)
                     : fail(EINVAL));
}

static int lock_whole(long call, const void *at, size_t bytes)
{
    uintptr_t begin = (uintptr_t)at & ~(PAGE - 1);

    return (int)syscall(call, begin, up((uintptr_t)at + bytes) - begin);
}

EXPORT int mlock(const void *at, size_t bytes)
{
    return lock_whole(SYS_mlock, at, bytes);
}

EXPORT int munlock(const void *at, size_t bytes)
{
    return lock_whole(SYS_munlock, at, bytes);
}

EXPORT int mincore(void *at, size_t bytes, unsigned char *there)
{
    unsigned char of[PAGE / SMALL];

    if (!is_whole((uintptr_t)at)) {
        return (int)fail(EINVAL);
    }
    for (size_t i = 0; i < up(bytes) / PAGE; i++) {
        if (syscall(SYS_mincore, (char *)at + i * PAGE, PAGE, of) != 0) {
            return -1;
        }
        there[i] = 0;
        for (size_t k = 0; k < sizeof of; k++) {
            there[i] |= of[k] & 1;
        }
    }
    return 0;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* ---- what a page is ------------------------------------------------------ */

EXPORT long sysconf(int name)
{
    long (*next)(int);
    long value;

    if (name == _SC_PAGESIZE) {
        return (long)PAGE;
    }
    *(void **)(void *)&next = dlsym(RTLD_NEXT, "sysconf");
    value = next(name);
    return (name == _SC_PHYS_PAGES || name == _SC_AVPHYS_PAGES) && value > 0
               ? value / (long)(PAGE / SMALL)
               : value;
}

EXPORT int getpagesize(void)
{
    return (int)PAGE;
}

EXPORT unsigned long getauxval(unsigned long type)
{
    unsigned long (*next)(unsigned long);

    if (type == AT_PAGESZ) {
        return PAGE;
    }
    *(void **)(void *)&next = dlsym(RTLD_NEXT, "getauxval");
    return next(type);
}
