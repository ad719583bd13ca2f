/* combined.c: write-combined memory (combined.h). Takes no lock. */
#include "alloc/kinds/combined.h"

#include "alloc/kinds/pinned.h"

static const wm_pin *pin_of(const wm_space *space)
{
    return &space->group.runtime->pinned->pin;
}

static warm_status obtain(wm_space *space, const wm_arena *arena, size_t bytes,
                          size_t *piece, void **base)
{
    (void)arena;
    (void)piece; /* 0 */
    return wm_pin_obtain_combined(pin_of(space), bytes, base);
}

static warm_status give_back(wm_space *space, const wm_arena *arena, void *base,
                             size_t bytes, bool pieced)
{
    (void)arena;
    (void)pieced; /* false */
    return wm_pin_give_back_combined(pin_of(space), base, bytes);
}

static const wm_space_traits combined_traits = {.name = "write-combined",
                                                .obtain = obtain,
                                                .give_back = give_back,
                                                .touchable = true,
                                                .nodeless = true,
                                                .uncached = true};

warm_status wm_combined_init(wm_space *combined, wm_space *pinned,
                             wm_timelines *timelines, const wm_options *options)
{
    warm_status status = wm_space_init(
        combined, &combined_traits, pinned->group.runtime, timelines, options);

    if (status == WARM_OK) {
        combined->group.device = WM_DEVICE_HOST;
        combined->group.place = pinned->group.place;
        combined->group.waker = pinned->group.waker;
        combined->limiter = combined->poller = pinned;
    }
    return status;
}
