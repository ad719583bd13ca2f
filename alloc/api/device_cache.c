/* device_cache.c: the public functions for statistics, trimming and limits of
 * device memory (device_memory.h). */
#include "warmpool/device_memory.h"

#include "alloc/arena/arena_stats.h"
#include "alloc/cache/magazine.h"
#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"

static wm_device_space *space_of(warm_runtime *runtime, int device)
{
    return &runtime->device_spaces[device];
}

/* ---- figures ------------------------------------------------------------ */

warm_status warm_device_cache_info(warm_runtime *runtime, int device,
                                   warm_device_cache *info)
{
    warm_device_cache all = {.size = sizeof all};
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK) {
        status = wm_sized_check(info, sizeof all, "warm_device_cache");
    }
    if (status == WARM_OK) {
        wm_space *space = &space_of(runtime, device)->space;
        warm_space_stats stats = {.size = sizeof stats};

        wm_cache_merge_stats(&space->group);
        wm_space_stats(space, &stats);
        all.idle_bytes = stats.idle_bytes;
        for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
             a = a->next_arena) {
            size_t largest = wm_arena_largest(a);

            if (largest > all.largest_bytes) {
                all.largest_bytes = largest;
            }
        }
        wm_sized_out(info, &all, sizeof all);
    }
    return status;
}

static void cap(warm_stat *stat, uint64_t most)
{
    if (stat->peak > most) {
        stat->peak = most;
    }
}

/* The peak of a part is at most the peak of all, and that at most the sum of
 * the parts' peaks. */
static void cap_peaks(warm_device_stats *sum)
{
#define CAP(name, unit, meaning)                                               \
    cap(&sum->small.name, sum->all.name.peak);                                 \
    cap(&sum->large.name, sum->all.name.peak);                                 \
    cap(&sum->all.name, sum->small.name.peak + sum->large.name.peak);
    WARM_DEVICE_STAT_MAP(CAP)
#undef CAP
}

static void show_peaks(warm_device_figures *figures, const wm_live *live)
{
    wm_stat_peak(&figures->live, &live->of[WM_LIVE_BLOCKS]);
    wm_stat_peak(&figures->requested_bytes, &live->of[WM_LIVE_ASKED]);
    wm_stat_peak(&figures->live_bytes, &live->of[WM_LIVE_BYTES]);
    wm_stat_peak(&figures->active, &live->of[WM_LIVE_ACTIVE]);
    wm_stat_peak(&figures->active_bytes, &live->of[WM_LIVE_ACTIVE_BYTES]);
}

struct reading {
    wm_space *space;
    warm_device_stats *sum;
};

/* Reads one consistent moment: no thread's magazines change meanwhile. */
static void read_counted(void *context)
{
    const struct reading *reading = context;
    const wm_lives *lives = reading->space->group.arenas->live;
    warm_device_stats *sum = reading->sum;

    for (wm_arena *a = wm_group_arenas(&reading->space->group); a != NULL;
         a = a->next_arena) {
        if (a->siblings == a) {
            wm_arena_sorted_stats(a, sum);
        }
    }
    show_peaks(&sum->all, &lives->whole);
    show_peaks(&sum->small, &lives->small);
    show_peaks(&sum->large, &lives->large);
}

/* Sums the arenas' figures; *sum is zeroed. */
static void sum_stats(wm_space *space, warm_device_stats *sum)
{
    struct reading reading = {space, sum};
    warm_stat *held = &sum->all.held_bytes;
    uint64_t peak;

    wm_cache_merge_stats_and_read(&space->group, read_counted, &reading);
    /* Other threads run meanwhile, since there may be many blocks. */
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        if (a->siblings == a) {
            wm_arena_split_stats(a, sum);
        }
    }
    wm_lock_acquire(&space->growth.lock);
    sum->workspace_bytes = space->beside_bytes;
    wm_lock_release(&space->growth.lock);
    peak = wm_growth_peak(&space->growth);
    /* Exact while no memory is obtained or returned (wm_space_stats()). */
    if (peak >= held->current && peak < held->peak) {
        held->peak = peak;
    }
    if (wm_space_is_lost(space)) {
        sum->reset_bytes = held->current + sum->workspace_bytes;
    }
    cap_peaks(sum);
}

warm_status warm_device_get_stats(warm_runtime *runtime, int device,
                                  warm_device_stats *stats)
{
    warm_device_stats all = {.size = sizeof all};
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK) {
        status = wm_sized_check(stats, sizeof all, "warm_device_stats");
    }
    if (status == WARM_OK) {
        sum_stats(&space_of(runtime, device)->space, &all);
        wm_sized_out(stats, &all, sizeof all);
    }
    return status;
}

warm_status warm_device_reset_peaks(warm_runtime *runtime, int device)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK) {
        wm_cache_merge_stats(&space_of(runtime, device)->space.group);
        wm_space_reset_peaks(&space_of(runtime, device)->space);
    }
    return status;
}

warm_status warm_device_reset_totals(warm_runtime *runtime, int device)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK) {
        wm_cache_merge_stats(&space_of(runtime, device)->space.group);
        wm_space_reset_totals(&space_of(runtime, device)->space);
    }
    return status;
}

warm_status warm_device_trim(warm_runtime *runtime, int device, size_t target,
                             size_t *released)
{
    warm_status status = wm_runtime_check_device(runtime, device);
    size_t bytes = 0;

    if (status == WARM_OK) {
        wm_driver_notice_reset(runtime->driver, device);
        status =
            wm_space_trim(&space_of(runtime, device)->space, target, &bytes);
    }
    if (status == WARM_OK) {
        wm_event_pool_trim(&runtime->pinned->events);
    }
    if (status == WARM_OK && released != NULL) {
        *released = bytes;
    }
    return status;
}

warm_status warm_device_empty_cache(warm_runtime *runtime, int device,
                                    size_t *released)
{
    return warm_device_trim(runtime, device, 0, released);
}

/* *target: the bytes to trim to for the reservation to fit; unchanged if no
 * trim can make room. */
static bool try_claim(wm_space *space, size_t bytes, size_t *target)
{
    size_t limit, others;
    bool done;

    wm_lock_acquire(&space->growth.lock);
    limit = wm_space_limit(space);
    others = space->beside_bytes + bytes;
    done = limit == 0 ||
           (others <= limit &&
            space->growth.held + space->growth.coming <= limit - others);
    if (done) {
        space->beside_bytes = others;
    } else if (others <= limit) {
        *target = limit - others;
    }
    wm_lock_release(&space->growth.lock);
    return done;
}

bool wm_device_space_claim(warm_runtime *runtime, int device, size_t bytes)
{
    wm_space *space = &space_of(runtime, device)->space;
    size_t target = SIZE_MAX, released = 0;

    if (try_claim(space, bytes, &target)) {
        return true;
    }
    return target != SIZE_MAX &&
           wm_space_trim(space, target, &released) == WARM_OK &&
           try_claim(space, bytes, &target);
}

void wm_device_space_unclaim(warm_runtime *runtime, int device, size_t bytes)
{
    wm_space *space = &space_of(runtime, device)->space;

    wm_lock_acquire(&space->growth.lock);
    space->beside_bytes -= bytes;
    space->growth.vacated++; /* a request that the limit refused may retry */
    wm_cond_broadcast(&space->growth.over);
    wm_lock_release(&space->growth.lock);
}

/* NaN is out of range. */
static warm_status check_fraction(const char *name, double fraction)
{
    return fraction > 0 && fraction <= 1
               ? WARM_OK
               : wm_fail(WARM_INVALID_ARGUMENT,
                         "%s %g of a device's memory: more than 0, at most 1",
                         name, fraction);
}

/* A fraction of 1 means no limit, stored as 0; a tiny fraction is a limit of at
 * least 1 byte. */
static size_t part_of(size_t total, double fraction)
{
    size_t part = fraction < 1 ? (size_t)((double)total * fraction) : 0;

    return fraction < 1 && part == 0 ? 1 : part;
}

/* Sets each of the two limits whose pointer is not null. */
static warm_status set_limits(warm_runtime *runtime, int device,
                              const double *fraction, const double *threshold)
{
    size_t free = 0, total = 0;
    wm_device_space *d = space_of(runtime, device);
    warm_status status =
        wm_driver_device_memory(runtime->driver, device, &free, &total);

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&d->space.growth.lock);
    d->fraction = fraction != NULL ? *fraction : d->fraction;
    d->threshold = threshold != NULL ? *threshold : d->threshold;
    atomic_store_explicit(&d->space.limit_bytes, part_of(total, d->fraction),
                          memory_order_relaxed);
    atomic_store_explicit(&d->collect_bytes,
                          part_of(total, d->fraction * d->threshold),
                          memory_order_relaxed);
    wm_lock_release(&d->space.growth.lock);
    return WARM_OK;
}

warm_status warm_device_set_memory_fraction(warm_runtime *runtime, int device,
                                            double fraction)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK) {
        status = check_fraction("fraction", fraction);
    }
    return status == WARM_OK ? set_limits(runtime, device, &fraction, NULL)
                             : status;
}

warm_status warm_device_set_collect_threshold(warm_runtime *runtime, int device,
                                              double threshold)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK) {
        status = check_fraction("threshold", threshold);
    }
    return status == WARM_OK ? set_limits(runtime, device, NULL, &threshold)
                             : status;
}

warm_status warm_device_get_memory_fraction(warm_runtime *runtime, int device,
                                            double *fraction)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK && fraction == NULL) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "fraction is null");
    }
    if (status == WARM_OK) {
        wm_device_space *d = space_of(runtime, device);

        wm_lock_acquire(&d->space.growth.lock);
        *fraction = d->fraction;
        wm_lock_release(&d->space.growth.lock);
    }
    return status;
}
