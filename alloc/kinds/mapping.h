/* mapping.h: addresses for page-locked memory that the library maps itself, and
 * the huge pages behind them (row B21).
 *
 *   off       small pages
 *   try       transparent huge pages are requested; small ones do as well
 *   require   transparent huge pages, or the region is refused
 *   hugetlb_… pages set aside by the administrator (vm.nr_hugepages); _try
 *             falls back to try
 *
 *             begins at a huge page
 *             ▼
 *   [ guard ] │ whole huge pages │ rest, smaller than one: small pages │ [
 * guard ]
 *
 * Guards, a page without access each, exist with require alone: a region beside
 * another one would share an entry of /proc/self/smaps with it, and its own
 * huge pages could not be counted. Takes no lock. */
#ifndef WM_MAPPING_H
#define WM_MAPPING_H

#include "warmpool/base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WM_HUGE_PAGE ((size_t)2 << 20)

enum wm_huge {
    WM_HUGE_OFF,
    WM_HUGE_TRY,
    WM_HUGE_REQUIRE,
    WM_HUGE_TABLE_TRY,
    WM_HUGE_TABLE_REQUIRE
};

/* The value of option huge_pages. */
enum wm_huge wm_mapping_huge(const char *option);

/* Whether a region without huge pages is refused. */
static inline bool wm_huge_is_required(enum wm_huge huge)
{
    return huge == WM_HUGE_REQUIRE || huge == WM_HUGE_TABLE_REQUIRE;
}

/* The bytes of a region that must be huge pages where they are required. */
static inline size_t wm_huge_part(size_t bytes)
{
    return bytes / WM_HUGE_PAGE * WM_HUGE_PAGE;
}

/* Maps whole pages, which nobody has touched. False, and errno: the system
 * refused; *base is unchanged. */
bool wm_mapping_make(enum wm_huge huge, size_t bytes, void **base);
/* Unmaps a region of that size, mapped with the same value of the option. */
void wm_mapping_end(enum wm_huge huge, void *base, size_t bytes);
/* From then on parts of a region, of hugetlb's in whole huge pages, are
 * unmapped one by one: by wm_mapping_end() with WM_HUGE_OFF. */
void wm_mapping_cut(enum wm_huge huge, void *base, size_t bytes);

/* Bytes of a region, mapped with require, that are huge pages; its pages are
 * touched. False: the system does not show them. */
bool wm_mapping_huge_bytes(const char *root, const void *base, size_t bytes,
                           uint64_t *huge);

#endif
