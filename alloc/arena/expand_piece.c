/* expand_piece.c: see expand_piece.h. */
#include "alloc/arena/expand_piece.h"

static size_t unit_at(const wm_segment *segment, const char *at)
{
    return (size_t)(at - segment->base) / segment->unit;
}

static bool is_joined(const wm_segment *segment, size_t unit)
{
    if (unit >= segment->bytes / segment->unit) {
        return false;
    }
    /* Relaxed: read under lock arena, where it is written. */
    return ((atomic_load_explicit(&segment->joined[unit / 64],
                                  memory_order_relaxed) >>
             (unit % 64)) &
            1) != 0;
}

/* Sets or clears the bits of all units of a piece except the first. */
static void join_locked(wm_segment *segment, const char *base, size_t bytes,
                        bool joined)
{
    size_t first = unit_at(segment, base);

    for (size_t i = first + 1; i < first + bytes / segment->unit; i++) {
        uint64_t bit = (uint64_t)1 << (i % 64);
        uint64_t word = atomic_load_explicit(&segment->joined[i / 64],
                                             memory_order_relaxed);

        atomic_store_explicit(&segment->joined[i / 64],
                              joined ? word | bit : word & ~bit,
                              memory_order_relaxed);
    }
}

void wm_piece_come(wm_segment *segment, const char *base, size_t bytes)
{
    wm_lock_acquire(&segment->arena->lock);
    join_locked(segment, base, bytes, true);
    wm_lock_release(&segment->arena->lock);
}

void wm_piece_go_locked(wm_segment *segment, const char *base, size_t bytes)
{
    join_locked(segment, base, bytes, false);
}

void wm_piece_go(wm_segment *segment, const char *base, size_t bytes)
{
    wm_lock_acquire(&segment->arena->lock);
    wm_piece_go_locked(segment, base, bytes);
    wm_lock_release(&segment->arena->lock);
}

size_t wm_piece_from(wm_segment *segment, const char *base)
{
    size_t first = unit_at(segment, base), end = first + 1;

    wm_lock_acquire(&segment->arena->lock);
    while (is_joined(segment, end)) {
        end++;
    }
    wm_lock_release(&segment->arena->lock);
    return (end - first) * segment->unit;
}

size_t wm_piece_up_to_locked(const wm_segment *segment, const char *end)
{
    size_t last = unit_at(segment, end), first = last - 1;

    while (is_joined(segment, first)) {
        first--;
    }
    return (last - first) * segment->unit;
}

size_t wm_piece_whole_locked(const wm_block *run, char **begin)
{
    const wm_segment *segment = run->segment;
    size_t unit = segment->unit, first, end;

    if (unit == 0) {
        return 0;
    }
    first = unit_at(segment, run->base + unit - 1);
    end = unit_at(segment, run->base + run->bytes);
    while (first < end && is_joined(segment, first)) {
        first++;
    }
    while (first < end && is_joined(segment, end)) {
        end--;
    }
    if (first >= end) {
        return 0;
    }
    *begin = segment->base + first * unit;
    return (end - first) * unit;
}

bool wm_piece_none_locked(const wm_block *run)
{
    size_t first = unit_at(run->segment, run->base);
    size_t end = unit_at(run->segment, run->base + run->bytes);

    for (size_t i = first; i <= end; i++) {
        if (is_joined(run->segment, i)) {
            return false;
        }
    }
    return true;
}
