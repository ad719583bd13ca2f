/* history.h: the last events of a runtime's memory (options history and
 * history_frames).
 *
 *   writer   number = next++ ─► slot number % count: claim the turn (odd)
 *            ─► words ─► release the turn (even, encodes number)
 *   reader   turn ─► words ─► turn: unchanged, and of the wanted number?
 *
 * One ring for all threads, allocated once: writing takes no memory and no lock
 * and never waits. If a writer finds its slot claimed, or used for a younger
 * event, it drops its event and counts it. An event is read whole or not at
 * all.
 *
 * An event's place names its memory: 0 … devices - 1 are the devices, then the
 * page-locked memory of each NUMA node, then pageable memory. */
#ifndef WM_HISTORY_H
#define WM_HISTORY_H

#include "runtime/base/options.h"
#include "runtime/base/text.h"
#include "warmpool/snapshot.h"

#include <stdbool.h>

enum { WM_FRAMES_MAX = 64 };

enum wm_history_op {
    WM_HISTORY_ALLOC,
    WM_HISTORY_FREE_REQUESTED,
    WM_HISTORY_FREE_COMPLETED,
    WM_HISTORY_SEGMENT_ALLOC,
    WM_HISTORY_SEGMENT_FREE,
    WM_HISTORY_OUT_OF_MEMORY
};

/* Thread, time and call stack of an event. Only the frames that the history
 * keeps are stored; never access the rest (wm_history_origin_bytes()). */
typedef struct wm_origin {
    uint64_t ns;     /* wm_clock_ns(); 0: the origin is unknown */
    uint64_t thread; /* gettid() */
    char tag[WARM_TAG_BYTES];
    uint64_t
        frame[WM_FRAMES_MAX]; /* return addresses, innermost first; 0 ends */
} wm_origin;

/* Whole words only: the ring stores words. */
typedef struct wm_history_event {
    uint64_t op;      /* enum wm_history_op */
    uint64_t place;   /* which memory, as above */
    uint64_t address; /* OUT_OF_MEMORY: bytes free on the device */
    uint64_t bytes;   /* requested; for segments: their size */
    uint64_t lane_id; /* the stream's; 0: none */
    uint64_t pool;    /* private pool; 0: none */
    uint64_t arena;   /* address of the first sibling (arena.h) */
    wm_origin origin;
} wm_history_event;

typedef struct wm_history wm_history;

/* The action's name in PyTorch: "alloc", "free_requested", … */
const char *wm_history_action(const wm_history_event *event);

/* Null if the option is 0. Status: OUT_OF_MEMORY. */
warm_status wm_history_open(const wm_options *options, wm_history **history);
void wm_history_close(wm_history *history);

/* Bytes of an origin; 0 without a history. */
size_t wm_history_origin_bytes(const wm_history *history);
unsigned wm_history_frames(const wm_history *history);
/* Bytes that are stored of an event; 0 without a history. */
size_t wm_history_event_bytes(const wm_history *history);

/* Fills the origin of an event that happens now in the calling thread. frames:
 * adds the call stack, from the library's caller outwards, which may take locks
 * of the dynamic linker. */
void wm_history_here(const wm_history *history, wm_origin *origin, bool frames);

/* A return address, with the function name that the dynamic linker knows: that
 * of an exported function, or of any in a program linked with -rdynamic. */
typedef struct wm_frame {
    uint64_t address;
    uint64_t offset;      /* in the object, or 0 */
    const char *function; /* or null */
    const char *object;   /* path of the object file, or null */
} wm_frame;

/* Gets the i-th frame of an origin; false: it has fewer. */
bool wm_history_frame(const wm_history *history, const wm_origin *origin,
                      unsigned i, wm_frame *frame);

/* Appends an origin in words: "thread 4711, tag 'weights', 0.250 s ago: main
 * (prog+0x1149) < …"; since: says how long ago. */
void wm_history_describe(const wm_history *history, const wm_origin *origin,
                         bool since, wm_text *text);

void wm_history_put(wm_history *history, const wm_history_event *event);

/* The number of the next event. Numbers rise: an event that happened before
 * another one has the smaller number. */
uint64_t wm_history_next(wm_history *history);
/* The oldest number that the ring may still hold; next: wm_history_next(). */
uint64_t wm_history_oldest(const wm_history *history, uint64_t next);
/* False if the event is overwritten, dropped, or not written yet. */
bool wm_history_read(wm_history *history, uint64_t number,
                     wm_history_event *event);
/* Events that found no slot. */
uint64_t wm_history_dropped(wm_history *history);

#endif
