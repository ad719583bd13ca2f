/* live.c: see live.h. */
#include "alloc/arena/live.h"

void wm_lives_init(wm_lives *lives)
{
    lives->all = &lives->large;
    lives->classes = &lives->of_class;
}

void wm_lives_sort(wm_lives *lives)
{
    lives->small.whole = &lives->whole;
    lives->large.whole = &lives->whole;
    lives->all = &lives->whole;
}

void wm_lives_join(wm_lives *lives, wm_lives *first)
{
    lives->large.whole = &first->whole;
    lives->classes = &first->of_class;
}

void wm_claim_raise(wm_claim *claim)
{
    int64_t now = atomic_load_explicit(&claim->claimed, memory_order_seq_cst);
    int64_t peak = atomic_load_explicit(&claim->peak, memory_order_seq_cst);

    while (now > peak && !atomic_compare_exchange_weak_explicit(
                             &claim->peak, &peak, now, memory_order_seq_cst,
                             memory_order_seq_cst)) {
    }
}

void wm_claim_reset(wm_claim *claim)
{
    atomic_store_explicit(
        &claim->peak,
        atomic_load_explicit(&claim->claimed, memory_order_seq_cst),
        memory_order_seq_cst);
    /* A thread that claimed between the load and the store compared with the
     * old peak. */
    wm_claim_raise(claim);
}

static bool add(wm_live *live, enum wm_figure figure, int64_t n)
{
    bool above = false;

    for (; n != 0 && live != NULL; live = live->whole) {
        above = wm_claim_add(&live->of[figure], n) || above;
    }
    return above;
}

bool wm_live_add(wm_live *live, int64_t blocks, int64_t asked, int64_t bytes)
{
    bool above = add(live, WM_LIVE_BLOCKS, blocks);

    above = add(live, WM_LIVE_ASKED, asked) || above;
    return add(live, WM_LIVE_BYTES, bytes) || above;
}

bool wm_live_add_active(wm_live *live, int64_t blocks, int64_t bytes)
{
    bool above = add(live, WM_LIVE_ACTIVE, blocks);

    return add(live, WM_LIVE_ACTIVE_BYTES, bytes) || above;
}

/* some: for which figures; null: for all. */
static void each(wm_lives *lives, const bool *some, void (*fn)(wm_claim *claim))
{
    for (int i = 0; i < WM_LIVE_FIGURES; i++) {
        if (some != NULL && !some[i]) {
            continue;
        }
        fn(&lives->small.of[i]);
        fn(&lives->large.of[i]);
        if (lives->large.whole != NULL) {
            fn(&lives->large.whole->of[i]);
        }
    }
}

void wm_lives_raise_some(wm_lives *lives, const bool *some)
{
    each(lives, some, wm_claim_raise);
}

void wm_lives_reset(wm_lives *lives)
{
    each(lives, NULL, wm_claim_reset);
    for (int i = 0; i < WM_CLASSES_ALL; i++) {
        wm_claim_reset(&lives->of_class.blocks[i]);
    }
    wm_claim_reset(&lives->of_class.asked);
    wm_claim_reset(&lives->of_class.handed);
}
