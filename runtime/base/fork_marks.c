/* fork_marks.c: see fork_marks.h. */
#include "runtime/base/fork_marks.h"

#include "runtime/base/lock.h"
#include "runtime/base/meta.h"
#include "runtime/base/os_page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static bool mark(uintptr_t begin, uintptr_t end, int advice)
{
    return madvise((void *)begin, end - begin, advice) == 0;
}

/* ---- /proc/self/maps ----------------------------------------------------- */

/* A mapping that lies in the range, at least in part. */
struct mapping {
    uintptr_t begin, end;
    uintptr_t probe; /* there is a border now if it had no mark; 0: unknown */
};

struct mappings {
    struct mapping *list;
    size_t count, room;
};

static bool reserve(struct mappings *all, size_t room)
{
    struct mapping *more =
        wm_meta_grow(all->list, all->count * sizeof *more, room * sizeof *more);

    if (more == NULL) {
        return false;
    }
    all->list = more;
    all->room = room;
    return true;
}

static bool add(struct mappings *all, uintptr_t begin, uintptr_t end)
{
    if (all->count == all->room &&
        !reserve(all, all->room == 0 ? 8 : 2 * all->room)) {
        return false;
    }
    all->list[all->count++] = (struct mapping){.begin = begin, .end = end};
    return true;
}

/* The file, opened once: the second look cannot fail for want of a descriptor.
 * False (errno): it cannot be opened now. *maps: null where there is no /proc.
 */
static bool open_maps(FILE **maps)
{
    *maps = fopen("/proc/self/maps", "re");
    return *maps != NULL || errno == ENOENT || errno == EACCES;
}

/* Lines are "begin-end rw-p …". False (errno): not all could be read. */
static bool read_maps(FILE *maps, uintptr_t begin, uintptr_t end,
                      struct mappings *all)
{
    uintptr_t first = 0, last = 0;
    char *line = NULL;
    size_t room = 0;
    bool done = true;

    if (maps == NULL) {
        return true;
    }
    rewind(maps);
    (void)fflush(maps); /* or the C library returns what it read before */
    errno = ENOMEM;
    while (done && last < end && getline(&line, &room, maps) != -1) {
        char *rest;

        first = (uintptr_t)strtoull(line, &rest, 16);
        last = *rest == '-' ? (uintptr_t)strtoull(rest + 1, NULL, 16) : 0;
        if (first < end && last > begin) {
            done = add(all, first, last);
        }
    }
    free(line);
    return done && (last >= end || feof(maps));
}

/* ---- probes -------------------------------------------------------------- */

/* Marks a part of the mapping that is not all of it; huge pages are split at
 * their own size only. */
static uintptr_t probe(const struct mapping *m, uintptr_t begin, uintptr_t end)
{
    uintptr_t first = m->begin > begin ? m->begin : begin;
    uintptr_t last = m->end < end ? m->end : end;

    for (uintptr_t page = wm_os_page(); page < last - first; page *= 2) {
        if (mark(first + page, last, MADV_DONTFORK)) {
            return first + page;
        }
    }
    if (m->begin < first && mark(first, last, MADV_DONTFORK)) {
        return first;
    }
    return m->end > last && mark(first, last, MADV_DONTFORK) ? last : 0;
}

static bool is_inside(const struct mappings *all, uintptr_t at)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].begin < at && at < all->list[i].end) {
            return true;
        }
    }
    return false;
}

/* What the probes have found; where nothing is known the marks are theirs. */
static void tell(const struct mappings *before, const struct mappings *after,
                 uintptr_t begin, uintptr_t end, wm_fork_mark *parts)
{
    for (size_t i = 0; i < before->count; i++) {
        const struct mapping *m = &before->list[i];

        parts[i] = (wm_fork_mark){.begin = m->begin > begin ? m->begin : begin,
                                  .end = m->end < end ? m->end : end,
                                  .own = is_inside(after, m->probe)};
    }
}

static bool set(FILE *maps, const struct mappings *before,
                struct mappings *after, uintptr_t begin, uintptr_t end,
                wm_fork_mark *parts)
{
    bool done;

    for (size_t i = 0; i < before->count; i++) {
        before->list[i].probe = probe(&before->list[i], begin, end);
    }
    done = read_maps(maps, begin, end, after);
    tell(before, after, begin, end, parts);
    return done && mark(begin, end, MADV_DONTFORK);
}

static bool set_from(FILE *maps, uintptr_t begin, uintptr_t end,
                     wm_fork_mark **parts, size_t *count)
{
    struct mappings before = {NULL, 0, 0}, after = {NULL, 0, 0};
    wm_fork_mark *made = NULL;
    bool done = read_maps(maps, begin, end, &before);
    int error = errno;

    if (done && before.count == 0) { /* no /proc */
        done = add(&before, begin, end);
    }
    if (done) {
        made = wm_meta_alloc(before.count * sizeof *made);
        /* Each probe splits a mapping: what it finds can be read. */
        done = made != NULL && reserve(&after, 2 * before.count + 2);
        error = ENOMEM;
    }
    if (done) {
        done = set(maps, &before, &after, begin, end, made);
        error = errno;
    }
    if (!done && made != NULL) {
        wm_fork_marks_end(made, before.count);
        wm_meta_free(made);
        made = NULL;
    }
    *parts = made;
    *count = before.count;
    wm_meta_free(before.list);
    wm_meta_free(after.list);
    errno = error;
    return done;
}

bool wm_fork_marks_set(uintptr_t begin, uintptr_t end, wm_fork_mark **parts,
                       size_t *count)
{
    FILE *maps;
    bool done;
    int error;

    WM_CANCEL_OFF();
    if (!open_maps(&maps)) {
        return false;
    }
    done = set_from(maps, begin, end, parts, count);
    error = errno;
    if (maps != NULL) {
        fclose(maps);
    }
    errno = error;
    return done;
}

void wm_fork_marks_end(const wm_fork_mark *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!parts[i].own && parts[i].begin < parts[i].end) {
            (void)mark(parts[i].begin, parts[i].end, MADV_DOFORK);
        }
    }
}
