/* pressure.c: watermarks that follow a recommended maximum, and what is
 * returned when the kernel says that memory is short (rows F7, F11, F12).
 *
 * The recommended maximum of host memory is what counts toward its watermarks
 * and has pages, and what machine and cgroups still allow, which changes while
 * other programs run: it is read again before a growth that comes AGE_NS after
 * the last reading. Takes lock growth; files are read with no lock held. */
#include "alloc/space/space_int.h"

#include "alloc/cache/magazine.h"
#include "runtime/base/bytes.h"
#include "runtime/base/callback.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

/* A reading takes some 100 us, as long as page-locking 1 MiB. */
enum { AGE_NS = 100000000 };

/* Between two looks at the kernel's counts by requests that miss. */
enum { LOOK_NS = 100000000 };

wm_watermark_set wm_watermark_from(uint64_t option, double ratio)
{
    if (option == 0) {
        return (wm_watermark_set){.ratio = ratio};
    }
    if (wm_option_is_ratio(option)) {
        return (wm_watermark_set){.ratio = wm_option_ratio(option)};
    }
    return (wm_watermark_set){.bytes = option == WARM_OFF ? 0 : (size_t)option};
}

size_t wm_watermark_bytes(const wm_watermark_set *set, size_t recommended)
{
    size_t part;

    if (set->ratio == 0) {
        return set->bytes;
    }
    part = (size_t)((double)recommended * set->ratio);
    return recommended > 0 && part == 0 ? 1 : part;
}

void wm_watermarks_set(wm_space *owner, wm_watermarks *marks,
                       const wm_watermark_set *high,
                       const wm_watermark_set *low, size_t recommended)
{
    size_t high_bytes, low_bytes;

    wm_lock_acquire(&owner->growth.lock);
    marks->high_set = high != NULL ? *high : marks->high_set;
    marks->low_set = low != NULL ? *low : marks->low_set;
    high_bytes = wm_watermark_bytes(&marks->high_set, recommended);
    low_bytes = wm_watermark_bytes(&marks->low_set, recommended);
    /* One is a ratio, the other is not: low stays below. */
    if (high_bytes != 0) {
        low_bytes = low_bytes < high_bytes ? low_bytes : high_bytes;
    }
    atomic_store_explicit(&marks->high, high_bytes, memory_order_relaxed);
    atomic_store_explicit(&marks->low, low_bytes, memory_order_relaxed);
    wm_lock_release(&owner->growth.lock);
}

/* What is held, and has taken nothing of what the kernel calls available. */
static size_t untouched_of(const wm_space *host)
{
    size_t bytes = 0;

    for (size_t i = 0; i < host->fellow_count; i++) {
        wm_space *space = host->fellows[i];

        if (space->traits->untouched != NULL && !wm_space_is_lost(space)) {
            bytes += space->traits->untouched(space);
        }
    }
    return bytes;
}

size_t wm_pressure_recommended(wm_space *host)
{
    uint64_t left = wm_budget_available(host->pressure.root);
    size_t untouched = untouched_of(host), taken, all;

    wm_lock_acquire(&host->growth.lock);
    taken = wm_taken_locked(host);
    wm_lock_release(&host->growth.lock);
    taken -= untouched < taken ? untouched : taken;
    if (left > SIZE_MAX / 4 - taken) {
        return 0;
    }
    all = (size_t)left + taken;
    return all > 0 ? all : 1; /* 0 means that it is unknown */
}

static bool follows(wm_space *host)
{
    bool ratio;

    wm_lock_acquire(&host->growth.lock);
    ratio = host->marks.high_set.ratio > 0 || host->marks.low_set.ratio > 0;
    wm_lock_release(&host->growth.lock);
    return ratio;
}

/* Memory of a device that was reset is gone, and counts no more. (Only a device
 * whose memory is the host's has a limiter that outlives it.) */
static void forget_lost(wm_space *host)
{
    for (size_t i = 1; i < host->fellow_count; i++) {
        wm_space *space = host->fellows[i];
        size_t bytes = 0;

        if (!wm_space_is_lost(space)) {
            continue;
        }
        wm_lock_acquire(&space->growth.lock);
        if (!space->growth.lost_counted) {
            bytes = space->growth.held;
            space->growth.lost_counted = true;
        }
        wm_lock_release(&space->growth.lock);
        if (bytes > 0) {
            wm_space_unclaim_own(host, bytes);
        }
    }
}

void wm_pressure_refresh_now(wm_space *host)
{
    forget_lost(host);
    /* Relaxed: a time. */
    atomic_store_explicit(&host->pressure.read_ns, wm_clock_ns(),
                          memory_order_relaxed);
    if (follows(host)) {
        wm_watermarks_set(host, &host->marks, NULL, NULL,
                          wm_pressure_recommended(host));
    }
}

void wm_pressure_refresh(wm_space *host)
{
    wm_pressure *p = &host->pressure;
    uint64_t now = wm_clock_ns();
    uint64_t before = atomic_load_explicit(&p->read_ns, memory_order_relaxed);

    /* Relaxed: of several threads, one exchanges the time and reads. */
    if ((before == 0 || now - before >= AGE_NS) &&
        atomic_compare_exchange_strong_explicit(&p->read_ns, &before, now,
                                                memory_order_relaxed,
                                                memory_order_relaxed)) {
        wm_pressure_refresh_now(host);
    }
}

warm_status wm_space_shrink(wm_space *space)
{
    wm_space_work work;
    warm_status status = WARM_OK;

    if (wm_limit_is_above_low(space, NULL)) {
        status = wm_space_work_begin(space, &work);
        if (status == WARM_OK) {
            wm_space_collect(space);
            wm_limit_shrink(space, NULL);
            wm_space_work_end(space, &work, true);
        }
    }
    return status;
}

/* Relaxed, all: a time, and of several threads one takes it. */
void wm_space_shrink_again(wm_space *space)
{
    uint64_t due =
        atomic_load_explicit(&space->shrink_ns, memory_order_relaxed);

    if (due != 0 && wm_clock_ns() >= due &&
        atomic_compare_exchange_strong_explicit(&space->shrink_ns, &due, 0,
                                                memory_order_relaxed,
                                                memory_order_relaxed)) {
        WM_KEEP_ERROR();
        (void)wm_space_shrink(space); /* sets the time, if low stays passed */
    }
}

/* ---- the kernel says that memory is short -------------------------------- */

static uint64_t idle_of_host(const wm_space *host)
{
    uint64_t idle = 0;

    for (size_t i = 0; i < host->fellow_count; i++) {
        warm_space_stats s = {.size = sizeof s};

        wm_space_stats(host->fellows[i], &s);
        idle += s.idle_bytes;
    }
    return idle;
}

/* Tasks wait for memory; or the process ran into a limit, and has more idle
 * than it may still have. (A program that reads files runs into the limit as
 * well, and page cache gives way by itself.) */
static bool is_short(wm_space *host, uint64_t now)
{
    wm_pressure *p = &host->pressure;
    unsigned signs = wm_budget_look(p->root, now, &p->watch);

    return (signs & WM_BUDGET_STALL) != 0 ||
           ((signs & WM_BUDGET_EVENT) != 0 &&
            wm_budget_available(p->root) < idle_of_host(host));
}

static size_t return_spare(const wm_space *host)
{
    size_t all = 0;

    for (size_t i = host->fellow_count; i-- > 0;) {
        wm_space *space = host->fellows[i];
        wm_space_work work;

        if (space->background.reserve_bytes == 0) {
            all += wm_limit_take(space, SIZE_MAX);
        } else if (wm_space_work_begin(space, &work) == WARM_OK) {
            wm_space_collect(space);
            all += wm_limit_return_spare(space, SIZE_MAX);
            wm_space_work_end(space, &work, true);
        }
    }
    if (all > 0) {
        wm_log(WARM_LOG_INFO,
               "the kernel reports that memory is short: returned %s of idle "
               "host memory",
               wm_bytes(all).text);
    }
    return all;
}

/* Another thread looks. */
#define LOOKING UINT64_MAX

/* Whether no thread looks, and the last look, at *before, is over for so long.
 */
static bool is_due(const wm_pressure *p, uint64_t now, uint64_t pause,
                   uint64_t *before)
{
    *before = atomic_load_explicit(&p->looked_ns, memory_order_relaxed);
    return *before != LOOKING && now - (*before < now ? *before : now) >= pause;
}

/* Of several threads that know when the last look was one looks. */
static size_t look(wm_space *host, uint64_t before)
{
    wm_pressure *p = &host->pressure;
    size_t all = 0;

    /* Acquire: what the thread that looked before has written to watch. */
    if (!atomic_compare_exchange_strong_explicit(&p->looked_ns, &before,
                                                 LOOKING, memory_order_acquire,
                                                 memory_order_relaxed)) {
        return 0;
    }
    if (is_short(host, wm_clock_ns())) {
        all = return_spare(host);
    }
    /* A look under pressure may take longer than the pause, which begins now.
     * Release: the acquire above. */
    atomic_store_explicit(&p->looked_ns, wm_clock_ns(), memory_order_release);
    return all;
}

size_t wm_pressure_look(wm_space *host)
{
    uint64_t before;

    return is_due(&host->pressure, wm_clock_ns(), wm_pressure_pause(host),
                  &before)
               ? look(host, before)
               : 0;
}

void wm_pressure_look_at_miss(wm_space *host)
{
    uint64_t pause = wm_pressure_pause(host), before;

    pause = pause < LOOK_NS ? pause : LOOK_NS;
    if (is_due(&host->pressure, wm_clock_rough_ns(), pause, &before) &&
        !wm_callback_inside()) {
        WM_KEEP_ERROR();
        (void)look(host, before);
    }
}

/* ---- a trim of everything ------------------------------------------------ */

static uint64_t cached_by(wm_space *space)
{
    warm_space_stats s = {.size = sizeof s};

    wm_space_settled_stats(space, WM_NODE_UNKNOWN, &s);
    return s.cached_bytes;
}

static uint64_t pending_of(wm_space *space)
{
    warm_space_stats s = {.size = sizeof s};

    wm_space_settled_stats(space, WM_NODE_UNKNOWN, &s);
    return s.pending_bytes.current;
}

static uint64_t flush_idle(wm_space *space)
{
    uint64_t before = cached_by(space), after;

    wm_cache_flush_idle(&space->group);
    after = cached_by(space);
    return before > after ? before - after : 0;
}

static uint64_t complete(wm_space *space)
{
    uint64_t before = pending_of(space), after;

    wm_pending_flush_rest(&space->group);
    wm_space_collect(space);
    if (space->traits->collect != NULL) {
        (void)space->traits->collect(space);
    }
    after = pending_of(space);
    return before > after ? before - after : 0;
}

static uint64_t flush_all(wm_space *space)
{
    uint64_t before = cached_by(space), after;

    wm_cache_flush_all(&space->group);
    wm_cache_trim(&space->group);
    after = cached_by(space);
    return before > after ? before - after : 0;
}

/* Returns idle segments of a space, until at most target bytes are held in all.
 */
static uint64_t give_back(wm_space *host, wm_space *space, size_t target)
{
    size_t taken = wm_whole_taken(&host->whole);
    size_t held = wm_growth_held(&space->growth);

    if (taken <= target || held == 0) {
        return 0;
    }
    taken -= target;
    return wm_growth_give_back(space, NULL, held > taken ? held - taken : 0);
}

/* Before a source is tried, and after the last, idle segments go. */
warm_status wm_pressure_trim(wm_space *host, size_t target,
                             warm_trim_report *report)
{
    static uint64_t (*const sources[])(wm_space *) = {flush_idle, complete,
                                                      flush_all};
    uint64_t *const made[] = {&report->idle_caches, &report->completed,
                              &report->cached};
    wm_space_work work;
    warm_status status = wm_space_work_begin(host, &work);

    if (status != WARM_OK) {
        return status;
    }
    for (size_t k = 0; wm_whole_taken(&host->whole) > target; k++) {
        for (size_t i = host->all_count; i-- > 0;) {
            report->segments += give_back(host, host->all[i], target);
        }
        if (k == sizeof sources / sizeof *sources ||
            wm_whole_taken(&host->whole) <= target) {
            break;
        }
        for (size_t i = 0; i < host->all_count; i++) {
            *made[k] += sources[k](host->all[i]);
        }
    }
    wm_space_work_end(host, &work, true);
    return WARM_OK;
}
