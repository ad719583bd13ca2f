/* peak.c: where the bytes are when a trace obtains the last of its peak. */
#include "tests/bench/peak.h"

#include "alloc/arena/arena_int.h"
#include "tests/bench/bench_driver.h"
#include "tests/bench/least.h"
#include "tests/bench/made.h"
#include "tests/bench/runtime_on.h"

#include <string.h>

enum { HOLES = 5 };
static const size_t hole_below[HOLES] = {64 << 10, 256 << 10, 1 << 20, 4 << 20,
                                         SIZE_MAX};
static const char *const hole_name[HOLES] = {"64 K", "256 K", "1 M", "4 M",
                                             "more"};

/* Of the growth that made the peak. */
static struct waste {
    size_t held, live, rounding, slots, pending, cached;
    size_t hole[HOLES], holes[HOLES]; /* bytes, runs */
    struct {
        size_t held, idle, whole;
    } sort[2]; /* of a device: for large requests, and for small */
} waste;

static double mib(size_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void add_hole(size_t bytes)
{
    int i = 0;

    while (bytes >= hole_below[i]) {
        i++;
    }
    waste.hole[i] += bytes;
    waste.holes[i]++;
}

static void add_block(wm_block *block)
{
    switch (wm_block_state(block)) {
    case WM_BLOCK_LIVE:
    case WM_BLOCK_FREEING:
        waste.live += wm_block_requested(block);
        waste.rounding += block->bytes - wm_block_requested(block);
        break;
    case WM_BLOCK_CACHED:
        waste.cached += block->bytes;
        break;
    case WM_BLOCK_BATCHED:
    case WM_BLOCK_PENDING:
        waste.pending += block->bytes;
        break;
    case WM_BLOCK_IDLE:
        if (block->slab != NULL) {
            waste.slots += block->bytes;
        } else {
            add_hole(block->bytes);
        }
        break;
    case WM_BLOCK_VOID:
    case WM_BLOCK_SLAB:
    case WM_BLOCK_LOST:
    case WM_BLOCK_CAPTURED:
    case WM_BLOCK_SPANNED:
    default:
        break;
    }
}

static void add_run(wm_block *run)
{
    wm_slab *slab;

    if (wm_block_state(run) != WM_BLOCK_SLAB) {
        add_block(run);
        return;
    }
    slab = wm_slab_of_run_locked(run);
    for (unsigned i = 0; i < slab->slots; i++) {
        add_block(&slab->slot[i]);
    }
}

/* Before the memory joins the arena; one thread has its turn. */
static void look(void)
{
    wm_arena *arena = bench_arena();

    memset(&waste, 0, sizeof waste);
    wm_lock_acquire(&arena->lock);
    waste.held = arena->stats.held_bytes.current;
    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        waste.sort[s->small].held += s->bytes;
        for (wm_block *run = s->first; run != NULL; run = run->after) {
            waste.sort[s->small].whole +=
                wm_run_is_idle(run) && wm_run_is_segment(run) ? run->bytes : 0;
            waste.sort[s->small].idle += wm_run_is_idle(run) ? run->bytes : 0;
            add_run(run);
        }
    }
    wm_lock_release(&arena->lock);
}

static size_t least(const bench_setup *setup)
{
    bench_trace *trace = bench_trace_make(setup->work, &setup->made);
    size_t bytes = trace != NULL ? bench_least(trace, setup->lag) : 0;

    bench_trace_end(trace);
    return bytes;
}

static void print(const bench_setup *setup, const bench_result *result)
{
    size_t idle = 0, floor = least(setup);

    for (int i = 0; i < HOLES; i++) {
        idle += waste.hole[i];
    }
    printf("%s, lag %u: %.1f MiB held at most, %.1f live at most: %.2f\n",
           setup->work, setup->lag, mib((size_t)result->peak),
           mib((size_t)result->live), result->peak / result->live);
    printf("%.4f waits an allocation: %.2f %% of all work later\n",
           result->waits, 100 * result->later);
    printf("no less than %.1f could be: %.2f; live, or freed and not done\n",
           mib(floor), (double)floor / result->live);
    printf("when the last %.1f were obtained:\n"
           "  live      %7.1f MiB\n  rounding  %7.1f\n"
           "  pending   %7.1f  freed, and not known to have passed\n"
           "  magazines %7.1f\n  slots     %7.1f  idle, in slabs\n"
           "  idle      %7.1f  in runs:",
           result->peak / (1 << 20) - mib(waste.held), mib(waste.live),
           mib(waste.rounding), mib(waste.pending), mib(waste.cached),
           mib(waste.slots), mib(idle));
    for (int i = 0; i < HOLES; i++) {
        printf(" %s%s %zu/%.1f", hole_below[i] != SIZE_MAX ? "< " : "",
               hole_name[i], waste.holes[i], mib(waste.hole[i]));
    }
    printf("\n");
    for (int small = 0; small < 2 && waste.sort[1].held > 0; small++) {
        printf("  %s %.1f, idle %.1f, whole segments %.1f\n",
               small ? "small" : "large", mib(waste.sort[small].held),
               mib(waste.sort[small].idle), mib(waste.sort[small].whole));
    }
}

bool bench_peak(const char *subject, const char *work, unsigned lag)
{
    bench_setup setup = {.subject = subject,
                         .work = work,
                         .threads = 8,
                         .ops = UINT64_MAX,
                         .runs = 1,
                         .lag = lag};
    bench_result result = BENCH_RESULT_NONE;

    bench_driver_watch(look);
    if (!bench_work_trace(&setup, &result)) {
        fprintf(stderr, "bench: peak of tmixed[s] or tserver[s]\n");
        return false;
    }
    print(&setup, &result);
    return true;
}
