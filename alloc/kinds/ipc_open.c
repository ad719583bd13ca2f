/* ipc_open.c: see ipc_open.h. */
#include "alloc/kinds/ipc_open.h"

#include "runtime/base/meta.h"

enum { FIRST_CHAINS = 16 };

static wm_ipc_opening **chain_of(wm_ipc_opening **chain, size_t chains,
                                 const void *pointer)
{
    uint64_t mixed =
        (uint64_t)(uintptr_t)pointer * UINT64_C(0x9e3779b97f4a7c15);

    return &chain[(size_t)(mixed >> 32) & (chains - 1)];
}

static void push(wm_ipc_opening **chain, wm_ipc_opening *place)
{
    place->next = *chain;
    *chain = place;
}

static void move_all(const wm_ipc_openings *places, wm_ipc_opening **wider,
                     size_t chains)
{
    for (size_t i = 0; i < places->chains; i++) {
        wm_ipc_opening *next;

        for (wm_ipc_opening *p = places->chain[i]; p != NULL; p = next) {
            next = p->next;
            push(chain_of(wider, chains, p->pointer), p);
        }
    }
}

bool wm_ipc_openings_widen(wm_ipc_openings *places)
{
    size_t chains = places->chains > 0 ? 2 * places->chains : FIRST_CHAINS;
    wm_ipc_opening **wider;

    if (places->count < places->chains) {
        return true;
    }
    wider = wm_meta_alloc(chains * sizeof(wm_ipc_opening *));
    if (wider == NULL) {
        return places->chains > 0;
    }
    move_all(places, wider, chains);
    wm_meta_free(places->chain);
    places->chain = wider;
    places->chains = chains;
    return true;
}

void wm_ipc_openings_insert(wm_ipc_openings *places, wm_ipc_opening *place)
{
    push(chain_of(places->chain, places->chains, place->pointer), place);
    places->count++;
}

wm_ipc_opening **wm_ipc_openings_find(const wm_ipc_openings *places,
                                      const void *pointer)
{
    wm_ipc_opening **link;

    if (places->chains == 0) {
        return NULL;
    }
    link = chain_of(places->chain, places->chains, pointer);
    while (*link != NULL && (*link)->pointer != pointer) {
        link = &(*link)->next;
    }
    return *link != NULL ? link : NULL;
}

wm_ipc_opening *wm_ipc_openings_remove(wm_ipc_openings *places,
                                       wm_ipc_opening **link)
{
    wm_ipc_opening *place = *link;

    *link = place->next;
    places->count--;
    return place;
}

uint64_t wm_places_opened(const wm_ipc_openings *places)
{
    uint64_t opened = 0;

    for (size_t i = 0; i < places->chains; i++) {
        for (const wm_ipc_opening *p = places->chain[i]; p != NULL;
             p = p->next) {
            opened += p->count;
        }
    }
    return opened;
}

void wm_ipc_openings_fini(wm_ipc_openings *places)
{
    for (size_t i = 0; i < places->chains; i++) {
        while (places->chain[i] != NULL) {
            wm_meta_free(wm_ipc_openings_remove(places, &places->chain[i]));
        }
    }
    wm_meta_free(places->chain);
    *places = (wm_ipc_openings){0};
}
