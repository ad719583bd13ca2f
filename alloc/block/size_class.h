/* size_class.h: to what a request is rounded (row B8).
 *
 *   up to 4 KiB        multiples of 512 bytes        classes 0 … 7
 *   up to 4 MiB        eight steps to a doubling     classes 8 … 87
 *   above              whole pages                   class 88
 *
 * From 4 KiB on a class is at most 12.5 % larger than the request. A block may
 * be of one of the next two classes: of a device, or if it is no larger than
 * that either (magazine_hit.h). Classes under WM_SLAB_LIMIT are slots of a
 * slab, the others runs of pages; from there on every class is a whole number
 * of pages. Pure functions. */
#ifndef WM_SIZE_CLASS_H
#define WM_SIZE_CLASS_H

#include <stddef.h>
#include <stdint.h>

enum {
    WM_PAGE = 4096,
    WM_GRAIN = 512,
    WM_CLASSES = 88,     /* of a fixed size */
    WM_CLASS_PAGES = 88, /* whole pages, any number */
    WM_CLASSES_ALL = 89,
    WM_SLAB_LIMIT = 32 << 10, /* smallest size that is a run of pages */
    WM_CLASS_LIMIT = 4 << 20  /* largest fixed size */
};

/* Largest request: room to round up without a wrap. */
#define WM_REQUEST_MAX ((size_t)1 << 46)

/* Of the table: classes below WM_PAGE, where doublings begin, steps of one. */
enum { WM_CLASS_LINEAR = 8, WM_CLASS_LOG2 = 12, WM_CLASS_STEPS = 3 };
/* Of a float: bits after the first one, and how 2^0 is written above them. */
enum { WM_FLOAT_BITS = 23, WM_FLOAT_ZERO = 127 };
/* What a float of 4 KiB begins with, less the classes below. */
enum {
    WM_CLASS_ABOVE =
        ((WM_FLOAT_ZERO + WM_CLASS_LOG2) << WM_CLASS_STEPS) - WM_CLASS_LINEAR
};

/* Class of a request of 1 … WM_CLASS_LIMIT bytes, as an index. */
static inline size_t wm_size_class_index(size_t bytes)
{
    size_t above;

    if (__builtin_expect(bytes > WM_PAGE, 1)) {
        /* 2^log2 < bytes <= 2^(log2 + 1), in eight steps: a float begins with
         * log2 and the three bits after the first one. It has 24 bits, so that
         * this is exact. To look for the first bit takes some processors eight
         * steps inside. */
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
size_t wm_class_bytes(unsigned size_class);

/* Bytes that a request is rounded to. */
size_t wm_size_round(size_t bytes);

static inline size_t wm_page_round(size_t bytes)
{
    return (bytes + WM_PAGE - 1) & ~(size_t)(WM_PAGE - 1);
}

/* Slots of the slab of a class below WM_SLAB_LIMIT: a multiple of WM_SLAB_STEP,
 * so that the slab is a whole number of pages, and at most WM_SLAB_MOST. */
enum {
    WM_SLAB_STEP = 8,
    WM_SLAB_MOST = 64,
    WM_SLAB_SORTS = WM_SLAB_MOST / WM_SLAB_STEP
};

unsigned wm_slab_slots(unsigned size_class);

/* Bytes of the run that a request needs: its own, or a slab for it. */
size_t wm_size_run_bytes(size_t bytes);

#endif
