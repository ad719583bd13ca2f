/* model_figures.c: what must be true after each step. */
#include "model/memory_model.h"

struct figures {
    uint64_t live, allocated, requested, held, captured, lost;
    uint64_t waiting; /* freed, of streams that may use it */
    uint64_t pageable;
};

static struct figures figures_of(int space)
{
    warm_space_stats s;
    warm_device_stats d = {.size = sizeof d};

    if (model_is_far(space)) {
        wt_ok(warm_device_get_stats(model.runtime, space - 1, &d));
        return (struct figures){.live = d.all.live.current,
                                .allocated = d.all.live.allocated,
                                .requested = d.all.requested_bytes.current,
                                .held = d.all.held_bytes.current,
                                .captured = d.captured,
                                .lost = d.lost,
                                .waiting =
                                    d.all.active.current - d.all.live.current};
    }
    s = wt_pinned_stats(model.runtime);
    if (model_is_shared(space)) {
        wt_ok(warm_shared_get_stats(model.runtime, space - 1 - model.devices,
                                    WARM_USAGE_SHARED, &s));
    }
    return (struct figures){.live = s.live.current,
                            .allocated = s.live.allocated,
                            .requested = s.requested_bytes.current,
                            .held = s.held_bytes.current,
                            .captured = s.captured,
                            .lost = s.lost,
                            .waiting =
                                s.pending.current + s.pageable_pending.current,
                            .pageable = s.pageable.current};
}

/* Every arena's own, and the sums. */
void model_check_arenas(void)
{
    warm_space_stats s = wt_pinned_stats(model.runtime);

    MUST(warm_testing_check(model.runtime, 1) == WARM_OK,
         warm_last_error_message());
    MUST(s.held_bytes.current == s.live_bytes.current + s.idle_bytes +
                                     s.pending_bytes.current + s.lost_bytes +
                                     s.captured_bytes,
         "the parts are not the whole");
    for (int i = 0; i < model_spaces(); i++) {
        MUST(figures_of(i).lost == 0, "a block was lost");
    }
}

uint64_t model_held(int space)
{
    return figures_of(space).held;
}

static uint64_t kept_with_pools(int space, const struct pool *pool)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < model.freeds; i++) {
        const struct range *r = &model.freed[i];

        count += pool != NULL ? r->kept == WITH_POOL && r->pool == pool
                              : r->kept == WITH_POOL && r->space == space;
    }
    return count;
}

static void check_pools(void)
{
    for (unsigned i = 0; i < model.pools; i++) {
        warm_private_pool_info info = {.size = sizeof info};
        uint64_t blocks = 0;

        wt_ok(warm_private_pool_get_info(model.runtime, model.pool[i]->name,
                                         &info));
        for (unsigned k = 0; k < model.lives; k++) {
            blocks += model.live[k].pool == model.pool[i];
        }
        MUST(info.references == model.pool[i]->references,
             "references of a pool");
        MUST(info.recording == model.pool[i]->recording, "a pool records");
        MUST(info.live == blocks, "blocks of a pool");
        MUST(model.pool[i]->user ||
                 info.captured == kept_with_pools(0, model.pool[i]),
             "what graphs of a pool have");
    }
}

void model_check_figures(void)
{
    uint64_t live[SPACES] = {0}, bytes[SPACES] = {0}, pageable[SPACES] = {0};

    for (unsigned i = 0; i < model.lives; i++) {
        const struct range *r = &model.live[i];

        pageable[r->space] += r->pageable;
        live[r->space] += !r->pageable;
        bytes[r->space] += r->pageable ? 0 : r->bytes;
    }
    for (int i = 0; i < model_spaces(); i++) {
        struct figures f = figures_of(i);

        MUST(f.live == live[i], "live blocks");
        MUST(f.pageable == pageable[i], "pageable blocks");
        MUST(f.allocated == model.allocated[i], "blocks ever");
        MUST(f.requested == bytes[i], "bytes asked for");
        MUST(f.captured == model.kept[i] + kept_with_pools(i, NULL),
             "blocks that graphs have");
    }
    check_pools();
    MUST(atomic_load_explicit(&model_wrong, memory_order_relaxed) == 0,
         "something was written over");
}

/* What streams may use of what graphs of pools have is active, on a device. */
uint64_t model_pending(int space)
{
    uint64_t waiting = figures_of(space).waiting, active = 0;

    for (unsigned i = 0; i < model.freeds && model_is_far(space); i++) {
        active += model.freed[i].kept == WITH_POOL &&
                  model.freed[i].space == space && model.freed[i].uses > 0;
    }
    MUST(waiting >= active, "active blocks");
    return waiting - active;
}
