/* size_class.c: the table of sizes, computed. */
#include "alloc/size_class.h"

#include "runtime/base/status.h"

#include <stdint.h>

enum { LINEAR = 8, STEPS_LOG2 = 3, FIRST_LOG2 = 12 };

unsigned wm_size_class(size_t bytes)
{
    unsigned log2, step;

    if (bytes <= WM_PAGE) {
        return (unsigned)((bytes + WM_GRAIN - 1) / WM_GRAIN) - 1;
    }
    if (bytes > WM_CLASS_LIMIT) {
        return WM_CLASS_PAGES;
    }
    /* 2^log2 < bytes <= 2^(log2 + 1), in eight steps of 2^(log2 - 3). */
    log2 = 63 - (unsigned)__builtin_clzll((uint64_t)bytes - 1);
    step = (unsigned)((bytes - 1) >> (log2 - STEPS_LOG2)) & 7;
    return LINEAR + ((log2 - FIRST_LOG2) << STEPS_LOG2) + step;
}

size_t wm_class_bytes(unsigned size_class)
{
    unsigned log2, step;

    if (size_class < LINEAR) {
        return (size_t)(size_class + 1) * WM_GRAIN;
    }
    if (size_class >= WM_CLASSES) {
        return 0;
    }
    log2 = FIRST_LOG2 + ((size_class - LINEAR) >> STEPS_LOG2);
    step = (size_class - LINEAR) & 7;
    return (size_t)(step + 9) << (log2 - STEPS_LOG2);
}

size_t wm_size_round(size_t bytes)
{
    unsigned size_class = wm_size_class(bytes);

    return size_class == WM_CLASS_PAGES ? wm_page_round(bytes)
                                        : wm_class_bytes(size_class);
}

unsigned wm_slab_slots(unsigned size_class)
{
    size_t bytes = wm_class_bytes(size_class);
    size_t slots;

    wm_assert(bytes != 0 && bytes < WM_SLAB_LIMIT);
    slots = (64u << 10) / bytes;
    slots = (slots + 7) & ~(size_t)7;
    return slots > 64 ? 64 : (unsigned)slots;
}
