/* space.h: a kind of memory: an arena, and how to obtain and return segments.
 *
 * What a request passes through, and stops at as early as it can:
 *
 *   arena ─► completed frees ─► growth (one thread) ─► idle segments go back
 *         ─► the user's callbacks ─► out of memory
 *
 * Only lock growth is held across a driver call. Blocks of all spaces are
 * freed and recorded on through here: a block knows its space. */
#ifndef WM_SPACE_H
#define WM_SPACE_H

#include "alloc/arena.h"
#include "alloc/timeline.h"
#include "runtime/thread/control.h"

/* What one kind of memory does its own way. */
typedef struct wm_space_traits {
    const char *name; /* "pinned" */
    warm_status (*obtain)(wm_driver *driver, size_t bytes, void **base);
    warm_status (*give_back)(wm_driver *driver, void *base, size_t bytes);
} wm_space_traits;

enum { WM_CALLBACKS = 16 };

typedef struct wm_space {
    const wm_space_traits *traits; /* const */
    warm_runtime *runtime;         /* const */
    wm_driver *driver;             /* const */
    wm_timelines *timelines;       /* const, shared by a runtime's spaces */
    size_t segment_bytes;          /* const: least that is obtained */
    size_t limit_bytes;            /* const: most that is held, 0: no limit */
    uint64_t decay_ns;             /* const: 0: never */
    _Atomic bool kept;   /* a block was kept for ever, and it was said */
    _Atomic size_t lost; /* bytes of one that polling lost, to be said */
    wm_lock growth;
    wm_arena arena;
    struct {
        warm_memory_fn function;
        void *context;
    } callback[WM_CALLBACKS]; /* lock growth */
} wm_space;

void wm_space_init(wm_space *space, const wm_space_traits *traits,
                   warm_runtime *runtime, wm_timelines *timelines,
                   const wm_options *options);
/* Before the timelines end: drops the uses of blocks that stay live. */
void wm_space_forget(wm_space *space);
/* Ends the records; segments that are left stay with whoever uses them. */
void wm_space_fini(wm_space *space);

/* bytes: 1 … WM_REQUEST_MAX. Status: OUT_OF_MEMORY, as memory.h says. */
warm_status wm_space_alloc(wm_space *space, size_t bytes, void **pointer);

/* The LIVE block that holds pointer, else null. */
wm_block *wm_space_find(const void *pointer);
wm_space *wm_space_of(const wm_block *block);

/* The last timeline has let go of a PENDING block; see wm_timelines_init(). */
void wm_space_finish(wm_block *block, bool lost);

/* Frees a block that this thread has taken from LIVE to FREEING. */
void wm_space_free(wm_space *space, wm_block *block);

warm_status wm_space_record(wm_space *space, wm_block *block,
                            warm_stream stream);

/* The stream will be destroyed; see wm_timelines_retire(). */
void wm_space_retire(wm_space *space, warm_stream stream,
                     const wm_stream_info *info);

/* Both fail only if the driver does not let this thread set its capture mode;
 * nothing was done then. */
warm_status wm_space_poll(wm_space *space);
/* Returns idle segments until at most target bytes are held. */
warm_status wm_space_trim(wm_space *space, size_t target, size_t *released);

warm_status wm_space_callback_add(wm_space *space, warm_memory_fn function,
                                  void *context);
warm_status wm_space_callback_remove(wm_space *space, warm_memory_fn function,
                                     void *context);

#endif
