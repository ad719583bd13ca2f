/* summary.h: what the demo measured; printed as tables, and judged. */
#ifndef EXAMPLE_SUMMARY_H
#define EXAMPLE_SUMMARY_H

#include "examples/demo/load.h"

enum { MAX_DEVICES = 8 };

/* What warmpool did with the memory of one device; in bytes. */
typedef struct memory {
    int device;
    double held, in_use, peak; /* peak: of what was in use */
    double blocks, reused;     /* asked for; those from the cache */
    double calls;              /* of the driver, for memory it has or had */
} memory;

/* What one server did. */
typedef struct served {
    const char *mode;
    load_result load;
    unsigned char *classes; /* of each image; owned */
    double handles, pinned, pinned_reused, threads, calls, captures, replays;
    char device[128], driver[8];
    memory memory[MAX_DEVICES];
    int devices;
} served;

typedef struct trained {
    double threads, handles, pinned, reused, seconds; /* 0: it was not */
    memory memory;
} trained;

enum { WARM, GRAPH, NAIVE, SERVERS };

typedef struct summary {
    trained trained;
    served servers[SERVERS];
    int images;
} summary;

void summary_print(const summary *s);

/* False: something that was printed is not as it should be; why tells. */
bool summary_check(const summary *s, message *why);

#endif
