/* size_class.c: sizes of classes and of slabs, computed. */
#include "alloc/block/size_class.h"

#include "runtime/base/status.h"

#include <stdint.h>

size_t wm_size_round(size_t bytes)
{
    unsigned size_class = wm_size_class(bytes);

    return size_class == WM_CLASS_PAGES ? wm_page_round(bytes)
                                        : wm_class_bytes(size_class);
}

size_t wm_size_piece(size_t most, size_t row, size_t page)
{
    size_t divisor = page, unit;

    while (row % divisor != 0) { /* the greatest common one: a power of two */
        divisor /= 2;
    }
    if (row > most / (page / divisor)) {
        return 0;
    }
    unit = row * (page / divisor);
    return most / unit * unit;
}

unsigned wm_slab_slots(unsigned size_class)
{
    size_t bytes = wm_class_bytes(size_class);
    unsigned slots = 1;

    wm_assert(bytes != 0 && bytes < WM_SLAB_LIMIT);
    while (slots * bytes < WM_SLAB_LEAST ||
           (slots * bytes % WM_PAGE != 0 && bytes <= WM_SLAB_PAGED)) {
        slots *= 2;
    }
    return slots;
}

size_t wm_slab_run_bytes(unsigned size_class)
{
    return wm_page_round(wm_slab_slots(size_class) *
                         wm_class_bytes(size_class));
}

size_t wm_size_run_bytes(size_t bytes)
{
    size_t rounded = wm_size_round(bytes);

    return rounded < WM_SLAB_LIMIT ? wm_slab_run_bytes(wm_size_class(bytes))
                                   : rounded;
}
