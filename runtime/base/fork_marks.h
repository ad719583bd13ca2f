/* fork_marks.h: memory of the program is marked by madvise(MADV_DONTFORK), and
 * what had that mark before is told from what had not (row B22).
 *
 *   before   [ mapping            ]
 *   probe    [ . | DONTFORK       ]   a border: the mapping had no mark
 *            [ DONTFORK           ]   none: it had the mark already
 *
 * The kernel tells the mark in /proc/self/smaps alone, for which it walks the
 * page tables of the whole process: 130 ms with 2 GB of small pages. But it
 * splits a mapping of which a part gets another mark, and lists the borders in
 * /proc/self/maps at once. A mapping that cannot be split, of one page, counts
 * as not marked. */
#ifndef WM_FORK_MARKS_H
#define WM_FORK_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part of a range. */
typedef struct wm_fork_mark {
    uintptr_t begin, end;
    bool own; /* it had the mark before */
} wm_fork_mark;

/* Marks a range of whole pages. *parts: in order, without gaps but where
 * nothing is mapped; to be freed by wm_meta_free(). False (errno): the kernel
 * refuses, no file can be opened, or there is no memory (ENOMEM), and nothing
 * has changed. Takes no lock. */
bool wm_fork_marks_set(uintptr_t begin, uintptr_t end, wm_fork_mark **parts,
                       size_t *count);
/* Ends the marks of those parts that had none before. */
void wm_fork_marks_end(const wm_fork_mark *parts, size_t count);

#endif
