/* places.c: see places.h. */
#include "alloc/kinds/places.h"

#include "runtime/base/meta.h"

enum { FIRST_CHAINS = 16 };

static wm_place **chain_of(wm_place **chain, size_t chains, const void *pointer)
{
    uint64_t mixed =
        (uint64_t)(uintptr_t)pointer * UINT64_C(0x9e3779b97f4a7c15);

    return &chain[(size_t)(mixed >> 32) & (chains - 1)];
}

static void push(wm_place **chain, wm_place *place)
{
    place->next = *chain;
    *chain = place;
}

static void move_all(const wm_places *places, wm_place **wider, size_t chains)
{
    for (size_t i = 0; i < places->chains; i++) {
        wm_place *next;

        for (wm_place *p = places->chain[i]; p != NULL; p = next) {
            next = p->next;
            push(chain_of(wider, chains, p->pointer), p);
        }
    }
}

bool wm_places_widen(wm_places *places)
{
    size_t chains = places->chains > 0 ? 2 * places->chains : FIRST_CHAINS;
    wm_place **wider;

    if (places->count < places->chains) {
        return true;
    }
    wider = wm_meta_alloc(chains * sizeof(wm_place *));
    if (wider == NULL) {
        return places->chains > 0;
    }
    move_all(places, wider, chains);
    wm_meta_free(places->chain);
    places->chain = wider;
    places->chains = chains;
    return true;
}

void wm_places_insert(wm_places *places, wm_place *place)
{
    push(chain_of(places->chain, places->chains, place->pointer), place);
    places->count++;
}

wm_place **wm_places_find(const wm_places *places, const void *pointer)
{
    wm_place **link;

    if (places->chains == 0) {
        return NULL;
    }
    link = chain_of(places->chain, places->chains, pointer);
    while (*link != NULL && (*link)->pointer != pointer) {
        link = &(*link)->next;
    }
    return *link != NULL ? link : NULL;
}

wm_place *wm_places_remove(wm_places *places, wm_place **link)
{
    wm_place *place = *link;

    *link = place->next;
    places->count--;
    return place;
}

uint64_t wm_places_opened(const wm_places *places)
{
    uint64_t opened = 0;

    for (size_t i = 0; i < places->chains; i++) {
        for (const wm_place *p = places->chain[i]; p != NULL; p = p->next) {
            opened += p->count;
        }
    }
    return opened;
}

void wm_places_fini(wm_places *places)
{
    for (size_t i = 0; i < places->chains; i++) {
        while (places->chain[i] != NULL) {
            wm_meta_free(wm_places_remove(places, &places->chain[i]));
        }
    }
    wm_meta_free(places->chain);
    *places = (wm_places){0};
}
