/* arena_stats.h: the figures of an arena; the caller holds lock arena. */
#ifndef WM_ARENA_STATS_H
#define WM_ARENA_STATS_H

#include "alloc/arena.h"

/* A block went to a caller, or came back from one. */
void wm_arena_note_take_locked(wm_arena *arena, const wm_block *block);
void wm_arena_note_give_locked(wm_arena *arena, const wm_block *block);
/* A freed block waits for streams, or does not any more. */
void wm_arena_note_pending_locked(wm_arena *arena, const wm_block *block,
                                  bool begins);
/* A block is kept for ever: state LOST or CAPTURED. */
void wm_arena_note_kept_locked(wm_arena *arena, const wm_block *block,
                               int state);
void wm_arena_note_segment_locked(wm_arena *arena, size_t bytes, bool added);

#endif
