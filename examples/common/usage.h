/* usage.h: what warmpool did for a program, in the figures worth showing. */
#ifndef EXAMPLE_USAGE_H
#define EXAMPLE_USAGE_H

#include "warmpool/warmpool.h"

typedef struct usage {
    uint64_t handles;             /* created, of all kinds */
    uint64_t pinned;              /* buffers asked for, */
    uint64_t pinned_reused;       /* those from the cache, */
    uint64_t pinned_live;         /* and those not freed yet */
    uint64_t blocks;              /* of the device's memory asked for, */
    uint64_t blocks_reused;       /* those from the cache, */
    uint64_t blocks_live;         /* and those not freed yet */
    uint64_t held, held_peak;     /* bytes of the device that warmpool has, */
    uint64_t in_use, in_use_peak; /* and those of blocks not freed yet */
    uint64_t memory_calls; /* of the driver, to obtain or give back those */
    uint64_t calls;        /* of the driver in all */
} usage;

/* Figures of the runtime, on one device where it has several. */
void usage_read(warm_runtime *runtime, int device, usage *u);

#endif
