/* os_page.c: asks the system once how large its pages are. */
#include "runtime/base/os_page.h"

#include <stdatomic.h>
#include <unistd.h>

size_t wm_os_page(void)
{
    static _Atomic size_t known; /* 0: not yet */
    /* Relaxed: every thread that asks gets the same answer. */
    size_t page = atomic_load_explicit(&known, memory_order_relaxed);

    if (page == 0) {
        page = (size_t)sysconf(_SC_PAGESIZE);
        atomic_store_explicit(&known, page, memory_order_relaxed);
    }
    return page;
}
