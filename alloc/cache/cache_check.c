/* cache_check.c: checks the caches that threads have of a space: the counts of
 * a set are those of its entries, and those of a slot are those of its batches.
 *
 * For tests: no other thread is inside a call. Takes locks as thread_caches.c
 * does. */
#include "alloc/cache/cache_int.h"

static bool check_class(const wm_magazine_set *set, unsigned i, int64_t *bytes)
{
    const wm_magazine *m = &set->of[i];
    unsigned count = wm_magazine_count(m);
    bool good = count <= m->room && m->room > 0;

    for (unsigned k = 0; good && k < count; k++) {
        good = wm_magazine_first(m)[k].block->size_class == i;
    }
    *bytes += (int64_t)count * m->bytes;
    return good;
}

static bool check_classes(const wm_magazine_set *set)
{
    int64_t bytes = 0;
    unsigned used = 0;
    bool good = true;

    for (unsigned i = 0; i < WM_CLASSES; i++) {
        used += set->of[i].room > 0;
    }
    for (unsigned i = 0; good && i < set->classes; i++) {
        good = check_class(set, set->in_use[i], &bytes);
    }
    return good && used == set->classes && wm_room_check(set) &&
           bytes == wm_magazine_set_bytes(set);
}

/* Adds the batch's blocks to *blocks. */
static bool check_batch(const wm_pending_stream *slot,
                        const wm_pending_batch *batch, size_t *blocks)
{
    size_t bytes = 0;

    for (size_t i = 0; i < batch->count; i++) {
        bytes += batch->block[i]->bytes;
    }
    *blocks += batch->count;
    return bytes == batch->bytes && batch->counted <= batch->count &&
           (batch->event != NULL) == (batch != &slot->open) &&
           (batch->count == 0 ||
            atomic_load_explicit(&slot->since_ns, memory_order_relaxed) <=
                batch->since_ns);
}

static bool check_slot(wm_pending_stream *slot)
{
    bool used = slot->stream != NULL;
    size_t blocks = 0;
    bool good = check_batch(slot, &slot->open, &blocks);

    for (unsigned k = 0; good && k < slot->closed; k++) {
        good = check_batch(slot, &slot->batch[k], &blocks);
    }
    return good && !slot->in_driver && slot->requested == WM_REQUEST_NONE &&
           used == (wm_pending_timeline(slot) != NULL) &&
           used == (slot->references > 0) &&
           slot->references <= 1 + 2 * WM_PENDING_STOCK &&
           (blocks == 0 || slot->in_turn) &&
           blocks == atomic_load_explicit(&slot->blocks, memory_order_relaxed);
}

static bool check_slots(const wm_pending *pending)
{
    unsigned in_use = 0, in_turn = 0, turns = 0;
    bool good = true;

    for (wm_pending_stream *s = wm_pending_first(pending); s != NULL && good;
         s = s->next) {
        good = check_slot(s);
        in_use += s->stream != NULL;
        in_turn += s->in_turn;
    }
    for (const wm_pending_stream *s = pending->turn; s != NULL && good;
         s = wm_pending_after(pending, s)) {
        good = s->in_turn && s->after->before == s;
        turns++;
    }
    return good && in_use == pending->in_use && in_turn == pending->in_turn &&
           turns == in_turn;
}

struct outcome {
    bool *good;
};

static void check_set(wm_magazine_set *set, const void *context)
{
    const struct outcome *outcome = context;
    const wm_pending *pending = wm_magazine_set_pending(set);

    *outcome->good = *outcome->good && check_classes(set) &&
                     (pending == NULL || check_slots(pending));
}

bool wm_cache_check(wm_arena_group *group)
{
    bool good = true;

    wm_cache_visit(group, check_set, &(struct outcome){&good});
    return good;
}
