/* history.h: the last events of a runtime's memory (row C7; options history
 * and history_frames).
 *
 *   writer   number = next++ ─► slot number % count: turn is claimed, odd
 *            ─► words ─► turn is even, and says which number
 *   reader   turn ─► words ─► turn: the same, and that of the number asked for?
 *
 * A ring for all threads, made once: nothing is allocated, locked or waited for
 * later. A writer that finds its slot claimed, or used for a younger event,
 * drops its own, which is counted. An event is read whole or not at all.
 *
 * Which memory it is in is told by its place: 0 … devices - 1 the devices, then
 * one for each NUMA node's page-locked memory, then the pageable. */
#ifndef WM_HISTORY_H
#define WM_HISTORY_H

#include "runtime/base/options.h"
#include "warmpool/snapshot.h"

#include <stdbool.h>

enum { WM_FRAMES_MAX = 64 };

enum wm_history_op {
    WM_HISTORY_ALLOC,
    WM_HISTORY_FREE_REQUESTED,
    WM_HISTORY_FREE_COMPLETED,
    WM_HISTORY_SEGMENT_ALLOC,
    WM_HISTORY_SEGMENT_FREE,
    WM_HISTORY_SEGMENT_MAP, /* a part of one that stretches got memory */
    WM_HISTORY_SEGMENT_UNMAP,
    WM_HISTORY_OUT_OF_MEMORY
};

/* Who did something, and when. Of frames there are as many as the history
 * keeps, the rest is not to be touched: see wm_history_origin_bytes(). */
typedef struct wm_origin {
    uint64_t ns;     /* wm_clock_ns(); 0: nothing is known */
    uint64_t thread; /* as the system numbers them */
    char tag[WARM_TAG_BYTES];
    uint64_t frame[WM_FRAMES_MAX]; /* return addresses, innermost first, 0 */
} wm_origin;

/* All of whole words: they are what is stored. */
typedef struct wm_history_event {
    uint64_t op;      /* enum wm_history_op */
    uint64_t place;   /* see above */
    uint64_t address; /* OUT_OF_MEMORY: bytes free on the device */
    uint64_t bytes;   /* asked for; of segments, all */
    uint64_t lane_id; /* of the stream, 0: of none */
    uint64_t pool;    /* private one, 0: none */
    uint64_t arena;   /* which snapshot it goes with */
    wm_origin origin;
} wm_history_event;

typedef struct wm_history wm_history;

/* "alloc", "free_requested", … as PyTorch calls them. */
const char *wm_history_action(const wm_history_event *event);

/* Null if the option is 0. Status: OUT_OF_MEMORY. */
warm_status wm_history_open(const wm_options *options, wm_history **history);
void wm_history_close(wm_history *history);

/* Bytes of an origin, or 0 for null: nobody keeps any. */
size_t wm_history_origin_bytes(const wm_history *history);
unsigned wm_history_frames(const wm_history *history);
/* Bytes of an event that are stored, or 0 for null. */
size_t wm_history_event_bytes(const wm_history *history);

/* The calling thread, now; with frames the way that it came, from where it left
 * the library. May take locks of the dynamic linker. */
void wm_history_here(const wm_history *history, wm_origin *origin, bool frames);

void wm_history_put(wm_history *history, const wm_history_event *event);

/* The number of the next event; events have rising numbers, and what happened
 * before another has a smaller one. */
uint64_t wm_history_next(wm_history *history);
/* The oldest number that may be there, if next is the next. */
uint64_t wm_history_oldest(const wm_history *history, uint64_t next);
/* False: it is overwritten, dropped, or not there yet. */
bool wm_history_read(wm_history *history, uint64_t number,
                     wm_history_event *event);
/* Events that found no slot. */
uint64_t wm_history_dropped(wm_history *history);

#endif
