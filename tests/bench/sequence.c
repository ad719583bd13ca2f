/* sequence.c: see sequence.h. */
#include "tests/bench/sequence.h"

#include "tests/bench/least.h"

#include <stdlib.h>
#include <string.h>

/* SHORT: operations of a run that comes no further than its first turns. The
 * two lengths of a work that instr.sh counts are both at most this, or both
 * above. */
enum {
    SHORT = 2048,
    PHASE = 8192,        /* turns, before all is freed */
    PHASE_SLOTS = 2048,  /* of small buffers */
    LEAST_TURNS = 400000 /* of all threads, by which the least is counted */
};

typedef struct shape {
    const char *work;
    void (*make)(bench_sequence *s, const struct shape *shape, uint32_t drawn,
                 uint64_t *state);
    unsigned slots;     /* usually; 0: setup->size */
    size_t least;       /* bytes: log-uniform from here */
    unsigned doublings; /* to here */
} shape;

static uint32_t draw(uint64_t *state, uint32_t below)
{
    return (uint32_t)(bench_random(state) % below);
}

static void add(bench_sequence *s, uint32_t slot, size_t bytes)
{
    if (s->turns < BENCH_TURNS) {
        s->turn[s->turns++] = (bench_turn){slot, (uint32_t)bytes};
    }
}

static void make_mixed(bench_sequence *s, const shape *of, uint32_t drawn,
                       uint64_t *state)
{
    while (s->turns < drawn) {
        uint32_t slot = draw(state, s->slots);

        add(s, slot, bench_log_uniform(state, of->least, of->doublings));
    }
    for (; s->turns < BENCH_TURNS; s->turns *= 2) {
        memcpy(s->turn + s->turns, s->turn, s->turns * sizeof *s->turn);
    }
}

static void make_live(bench_sequence *s, const shape *of, uint32_t drawn,
                      uint64_t *state)
{
    while (s->turns < BENCH_TURNS) {
        uint32_t slot = draw(state, s->slots);

        add(s, slot, 4096 + draw(state, 16) * (size_t)4096);
    }
}

static void make_burst(bench_sequence *s, const shape *of, uint32_t drawn,
                       uint64_t *state)
{
    while (s->turns + 2 * s->slots <= BENCH_TURNS) {
        for (uint32_t i = 0; i < s->slots; i++) {
            add(s, i, bench_log_uniform(state, of->least, of->doublings));
        }
        for (uint32_t i = 0; i < s->slots; i++) {
            add(s, i, 0);
        }
    }
}

static void make_phases(bench_sequence *s, const shape *of, uint32_t drawn,
                        uint64_t *state)
{
    for (bool small = true; s->turns + 2 * PHASE <= BENCH_TURNS;
         small = !small) {
        for (uint32_t i = 0; i < PHASE; i++) {
            uint32_t slot = draw(state, small ? PHASE_SLOTS : BENCH_SLOTS);

            add(s, slot, bench_log_uniform(state, small ? 4096 : 256 << 10, 4));
        }
        for (uint32_t i = 0; i < (small ? PHASE_SLOTS : BENCH_SLOTS); i++) {
            add(s, i, 0);
        }
    }
}

static const shape shapes[] = {
    {"mixed", make_mixed, BENCH_SLOTS, 4096, 10},
    {"tail", make_mixed, BENCH_SLOTS, 4096, 10},
    {"small", make_mixed, BENCH_SLOTS, 64, 10},
    {"large", make_mixed, BENCH_SLOTS, 1 << 20, 6},
    {"burst", make_burst, 1000, 4096, 6},
    {"phases", make_phases, PHASE_SLOTS, 0, 0},
    {"live", make_live, 0, 0, 0},
};

bool bench_sequence_make(const char *work, const bench_setup *setup,
                         unsigned thread, bench_sequence *sequence)
{
    uint64_t state = 12345 + (uint64_t)1000003 * thread +
                     setup->made.seed * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = 0;

    while (i < sizeof shapes / sizeof *shapes &&
           strcmp(shapes[i].work, work) != 0) {
        i++;
    }
    if (i == sizeof shapes / sizeof *shapes) {
        return false;
    }
    *sequence =
        (bench_sequence){.turn = calloc(BENCH_TURNS, sizeof *sequence->turn),
                         .slots = setup->made.slots != 0 ? setup->made.slots
                                  : shapes[i].slots != 0 ? shapes[i].slots
                                                         : setup->size};
    if (sequence->turn != NULL) {
        /* A short run comes no further, and its sizes would take longest. */
        shapes[i].make(sequence, &shapes[i],
                       setup->ops <= SHORT ? SHORT : BENCH_TURNS, &state);
    }
    return sequence->turn != NULL;
}

/* ---- the least ----------------------------------------------------------- */

static void add_turn(bench_trace *t, const bench_turn *turn, uint32_t worker,
                     uint32_t stream, bool recorded, uint32_t *slot)
{
    bench_step step = {.worker = worker};

    if (*slot != 0) {
        step.op = WM_TRACE_FREE;
        step.buffer = *slot - 1;
        bench_trace_add(t, step);
        *slot = 0;
    }
    if (turn->bytes != 0) {
        step.op = WM_TRACE_ALLOC;
        step.buffer = t->buffers;
        step.value = turn->bytes;
        *slot = step.buffer + 1;
        bench_trace_add(t, step);
        step.op = WM_TRACE_USE;
        step.value = stream;
        if (recorded) {
            bench_trace_add(t, step);
        }
    }
}

uint64_t bench_sequence_least(const bench_sequence *sequence,
                              const bench_setup *setup, bool recorded)
{
    uint32_t threads = setup->threads, turns = LEAST_TURNS / threads;
    uint32_t streams = setup->made.streams > 1 ? setup->made.streams : 1;
    size_t all = (size_t)turns * threads, slots = sequence->slots;
    bench_trace *trace = bench_trace_new(3 * all, all);
    uint32_t *slot = calloc(threads * slots, sizeof *slot);
    uint64_t least = 0;

    for (uint32_t i = 0; trace != NULL && slot != NULL && i < turns; i++) {
        for (uint32_t w = 0; w < threads; w++) {
            const bench_turn *turn = &sequence[w].turn[i % sequence[w].turns];

            add_turn(trace, turn, w, w * streams + i % streams, recorded,
                     &slot[w * slots + turn->slot]);
        }
    }
    if (trace != NULL && slot != NULL) {
        least = bench_least(trace, setup->lag);
    }
    free(slot);
    bench_trace_end(trace);
    return least;
}
