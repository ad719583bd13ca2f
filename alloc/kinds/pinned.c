/* pinned.c: page-locked memory as a space of a runtime. */
#include "alloc/kinds/pinned.h"

#include "alloc/cache/pending.h"
#include "alloc/kinds/pageable.h"
#include "alloc/space/space_int.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

static wm_pinned *pinned_of(wm_space *space)
{
    return space->group.runtime->pinned;
}

static warm_status obtain(wm_space *space, int node, size_t bytes, void **base)
{
    return wm_pin_obtain(&pinned_of(space)->pin, node, bytes, base);
}

static warm_status give_back(wm_space *space, void *base, size_t bytes)
{
    return wm_pin_give_back(&pinned_of(space)->pin, base, bytes);
}

static const wm_space_traits pinned_traits = {
    .name = "pinned", .obtain = obtain, .give_back = give_back};

/* ---- for runtime.c ---------------------------------------------------- */

static void report_ends(wm_arena_group *group)
{
    wm_space_say_ends((wm_space *)group);
}

static const wm_timeline_ops timeline_ops = {
    .finish = wm_space_finish,
    .collect = wm_pending_collect_all,
    .report = report_ends,
};

warm_status wm_pinned_open(warm_runtime *runtime, const wm_options *options,
                           wm_pinned **pinned)
{
    wm_pinned *p = wm_meta_alloc(sizeof *p);
    warm_destroy_report unused = {.size = sizeof unused};
    warm_status status;

    if (p == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    status = wm_space_init(&p->space, &pinned_traits, runtime, &p->timelines,
                           options);
    if (status != WARM_OK) {
        goto fail;
    }
    status = wm_space_init(&p->pageable, &wm_pageable_traits, runtime,
                           &p->timelines, options);
    if (status != WARM_OK) {
        goto fail_pageable;
    }
    status = wm_event_pool_init(&p->events, runtime->driver);
    if (status != WARM_OK) {
        goto fail_events;
    }
    p->space.group.device = WM_DEVICE_HOST;
    p->space.group.place = (uint64_t)runtime->devices;
    p->pageable.group.place =
        p->space.group.place + (uint64_t)p->space.group.nodes;
    p->space.beside = &p->pageable;
    p->pageable.group.pageable = true;
    p->pageable.poller = &p->space;
    p->pageable.group.waker = &p->space.background.waker;
    wm_pin_init(&p->pin, runtime->driver, options);
    p->pin.begin_break = wm_space_begin_break;
    p->pin.end_break = wm_space_end_break;
    p->pin.space = &p->space;
    wm_timelines_init(&p->timelines, runtime, &p->events, options,
                      &timeline_ops);
    *pinned = p;
    status = wm_background_begin(&p->space.background);
    if (status != WARM_OK) {
        wm_pinned_close(p, &unused);
        *pinned = NULL;
    }
    return status;

fail_events:
    wm_space_fini(&p->pageable);
fail_pageable:
    wm_space_fini(&p->space);
fail:
    wm_meta_free(p);
    return status;
}

void wm_pinned_stop(wm_pinned *pinned)
{
    wm_background_stop(&pinned->space.background);
}

static void report_left(wm_space *space, warm_destroy_report *report)
{
    warm_space_stats stats = {.size = sizeof stats};

    wm_space_stats(space, &stats);
    report->live += stats.live.current;
    report->live_bytes += stats.live_bytes.current;
    report->pending += stats.pending.current;
    report->lost_bytes += stats.reset_bytes;
}

void wm_pinned_close(wm_pinned *pinned, warm_destroy_report *report)
{
    size_t released;

    if (pinned == NULL) {
        return;
    }
    (void)wm_space_trim(&pinned->space, 0, &released);
    report_left(&pinned->space, report);
    report_left(&pinned->pageable, report);
    wm_space_forget(&pinned->space);
    wm_space_forget(&pinned->pageable);
    wm_timelines_forget_entries(&pinned->timelines);
    wm_timelines_fini(&pinned->timelines);
    (void)wm_event_pool_fini(&pinned->events);
    wm_space_fini(&pinned->space);
    wm_space_fini(&pinned->pageable);
    wm_meta_free(pinned);
}

warm_status wm_pinned_adopt(wm_pinned *pinned, warm_stream stream,
                            const wm_stream_info *info)
{
    return wm_timelines_adopt(&pinned->timelines, stream, info);
}

warm_status wm_pinned_announce(wm_pinned *pinned, warm_stream stream,
                               const wm_stream_info *info, bool *already)
{
    return wm_timelines_announce(&pinned->timelines, stream, info, already);
}

bool wm_pinned_capture_over(wm_pinned *pinned, warm_stream stream)
{
    bool found = wm_timelines_over(&pinned->timelines, stream);

    wm_space_tend_pools(&pinned->space, NULL); /* what waited for that */
    return found;
}

void wm_pinned_retire(wm_pinned *pinned, warm_stream stream,
                      const wm_stream_info *info)
{
    wm_space_retire(&pinned->space, stream, info);
}
