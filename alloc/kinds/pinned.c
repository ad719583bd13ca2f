/* pinned.c: the page-locked and the pageable memory of a runtime, a space each.
 * Pageable blocks take lock arena, through the arena. */
#include "alloc/kinds/pinned.h"

#include "alloc/cache/magazine.h"
#include "alloc/cache/pending.h"
#include "alloc/kinds/combined.h"
#include "alloc/space/space_int.h"
#include "runtime/base/bytes.h"
#include "runtime/base/meta.h"
#include "runtime/base/os_page.h"

#include <errno.h>
#include <sys/mman.h>

static warm_status obtain(wm_space *space, const wm_arena *arena, size_t bytes,
                          size_t *piece, void **base)
{
    return wm_pin_obtain(&space->group.runtime->pinned->pin, arena->node, bytes,
                         piece, base);
}

static warm_status give_back(wm_space *space, const wm_arena *arena, void *base,
                             size_t bytes, bool pieced)
{
    (void)arena;
    return wm_pin_give_back(&space->group.runtime->pinned->pin, base, bytes,
                            pieced);
}

static const wm_space_traits pinned_traits = {.name = "pinned",
                                              .obtain = obtain,
                                              .give_back = give_back,
                                              .touchable = true};

/* ---- pageable memory ---------------------------------------------------- */

/* Unmaps a region once no block in it is live or pending. Of two threads that
 * free its last blocks at once, one detaches the region. */
static void unmap_idle(wm_space *space, wm_segment *segment)
{
    wm_arena *arena = &space->group.arenas[0];

    if (wm_arena_detach_idle(arena, segment)) {
        if (wm_unlikely(space->group.debug != NULL)) {
            wm_debug_leave(arena, segment->base, segment->bytes);
        }
        munmap(segment->base, segment->bytes);
        wm_arena_released(arena, segment);
    }
}

static const wm_space_traits pageable_traits = {.name = "pageable",
                                                .freed = unmap_idle,
                                                .touchable = true,
                                                .nodeless = true,
                                                .uncached = true};

static warm_status map(wm_arena *arena, size_t bytes, wm_block **block)
{
    size_t whole = wm_os_page_round(wm_size_run_bytes(bytes));
    void *base = mmap(NULL, whole, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED) {
        return wm_fail_code(WARM_OUT_OF_MEMORY, "system", errno, NULL,
                            "%s cannot be mapped (errno %d)",
                            wm_bytes(whole).text, errno);
    }
    warm_status status = wm_arena_grow(arena, NULL, base, whole, bytes, block);
    if (status != WARM_OK) {
        munmap(base, whole);
    }
    return status;
}

warm_status wm_pageable_alloc(wm_space *space, size_t bytes, void **pointer)
{
    wm_arena *arena = &space->group.arenas[0];
    /* Small blocks share a region that may have room. */
    wm_block *block = wm_arena_take(arena, NULL, bytes, WM_SPLIT_ALLOW, NULL);
    warm_status status = block == NULL ? map(arena, bytes, &block) : WARM_OK;

    if (status == WARM_OK) {
        *pointer = block->base;
    }
    return status;
}

/* ---- for runtime.c ---------------------------------------------------- */

static void report_ends(wm_arena_group *group)
{
    wm_space_log_lost((wm_space *)group);
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
    warm_status status;

    if (p == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    status = wm_pin_init(&p->pin, runtime->driver, options);
    if (status != WARM_OK) {
        goto fail;
    }
    status = wm_space_init(&p->space, &pinned_traits, runtime, &p->timelines,
                           options);
    if (status != WARM_OK) {
        goto fail;
    }
    status = wm_space_init(&p->pageable, &pageable_traits, runtime,
                           &p->timelines, options);
    if (status != WARM_OK) {
        goto fail_pageable;
    }
    status = wm_adopted_init(&p->adopted, &p->space, options);
    if (status != WARM_OK) {
        goto fail_adopted;
    }
    p->space.group.device = WM_DEVICE_HOST;
    p->space.group.place = (uint64_t)runtime->devices;
    status = wm_combined_init(&p->combined, &p->space, &p->timelines, options);
    if (status != WARM_OK) {
        goto fail_combined;
    }
    status = wm_event_pool_init(&p->events, runtime->driver);
    if (status != WARM_OK) {
        goto fail_events;
    }
    p->pageable.group.place =
        p->space.group.place + (uint64_t)p->space.group.nodes;
    p->space.beside = &p->pageable;
    p->space.adopted = &p->adopted.space;
    p->adopted.space.group.place = p->space.group.place;
    p->pageable.group.pageable = true;
    p->pageable.poller = &p->space;
    p->pageable.group.waker = &p->space.background.waker;
    p->pin.space = &p->space;
    if (wm_pin_cuts(&p->pin)) {
        wm_space_cut(&p->space);
    }
    status = wm_turn_open(&runtime->turn, options);
    if (status != WARM_OK) {
        goto fail_turn;
    }
    wm_timelines_init(&p->timelines, runtime, &p->events, options,
                      &timeline_ops);
    *pinned = p;
    return WARM_OK;

fail_turn:
    (void)wm_event_pool_fini(&p->events);
fail_events:
    wm_space_fini(&p->combined);
fail_combined:
    wm_adopted_fini(&p->adopted);
fail_adopted:
    wm_space_fini(&p->pageable);
fail_pageable:
    wm_space_fini(&p->space);
fail:
    wm_meta_free(p);
    return status;
}

warm_status wm_pinned_begin(warm_runtime *runtime)
{
    return wm_background_begin(&runtime->pinned->space.background);
}

void wm_pinned_stop(wm_pinned *pinned)
{
    wm_background_stop(&pinned->space.background);
}

void wm_pinned_report_left(wm_space *space, warm_destroy_report *report)
{
    report->lost_bytes += wm_space_report_used(space, report);
    if (wm_space_is_lost(space)) {
        wm_lock_acquire(&space->growth.lock);
        report->lost_bytes += space->beside_bytes;
        wm_lock_release(&space->growth.lock);
    }
}

void wm_pinned_close(wm_pinned *pinned, warm_destroy_report *report)
{
    size_t released;

    wm_adopted_stop(&pinned->adopted);
    (void)wm_space_trim(&pinned->combined, 0, &released);
    (void)wm_space_trim(&pinned->space, 0, &released);
    (void)wm_adopted_tend(&pinned->adopted);
    wm_pinned_report_left(&pinned->space, report);
    wm_pinned_report_left(&pinned->pageable, report);
    wm_pinned_report_left(&pinned->combined, report);
    wm_pinned_report_left(&pinned->adopted.space, report);
    wm_space_forget(&pinned->space);
    wm_space_forget(&pinned->pageable);
    wm_space_forget(&pinned->combined);
    wm_space_forget(&pinned->adopted.space);
    wm_timelines_forget_entries(&pinned->timelines);
    wm_timelines_fini(&pinned->timelines);
    (void)wm_event_pool_fini(&pinned->events);
    wm_turn_close(&pinned->space.group.runtime->turn);
    wm_space_fini(&pinned->space);
    wm_space_fini(&pinned->pageable);
    wm_space_fini(&pinned->combined);
    wm_adopted_fini(&pinned->adopted);
    wm_meta_free(pinned);
}

warm_status wm_pinned_alloc_apart(warm_runtime *runtime, size_t bytes, int node,
                                  void **pointer)
{
    wm_space *space = &runtime->pinned->space;
    wm_request request = {.bytes = bytes + space->group.guard_bytes,
                          .arena = wm_cache_arena(&space->group, node)};
    warm_status status = wm_space_alloc(space, &request, pointer);

    if (status == WARM_OK && wm_runtime_is_traced(runtime)) {
        wm_traced_alloc(runtime, *pointer, NULL);
    }
    return status;
}

void wm_pinned_free_apart(void *pointer)
{
    wm_block *block = pointer != NULL ? wm_space_find(pointer) : NULL;

    if (block == NULL) {
        return;
    }
    wm_block_set_state(block, WM_BLOCK_FREEING); /* nobody else knows it */
    (void)wm_block_detach_uses(block);
    if (wm_runtime_is_traced(wm_space_of(block)->group.runtime)) {
        wm_traced_free(wm_space_of(block)->group.runtime, block);
    }
    wm_space_free(wm_space_of(block), block);
}

bool wm_pinned_capture_over(wm_pinned *pinned, warm_stream stream)
{
    bool found = wm_timelines_over(&pinned->timelines, stream);

    /* Returns the memory of private pools that ended during the capture. */
    wm_space_tend_pools(&pinned->space, NULL);
    return found;
}
