/* mapping.c: maps and unmaps regions (mapping.h). No mapping of another thread
 * is ever replaced: addresses are unmapped only where this file mapped them. */
#include "alloc/kinds/mapping.h"

#include "runtime/base/os_page.h"
#include "runtime/base/smaps.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
/* Huge pages of 2 MiB, whatever the system's default is. */
#define TABLE_PAGES (MAP_HUGETLB | 21 << 26)

enum wm_huge wm_mapping_huge(const char *option)
{
    static const char *const names[] = {[WM_HUGE_OFF] = "off",
                                        [WM_HUGE_TRY] = "try",
                                        [WM_HUGE_REQUIRE] = "require",
                                        [WM_HUGE_TABLE_TRY] = "hugetlb_try",
                                        [WM_HUGE_TABLE_REQUIRE] =
                                            "hugetlb_require"};
    int huge = WM_HUGE_TABLE_REQUIRE;

    while (huge > WM_HUGE_OFF && strcmp(option, names[huge]) != 0) {
        huge--;
    }
    return (enum wm_huge)huge;
}

static void *map_pages(void *at, size_t bytes, int access, int flags)
{
    return mmap(at, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static void unmap_between(char *from, char *to)
{
    if (to > from) {
        munmap(from, (size_t)(to - from));
    }
}

static size_t guard_bytes(enum wm_huge huge)
{
    return huge == WM_HUGE_REQUIRE ? wm_os_page() : 0;
}

/* Maps bytes that begin at a huge page, and a guard before and behind them. */
static char *map_aligned(size_t bytes, size_t guard, int access, int flags)
{
    size_t whole = bytes + 2 * guard + WM_HUGE_PAGE;
    char *all = whole > bytes ? map_pages(NULL, whole, access, flags)
                              : MAP_FAILED; /* no address is so far */
    char *base;

    if (all == MAP_FAILED) {
        return NULL;
    }
    base = all + guard;
    base += (WM_HUGE_PAGE - (uintptr_t)base % WM_HUGE_PAGE) % WM_HUGE_PAGE;
    unmap_between(all, base - guard);
    unmap_between(base + bytes + guard, all + whole);
    return base;
}

static char *map_plain(size_t bytes)
{
    char *base = map_pages(NULL, bytes, PROT_READ | PROT_WRITE, 0);

    return base != MAP_FAILED ? base : NULL;
}

/* May fail: small pages do as well, unless they are counted later. */
static char *request_huge(char *base, size_t bytes)
{
    if (base != NULL) {
        (void)madvise(base, bytes, MADV_HUGEPAGE);
    }
    return base;
}

static char *map_guarded(size_t bytes)
{
    size_t guard = guard_bytes(WM_HUGE_REQUIRE);
    char *base = map_aligned(bytes, guard, PROT_NONE, 0);

    if (base != NULL && mprotect(base, bytes, PROT_READ | PROT_WRITE) != 0) {
        int error = errno;

        munmap(base - guard, bytes + 2 * guard);
        errno = error;
        return NULL;
    }
    return request_huge(base, bytes);
}

/* The rest behind the huge pages is mapped first, at addresses with room in
 * front of it, which another thread may take meanwhile: then errno is EEXIST.
 */
static char *map_table_and_rest(size_t front, size_t bytes)
{
    char *base = map_aligned(bytes, 0, PROT_READ | PROT_WRITE, MAP_NORESERVE);
    char *got;
    int error;

    if (base == NULL) {
        return NULL;
    }
    munmap(base, front);
    got = map_pages(base, front, PROT_READ | PROT_WRITE,
                    TABLE_PAGES | MAP_FIXED_NOREPLACE);
    if (got == base) {
        return base;
    }
    error = errno;
    if (got != MAP_FAILED) { /* a kernel before 4.17 */
        munmap(got, front);
        error = EEXIST;
    }
    munmap(base + front, bytes - front);
    errno = error;
    return NULL;
}

enum { TRIES = 8 };

static char *map_table(size_t bytes)
{
    size_t front = wm_huge_part(bytes);
    char *base = NULL;

    if (front == bytes) {
        base = map_pages(NULL, bytes, PROT_READ | PROT_WRITE, TABLE_PAGES);
        return base != MAP_FAILED ? base : NULL;
    }
    errno = EEXIST;
    for (int i = 0; i < TRIES && base == NULL && errno == EEXIST; i++) {
        base = map_table_and_rest(front, bytes);
    }
    return base;
}

static char *map_trying(size_t bytes)
{
    return request_huge(map_aligned(bytes, 0, PROT_READ | PROT_WRITE, 0),
                        bytes);
}

static char *map(enum wm_huge huge, size_t bytes)
{
    char *base;

    if (bytes < WM_HUGE_PAGE) {
        if (wm_huge_is_required(huge)) {
            errno = EINVAL;
            return NULL;
        }
        return map_plain(bytes);
    }
    switch (huge) {
    case WM_HUGE_OFF:
        return map_plain(bytes);
    case WM_HUGE_REQUIRE:
        return map_guarded(bytes);
    case WM_HUGE_TABLE_TRY:
    case WM_HUGE_TABLE_REQUIRE:
        base = map_table(bytes);
        return base != NULL || huge == WM_HUGE_TABLE_REQUIRE
                   ? base
                   : map_trying(bytes);
    case WM_HUGE_TRY:
    default:
        return map_trying(bytes);
    }
}

bool wm_mapping_make(enum wm_huge huge, size_t bytes, void **base)
{
    char *mapped;

    wm_assert(wm_os_page_is_whole(NULL, bytes));
    mapped = map(huge, bytes);
    if (mapped != NULL) {
        *base = mapped;
    }
    return mapped != NULL;
}

/* In two calls: a call must not end inside a mapping of huge pages. */
void wm_mapping_end(enum wm_huge huge, void *base, size_t bytes)
{
    size_t guard = guard_bytes(huge), front = wm_huge_part(bytes);
    char *begin = base;

    wm_assert(wm_os_page_is_whole(base, bytes));
    unmap_between(begin - guard, begin + front);
    unmap_between(begin + front, begin + bytes + guard);
}

void wm_mapping_cut(enum wm_huge huge, void *base, size_t bytes)
{
    size_t guard = guard_bytes(huge);
    char *begin = base;

    unmap_between(begin - guard, begin);
    unmap_between(begin + bytes, begin + bytes + guard);
}

bool wm_mapping_huge_bytes(const char *root, const void *base, size_t bytes,
                           uint64_t *huge)
{
    wm_smaps_range range = {(uintptr_t)base, (uintptr_t)base + bytes};

    return wm_smaps_huge(root, &range, 1, huge);
}
