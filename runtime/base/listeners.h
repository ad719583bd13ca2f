/* listeners.h: the memory callbacks of a runtime, by name (memory.h).
 *
 * A call holds no lock: a callback may free memory, and add and remove
 * callbacks, itself among them. One that is removed while threads are inside it
 * stays in the list, marked, until the last of them returns; then its done()
 * is called. While the thread is inside a memory callback of a runtime, no
 * other one of that runtime is called, except for events of segments. */
#ifndef WM_LISTENERS_H
#define WM_LISTENERS_H

#include "runtime/base/lock.h"
#include "runtime/base/status.h"
#include "warmpool/memory.h"

#include <stdatomic.h>
#include <stdbool.h>

struct wm_listener;

typedef struct wm_listeners {
    wm_lock lock;
    struct wm_listener *first,
        **last;              /* lock: in the order of their addition */
    _Atomic unsigned events; /* relaxed: those that any asks for */
} wm_listeners;

void wm_listeners_init(wm_listeners *listeners);
/* Calls done() of each. No thread is inside a callback, or it never returns. */
void wm_listeners_fini(wm_listeners *listeners);

/* Status: INVALID_ARGUMENT (the name is there already), OUT_OF_MEMORY. */
warm_status wm_listeners_add(wm_listeners *listeners,
                             const warm_memory_callback *callback);
/* Whether there is one of that name. */
bool wm_listeners_has(wm_listeners *listeners, const char *name);
/* Status: NOT_FOUND. */
warm_status wm_listeners_remove(wm_listeners *listeners, const char *name);

/* Calls those that ask for the event; returns whether one returned nonzero. The
 * last error of the thread stays. No lock held. */
bool wm_listeners_call(wm_listeners *listeners, warm_memory_event event,
                       void *buffer, size_t bytes);
/* The same for an event of a segment, OBTAINED or RETURNING: always called, or
 * what was registered for a segment would outlive it. */
void wm_listeners_tell(wm_listeners *listeners, warm_memory_event event,
                       const warm_segment *segment);
static inline bool wm_listeners_hear(const wm_listeners *listeners,
                                     warm_memory_event event)
{
    return (atomic_load_explicit(&listeners->events, memory_order_relaxed) &
            (unsigned)event) != 0;
}
/* Whether the thread is inside a memory callback of this runtime. */
bool wm_listeners_inside(const wm_listeners *listeners);

#endif
