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

void wm_lives_claim(wm_lives *lives, bool large, enum wm_figure figure,
                    int64_t n)
{
    for (wm_live *live = n != 0 ? wm_lives_of(lives, large) : NULL;
         live != NULL; live = live->whole) {
        wm_claim_add_raise(&live->of[figure], n);
    }
}

void wm_lives_reset(wm_lives *lives)
{
    for (int i = 0; i < WM_LIVE_FIGURES; i++) {
        wm_claim_reset(&lives->small.of[i]);
        wm_claim_reset(&lives->large.of[i]);
        if (lives->large.whole != NULL) {
            wm_claim_reset(&lives->large.whole->of[i]);
        }
    }
    for (int i = 0; i < WM_CLASSES_ALL; i++) {
        wm_claim_reset(&lives->of_class.blocks[i]);
    }
    wm_claim_reset(&lives->of_class.asked);
    wm_claim_reset(&lives->of_class.handed);
}
