/* model_figures.c: what must be true after each step. */
#include "model/memory_model.h"

#include "alloc/magazine.h"

/* Every arena's own, and the sums. */
void model_check_arenas(void)
{
    for (int i = 0; i < SPACES; i++) {
        wm_space *space = model_space_at(i);
        warm_space_stats s = {.size = sizeof s};

        MUST(wm_space_check_settled(space), "an arena is broken");
        wm_space_stats(space, &s);
        MUST(s.held_bytes.current == s.block_bytes.current + s.idle_bytes +
                                         s.pending_bytes.current +
                                         s.lost_bytes + s.captured_bytes,
             "the parts are not the whole");
        MUST(s.lost == 0, "a block was lost");
        MUST(model.beside || space->growth.held == s.held_bytes.current,
             "what counts for the limit");
    }
}

/* Or was, and is to go once nothing is captured. */
static bool is_with_pools(const struct range *r)
{
    return r->kept == WITH_POOL || r->kept == LATER;
}

static uint64_t kept_with_pools(int space, const struct pool *pool)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < model.freeds; i++) {
        const struct range *r = &model.freed[i];

        count += pool != NULL ? r->kept == WITH_POOL && r->pool == pool
                              : is_with_pools(r) && r->space == space;
    }
    return count;
}

static void check_pools(void)
{
    for (unsigned i = 0; i < model.pools; i++) {
        warm_private_pool_info info = {.size = sizeof info};
        uint64_t blocks = 0;

        wt_ok(warm_private_pool_get_info(model.runtime, model.pool[i]->number,
                                         &info));
        for (unsigned k = 0; k < model.lives; k++) {
            blocks += model.live[k].pool == model.pool[i];
        }
        MUST(info.references == model.pool[i]->references,
             "references of a pool");
        MUST(info.recording == model.pool[i]->recording, "a pool records");
        MUST(info.blocks == blocks, "blocks of a pool");
        MUST(model.pool[i]->user ||
                 info.captured == kept_with_pools(0, model.pool[i]),
             "what graphs of a pool have");
    }
}

void model_check_figures(void)
{
    uint64_t live[SPACES] = {0}, bytes[SPACES] = {0};

    for (unsigned i = 0; i < model.lives; i++) {
        live[model.live[i].space]++;
        bytes[model.live[i].space] += model.live[i].bytes;
    }
    for (int i = 0; i < SPACES; i++) {
        warm_space_stats s = {.size = sizeof s};

        wm_magazines_settle_all(model_space_at(i));
        wm_space_stats(model_space_at(i), &s);
        MUST(s.requests.current == live[i], "live blocks");
        MUST(s.requests.allocated == model.allocated[i], "blocks ever");
        MUST(s.requested_bytes.current == bytes[i], "bytes asked for");
        MUST(s.captured == model.kept[i] + kept_with_pools(i, NULL),
             "blocks that graphs have");
    }
    check_pools();
    MUST(atomic_load_explicit(&model_wrong, memory_order_relaxed) == 0,
         "something was written over");
}

/* What streams may use of what graphs of pools have is active. */
void model_check_active(int space)
{
    warm_device_stats s = {.size = sizeof s};
    uint64_t active = 0;

    for (unsigned i = 0; i < model.freeds; i++) {
        active += is_with_pools(&model.freed[i]) &&
                  model.freed[i].space == space && model.freed[i].uses > 0;
    }
    wt_ok(warm_device_get_stats(model.runtime, space - 1, &s));
    MUST(s.all.active.current == s.all.allocations.current + active,
         "active blocks");
}
