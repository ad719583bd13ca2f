/* sequence.h: what one thread allocates and frees, over and over, in the works
 * of work_alloc.c: drawn before the runs, so that no run pays for chance. */
#ifndef BENCH_SEQUENCE_H
#define BENCH_SEQUENCE_H

#include "tests/bench/bench.h"

enum { BENCH_TURNS = 65536 };

/* The slot is emptied, and filled anew if bytes is not 0. */
typedef struct bench_turn {
    uint32_t slot, bytes;
} bench_turn;

typedef struct bench_sequence {
    bench_turn *turn;
    uint32_t turns; /* BENCH_TURNS, unless some only free */
    unsigned slots;
} bench_sequence;

/* False if there is no such work, or no memory. work: without an s for
 * streams; setup: its seed, slots, size and ops count. */
bool bench_sequence_make(const char *work, const bench_setup *setup,
                         unsigned thread, bench_sequence *sequence);

/* The most bytes that are live, or freed and not done, if the threads, each
 * with its sequence, keep step. recorded: a buffer is used on one of its
 * thread's streams, in turn. 0: no memory. */
uint64_t bench_sequence_least(const bench_sequence *sequence,
                              const bench_setup *setup, bool recorded);

#endif
