/* size_class.h: the size to which a request is rounded up (row B8). Pages are
 * WM_PAGE here, on a machine with larger ones, too (runtime/base/os_page.h).
 *
 *   up to 4 KiB        multiples of 512 bytes        classes 0 … 7
 *   up to 4 MiB        eight steps to a doubling     classes 8 … 87
 *   above              whole pages                   class 88
 *
 * From 4 KiB on a class is at most 12.5 % larger than the request. A block that
 * is cached may serve a request down to half its size (magazine_hit.h).
 * Classes below WM_SLAB_LIMIT are slots of a slab; all others are runs of whole
 * pages. A slot begins at a multiple of a page if its class is one of whole
 * pages, or if the class is larger than WM_SLAB_PAGED; at a multiple of 2048 or
 * 1024 if its class is such a multiple. Pure functions. */
#ifndef WM_SIZE_CLASS_H
#define WM_SIZE_CLASS_H

#include <stddef.h>
#include <stdint.h>

enum {
    WM_PAGE = 4096,
    WM_GRAIN = 512,
    WM_CLASSES = 88,     /* of a fixed size */
    WM_CLASS_PAGES = 88, /* any number of whole pages */
    WM_CLASSES_ALL = 89,
    WM_SLAB_PAGED = 28 << 10, /* every larger block begins at a page */
    WM_SLAB_LIMIT = 32 << 10, /* smallest size that is a run of pages */
    WM_CLASS_LIMIT = 4 << 20  /* largest fixed size */
};

/* Largest request: it can be rounded up without overflow. */
#define WM_REQUEST_MAX ((size_t)1 << 46)

/* WM_CLASS_LINEAR: number of classes up to WM_PAGE; WM_CLASS_LOG2: log2 of
 * WM_PAGE, where the doublings begin; WM_CLASS_STEPS: log2 of the steps in a
 * doubling. */
enum { WM_CLASS_LINEAR = 8, WM_CLASS_LOG2 = 12, WM_CLASS_STEPS = 3 };
/* A float has 23 bits after the leading one; an exponent of 127 means 2^0. */
enum { WM_FLOAT_BITS = 23, WM_FLOAT_ZERO = 127 };
/* The top bits of the float 4096.0, minus WM_CLASS_LINEAR. */
enum {
    WM_CLASS_ABOVE =
        ((WM_FLOAT_ZERO + WM_CLASS_LOG2) << WM_CLASS_STEPS) - WM_CLASS_LINEAR
};

/* Class of a request of 1 … WM_CLASS_LIMIT bytes, as an index. */
static inline size_t wm_size_class_index(size_t bytes)
{
    size_t above;

    if (__builtin_expect(bytes > WM_PAGE, 1)) {
        /* 2^log2 < bytes <= 2^(log2 + 1), in eight steps: the top bits of a
         * float are log2 and the three bits after the leading one. A float has
         * 24 bits of precision, so the conversion is exact. An instruction
         * that finds the leading bit would take eight micro-operations on some
         * processors. */
        float below = (float)(int32_t)(bytes - 1);
        uint32_t bits;

        __builtin_memcpy(&bits, &below, sizeof bits);
        above = bits >> (WM_FLOAT_BITS - WM_CLASS_STEPS);
    } else {
        above = WM_CLASS_ABOVE + (bytes - 1) / WM_GRAIN;
    }
    return above - WM_CLASS_ABOVE;
}

static inline unsigned wm_size_class_fixed(size_t bytes)
{
    return (unsigned)wm_size_class_index(bytes);
}

/* Class of a request of 1 … WM_REQUEST_MAX bytes. */
static inline unsigned wm_size_class(size_t bytes)
{
    return bytes > WM_CLASS_LIMIT ? (unsigned)WM_CLASS_PAGES
                                  : wm_size_class_fixed(bytes);
}

/* Bytes of a block of a class; 0 for WM_CLASS_PAGES. */
static inline size_t wm_class_bytes(unsigned size_class)
{
    unsigned log2, step;

    if (size_class < WM_CLASS_LINEAR) {
        return (size_t)(size_class + 1) * WM_GRAIN;
    }
    if (size_class >= WM_CLASSES) {
        return 0;
    }
    log2 = WM_CLASS_LOG2 + ((size_class - WM_CLASS_LINEAR) >> WM_CLASS_STEPS);
    step = (size_class - WM_CLASS_LINEAR) & 7;
    return (size_t)(step + 9) << (log2 - WM_CLASS_STEPS);
}

/* Bytes to which a request is rounded up. */
size_t wm_size_round(size_t bytes);

static inline size_t wm_round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static inline size_t wm_page_round(size_t bytes)
{
    return (bytes + WM_PAGE - 1) & ~(size_t)(WM_PAGE - 1);
}

/* Slots in a slab of a class below WM_SLAB_LIMIT: the least power of two that
 * makes whole pages of at least WM_SLAB_LEAST bytes. A slab serves one class,
 * for one stream, so what is idle in many of them adds up: with 64 KiB twice as
 * much is held for small blocks of many streams, and an operation costs the
 * same (tests/bench/PROFILE.md). */
enum {
    WM_SLAB_LEAST = 16 << 10,
    WM_SLAB_MOST = 32,   /* slots: WM_SLAB_LEAST of WM_GRAIN */
    WM_SLAB_SORTS = 6,   /* numbers of slots: 1, 2, … 32 */
    WM_SLAB_CLASSES = 31 /* classes below WM_SLAB_LIMIT */
};

unsigned wm_slab_slots(unsigned size_class);

/* Bytes of the run of a slab: of a class above WM_SLAB_PAGED more than those of
 * its only slot, since a second slot would not begin at a page. */
size_t wm_slab_run_bytes(unsigned size_class);

/* The most bytes, up to most, that are both whole rows of so many bytes and
 * whole pages of the machine (a power of two); 0: there are none. */
size_t wm_size_piece(size_t most, size_t row, size_t page);

/* Bytes of the run that serves a request: its own run, or a slab of its class.
 */
size_t wm_size_run_bytes(size_t bytes);

#endif
