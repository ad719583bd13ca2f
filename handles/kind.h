/* kind.h: the operations of a kind of handle; each built-in kind has a file.
 *
 * The pool calls ops with no lock held, cancellation off, and only for devices
 * in range. An op that fails returns its status, has set the thread's last
 * error (wm_fail_code with the library's code and text), and has changed
 * nothing. The first create loads the library. */
#ifndef WM_KIND_H
#define WM_KIND_H

#include "runtime/driver/driver.h"
#include "runtime/thread/window.h"
#include "warmpool/handle.h"

typedef struct wm_kind wm_kind;

/* How pools learn of captures. Most libraries wait for the device when they
 * destroy a handle, which breaks a capture there. Null functions: no captures
 * are known. */
typedef struct wm_captures {
    /* Brackets a call that would break a capture. False: a stream of the device
     * other than `but` captures now, and the call must wait. A capture that is
     * announced in between waits for end(), except while the thread is inside a
     * callback of the program. */
    bool (*begin)(warm_runtime *runtime, wm_breaking *breaking, int device,
                  warm_stream but);
    void (*end)(warm_runtime *runtime, wm_breaking *breaking);
    /* Records that a handle waits for the captures to end. */
    void (*note)(warm_runtime *runtime);
    warm_runtime *runtime;
    bool leave_idle; /* the runtime ends during a capture: idle handles leak */
} wm_captures;

typedef struct wm_kind_ops {
    const char *name;
    warm_status (*create)(wm_kind *kind, int device, void **handle);
    warm_status (*destroy)(wm_kind *kind, int device, void *handle);
    /* Binds the stream, then the workspace (null: the library's own), since
     * binding a stream resets the workspace. Null op: the kind has no streams.
     */
    warm_status (*bind)(wm_kind *kind, int device, void *handle,
                        warm_stream stream, void *workspace, size_t bytes);
    /* bind() of a handle that is bound to to->before, by the fewest calls of
     * the library and no callback of the program. Cancellation is not off.
     * Null: bind() is called instead. */
    warm_status (*rebind)(const wm_rebind *to);
    /* Restores the library's default for every setting that a user can change.
     */
    warm_status (*reset)(wm_kind *kind, int device, void *handle);
    /* Size of a workspace on the device; null or 0: the kind has none. */
    size_t (*workspace_bytes)(wm_kind *kind, int device);
    /* Writes the file of the library that the kind's handles come from, and
     * loads it if that has not happened. Null: they come from none. */
    warm_status (*find)(wm_kind *kind, char *file, size_t bytes);
    /* Frees the kind's context when its runtime ends; may be null. */
    void (*close)(wm_kind *kind);
    /* Its handles belong to no device: destroying one breaks no capture. */
    bool of_host;
    bool is_stream;                        /* its handles are streams */
    const struct wm_cuda_library *library; /* of kinds/kind_cuda.h, or null */
} wm_kind_ops;

struct wm_kind {
    const wm_kind_ops *ops;    /* const */
    wm_driver *driver;         /* const */
    const wm_options *options; /* const, borrowed from the runtime */
    /* The kind's own: wm_kind_context(); or set at first use, when two devices
     * may race (kind_cuda.c). */
    _Atomic(void *) context;
    int index;                   /* const: its number in the runtime */
    const wm_captures *captures; /* const, borrowed; null: none are known */
};

/* Read and set a context that other threads only read. Relaxed: it is set
 * before the number of kinds publishes the kind (kind_table.h), and once no
 * other thread uses the runtime. */
static inline void *wm_kind_context(const wm_kind *kind)
{
    return atomic_load_explicit(&kind->context, memory_order_relaxed);
}

static inline void wm_kind_set_context(wm_kind *kind, void *context)
{
    atomic_store_explicit(&kind->context, context, memory_order_relaxed);
}

/* Call begin() and end() of c, which may be null. */
static inline bool wm_captures_begin_break(const wm_captures *c,
                                           wm_breaking *breaking, int device,
                                           warm_stream but)
{
    return c == NULL || c->begin == NULL ||
           c->begin(c->runtime, breaking, device, but);
}

static inline void wm_captures_end_break(const wm_captures *c,
                                         wm_breaking *breaking)
{
    if (c != NULL && c->end != NULL) {
        c->end(c->runtime, breaking);
    }
}

#endif
