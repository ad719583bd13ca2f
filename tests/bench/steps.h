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
    uint64_t value;  /* ALLOC: bytes; streams: number of the stream */
    uint32_t buffer; /* number of the block, where the step has one */
    uint32_t worker;
    enum wm_trace_op op;
} bench_step;

typedef struct bench_trace {
    bench_step *step;
    size_t steps, room;
    uint32_t buffers, workers, streams;
    uint64_t *bytes;      /* of each buffer */
    uint64_t live, peak;  /* bytes requested: at the end, at the peak */
    uint64_t peak_common; /* made: as peak, but for the three singles */
    char *options;        /* read: those in force, "name:value\n" each */
    bool whole;           /* read: the program ended the file */
    size_t strays;        /* read, if not: steps of blocks it does not know */
} bench_trace;

/* Room for that many, all empty; null if there is no memory. */
bench_trace *bench_trace_new(size_t steps, size_t buffers);
/* Null is ignored. */
void bench_trace_end(bench_trace *trace);

/* Adds a step, in the order of the trace, a microsecond after the last one if
 * it has no later time of its own; false if it has no room. */
bool bench_trace_add(bench_trace *trace, bench_step step);

/* Null if it is no whole trace, with the reason in error. One that was cut off
 * at the end of a chunk, as by a kill, is read as far as it goes. */
bench_trace *bench_trace_read(const char *path, char *error, size_t bytes);

/* False, with a line on standard error, if it cannot be written. */
bool bench_trace_write(const bench_trace *trace, const char *path);

#endif
