/* smaps.h: huge pages behind ranges of this process's memory, as the kernel
 * counts them in /proc/self/smaps (row B21).
 *
 * An entry of the file is a mapping, which may be larger than a range or hold
 * several. A mapping that lies in ranges as a whole counts with all its huge
 * pages; else with as many as its bytes in ranges, at most. To write the file
 * the kernel walks the page tables of the whole process: for slow paths only.
 * Takes no lock, leaves errno. */
#ifndef WM_SMAPS_H
#define WM_SMAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wm_smaps_range {
    uintptr_t begin, end;
} wm_smaps_range;

/* Orders the ranges by address. */
void wm_smaps_sort(wm_smaps_range *range, size_t count);

/* Bytes of huge pages, transparent and of hugetlb, in the ranges, which are
 * disjoint and in order. root: before the path, "" but in tests. False: the
 * file cannot be read, and *huge is unchanged. */
bool wm_smaps_huge(const char *root, const wm_smaps_range *range, size_t count,
                   uint64_t *huge);

#endif
