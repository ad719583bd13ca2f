/* steps.h: a trace in memory: what some threads do, one step after the other.
 *
 *   made.c (two of them, from seeds) ─► bench_trace ─► play.c, on any subject
 *   trace_read.c (a file) ─────────────►     └──────► trace_write.c (a file)
 *
 * Blocks, threads and streams are numbered from 0 in the order in which they
 * come. */
#ifndef BENCH_STEPS_H
#define BENCH_STEPS_H

#include "runtime/base/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bench_step {
    uint64_t ns;     /* when, since the trace began; never less than before */
    uint64_t value;  /* allocations: bytes; POOL: its number; else the stream */
    uint32_t buffer; /* number of the block, where the step has one */
    uint32_t worker;
    uint32_t stream; /* PLACED, of a device: number of the stream */
    uint32_t pool;   /* PLACED: number of the private pool + 1, 0: none */
    uint16_t place;  /* PLACED, ADOPT: see runtime/base/trace.h */
    uint16_t user;   /* PLACED: the pool has WARM_POOL_USER */
    enum wm_trace_op op;
} bench_step;

/* Which memory a step's place is. The last three: of the shared space. */
enum bench_sort {
    BENCH_HOST_MEMORY,
    BENCH_DEVICE_MEMORY,
    BENCH_PRIVATE,
    BENCH_SHARED,
    BENCH_SCALAR
};

static inline enum bench_sort bench_place_sort(uint64_t place)
{
    if (place < WM_TRACE_DEVICE) {
        return BENCH_HOST_MEMORY;
    }
    return wm_trace_is_device(place)
               ? BENCH_DEVICE_MEMORY
               : (enum bench_sort)(BENCH_PRIVATE +
                                   (place - WM_TRACE_SHARED) % WM_TRACE_SORTS);
}

/* The device of a place; -1: it is memory of the host. */
static inline int bench_place_device(uint64_t place)
{
    if (place < WM_TRACE_DEVICE) {
        return -1;
    }
    return (int)(wm_trace_is_device(place)
                     ? place - WM_TRACE_DEVICE
                     : (place - WM_TRACE_SHARED) / WM_TRACE_SORTS);
}

/* No stream. */
#define BENCH_NO_STREAM UINT32_MAX

typedef struct bench_trace {
    bench_step *step;
    size_t steps, room;
    uint32_t buffers, workers, streams, pools;
    uint32_t devices;         /* that steps name, at least 1 */
    uint32_t legacy;          /* number of the legacy default stream, or none */
    uint32_t on_device;       /* blocks of devices, in all */
    uint32_t pageable;        /* blocks that were not page-locked, in all */
    uint32_t shared;          /* buffers of the shared space, in all */
    uint64_t *bytes;          /* of each buffer */
    unsigned char *device_of; /* read: of each stream, + 1 */
    uint64_t live, peak;      /* bytes requested: at the end, at the peak */
    uint64_t peak_common;     /* made: as peak, but for the three singles */
    char *options;            /* read: those in force, "name:value\n" each */
    bool whole;               /* read: the file has all until its end */
    char ending[160];         /* read: how it ends, for people */
    size_t strays; /* read, if not: steps of blocks it does not know */
} bench_trace;

/* Room for that many, all empty; null if there is no memory. */
bench_trace *bench_trace_new(size_t steps, size_t buffers);
/* Null is ignored. */
void bench_trace_end(bench_trace *trace);

bool bench_step_allocates(const bench_step *step);

/* Adds a step, in the order of the trace, a microsecond after the last one if
 * it has no later time of its own; false if it has no room. */
bool bench_trace_add(bench_trace *trace, bench_step step);

/* Null if it is no trace, or a damaged one, with the reason in error. One that
 * was cut off, as by a kill, is read as far as it goes. */
bench_trace *bench_trace_read(const char *path, char *error, size_t bytes);

/* False, with a line on standard error, if it cannot be written. */
bool bench_trace_write(const bench_trace *trace, const char *path);

#endif
