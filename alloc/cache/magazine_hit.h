/* magazine_hit.h: hits of magazines, from end to end.
 *
 * Inlined into the public functions (memory.c, memory_free.c, device_memory.c),
 * in which every instruction counts (tests/bench/PROFILE.md). The rare case is
 * a tail call at the end of a function, so that a hit saves no register; too
 * little room or too much (magazine.h) is such a case. */
#ifndef WM_MAGAZINE_HIT_H
#define WM_MAGAZINE_HIT_H

#include "alloc/cache/magazine.h"

/* Computes a magazine's address once, and not again for each of its fields. */
#define WM_ONE_ADDRESS(m) __asm__("" : "+r"(m))

/* ---- parts of hits: in a hit of the window, or with its lock ------------- */

static inline wm_supply *wm_magazine_supply(wm_magazine_set *set,
                                            const wm_magazine *m)
{
    return &set->supply[m - set->of];
}

/* Whether a room is out of its bounds. */
static inline bool wm_room_is_beyond(const wm_magazine_set *set, uint64_t room)
{
    return wm_unlikely(((uint32_t)room & set->beyond) != 0);
}

static inline uint64_t wm_room_get(const wm_magazine_set *set)
{
    return atomic_load_explicit(&set->has, memory_order_relaxed);
}

static inline void wm_room_set(wm_magazine_set *set, uint64_t room)
{
    atomic_store_explicit(&set->has, room, memory_order_relaxed);
}

/* Changes a room by so many blocks of a class and the bytes that are cached by
 * so many, claims what the room then lacks and returns what it has too much. */
void wm_room_change(wm_magazine_set *set, const wm_magazine *m, int64_t blocks,
                    int64_t cached);

/* Uses room for a block that goes to a caller. False: the room is too little,
 * and unchanged. */
static inline __attribute__((always_inline)) bool
wm_room_take(wm_magazine_set *set, const wm_magazine *m)
{
    uint64_t room = wm_room_get(set) - m->one;

    if (wm_room_is_beyond(set, room)) {
        return false;
    }
    wm_room_set(set, room);
    return true;
}

/* Allocates the last entry, of the block, for a request of so many bytes; the
 * room is the caller's affair. The returned entry is free, and unchanged until
 * the next push. */
static inline __attribute__((always_inline)) const wm_entry *
wm_magazine_pop_entry(const wm_magazine_set *set, wm_magazine *m,
                      wm_entry *entry, wm_block *block, size_t bytes)
{
    wm_block_set_requested(block, bytes);
    /* Release pairs with the acquire of look-ups: a thread that sees the state
     * sees the fields. */
    atomic_store_explicit(&block->state, set->live, memory_order_release);
    m->top = entry;
    m->alloc_bytes += bytes;
    m->allocs++;
    return entry;
}

/* Whether the set caches the block of an entry, which may be stale. Relaxed:
 * the state was written by this thread, or before it locked the window. */
static inline __attribute__((always_inline)) bool
wm_magazine_is_fresh(const wm_magazine_set *set, const wm_block *block)
{
    return wm_likely(atomic_load_explicit(&block->state,
                                          memory_order_relaxed) == set->cached);
}

/* Allocates 1 … WM_CLASS_LIMIT bytes from the magazine's last entry; or
 * null. */
static inline __attribute__((always_inline)) const wm_entry *
wm_magazine_pop(wm_magazine_set *set, size_t bytes)
{
    wm_magazine *m = &set->of[wm_size_class_index(bytes)];
    wm_entry *entry;
    wm_block *block;

    WM_ONE_ADDRESS(m);
    entry = m->top - 1;
    block = entry->block;
    return wm_magazine_is_fresh(set, block) && wm_room_take(set, m)
               ? wm_magazine_pop_entry(set, m, entry, block, bytes)
               : NULL;
}

/* If a magazine is empty, an entry of a larger class serves the request, up to
 * twice its size and at most 1 MiB more (row B8): an arena operation costs
 * twenty times as much as a hit, and eight magazines have an entry much more
 * often than one, so that less has to be cached and held
 * (tests/bench/PROFILE.md). A small request uses no entry of large ones. */
enum { WM_LARGER_BYTES = 1 << 20 };

/* Allocates such an entry, or one of the request's own class, whatever the
 * room. In a hit of the window, or with its lock. Null: there is none. */
const wm_entry *wm_magazine_pop_any(wm_magazine_set *set, size_t bytes,
                                    bool laned);

/* Caches the block, whatever the room. False: the set has no place for it. */
bool wm_magazine_push_any(wm_magazine_set *set, wm_block *block, char *base,
                          bool laned);

/* Caches a block that its caller frees, as the entry at the top; the room is
 * the caller's affair. */
static inline __attribute__((always_inline)) void
wm_magazine_push_entry(const wm_magazine_set *set, wm_magazine *m,
                       wm_entry *top, wm_block *block, char *base)
{
    top->block = block;
    /* Relaxed: only a thread that has locked or entered the window pops the
     * entry; others compare the state. (Stored here, or the compiler merges two
     * stores and waits for both values.) */
    atomic_store_explicit(&block->state, set->cached, memory_order_relaxed);
    top->base = base;
    m->top = top + 1;
    m->free_bytes += wm_block_requested(block);
}

/* Caches a block that its caller frees. False: no entry is left, or the room
 * would be too much. */
static inline __attribute__((always_inline)) bool
wm_magazine_push(wm_magazine_set *set, wm_block *block, char *base)
{
    wm_magazine *m = &set->of[block->size_class];
    wm_entry *top;
    uint64_t room;

    WM_ONE_ADDRESS(m);
    top = m->top;
    room = wm_room_get(set) + m->one;
    if (wm_unlikely(top == m->end) || wm_room_is_beyond(set, room)) {
        return false;
    }
    wm_room_set(set, room);
    wm_magazine_push_entry(set, m, top, block, base);
    return true;
}

/* Counts a block that its caller frees and that is not cached here: the room
 * grows, and what is cached does not. */
static inline __attribute__((always_inline)) void
wm_magazine_count_free(wm_magazine_set *set, wm_block *block)
{
    wm_magazine *m = &set->of[block->size_class];
    uint64_t grains = (uint64_t)m->bytes / WM_GRAIN;
    uint64_t room = wm_room_get(set) + m->one - (grains << 32);

    wm_magazine_supply(set, m)->base--;
    m->free_bytes += wm_block_requested(block);
    if (wm_room_is_beyond(set, room)) {
        wm_room_change(set, m, 1, 0);
    } else {
        wm_room_set(set, room);
    }
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
        entry = wm_magazine_pop(set, bytes);
    }
    if (wm_likely(entry != NULL)) {
        wm_magazine_hand_out(window, entry, pointer);
    }
    wm_biased_leave(&window->biased);
    return entry != NULL;
}

/* After a miss: a hit that claims room, or one in one of the next classes. */
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
        base);
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
        taken = block->base == base && wm_magazine_push(set, block, base);
        if (wm_unlikely(!taken)) {
            atomic_store_explicit(&block->state, state, memory_order_release);
        }
    }
    wm_biased_leave(&window->biased);
    return taken;
}

#endif
