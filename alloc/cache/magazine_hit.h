/* magazine_hit.h: hits of magazines, from end to end; see magazine.h.
 *
 * Inlined into the public functions (memory.c, memory_free.c,
 * device_memory.c), in which every instruction counts: tests/bench/PROFILE.md.
 * What is rare is at their end, as a call to which nothing comes back, so that
 * a hit saves no register: also where a thread has too little room (live.h). */
#ifndef WM_MAGAZINE_HIT_H
#define WM_MAGAZINE_HIT_H

#include "alloc/cache/magazine.h"

/* A magazine's address is made once, and not again for each of its fields. */
#define WM_ONE_ADDRESS(m) __asm__("" : "+r"(m))

/* ---- hits: the caller is in the section ------------------------------- */

/* Claims of a class what was counted since; see magazine_room.c. */
void wm_magazine_claim(wm_magazine_set *set, wm_magazine *m);
void wm_magazine_claim_ahead(wm_magazine_set *set, wm_magazine *m);

static inline wm_supply *wm_magazine_supply(wm_magazine_set *set,
                                            const wm_magazine *m)
{
    return &set->supply[m - set->of];
}

static inline __attribute__((always_inline)) wm_room *
wm_magazine_room(wm_magazine_set *set, const wm_magazine *m, bool laned)
{
    return laned ? (wm_room *)(void *)((char *)set + m->room_offset)
                 : &set->rooms[1];
}

static inline int64_t wm_room_get(const _Atomic int64_t *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}

static inline __attribute__((always_inline)) void
wm_room_add(_Atomic int64_t *figure, int64_t n)
{
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) &&                   \
    !defined(__SANITIZE_THREAD__)
    /* One instruction, where the compiler makes three of an atomic. */
    __asm__("addq %1, %0" : "+m"(*figure) : "er"(n) : "cc");
#else
    atomic_store_explicit(figure, wm_room_get(figure) + n,
                          memory_order_relaxed);
#endif
}

/* Whether that leaves no room: it is as before then. */
static inline __attribute__((always_inline)) bool
wm_room_lacks(_Atomic int64_t *figure, int64_t n)
{
    bool below;

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) &&                   \
    !defined(__SANITIZE_THREAD__)
    __asm__("subq %2, %0" : "+m"(*figure), "=@ccs"(below) : "er"(n) : "cc");
#else
    int64_t left = wm_room_get(figure) - n;

    atomic_store_explicit(figure, left, memory_order_relaxed);
    below = left < 0;
#endif
    if (wm_unlikely(below)) {
        wm_room_add(figure, n);
    }
    return wm_unlikely(below);
}

/* Whether so many bytes of entries are less than they may become. */
static inline __attribute__((always_inline)) bool
wm_room_is_low(const wm_room *room, int64_t bytes)
{
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) &&                   \
    !defined(__SANITIZE_THREAD__)
    bool less;

    __asm__("cmpq %2, %1" : "=@ccl"(less) : "r"(bytes), "m"(room->low) : "cc");
    return wm_unlikely(less);
#else
    return wm_unlikely(bytes < wm_room_get(&room->low));
#endif
}

/* Takes room for a block that goes to a caller, and was an entry. False: there
 * is too little, and nothing was taken. */
static inline __attribute__((always_inline)) bool
wm_room_take(wm_room *room, const wm_magazine *m, size_t requested)
{
    int64_t bytes = wm_room_get(&room->bytes) - m->bytes;

    if (wm_room_is_low(room, bytes) || wm_room_lacks(&room->blocks, 1)) {
        return false;
    }
    if (wm_room_lacks(&room->requested, (int64_t)requested)) {
        wm_room_add(&room->blocks, 1);
        return false;
    }
    atomic_store_explicit(&room->bytes, bytes, memory_order_relaxed);
    return true;
}

/* The figures of one that its caller gives back, but for its bytes. */
static inline __attribute__((always_inline)) void
wm_magazine_note_give(wm_magazine *m, wm_room *room, size_t requested)
{
    m->free_bytes += requested;
    wm_room_add(&room->blocks, 1);
    wm_room_add(&room->requested, (int64_t)requested);
}

/* A block of a magazine for so many bytes, or null. Its entry is free, and as
 * it was. */
static inline __attribute__((always_inline)) const wm_entry *
wm_magazine_pop_from(wm_magazine_set *set, wm_magazine *m, size_t bytes,
                     bool laned)
{
    wm_entry *entry;
    wm_block *block;

    WM_ONE_ADDRESS(m);
    entry = m->top - 1;
    block = entry->block;

    /* Relaxed: written by this thread, or before the section was ours. */
    if (wm_unlikely(atomic_load_explicit(&block->state, memory_order_relaxed) !=
                    set->cached) ||
        !wm_room_take(wm_magazine_room(set, m, laned), m, bytes)) {
        return NULL;
    }
    wm_block_set_requested(block, bytes);
    /* Release pairs with the acquire of look-ups: fields before state. */
    atomic_store_explicit(&block->state, set->live, memory_order_release);
    m->top = entry;
    m->alloc_bytes += bytes;
    m->allocs++;
    return entry;
}

/* A block of 1 … WM_CLASS_LIMIT bytes, or null; as above. */
static inline __attribute__((always_inline)) const wm_entry *
wm_magazine_pop(wm_magazine_set *set, size_t bytes, bool laned)
{
    return wm_magazine_pop_from(set, &set->of[wm_size_class_index(bytes)],
                                bytes, laned);
}

/* Where a class is empty, one of the next two will do, and of large sizes of a
 * lane the next: to cut one costs thirty times as much as a hit. A request
 * finds one of three much more often than one of one; what is kept need not be
 * as much for that, so that less is held (tests/bench/PROFILE.md). Page-locked
 * memory of more than an eighth above the request will not do (row B8). Small
 * and large requests stay apart. */
enum { WM_LARGER = 2, WM_LARGER_LANED_BYTES = 256 << 10 };

static inline const wm_entry *wm_magazine_pop_larger(wm_magazine_set *set,
                                                     size_t bytes, bool laned)
{
    wm_magazine *m = &set->of[wm_size_class_fixed(bytes)];
    const wm_magazine *end = &set->of[WM_CLASSES];
    const wm_entry *entry = NULL;
    uint32_t sort = m->room_offset;

    for (int i = laned && bytes > WM_LARGER_LANED_BYTES ? 1 : WM_LARGER;
         i > 0 && entry == NULL; i--) {
        if (++m >= end || m->room_offset != sort ||
            (!laned && bytes > WM_PAGE &&
             (size_t)m->bytes > bytes + bytes / 8)) {
            break;
        }
        entry = wm_magazine_pop_from(set, m, bytes, laned);
    }
    return entry;
}

/* Takes a block back from its caller; false: there is no room. */
static inline __attribute__((always_inline)) bool
wm_magazine_push(wm_magazine_set *set, wm_block *block, char *base, bool laned)
{
    wm_magazine *m = &set->of[block->size_class];
    wm_room *room;
    wm_entry *top;
    int64_t bytes;

    WM_ONE_ADDRESS(m);
    top = m->top;
    room = wm_magazine_room(set, m, laned);
    bytes = wm_room_get(&room->bytes) + m->bytes;

    if (wm_unlikely(top == m->end) || wm_unlikely(bytes > room->high)) {
        return false;
    }
    top->block = block;
    /* Relaxed: who takes it out has the section; others only compare. (Here,
     * or the compiler makes one store of two and waits for both.) */
    atomic_store_explicit(&block->state, set->cached, memory_order_relaxed);
    top->base = base;
    m->top = top + 1;
    atomic_store_explicit(&room->bytes, bytes, memory_order_relaxed);
    wm_magazine_note_give(m, room, wm_block_requested(block));
    return true;
}

/* The figures of a block that its caller gives back, and that goes elsewhere.
 */
static inline __attribute__((always_inline)) void
wm_magazine_count_free(wm_magazine_set *set, wm_block *block, bool laned)
{
    wm_magazine *m = &set->of[block->size_class];
    wm_supply *supply = wm_magazine_supply(set, m);
    wm_room *room = wm_magazine_room(set, m, laned);
    int64_t bytes = m->bytes;

    /* Loaded alone: with what lies beside it, which is stored next, it would
     * have to wait for that store. */
    __asm__("" : "+r"(bytes));
    if (wm_unlikely(supply->claimed - --supply->base > WM_ROOM_BLOCKS)) {
        wm_magazine_claim_ahead(set, m);
    }
    wm_room_add(&room->low, -bytes);
    room->high -= bytes;
    wm_magazine_note_give(m, room, wm_block_requested(block));
}

/* ---- whole hits -------------------------------------------------------- */

/* Whether a request may be a hit, if no pool is recording. A window of this
 * runtime means that it lives, as long as its section is open. */
static inline bool wm_magazine_may_hit(const wm_window *window,
                                       const warm_runtime *runtime,
                                       size_t bytes, void *const *pointer)
{
    return wm_likely(window->owner == runtime) &&
           wm_likely(bytes - 1 < WM_CLASS_LIMIT) && wm_likely(pointer != NULL);
}

static inline __attribute__((always_inline)) void
wm_magazine_hand_out(wm_window *window, const wm_entry *entry, void **pointer)
{
    char *base = entry->base;

    *pointer = base;
    *wm_window_pointer_slot(window, base) = entry->block;
}

/* The block that starts at base, if a hit handed that out lately; or another
 * one, or null. Looked at in the section: its record may be that of something
 * else by now, but there is one until the window is cut. If its state is one of
 * the window's sets and it starts at base, it is that block. (If only the state
 * is, it may be with another thread now, whom it was passed to.) */
static inline wm_block *wm_pointer_cache_entry(wm_window *window,
                                               const void *base)
{
    return *wm_window_pointer_slot(window, base);
}

/* node: of the block, or WM_NODE_UNKNOWN for what the thread keeps. routing:
 * see wm_private_routing(). False: a miss. */
static inline __attribute__((always_inline)) bool
wm_magazine_alloc(wm_window *window, unsigned routing, size_t bytes, int node,
                  void **pointer)
{
    const wm_entry *entry = NULL;
    wm_magazine_set *set;

    if (wm_unlikely(!wm_section_enter_unless(&window->section, routing))) {
        return false;
    }
    set = atomic_load_explicit(&window->magazines, memory_order_relaxed);
    if (wm_likely(set != NULL) &&
        (node == WM_NODE_UNKNOWN || node == set->arena->node)) {
        entry = wm_magazine_pop(set, bytes, false);
    }
    if (wm_likely(entry != NULL)) {
        wm_magazine_hand_out(window, entry, pointer);
    }
    wm_section_leave(&window->section);
    return entry != NULL;
}

/* The same for who has missed: of one of the next classes. */
static inline bool wm_magazine_alloc_larger(wm_window *window, unsigned routing,
                                            size_t bytes, void **pointer)
{
    const wm_entry *entry = NULL;
    wm_magazine_set *set;

    if (!wm_section_enter_unless(&window->section, routing)) {
        return false;
    }
    set = atomic_load_explicit(&window->magazines, memory_order_relaxed);
    if (wm_likely(set != NULL)) {
        entry = wm_magazine_pop_larger(set, bytes, false);
    }
    if (entry != NULL) {
        wm_magazine_hand_out(window, entry, pointer);
    }
    wm_section_leave(&window->section);
    return entry != NULL;
}

/* Whether that is the state of a block that is live and was handed out by the
 * window. */
static inline __attribute__((always_inline)) bool
wm_magazine_is_of(const wm_window *window, wm_state state)
{
    return wm_likely(
        state == atomic_load_explicit(&window->live_tag, memory_order_relaxed));
}

/* Whether a block, which may be null, is live and was handed out by the window.
 * Acquire: its other fields are those of its owner then. */
static inline __attribute__((always_inline)) bool
wm_magazine_owns(const wm_window *window, wm_block *block)
{
    return wm_likely(block != NULL) &&
           wm_likely(
               atomic_load_explicit(&block->state, memory_order_acquire) ==
               atomic_load_explicit(&window->live_tag, memory_order_relaxed));
}

/* Whether nobody uses such a block but its owner, so that it may be kept. One
 * test for both. */
static inline __attribute__((always_inline)) bool
wm_magazine_may_keep(wm_block *block)
{
    /* Acquire pairs with the release of a record by another thread. Relaxed:
     * the caller orders records before the free. */
    uintptr_t uses =
        (uintptr_t)atomic_load_explicit(&block->uses, memory_order_acquire);
    uintptr_t captured =
        atomic_load_explicit(&block->captured, memory_order_relaxed);

    return wm_likely((uses | captured) == 0);
}

/* Such a block, which starts at base, in the section. False: there is no room.
 */
static inline __attribute__((always_inline)) bool
wm_magazine_free(wm_window *window, wm_block *block, char *base)
{
    /* There is a set: the state named it, and the section is open. */
    return wm_magazine_push(
        atomic_load_explicit(&window->magazines, memory_order_relaxed), block,
        base, false);
}

/* A block in the state that another thread was handed, perhaps, and that nobody
 * uses; claimed, since others may free it as well. False: the slow path. */
static inline __attribute__((always_inline)) bool
wm_magazine_free_other(wm_window *window, wm_block *block, wm_state state,
                       char *base)
{
    bool taken = false;
    wm_magazine_set *set;

    /* A window without a tag may be the constant one. Relaxed: the caller
     * orders records before the free. */
    if (wm_state_kind(state) != WM_BLOCK_LIVE || block->base != base ||
        atomic_load_explicit(&window->live_tag, memory_order_relaxed) ==
            WM_NO_TAG ||
        atomic_load_explicit(&block->own, memory_order_relaxed) != NULL ||
        !wm_magazine_may_keep(block) || block->size_class >= WM_CLASSES ||
        !wm_section_enter(&window->section)) {
        return false;
    }
    set = atomic_load_explicit(&window->magazines, memory_order_relaxed);
    if (wm_likely(set != NULL) &&
        wm_likely(wm_arena_is_sibling(block->segment->arena, set->arena)) &&
        wm_likely(set->of[block->size_class].top !=
                  set->of[block->size_class].end) &&
        wm_likely(atomic_compare_exchange_strong_explicit(
            &block->state, &state, WM_BLOCK_FREEING, memory_order_acquire,
            memory_order_relaxed))) {
        /* The record of a stale pointer may serve another block. */
        taken =
            block->base == base && wm_magazine_push(set, block, base, false);
        if (wm_unlikely(!taken)) {
            atomic_store_explicit(&block->state, state, memory_order_release);
        }
    }
    wm_section_leave(&window->section);
    return taken;
}

#endif
