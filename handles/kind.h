/* kind.h: what the pool knows of a kind of handle; one file a built-in kind.
 *
 * The pool calls ops with no lock held, cancellation off, and only for
 * devices in range. Every op returns a status and has left the thread's last
 * error (wm_fail_code with the library's own code and text) when it fails; a
 * failed op has changed nothing. A library is loaded by the first create. */
#ifndef WM_KIND_H
#define WM_KIND_H

#include "runtime/driver/driver.h"
#include "runtime/thread/control.h"
#include "warmpool/handle.h"

typedef struct wm_kind wm_kind;

/* What the pools of a runtime know of captures: most libraries wait for the
 * device when a handle ends, which breaks captures there. Where a function is
 * null the pools know of no capture. */
typedef struct wm_captures {
    /* Around a call that would break one; false: not now, since one is under
     * way on the device, of another stream than but. One that is announced in
     * between waits, but not for a callback of the program. */
    bool (*begin)(void *context, wm_breaking *breaking, int device,
                  warm_stream but);
    void (*end)(void *context, wm_breaking *breaking);
    /* A handle waits for their end. */
    void (*note)(void *context);
    void *context;
    bool stays; /* the runtime ends under one: what is idle is left behind */
} wm_captures;

typedef struct wm_kind_ops {
    const char *name;
    warm_status (*create)(wm_kind *kind, int device, void **handle);
    warm_status (*destroy)(wm_kind *kind, int device, void *handle);
    /* Binds the stream and then, because binding resets it, the workspace
     * (null: the library's own). Null: the kind takes no streams. */
    warm_status (*bind)(wm_kind *kind, int device, void *handle,
                        warm_stream stream, void *workspace, size_t bytes);
    /* Puts everything a user can set back to the library's default. */
    warm_status (*reset)(wm_kind *kind, int device, void *handle);
    /* Bytes of a workspace on the device; null or 0: no workspaces. */
    size_t (*workspace_bytes)(wm_kind *kind, int device);
    /* Ends the kind with its runtime; may be null. */
    void (*close)(wm_kind *kind);
    /* Its handles are of no device: none waits when one ends. */
    bool of_host;
    bool is_stream; /* its handles are streams */
} wm_kind_ops;

struct wm_kind {
    const wm_kind_ops *ops;    /* const */
    wm_driver *driver;         /* const */
    const wm_options *options; /* const, borrowed from the runtime */
    _Atomic(void *) context;   /* the kind's own; two devices may race to it */
    int index;                 /* const: its number in the runtime */
    const wm_captures *captures; /* const, borrowed; null: there are none */
};

/* As above; c: null if there are none. */
static inline bool wm_captures_begin_break(const wm_captures *c,
                                           wm_breaking *breaking, int device,
                                           warm_stream but)
{
    return c == NULL || c->begin == NULL ||
           c->begin(c->context, breaking, device, but);
}

static inline void wm_captures_end_break(const wm_captures *c,
                                         wm_breaking *breaking)
{
    if (c != NULL && c->end != NULL) {
        c->end(c->context, breaking);
    }
}

static inline bool wm_kind_begin_break(const wm_kind *kind,
                                       wm_breaking *breaking, int device,
                                       warm_stream but)
{
    return wm_captures_begin_break(kind->captures, breaking, device, but);
}

static inline void wm_kind_end_break(const wm_kind *kind, wm_breaking *breaking)
{
    wm_captures_end_break(kind->captures, breaking);
}

#endif
