/* arena_stats.h: figures of an arena; the caller of a _locked function holds
 * lock arena. */
#ifndef WM_ARENA_STATS_H
#define WM_ARENA_STATS_H

#include "alloc/arena/arena.h"
#include "warmpool/device_memory.h"

/* What a magazine set has counted for a class since its last merge. */
typedef struct wm_tally {
    int64_t blocks, bytes, asked; /* change of what callers hold */
    uint64_t allocs, taken; /* blocks allocated, and bytes requested in them */
} wm_tally;

void wm_arena_merge_tally_locked(wm_arena *arena, unsigned size_class,
                                 const wm_tally *tally);

/* Counts a block that a caller got, or returned. drains: streams may still use
 * it, until wm_arena_note_drained_locked(). */
void wm_arena_note_take_locked(wm_arena *arena, const wm_block *block);
void wm_arena_note_give_locked(wm_arena *arena, const wm_block *block,
                               bool drains);
void wm_arena_note_drained_locked(wm_arena *arena, const wm_block *block);
/* Counts freed blocks that became pending (> 0) or complete (< 0). */
void wm_arena_note_pending_locked(wm_arena *arena, int64_t count,
                                  int64_t bytes);
/* Counts blocks that became pending and complete since the last call; most:
 * pending at the same time. */
void wm_arena_note_completed_locked(wm_arena *arena, size_t count, size_t bytes,
                                    size_t most, size_t most_bytes);
/* The block becomes LOST for good, or CAPTURED, and is counted. */
void wm_block_retain_locked(wm_arena *arena, wm_block *block,
                            enum wm_block_state state);
/* Segments and bytes come (> 0) or go (< 0), all or part of segment. */
void wm_arena_note_held_locked(wm_arena *arena, const wm_segment *segment,
                               int segments, int64_t bytes);
/* A part of a segment that expands gets memory (> 0), or loses it (< 0). */
void wm_arena_note_part_locked(wm_arena *arena, wm_segment *segment,
                               int64_t bytes);

/* A segment moves to a sibling. Locks of both. */
void wm_arena_note_move_locked(wm_arena *from, wm_arena *to,
                               const wm_segment *segment);

/* Bytes that the arena has counted as with callers. */
uint64_t wm_arena_live_bytes_locked(const wm_arena *arena);
/* Sums; the peak is the sum of the peaks. */
void wm_stats_add(warm_space_stats *sum, const warm_space_stats *one);
void wm_class_stats_add(warm_class_stats *sum, const warm_class_stats *one);
/* Sets peaks of what callers hold (live.h); the current values are set. */
void wm_stat_peak(warm_stat *stat, const wm_claim *claim);
void wm_stats_peaks(warm_space_stats *stats, const wm_live *live);
void wm_class_stats_peaks(warm_class_stats *stats, unsigned size_class,
                          const wm_lives *lives);

/* Sums over the siblings, which have figures by small and large. sorted:
 * without idle memory in segments that are in use. split: that memory, by a
 * walk over every block. */
void wm_arena_sorted_stats(wm_arena *arena, warm_device_stats *stats);
void wm_arena_split_stats(wm_arena *arena, warm_device_stats *stats);

#endif
