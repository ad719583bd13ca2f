/* hidden.c: a sorted array of ranges, under the process lock. */
#include "runtime/base/hidden.h"

#include "runtime/base/fork_marks.h"
#include "runtime/base/meta.h"
#include "runtime/base/os_page.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct range {
    uintptr_t begin, end;
    bool marked; /* by the program, before: the mark stays */
};

/* Lock wm_process_lock. */
static struct {
    struct range *ranges; /* by address */
    size_t count, room;
} hidden;

/* Room for so many more ranges; false: no memory. */
static bool reserve_locked(size_t more_ranges)
{
    size_t needed = hidden.count + more_ranges;
    size_t room = hidden.room == 0 ? 16 : 2 * hidden.room;
    struct range *more;

    if (needed <= hidden.room) {
        return true;
    }
    room = room < needed ? needed : room;
    more = wm_meta_grow(hidden.ranges, hidden.count * sizeof *more,
                        room * sizeof *more);
    if (more == NULL) {
        return false;
    }
    hidden.ranges = more;
    hidden.room = room;
    return true;
}

/* The first range that ends behind an address. */
static size_t find_locked(uintptr_t address)
{
    size_t low = 0, high = hidden.count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (hidden.ranges[middle].end > address) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static void insert_locked(uintptr_t begin, uintptr_t end, bool marked)
{
    size_t at = find_locked(begin);
    struct range *range = &hidden.ranges[at];

    memmove(range + 1, range, (hidden.count - at) * sizeof *range);
    *range = (struct range){begin, end, marked};
    hidden.count++;
}

static void erase_locked(size_t at)
{
    struct range *range = &hidden.ranges[at];

    hidden.count--;
    memmove(range, range + 1, (hidden.count - at) * sizeof *range);
}

bool wm_hidden_add(void *base, size_t bytes)
{
    uintptr_t begin = (uintptr_t)base, end = begin + bytes;
    bool added;

    wm_assert(wm_os_page_is_whole(base, bytes));
    wm_lock_acquire(&wm_process_lock);
    added = madvise(base, bytes, MADV_DONTFORK) == 0;
    if (added && reserve_locked(1)) {
        insert_locked(begin, end, false);
    }
    wm_lock_release(&wm_process_lock);
    return added;
}

/* Ends the marks of [begin, end), but for the program's own. */
static void unmark_locked(uintptr_t begin, uintptr_t end)
{
    for (size_t i = find_locked(begin);
         i < hidden.count && hidden.ranges[i].begin < end; i++) {
        const struct range *range = &hidden.ranges[i];
        const wm_fork_mark part = {.begin = range->begin > begin ? range->begin
                                                                 : begin,
                                   .end = range->end < end ? range->end : end,
                                   .own = range->marked};

        wm_fork_marks_end(&part, 1);
    }
}

/* Cuts [begin, end) out of the ranges. The rest behind a part that is cut out
 * of the middle needs a range of its own: without room for it the whole range
 * stays, and a child holds addresses where no memory is. */
static void cut_locked(uintptr_t begin, uintptr_t end)
{
    size_t at = find_locked(begin);

    while (at < hidden.count && hidden.ranges[at].begin < end) {
        struct range *range = &hidden.ranges[at];
        uintptr_t last = range->end;

        if (begin <= range->begin && last <= end) {
            erase_locked(at);
        } else if (begin <= range->begin) {
            range->begin = end;
        } else if (last <= end) {
            range->end = begin;
            at++;
        } else {
            if (reserve_locked(1)) {
                hidden.ranges[at].end = begin;
                insert_locked(end, last, hidden.ranges[at].marked);
            }
            return;
        }
    }
}

static void end_locked(uintptr_t begin, uintptr_t end)
{
    unmark_locked(begin, end);
    cut_locked(begin, end);
    if (hidden.count == 0) {
        wm_meta_free(hidden.ranges);
        hidden.ranges = NULL;
        hidden.room = 0;
    }
}

bool wm_hidden_add_foreign(void *base, size_t bytes)
{
    wm_fork_mark *parts;
    size_t count;
    bool added;

    if (!wm_fork_marks_set((uintptr_t)base, (uintptr_t)base + bytes, &parts,
                           &count)) {
        return false;
    }
    wm_lock_acquire(&wm_process_lock);
    added = reserve_locked(count);
    for (size_t i = 0; i < count && added; i++) {
        insert_locked(parts[i].begin, parts[i].end, parts[i].own);
    }
    wm_lock_release(&wm_process_lock);
    if (!added) {
        wm_fork_marks_end(parts, count);
        errno = ENOMEM;
    }
    wm_meta_free(parts);
    return added;
}

void wm_hidden_remove(void *base, size_t bytes)
{
    wm_assert(wm_os_page_is_whole(base, bytes));
    wm_lock_acquire(&wm_process_lock);
    end_locked((uintptr_t)base, (uintptr_t)base + bytes);
    wm_lock_release(&wm_process_lock);
}

/* The program's memory may lie at the addresses of a range that the kernel did
 * not hide: that stays as it is. */
static void hold(const struct range *range)
{
    void *base = (void *)range->begin;
    size_t bytes = range->end - range->begin;
    void *at =
        mmap(base, bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
             -1, 0);

    if (at != MAP_FAILED && at != base) { /* a kernel before 4.17 */
        munmap(at, bytes);
    }
}

void wm_hidden_forked(void)
{
    wm_lock_acquire(&wm_process_lock);
    for (size_t i = 0; i < hidden.count; i++) {
        hold(&hidden.ranges[i]);
    }
    wm_lock_release(&wm_process_lock);
}
