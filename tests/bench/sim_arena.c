/* sim_arena.c: see sim_arena.h. */
#include "tests/bench/sim_arena.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 4096,
    EXACT = 1024, /* bins of one size in pages */
    BINS = EXACT + 256
};

sim_arena_state sim_arena;

/* Idle runs; those of segments for one large request apart. */
static uint32_t bins[2][BINS];
static uint32_t partial[SIM_CLASSES]; /* slabs that have an idle slot */
static uint32_t made, spare;

/* ---- blocks and classes -------------------------------------------------- */

static uint32_t block_new(void)
{
    uint32_t i = spare;

    if (i != 0) {
        spare = sim_at(i)->next;
    } else {
        i = made++;
        if ((i & (i - 1)) == 0) {
            sim_arena.block = realloc(sim_arena.block,
                                      2 * (size_t)i * sizeof *sim_arena.block);
            if (sim_arena.block == NULL) {
                abort();
            }
        }
    }
    memset(sim_at(i), 0, sizeof *sim_at(i));
    return i;
}

static void block_end(uint32_t i)
{
    sim_at(i)->next = spare;
    spare = i;
}

static void make_classes(unsigned steps)
{
    sim_arena.classes = 0;
    for (uint64_t from = 256; from < SIM_LARGEST; from *= 2) {
        for (unsigned i = 1; i <= steps && sim_arena.classes < SIM_CLASSES;
             i++) {
            uint64_t bytes = (from + from * i / steps + 511) / 512 * 512;

            if (sim_arena.classes == 0 ||
                bytes > sim_arena.class_bytes[sim_arena.classes - 1]) {
                sim_arena.class_bytes[sim_arena.classes++] = bytes;
            }
        }
    }
}

/* sim_arena.classes: none is as large. */
int sim_class_of(uint64_t bytes)
{
    int low = 0, high = sim_arena.classes;

    while (low < high) {
        int middle = (low + high) / 2;

        if (sim_arena.class_bytes[middle] < bytes) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* ---- arena: runs --------------------------------------------------------- */

static int bin_of(uint64_t bytes)
{
    uint64_t pages = bytes / PAGE;
    int high;

    if (pages < EXACT) {
        return (int)pages;
    }
    high = 63 - __builtin_clzll(pages);
    return EXACT + (high - 10) * 8 + (int)(pages >> (high - 3) & 7);
}

static void bin_in(uint32_t i)
{
    uint32_t *bin = &bins[sim_at(i)->own][bin_of(sim_at(i)->bytes)];

    sim_at(i)->state = SIM_IDLE;
    sim_at(i)->prev = 0;
    sim_at(i)->next = *bin;
    if (*bin != 0) {
        sim_at(*bin)->prev = i;
    }
    *bin = i;
}

static void bin_out(uint32_t i)
{
    const sim_block *b = sim_at(i);

    if (b->prev != 0) {
        sim_at(b->prev)->next = b->next;
    } else {
        bins[b->own][bin_of(b->bytes)] = b->next;
    }
    if (b->next != 0) {
        sim_at(b->next)->prev = b->prev;
    }
}

static uint32_t best_fit(uint64_t bytes, bool own)
{
    uint32_t best = 0;

    for (int k = bin_of(bytes); k < BINS && best == 0; k++) {
        for (uint32_t i = bins[own][k]; i != 0; i = sim_at(i)->next) {
            if (sim_at(i)->bytes >= bytes &&
                (best == 0 || sim_at(i)->bytes < sim_at(best)->bytes)) {
                best = i;
            }
            if (best != 0 && k < EXACT) {
                break;
            }
        }
    }
    return best;
}

static void join_after(uint32_t i, uint32_t after)
{
    sim_at(i)->after = after;
    if (after != 0) {
        sim_at(after)->before = i;
    }
}

static uint32_t run_cut(uint32_t i, uint64_t bytes)
{
    bin_out(i);
    if (sim_at(i)->bytes > bytes) {
        uint32_t rest = block_new();

        sim_at(rest)->bytes = sim_at(i)->bytes - bytes;
        sim_at(rest)->own = sim_at(i)->own;
        sim_at(i)->bytes = bytes;
        join_after(rest, sim_at(i)->after);
        join_after(i, rest);
        bin_in(rest);
        sim_arena.splits++;
    }
    sim_at(i)->state = SIM_LIVE;
    return i;
}

static void merge(uint32_t i, uint32_t next)
{
    sim_at(i)->bytes += sim_at(next)->bytes;
    join_after(i, sim_at(next)->after);
    block_end(next);
    sim_arena.splits++;
}

static void run_put(uint32_t i)
{
    uint32_t before = sim_at(i)->before, after = sim_at(i)->after;

    if (after != 0 && sim_at(after)->state == SIM_IDLE) {
        bin_out(after);
        merge(i, after);
    }
    if (before != 0 && sim_at(before)->state == SIM_IDLE) {
        bin_out(before);
        merge(before, i);
        i = before;
    }
    bin_in(i);
}

/* own: segments of large requests serve, too. */
static uint32_t run_take(uint64_t bytes, bool own)
{
    uint32_t i = best_fit(bytes, false);
    uint32_t j = bytes > SIM_SEGMENT || own ? best_fit(bytes, true) : 0;

    if (i == 0 || (j != 0 && sim_at(j)->bytes < sim_at(i)->bytes)) {
        i = j != 0 ? j : i;
    }
    return i != 0 ? run_cut(i, bytes) : 0;
}

/* ---- arena: slabs -------------------------------------------------------- */

uint64_t sim_slab_bytes(int class)
{
    uint64_t slots = (65536 / sim_arena.class_bytes[class] + 7) / 8 * 8;

    return sim_pages(sim_arena.class_bytes[class] * (slots > 64 ? 64 : slots));
}

static uint32_t slab_new(int class, bool own)
{
    uint32_t s = run_take(sim_slab_bytes(class), own);

    for (uint64_t k = 0;
         s != 0 && k < sim_at(s)->bytes / sim_arena.class_bytes[class]; k++) {
        uint32_t i = block_new();

        sim_at(i)->bytes = sim_arena.class_bytes[class];
        sim_at(i)->slab = s;
        sim_at(i)->next = sim_at(s)->free;
        sim_at(s)->free = i;
    }
    if (s != 0) {
        sim_at(s)->state = SIM_SLAB;
        sim_at(s)->class = class;
        sim_at(s)->prev = sim_at(s)->next = sim_at(s)->used = 0;
        partial[class] = s;
    }
    return s;
}

static void partial_out(uint32_t s)
{
    if (sim_at(s)->prev != 0) {
        sim_at(sim_at(s)->prev)->next = sim_at(s)->next;
    } else {
        partial[sim_at(s)->class] = sim_at(s)->next;
    }
    if (sim_at(s)->next != 0) {
        sim_at(sim_at(s)->next)->prev = sim_at(s)->prev;
    }
    sim_at(s)->prev = sim_at(s)->next = 0;
}

static uint32_t slot_take(int class, bool own)
{
    uint32_t s = partial[class], i;

    s = s != 0 ? s : slab_new(class, own);
    if (s == 0) {
        return 0;
    }
    i = sim_at(s)->free;
    sim_at(s)->free = sim_at(i)->next;
    sim_at(s)->used++;
    if (sim_at(s)->free == 0) {
        partial_out(s);
    }
    return i;
}

static void slot_put(uint32_t i)
{
    uint32_t s = sim_at(i)->slab, *first = &partial[sim_at(s)->class];

    if (sim_at(s)->free == 0) {
        sim_at(s)->next = *first;
        if (*first != 0) {
            sim_at(*first)->prev = s;
        }
        *first = s;
    }
    sim_at(i)->next = sim_at(s)->free;
    sim_at(s)->free = i;
    if (--sim_at(s)->used > 0) {
        return;
    }
    partial_out(s);
    while (sim_at(s)->free != 0) {
        i = sim_at(s)->free;
        sim_at(s)->free = sim_at(i)->next;
        block_end(i);
    }
    run_put(s);
}

/* ---- arena --------------------------------------------------------------- */

uint32_t sim_take(uint64_t bytes, bool own)
{
    int class = sim_class_of(bytes);
    bool cached = class < sim_arena.classes;
    uint32_t i;

    if (cached && sim_arena.class_bytes[class] < SIM_SLABS) {
        i = slot_take(class, own);
    } else {
        i = run_take(sim_pages(cached ? sim_arena.class_bytes[class] : bytes),
                     own);
    }
    if (i != 0) {
        sim_at(i)->class = class;
        sim_arena.moves++;
    }
    return i;
}

void sim_put(uint32_t i)
{
    sim_arena.moves++;
    if (sim_at(i)->slab != 0) {
        slot_put(i);
    } else {
        run_put(i);
    }
}

void sim_grow(uint64_t bytes, bool as_little)
{
    uint64_t segment = sim_arena.held / 64 / SIM_SEGMENT * SIM_SEGMENT;
    uint32_t i = block_new();

    if (as_little || segment < SIM_SEGMENT) {
        segment = SIM_SEGMENT;
    }
    sim_at(i)->own = bytes > segment;
    sim_at(i)->bytes = sim_at(i)->own ? sim_pages(bytes) : segment;
    bin_in(i);
    sim_arena.held += sim_at(i)->bytes;
    if (sim_arena.held > sim_arena.held_peak) {
        sim_arena.held_peak = sim_arena.held;
    }
    sim_arena.segments += (sim_at(i)->bytes + SIM_SEGMENT - 1) / SIM_SEGMENT;
}

/* Segments that are idle as a whole, the largest first, until so much is gone.
 */
void sim_return_idle(uint64_t most)
{
    for (int k = 2 * BINS - 1; k >= 0; k--) {
        uint32_t i = bins[k / BINS][k % BINS], next;

        for (; i != 0 && most > 0; i = next) {
            uint64_t bytes = sim_at(i)->bytes;

            next = sim_at(i)->next;
            if (sim_at(i)->before == 0 && sim_at(i)->after == 0) {
                bin_out(i);
                block_end(i);
                sim_arena.held -= bytes;
                sim_arena.segments += (bytes + SIM_SEGMENT - 1) / SIM_SEGMENT;
                most -= bytes < most ? bytes : most;
            }
        }
    }
}

void sim_arena_init(unsigned steps)
{
    free(sim_arena.block);
    memset(&sim_arena, 0, sizeof sim_arena);
    memset(bins, 0, sizeof bins);
    memset(partial, 0, sizeof partial);
    spare = 0;
    made = 1;
    sim_arena.block = calloc(2, sizeof *sim_arena.block);
    if (sim_arena.block == NULL) {
        abort();
    }
    make_classes(steps);
}
