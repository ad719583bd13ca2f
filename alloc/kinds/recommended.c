/* recommended.c: see recommended.h. Takes lock growth. */
#include "alloc/kinds/recommended.h"

#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "runtime/base/bytes.h"

/* ---- which memory -------------------------------------------------------- */

wm_space *wm_memory_owner(warm_runtime *runtime, int memory)
{
    return memory < 0 ? &runtime->pinned->space
                      : runtime->device_spaces[memory].space.limiter;
}

wm_watermarks *wm_memory_marks(warm_runtime *runtime, int memory)
{
    wm_space *owner = wm_memory_owner(runtime, memory);

    return memory == WARM_MEMORY_OF_ALL ? &owner->whole.marks : &owner->marks;
}

static bool is_hosts(warm_runtime *runtime, int memory)
{
    return wm_memory_owner(runtime, memory) == &runtime->pinned->space;
}

/* ---- how much ------------------------------------------------------------ */

static warm_status recommend_device(warm_runtime *runtime, int device,
                                    uint64_t *bytes)
{
    warm_device_info info = {.size = sizeof info};
    warm_status status = wm_driver_device_info(runtime->driver, device, &info);

    *bytes = status == WARM_OK ? info.total_bytes : 0;
    return status;
}

static warm_status recommend_all(warm_runtime *runtime, uint64_t *bytes)
{
    *bytes = wm_pressure_recommended(&runtime->pinned->space);
    for (int i = 0; i<runtime->devices && * bytes> 0; i++) {
        uint64_t more = 0;
        warm_status status = is_hosts(runtime, i)
                                 ? WARM_OK
                                 : recommend_device(runtime, i, &more);

        if (status != WARM_OK) {
            return status;
        }
        *bytes += more;
    }
    return WARM_OK;
}

warm_status wm_recommended(warm_runtime *runtime, int memory, uint64_t *bytes)
{
    if (memory == WARM_MEMORY_OF_ALL) {
        return recommend_all(runtime, bytes);
    }
    if (!is_hosts(runtime, memory)) {
        return recommend_device(runtime, memory, bytes);
    }
    *bytes = wm_pressure_recommended(&runtime->pinned->space);
    return WARM_OK;
}

/* ---- watermarks ---------------------------------------------------------- */

warm_status wm_watermark_check(warm_status refusal, const char *name,
                               uint64_t bytes, uint64_t recommended)
{
    if (recommended == 0 ||
        (double)bytes <= WARM_WATERMARK_MOST * (double)recommended) {
        return WARM_OK;
    }
    return wm_fail(refusal,
                   "%s %s is more than %g times the recommended maximum, %s",
                   name, wm_bytes(bytes).text, WARM_WATERMARK_MOST,
                   wm_bytes(recommended).text);
}

wm_watermark_set wm_watermark_fixed(double ratio, uint64_t recommended)
{
    const wm_watermark_set set = {.ratio = ratio};

    return (wm_watermark_set){.bytes = wm_watermark_bytes(&set, recommended)};
}

/* A watermark as an option gives it: of a ratio, which follows, or bytes. */
static warm_status from_option(const char *name, uint64_t option, double ratio,
                               uint64_t recommended, wm_watermark_set *set)
{
    *set = wm_watermark_from(option, ratio);
    if (recommended == 0 && wm_option_is_ratio(option)) {
        return wm_fail(WARM_INVALID_OPTION,
                       "%s %g: the recommended maximum is unknown, so only "
                       "bytes are allowed",
                       name, set->ratio);
    }
    return wm_watermark_check(WARM_INVALID_OPTION, name, set->bytes,
                              recommended);
}

struct pair {
    const char *high_name, *low_name;
    uint64_t high, low; /* as the options have them */
    double high_ratio, low_ratio;
};

static warm_status from_options(const struct pair *pair, uint64_t recommended,
                                wm_watermark_set *high, wm_watermark_set *low)
{
    warm_status status = from_option(pair->high_name, pair->high,
                                     pair->high_ratio, recommended, high);

    return status == WARM_OK ? from_option(pair->low_name, pair->low,
                                           pair->low_ratio, recommended, low)
                             : status;
}

static warm_status begin_host(warm_runtime *runtime, const wm_options *options)
{
    wm_space *space = &runtime->pinned->space;
    size_t recommended = wm_pressure_recommended(space);
    struct pair pair = {
        "option pinned_high:", "option pinned_low:", options->pinned_high,
        options->pinned_low,   WM_HIGH_RATIO,        WM_LOW_RATIO};
    wm_watermark_set high, low;
    warm_status status;

    for (int i = 0; i < runtime->devices; i++) {
        if (is_hosts(runtime, i)) {
            pair.low_ratio = WM_LOW_RATIO_BOTH;
        }
    }
    status = from_options(&pair, recommended, &high, &low);
    if (status == WARM_OK) {
        wm_watermarks_set(space, &space->marks, &high, &low, recommended);
    }
    return status;
}

/* Whether any device has memory of its own. *most: of the largest such device;
 * 0: unknown. */
static bool find_largest(warm_runtime *runtime, uint64_t *most)
{
    bool any = false;

    *most = 0;
    for (int i = 0; i < runtime->devices; i++) {
        uint64_t bytes = 0;

        if (!is_hosts(runtime, i)) {
            any = true;
            (void)recommend_device(runtime, i, &bytes);
            *most = bytes > *most ? bytes : *most;
        }
    }
    return any;
}

/* Of a device that is smaller than others bytes may be out of range. */
static void cap(wm_watermark_set *set, uint64_t recommended)
{
    size_t most = (size_t)(WARM_WATERMARK_MOST * (double)recommended);

    if (recommended > 0) {
        set->bytes = set->bytes < most ? set->bytes : most;
    }
}

/* Of a device whose size the driver does not tell only bytes have an effect. */
static warm_status begin_devices(warm_runtime *runtime,
                                 const wm_options *options)
{
    const struct pair pair = {
        "option device_high:", "option device_low:", options->device_high,
        options->device_low,   WM_HIGH_RATIO,        WM_LOW_RATIO};
    wm_watermark_set high, low;
    uint64_t most;
    warm_status status;

    if (!find_largest(runtime, &most)) {
        return WARM_OK;
    }
    status = from_options(&pair, most, &high, &low);
    for (int i = 0; i < runtime->devices && status == WARM_OK; i++) {
        wm_space *space = wm_memory_owner(runtime, i);
        wm_watermark_set own_high = high, own_low = low;
        uint64_t recommended = 0;

        if (!is_hosts(runtime, i)) {
            (void)recommend_device(runtime, i, &recommended);
            cap(&own_high, recommended);
            cap(&own_low, recommended);
            wm_watermarks_set(space, &space->marks, &own_high, &own_low,
                              (size_t)recommended);
        }
    }
    return status;
}

static warm_status begin_all(warm_runtime *runtime, const wm_options *options)
{
    const struct pair pair = {"option total_high:",
                              "option total_low:",
                              options->total_high,
                              options->total_low,
                              0,
                              0};
    wm_space *space = &runtime->pinned->space;
    wm_watermark_set high, low;
    uint64_t recommended = 0;
    warm_status status;

    if (pair.high == 0 && pair.low == 0) {
        return WARM_OK;
    }
    (void)recommend_all(runtime, &recommended);
    status = from_options(&pair, recommended, &high, &low);
    if (status != WARM_OK) {
        return status;
    }
    if (high.ratio > 0) {
        high = wm_watermark_fixed(high.ratio, recommended);
    }
    if (low.ratio > 0) {
        low = wm_watermark_fixed(low.ratio, recommended);
    }
    wm_watermarks_set(space, &space->whole.marks, &high, &low, 0);
    return status;
}

warm_status wm_watermarks_begin(warm_runtime *runtime,
                                const wm_options *options)
{
    warm_status status = begin_host(runtime, options);

    if (status != WARM_OK ||
        (status = begin_devices(runtime, options)) != WARM_OK) {
        return status;
    }
    return begin_all(runtime, options);
}
