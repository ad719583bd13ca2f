/* magazine_hit.h: hits of magazines, from end to end.
 *
 * Inlined into the public functions (memory.c, memory_free.c, device_memory.c),
 * in which every instruction counts (tests/bench/PROFILE.md). The rare case is
 * a tail call at the end of a function, so that a hit saves no register; too
 * little room (live.h) is such a case. */
#ifndef WM_MAGAZINE_HIT_H
#define WM_MAGAZINE_HIT_H

#include "alloc/cache/magazine.h"

/* Computes a magazine's address once, and not again for each of its fields. */
#define WM_ONE_ADDRESS(m) __asm__("" : "+r"(m))

/* ---- parts of hits: in a hit of the window, or with its lock ------------- */

/* Claims the blocks of a class that were counted since its last claim, and some
 * ahead (magazine_room.c). */
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
    /* One instruction, where the compiler makes three for an atomic. */
    __asm__("addq %1, %0" : "+m"(*figure) : "er"(n) : "cc");
#else
    atomic_store_explicit(figure, wm_room_get(figure) + n,
                          memory_order_relaxed);
#endif
}

/* Subtracts n; true: that would go below 0, and the figure is unchanged. */
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

/* True if so many bytes of entries are below low: there is no room for fewer.
 */
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

/* Uses room for an entry that goes to a caller. False: the room is too little
 * and unchanged. */
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

/* Counts a block that its caller frees, but for the bytes of entries. */
static inline __attribute__((always_inline)) void
wm_magazine_note_give(wm_magazine *m, wm_room *room, size_t requested)
{
    m->free_bytes += requested;
    wm_room_add(&room->blocks, 1);
    wm_room_add(&room->requested, (int64_t)requested);
}

/* Allocates the magazine's last entry for a request of so many bytes; or null.
 * The returned entry is free, and unchanged until the next push. */
static inline __attribute__((always_inline)) const wm_entry *
wm_magazine_pop_from(wm_magazine_set *set, wm_magazine *m, size_t bytes,
                     bool laned)
{
    wm_entry *entry;
    wm_block *block;

    WM_ONE_ADDRESS(m);
    entry = m->top - 1;
    block = entry->block;

    /* Relaxed: written by this thread, or before it locked the window. */
    if (wm_unlikely(atomic_load_explicit(&block->state, memory_order_relaxed) !=
                    set->cached) ||
        !wm_room_take(wm_magazine_room(set, m, laned), m, bytes)) {
        return NULL;
    }
    wm_block_set_requested(block, bytes);
    /* Release pairs with the acquire of look-ups: a thread that sees the state
     * sees the fields. */
    atomic_store_explicit(&block->state, set->live, memory_order_release);
    m->top = entry;
    m->alloc_bytes += bytes;
    m->allocs++;
    return entry;
}

/* Allocates 1 … WM_CLASS_LIMIT bytes, as above. */
static inline __attribute__((always_inline)) const wm_entry *
wm_magazine_pop(wm_magazine_set *set, size_t bytes, bool laned)
{
    return wm_magazine_pop_from(set, &set->of[wm_size_class_index(bytes)],
                                bytes, laned);
}

/* If a magazine is empty, an entry of a larger class serves the request, up to
 * twice its size and at most 1 MiB more (row B8): an arena operation costs
 * twenty times as much as a hit, and eight magazines have an entry much more
 * often than one, so that less has to be cached and held
 * (tests/bench/PROFILE.md). A small request uses no entry of large ones. */
enum { WM_LARGER_BYTES = 1 << 20 };

/* Allocates such an entry, or one of the request's own class, and claims room
 * for it. In a hit of the window, or with its lock. Null: there is none. */
const wm_entry *wm_magazine_pop_any(wm_magazine_set *set, size_t bytes,
                                    bool laned);

/* Returns room and caches the block. False: the set has no place for it. */
bool wm_magazine_push_any(wm_magazine_set *set, wm_block *block, char *base,
                          bool laned);

/* Caches a block that its caller frees. False: no entry or no room is left. */
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
    /* Relaxed: only a thread that has locked or entered the window pops the
     * entry; others compare the state. (Stored here, or the compiler merges two
     * stores and waits for both values.) */
    atomic_store_explicit(&block->state, set->cached, memory_order_relaxed);
    top->base = base;
    m->top = top + 1;
    atomic_store_explicit(&room->bytes, bytes, memory_order_relaxed);
    wm_magazine_note_give(m, room, wm_block_requested(block));
    return true;
}

/* Counts a block that its caller frees and that is not cached here. */
static inline __attribute__((always_inline)) void
wm_magazine_count_free(wm_magazine_set *set, wm_block *block, bool laned)
{
    wm_magazine *m = &set->of[block->size_class];
    wm_supply *supply = wm_magazine_supply(set, m);
    wm_room *room = wm_magazine_room(set, m, laned);
    int64_t bytes = m->bytes;

    /* Loaded alone: in one load with the neighbouring field, which is stored
     * next, it would wait for that store. */
    __asm__("" : "+r"(bytes));
    if (wm_unlikely(supply->claimed - --supply->base > WM_ROOM_BLOCKS)) {
        wm_magazine_claim_ahead(set, m);
    }
    wm_room_add(&room->low, -bytes);
    room->high -= bytes;
    wm_magazine_note_give(m, room, wm_block_requested(block));
}

/* ---- whole hits ---------------------------------------------------------- */

/* Whether a request may be a hit, provided that no pool is recording. If the
 * window names this runtime, the runtime lives as long as the window can be
 * entered. */
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

/* The block that the pointer cache has for base: the block that a hit allocated
 * there before, another block, or null. The caller reads the block's record
 * inside the window: the record may serve another block by now, but it stays
 * mapped until the window is cut. If the record's state names a set of the
 * window and the record starts at base, it is that block. (The state alone is
 * not enough: the block may have been cached by another thread since.) */
static inline wm_block *wm_pointer_cache_entry(wm_window *window,
                                               const void *base)
{
    return *wm_window_pointer_slot(window, base);
}

/* A whole hit. node: of the request, or WM_NODE_UNKNOWN for any that the thread
 * caches. routing: of wm_private_routing(). False: a miss. */
static inline __attribute__((always_inline)) bool
wm_magazine_alloc(wm_window *window, unsigned routing, size_t bytes, int node,
                  void **pointer)
{
    const wm_entry *entry = NULL;
    wm_magazine_set *set;

    if (wm_unlikely(!wm_biased_enter_unless(&window->biased, routing))) {
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
    wm_biased_leave(&window->biased);
    return entry != NULL;
}

/* After a miss: a hit that claims room, or in one of the next classes. */
static inline bool wm_magazine_alloc_any(wm_window *window, unsigned routing,
                                         size_t bytes, void **pointer)
{
    const wm_entry *entry = NULL;
    wm_magazine_set *set;

    if (!wm_biased_enter_unless(&window->biased, routing)) {
        return false;
    }
    set = atomic_load_explicit(&window->magazines, memory_order_relaxed);
    if (wm_likely(set != NULL)) {
        entry = wm_magazine_pop_any(set, bytes, false);
    }
    if (entry != NULL) {
        wm_magazine_hand_out(window, entry, pointer);
    }
    wm_biased_leave(&window->biased);
    return entry != NULL;
}

/* Whether the state is that of a LIVE block of the window. */
static inline __attribute__((always_inline)) bool
wm_magazine_is_of(const wm_window *window, wm_state state)
{
    return wm_likely(
        state == atomic_load_explicit(&window->live_tag, memory_order_relaxed));
}

/* Whether a block, which may be null, is LIVE and of the window. Acquire: if
 * so, the caller sees the fields that its owner wrote. */
static inline __attribute__((always_inline)) bool
wm_magazine_owns(const wm_window *window, wm_block *block)
{
    return wm_likely(block != NULL) &&
           wm_likely(
               atomic_load_explicit(&block->state, memory_order_acquire) ==
               atomic_load_explicit(&window->live_tag, memory_order_relaxed));
}

/* Whether no stream uses the block and no capture holds it, so that it may be
 * cached. One test for both. */
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

/* Caches a LIVE block of the window that starts at base and that no stream or
 * capture uses; the window is entered. False: no room. */
static inline __attribute__((always_inline)) bool
wm_magazine_free(wm_window *window, wm_block *block, char *base)
{
    /* The set exists: the state names it, and the window was entered. */
    return wm_magazine_push(
        atomic_load_explicit(&window->magazines, memory_order_relaxed), block,
        base, false);
}

/* Caches a block that another thread may have allocated and that no stream
 * uses. It is claimed first, since other threads may free it as well. False:
 * the slow path. */
static inline __attribute__((always_inline)) bool
wm_magazine_free_other(wm_window *window, wm_block *block, wm_state state,
                       char *base)
{
    bool taken = false;
    wm_magazine_set *set;

    /* A window without a tag may be the constant window of no runtime. Relaxed:
     * the caller orders records before the free. */
    if (wm_state_kind(state) != WM_BLOCK_LIVE || block->base != base ||
        atomic_load_explicit(&window->live_tag, memory_order_relaxed) ==
            WM_NO_TAG ||
        atomic_load_explicit(&block->owner_stream, memory_order_relaxed) !=
            NULL ||
        !wm_magazine_may_keep(block) || block->size_class >= WM_CLASSES ||
        !wm_biased_enter(&window->biased)) {
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
        /* If the pointer is stale, the record may serve another block. */
        taken =
            block->base == base && wm_magazine_push(set, block, base, false);
        if (wm_unlikely(!taken)) {
            atomic_store_explicit(&block->state, state, memory_order_release);
        }
    }
    wm_biased_leave(&window->biased);
    return taken;
}

#endif
