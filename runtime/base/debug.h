/* debug.h: option debug: what was freed, and which of its bytes were written
 * since.
 *
 *   free   ─► note: the block, who allocated it and who freed it
 *   idle   ─► filled: no work of a recorded stream uses the block any more
 *   alloc  ─► taken: the parts of notes in the new block are checked
 *                 │ note │ taken and checked │ note │
 *
 * Notes are found by address and do not overlap. Idle memory is merged and
 * split meanwhile: a note lasts until all of its bytes are taken. This file
 * knows addresses only; alloc/arena/arena_debug.c knows blocks. */
#ifndef WM_DEBUG_H
#define WM_DEBUG_H

#include "runtime/base/checker.h"
#include "runtime/base/history.h"
#include "runtime/base/lock.h"

#include <stdbool.h>

/* Bytes behind each block that no caller may write, at least; and what stands
 * there, and in freed memory. */
enum { WM_GUARD_BYTES = 64, WM_GUARD_BYTE = 0xa7, WM_FILL_BYTE = 0xf5 };

/* Bytes that should have a value and have others. */
enum { WM_CHANGE_SHOWN = 8 };
typedef struct wm_change {
    const char *at; /* the first; null: none has */
    uint64_t count; /* how many */
    unsigned shown; /* of first, from `at` on */
    unsigned char first[WM_CHANGE_SHOWN];
} wm_change;

typedef struct wm_freed {
    char *base; /* the part of the block that this note is about */
    size_t bytes;
    const char *block; /* const: the block as it was */
    size_t requested;  /* const */
    bool filled;       /* written before the block becomes idle */
    wm_change change;  /* of a note that was taken and is to be logged */
    struct wm_freed *next;
    /* Const: the origin of the allocation, then that of the free
     * (wm_history_origin_bytes() each). */
    char origins[];
} wm_freed;

typedef struct wm_debug {
    bool guard, fill, leaks;   /* const: the words of the option */
    const wm_history *history; /* const */
    wm_checker checker;        /* const */
    wm_lock lock;
    void *notes;        /* lock: a tree (tsearch()) of wm_freed by address */
    wm_freed *unlogged; /* lock: found where nothing may be logged */
} wm_debug;

/* Null if option debug is off. history: not null if it is on, and outlives it.
 * Status: OUT_OF_MEMORY. */
warm_status wm_debug_open(const wm_options *options, const wm_history *history,
                          wm_debug **debug);
void wm_debug_close(wm_debug *debug);

/* The block is being freed. Without memory for a note it is not checked. */
void wm_debug_note(wm_debug *debug, char *base, size_t bytes, size_t requested,
                   const wm_origin *allocated, const wm_origin *freed);
/* Fills the noted block that starts at base, if its free was noted; its memory
 * is the caller's. */
void wm_debug_fill(wm_debug *debug, const char *base);
/* Ends all notes of the bytes, which the calling thread owns, and checks them:
 * returns those whose memory was written since it was filled, chained by next.
 * The bytes may be accessed afterwards. */
wm_freed *wm_debug_take(wm_debug *debug, char *base, size_t bytes);

/* Where the bytes differ from value. */
wm_change wm_debug_compare(const char *at, size_t bytes, unsigned char value);

/* Stores notes to be logged; returns them all. */
void wm_debug_store(wm_debug *debug, wm_freed *notes);
wm_freed *wm_debug_stored(wm_debug *debug);

static inline const wm_origin *wm_freed_origin(const wm_debug *debug,
                                               const wm_freed *note, bool freed)
{
    return (const wm_origin *)(const void *)(note->origins +
                                             (freed ? wm_history_origin_bytes(
                                                          debug->history)
                                                    : 0));
}

#endif
