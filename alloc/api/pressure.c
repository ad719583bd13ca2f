/* pressure.c: the public functions of watermarks and totals (pressure.h). */
#include "warmpool/pressure.h"

#include "alloc/kinds/pinned.h"
#include "alloc/kinds/recommended.h"
#include "alloc/space/space.h"
#include "runtime/base/bytes.h"
#include "runtime/base/sized.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which memory -------------------------------------------------------- */

static wm_space *host_space(warm_runtime *runtime)
{
    return &runtime->pinned->space;
}

static warm_status check_memory(warm_runtime *runtime, int memory)
{
    if (memory == WARM_MEMORY_OF_HOST || memory == WARM_MEMORY_OF_ALL) {
        return wm_runtime_check(runtime);
    }
    return wm_runtime_check_device(runtime, memory);
}

/* Held, being obtained, and claimed. */
static uint64_t taken(warm_runtime *runtime, int memory)
{
    wm_space *owner = wm_memory_owner(runtime, memory);
    uint64_t bytes;

    if (memory == WARM_MEMORY_OF_ALL) {
        return wm_whole_taken(&owner->whole);
    }
    wm_lock_acquire(&owner->growth.lock);
    bytes = wm_taken_locked(owner);
    wm_lock_release(&owner->growth.lock);
    return bytes;
}

/* ---- watermarks ---------------------------------------------------------- */

/* The recommended maximum may be less than when the bytes were set. */
static double ratio_of(double set, uint64_t bytes, uint64_t recommended)
{
    double ratio = set;

    if (set == 0) {
        ratio = recommended > 0 ? (double)bytes / (double)recommended : 0;
    }
    return ratio < WARM_WATERMARK_MOST ? ratio : WARM_WATERMARK_MOST;
}

static warm_status get(warm_runtime *runtime, int memory,
                       warm_watermarks *watermarks)
{
    warm_watermarks now = {.size = sizeof now};
    wm_space *owner = wm_memory_owner(runtime, memory);
    wm_watermarks *marks = wm_memory_marks(runtime, memory);
    warm_status status =
        wm_recommended(runtime, memory, &now.recommended_bytes);

    if (status != WARM_OK) {
        return status;
    }
    if (owner == host_space(runtime)) {
        wm_pressure_refresh_now(owner);
    }
    wm_lock_acquire(&owner->growth.lock);
    now.high_bytes = wm_high_bytes(marks);
    now.low_bytes = wm_low_bytes(marks);
    now.high_ratio =
        ratio_of(marks->high_set.ratio, now.high_bytes, now.recommended_bytes);
    now.low_ratio =
        ratio_of(marks->low_set.ratio, now.low_bytes, now.recommended_bytes);
    wm_lock_release(&owner->growth.lock);
    wm_sized_out(watermarks, &now, sizeof now);
    return WARM_OK;
}

warm_status warm_watermarks_get(warm_runtime *runtime, int memory,
                                warm_watermarks *watermarks)
{
    warm_status status = wm_check_out(check_memory(runtime, memory), watermarks,
                                      sizeof *watermarks, "warm_watermarks");

    return status != WARM_OK ? status : get(runtime, memory, watermarks);
}

/* Idle memory above the low watermark goes at once; if the driver refuses that,
 * the watermarks are set all the same. */
static void set(warm_runtime *runtime, int memory, const wm_watermark_set *high,
                const wm_watermark_set *low, size_t recommended)
{
    wm_space *owner = wm_memory_owner(runtime, memory);

    WM_KEEP_ERROR();
    wm_watermarks_set(owner, wm_memory_marks(runtime, memory), high, low,
                      recommended);
    (void)wm_space_shrink(owner);
}

static warm_status check_range(warm_runtime *runtime, int memory, uint64_t high,
                               uint64_t low)
{
    uint64_t recommended;
    warm_status status = wm_recommended(runtime, memory, &recommended);

    if (status != WARM_OK ||
        (status = wm_watermark_check(WARM_INVALID_ARGUMENT, "high watermark",
                                     high, recommended)) != WARM_OK) {
        return status;
    }
    return wm_watermark_check(WARM_INVALID_ARGUMENT, "low watermark", low,
                              recommended);
}

warm_status warm_watermarks_set(warm_runtime *runtime, int memory,
                                uint64_t high, uint64_t low)
{
    warm_status status = check_memory(runtime, memory);

    if (status == WARM_OK && high != 0 && low > high) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "low watermark %s is above the high one, %s",
                       wm_bytes(low).text, wm_bytes(high).text);
    }
    if (status == WARM_OK &&
        (status = check_range(runtime, memory, high, low)) == WARM_OK) {
        set(runtime, memory, &(wm_watermark_set){.bytes = high},
            &(wm_watermark_set){.bytes = low}, 0);
    }
    return status;
}

static warm_status check_ratio(const char *name, double ratio)
{
    if (ratio >= 0 && ratio <= WARM_WATERMARK_MOST) { /* not NaN */
        return WARM_OK;
    }
    return wm_fail(WARM_INVALID_ARGUMENT,
                   "%s watermark %g of the recommended maximum is not 0 to %g",
                   name, ratio, WARM_WATERMARK_MOST);
}

static warm_status set_ratio(warm_runtime *runtime, int memory, double high,
                             double low)
{
    wm_watermark_set high_set = {.ratio = high}, low_set = {.ratio = low};
    uint64_t recommended;
    warm_status status = wm_recommended(runtime, memory, &recommended);

    if (status != WARM_OK) {
        return status;
    }
    if (recommended == 0 && (high > 0 || low > 0)) {
        return wm_fail(WARM_UNSUPPORTED,
                       "memory %d: its recommended maximum is unknown, so "
                       "watermarks are set in bytes only",
                       memory);
    }
    if (memory == WARM_MEMORY_OF_ALL) {
        high_set = wm_watermark_fixed(high, recommended);
        low_set = wm_watermark_fixed(low, recommended);
    }
    set(runtime, memory, &high_set, &low_set, recommended);
    return WARM_OK;
}

warm_status warm_watermarks_set_ratio(warm_runtime *runtime, int memory,
                                      double high, double low)
{
    warm_status status = check_memory(runtime, memory);

    if (status != WARM_OK || (status = check_ratio("high", high)) != WARM_OK ||
        (status = check_ratio("low", low)) != WARM_OK) {
        return status;
    }
    if (high > 0 && low > high) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "low watermark %g is above the high one, %g", low, high);
    }
    return set_ratio(runtime, memory, high, low);
}

warm_status warm_low_watermark_value(warm_runtime *runtime, int memory,
                                     uint64_t *bytes)
{
    uint64_t low, held;
    warm_status status =
        wm_check_given(check_memory(runtime, memory), bytes, "bytes");

    if (status != WARM_OK) {
        return status;
    }
    wm_pressure_refresh(host_space(runtime));
    low = wm_low_bytes(wm_memory_marks(runtime, memory));
    held = taken(runtime, memory);
    *bytes = low == 0 ? UINT64_MAX : low > held ? low - held : 0;
    return WARM_OK;
}

/* ---- totals -------------------------------------------------------------- */

/* Bytes of a line of /proc/self/status in KiB, 0 if there is none. */
static uint64_t status_bytes(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at != NULL ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

static uint64_t locked_by_process(const wm_space *host)
{
    char text[4096], path[4096];
    int before = errno;
    FILE *file;
    size_t got = 0;

    WM_CANCEL_OFF();
    snprintf(path, sizeof path, "%s/proc/self/status", host->pressure.root);
    file = fopen(path, "re");
    if (file != NULL) {
        got = fread(text, 1, sizeof text - 1, file);
        fclose(file);
    }
    text[got] = '\0';
    errno = before;
    return status_bytes(text, "\nVmLck:") + status_bytes(text, "\nVmPin:");
}

static warm_status count_process(warm_runtime *runtime, int memory,
                                 uint64_t *bytes)
{
    wm_space *host = host_space(runtime);
    size_t free = 0, total = 0;
    warm_device_info info = {.size = sizeof info};
    warm_status status = WARM_OK;

    if (memory != WARM_MEMORY_OF_ALL &&
        wm_memory_owner(runtime, memory) == host) {
        *bytes += locked_by_process(host);
        return WARM_OK;
    }
    if (memory >= 0) {
        /* Free is 0 of a device that the program does not use. */
        status = wm_driver_device_info(runtime->driver, memory, &info);
        if (status == WARM_OK && info.free_bytes > 0) {
            status =
                wm_driver_device_memory(runtime->driver, memory, &free, &total);
            *bytes += total - free;
        }
        return status;
    }
    *bytes += locked_by_process(host);
    for (int i = 0; i < runtime->devices && status == WARM_OK; i++) {
        if (wm_memory_owner(runtime, i) != host) {
            status = count_process(runtime, i, bytes);
        }
    }
    return status;
}

/* Adds up the live bytes of the spaces that count. */
static uint64_t count_live(warm_runtime *runtime, int memory)
{
    const wm_space *owner = wm_memory_owner(runtime, memory);
    bool all = memory == WARM_MEMORY_OF_ALL;
    wm_space *const *list = all ? owner->all : owner->fellows;
    size_t count = all ? owner->all_count : owner->fellow_count;
    uint64_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        warm_space_stats s = {.size = sizeof s};

        wm_space_settled_stats(list[i], WM_NODE_UNKNOWN, &s);
        bytes += s.live_bytes.current;
    }
    if (owner == host_space(runtime)) {
        warm_space_stats s = {.size = sizeof s};

        wm_space_stats(&runtime->pinned->adopted.space, &s);
        bytes += s.live_bytes.current;
    }
    return bytes;
}

static warm_status get_totals(warm_runtime *runtime, int memory,
                              warm_memory_totals *now)
{
    warm_status status =
        wm_recommended(runtime, memory, &now->recommended_bytes);

    if (status != WARM_OK ||
        (status = count_process(runtime, memory, &now->process_bytes)) !=
            WARM_OK) {
        return status;
    }
    now->in_use_bytes = count_live(runtime, memory);
    now->held_bytes = taken(runtime, memory);
    if (now->process_bytes < now->held_bytes) {
        now->process_bytes = now->held_bytes;
    }
    return WARM_OK;
}

warm_status warm_memory_get_totals(warm_runtime *runtime, int memory,
                                   warm_memory_totals *totals)
{
    warm_memory_totals now = {.size = sizeof now};
    warm_status status = wm_check_out(check_memory(runtime, memory), totals,
                                      sizeof now, "warm_memory_totals");

    if (status == WARM_OK &&
        (status = get_totals(runtime, memory, &now)) == WARM_OK) {
        wm_sized_out(totals, &now, sizeof now);
    }
    return status;
}
