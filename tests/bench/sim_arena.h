/* sim_arena.h: blocks, and an arena of them, for sim.c: segments of 4 MiB or
 * more, runs of pages, exact best fit, split and merged; slabs below 32 KiB;
 * large requests get segments of their own. One at a time; one thread. */
#ifndef BENCH_SIM_ARENA_H
#define BENCH_SIM_ARENA_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_CLASSES = 200, SIM_SLABS = 32768 /* requests below share a slab */ };

#define SIM_SEGMENT ((uint64_t)4 << 20)
#define SIM_LARGEST ((uint64_t)4 << 20) /* class */

enum sim_state { SIM_LIVE, SIM_IDLE, SIM_CACHED, SIM_SLAB };

/* By index; 0 is none. In lists of a bin, slab or class: prev, next; of a
 * segment by address: before, after; of a cache by age: older, newer. */
typedef struct sim_block {
    uint64_t bytes, asked;
    uint32_t before, after, prev, next, older, newer;
    uint32_t slab, used, free; /* of a slab: slots in use, the first idle one */
    enum sim_state state;
    int class;
    bool own; /* of a segment that was obtained for one large request */
} sim_block;

typedef struct sim_arena_state {
    sim_block *block;
    uint64_t class_bytes[SIM_CLASSES];
    int classes;
    uint64_t held, held_peak; /* bytes */
    /* Blocks in and out, splits and merges, segments obtained and returned. */
    uint64_t moves, splits, segments;
} sim_arena_state;

extern sim_arena_state sim_arena;

static inline sim_block *sim_at(uint32_t i)
{
    return &sim_arena.block[i];
}

static inline uint64_t sim_pages(uint64_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

/* All empty; steps: classes to a doubling. */
void sim_arena_init(unsigned steps);

/* sim_arena.classes: none is as large. */
int sim_class_of(uint64_t bytes);
uint64_t sim_slab_bytes(int class);

/* 0: there is none. own: segments of large requests serve, too. */
uint32_t sim_take(uint64_t bytes, bool own);
void sim_put(uint32_t i);

/* A segment for bytes; a 64th of what is held, unless as little as will do. */
void sim_grow(uint64_t bytes, bool as_little);

/* Segments that are idle as a whole, the largest first, until so much is gone.
 */
void sim_return_idle(uint64_t most);

#endif
