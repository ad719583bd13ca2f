/* wt_one_host.h: a host device `d` for each test of a program, which the
 * teardown closes. Include it once in a program. */
#ifndef WT_ONE_HOST_H
#define WT_ONE_HOST_H

#include "wt_host.h"

static wm_driver *d;

/* The teardown; a test whose queued work uses its stack calls it before it
 * returns. */
static inline void wt_close(void)
{
    if (d != NULL) {
        wt_host_close(d, 0);
    }
    d = NULL;
}

static inline void wt_reopen(unsigned devices, uint64_t memory)
{
    wt_close();
    d = wt_host_open(devices, memory);
}

#endif
