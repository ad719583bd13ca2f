/* arena_stats.h: the figures of an arena; the caller holds lock arena. */
#ifndef WM_ARENA_STATS_H
#define WM_ARENA_STATS_H

#include "alloc/arena/arena.h"
#include "warmpool/device_memory.h"

/* Figures of an arena by small and large requests. */
typedef struct wm_sorted {
    warm_device_figures all, small, large;
} wm_sorted;

/* What a set of magazines has counted of a class since it settled last. */
typedef struct wm_tally {
    int64_t blocks, bytes, asked; /* more with callers now */
    uint64_t allocs, taken;       /* handed out, and bytes asked for in those */
} wm_tally;

void wm_arena_merge_tally_locked(wm_arena *arena, unsigned size_class,
                                 const wm_tally *tally);

/* A block went to a caller, or came back from one. */
void wm_arena_note_take_locked(wm_arena *arena, const wm_block *block);
void wm_arena_note_give_locked(wm_arena *arena, const wm_block *block);
/* A block is with its caller no more, nor waits for streams. */
void wm_arena_note_passive_locked(wm_arena *arena, const wm_block *block);
/* A freed block waits for streams, or does not any more. */
void wm_arena_note_pending_locked(wm_arena *arena, int64_t count,
                                  int64_t bytes);
/* Blocks did so while the arena was not told; most: at once. */
void wm_arena_note_completed_locked(wm_arena *arena, size_t count, size_t bytes,
                                    size_t most, size_t most_bytes);
/* A block is kept: state LOST, for ever, or CAPTURED; see retain.c. */
void wm_arena_note_retained_locked(wm_arena *arena, const wm_block *block,
                                   enum wm_block_state state);
void wm_arena_note_segment_locked(wm_arena *arena, const wm_segment *segment,
                                  bool added);
/* A part of a segment that stretches has memory now, or none any more. */
void wm_arena_note_part_locked(wm_arena *arena, wm_segment *segment,
                               size_t bytes, bool added);

/* A segment moves from one arena to a sibling. Locks of both. */
void wm_arena_note_move_locked(wm_arena *from, wm_arena *to,
                               const wm_segment *segment);

/* For a reader: never below 0 nor above what can be, and the sum of what was
 * freed as it must be. */
warm_stat wm_stat_shown(const warm_stat *stat, uint64_t most);
/* Sums; a peak is that of the peaks. */
void wm_stat_add(warm_stat *sum, const warm_stat *one);
void wm_duration_add(warm_duration *sum, const warm_duration *one);
void wm_stats_add(warm_space_stats *sum, const warm_space_stats *one);
void wm_class_stats_add(warm_class_stats *sum, const warm_class_stats *one);
/* Peaks of what callers have; see live.h. stat has what is current. */
void wm_stat_peak(warm_stat *stat, const wm_claim *claim);
void wm_stats_peaks(warm_space_stats *stats, const wm_live *live);
void wm_class_stats_peaks(warm_class_stats *stats, unsigned size_class,
                          const wm_lives *lives);

/* Adds all of arenas that are siblings and have sorted figures, but for what is
 * idle in segments that are in use; and that, by a look at every block. */
void wm_arena_sorted_stats(wm_arena *arena, warm_device_stats *stats);
void wm_arena_split_stats(wm_arena *arena, warm_device_stats *stats);

#endif
