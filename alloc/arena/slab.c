/* slab.c: runs that are split into slots of one size class. See arena_int.h. */
#include "alloc/arena/arena_int.h"

#include "alloc/block/page_map.h"
#include "runtime/base/history.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

static uint64_t all_idle(const wm_slab *slab)
{
    return UINT64_MAX >> (64 - slab->slots);
}

static void link_slab(wm_slab *slab)
{
    wm_slab **head = &slab->run->lane->slabs->of[slab->size_class];

    slab->previous = NULL;
    slab->next = *head;
    if (*head != NULL) {
        (*head)->previous = slab;
    }
    *head = slab;
}

static void unlink_slab(wm_slab *slab)
{
    if (slab->previous != NULL) {
        slab->previous->next = slab->next;
    } else {
        slab->run->lane->slabs->of[slab->size_class] = slab->next;
    }
    if (slab->next != NULL) {
        slab->next->previous = slab->previous;
    }
}

/* Its allocated slots will be freed to the new lane. Called to move a slab from
 * the common lane, or to it once the old lane's stream has no work queued. */
static void move_slab(wm_slab *slab, wm_lane *lane)
{
    unlink_slab(slab);
    wm_run_move(slab->run, lane);
    link_slab(slab);
}

static wm_slab **spare_records(wm_arena *arena, unsigned slots)
{
    return &arena->spare_slabs[__builtin_ctz(slots)];
}

/* A record serves every class with its number of slots, so that there are as
 * many records as slabs were in use at once, not the sum of each class's
 * maximum. */
static wm_slab *take_slab_record_locked(wm_arena *arena, unsigned size_class)
{
    unsigned slots = wm_slab_slots(size_class);
    wm_slab **spare = spare_records(arena, slots);
    wm_slab *slab = *spare;

    if (slab != NULL) {
        *spare = slab->next;
    } else {
        slab = wm_meta_alloc(sizeof *slab +
                             slots * (sizeof slab->slot[0] +
                                      wm_history_origin_bytes(arena->history)));
        if (slab == NULL) {
            return NULL;
        }
        slab->slots = slots;
        for (unsigned i = 0; i < slots; i++) {
            slab->slot[i].slab = slab;
        }
        wm_record_init_origins(arena, slab->slot, slots,
                               (char *)&slab->slot[slots]);
        slab->next_made = arena->all_slabs;
        arena->all_slabs = slab;
    }
    slab->size_class = size_class;
    slab->slot_bytes = wm_class_bytes(size_class);
    wm_assert(slab->slot_bytes >= WM_GRAIN);
    /* Relaxed: see struct wm_slab. */
    atomic_store_explicit(&slab->inverse, wm_slot_inverse(slab->slot_bytes),
                          memory_order_relaxed);
    return slab;
}

static void give_slab_record_locked(wm_arena *arena, wm_slab *slab)
{
    wm_slab **spare = spare_records(arena, slab->slots);

    slab->next = *spare;
    *spare = slab;
}

static void init_slab(wm_slab *slab, wm_block *run)
{
    slab->run = run;
    atomic_store_explicit(&slab->base, run->base, memory_order_relaxed);
    slab->idle_mask = all_idle(slab);
    slab->carved = 0;
    wm_block_set_state(run, WM_BLOCK_SLAB);
}

/* Makes the record of the next slot, and the page map's entries for it. */
static void carve_slot(wm_slab *slab)
{
    wm_block *slot = &slab->slot[slab->carved];

    wm_block_set_base(slot, slab->run->base + slab->carved * slab->slot_bytes);
    slot->trace = 0;
    wm_block_set_bytes(slot, slab->slot_bytes);
    slot->segment = slab->run->segment;
    wm_block_set_state(slot, WM_BLOCK_IDLE);
    wm_page_map_set_slot(slab, slab->carved++);
}

wm_slab *wm_slab_of_run_locked(const wm_block *run)
{
    wm_slab *slab = wm_block_at(run->base)->slab;

    while (slab->carved < slab->slots) {
        carve_slot(slab);
    }
    return slab;
}

static wm_slab *new_slab_locked(wm_arena *arena, wm_lane *lane,
                                unsigned size_class, enum wm_split split,
                                bool *failed)
{
    wm_slab *slab = take_slab_record_locked(arena, size_class);
    wm_block *run;

    if (slab == NULL) {
        *failed = true;
        return NULL;
    }
    run = wm_run_take_locked(arena, lane, wm_slab_run_bytes(size_class), split,
                             failed);
    if (run == NULL) {
        give_slab_record_locked(arena, slab);
        return NULL;
    }
    if (!wm_lane_have_slabs_locked(run->lane)) {
        wm_run_put_locked(arena, run);
        give_slab_record_locked(arena, slab);
        *failed = true;
        return NULL;
    }
    init_slab(slab, run);
    link_slab(slab);
    return slab;
}

/* The slab from which to allocate a slot, or null. If it is common it moves to
 * the lane. */
static wm_slab *find_slab_locked(wm_arena *arena, wm_lane *lane,
                                 unsigned size_class, enum wm_split split,
                                 bool *failed)
{
    wm_lane *in = wm_lane_look_locked(arena, lane);
    wm_slab *slab = in->slabs != NULL ? in->slabs->of[size_class] : NULL;

    if (slab == NULL) {
        slab = arena->common_slabs.of[size_class];
    }
    if (slab == NULL) {
        return new_slab_locked(arena, lane, size_class, split, failed);
    }
    in = wm_lane_in_locked(arena, lane);
    if (in == NULL || !wm_lane_have_slabs_locked(in)) {
        *failed = true;
        return NULL;
    }
    if (slab->run->lane != in) {
        move_slab(slab, in);
    }
    return slab;
}

wm_block *wm_slab_take_locked(wm_arena *arena, wm_lane *lane,
                              unsigned size_class, enum wm_split split,
                              bool *failed)
{
    wm_slab *slab = find_slab_locked(arena, lane, size_class, split, failed);
    unsigned i;

    if (slab == NULL) {
        return NULL;
    }
    i = (unsigned)__builtin_ctzll(slab->idle_mask);
    slab->idle_mask &= slab->idle_mask - 1;
    if (i == slab->carved) { /* all slots before it are in use */
        carve_slot(slab);
    }
    if (slab->idle_mask == 0) {
        unlink_slab(slab);
    }
    return &slab->slot[i];
}

/* A slab whose slots are all idle becomes a run of pages again. */
static void end_slab_locked(wm_arena *arena, wm_slab *slab)
{
    wm_block *run = slab->run;
    size_t carved = slab->carved * slab->slot_bytes;

    unlink_slab(slab);
    for (unsigned i = 0; i < slab->carved; i++) {
        wm_block_set_state(&slab->slot[i], WM_BLOCK_VOID);
    }
    if (carved > WM_PAGE) {
        wm_page_map_clear(run->base + WM_PAGE, carved - WM_PAGE);
    }
    wm_page_map_set(run->base, run, WM_ENTRY_RUN);
    give_slab_record_locked(arena, slab);
    wm_run_put_locked(arena, run);
}

void wm_slab_put_locked(wm_arena *arena, wm_block *slot)
{
    wm_slab *slab = slot->slab;

    if (wm_unlikely(slab->run->lane->ended)) {
        /* It is in no list: the listed slabs moved when the lane ended. */
        wm_run_move(slab->run, &arena->common);
    }
    wm_block_set_state(slot, WM_BLOCK_IDLE);
    if (slab->idle_mask == 0) {
        link_slab(slab);
    }
    slab->idle_mask |= (uint64_t)1 << (slot - slab->slot);
    if (slab->idle_mask == all_idle(slab)) {
        end_slab_locked(arena, slab);
    }
}

void wm_slab_move_all_locked(wm_lane *from, wm_lane *to)
{
    for (unsigned i = 0; from->slabs != NULL && i < WM_SLAB_CLASSES; i++) {
        while (from->slabs->of[i] != NULL) {
            move_slab(from->slabs->of[i], to);
        }
    }
}
