/* binding.h: binding handles to streams, with their workspaces (row A10).
 *
 * A binding is valid while the runtime's stream epoch is unchanged. The epoch
 * is read before the stream is queried, so that a stream which retires in
 * between makes the binding stale. */
#ifndef WM_BINDING_H
#define WM_BINDING_H

#include "handles/kind_table.h"
#include "runtime/thread/window.h"

/* Checks that a handle can be bound to the stream and fills *info. */
warm_status wm_handle_check_stream(warm_runtime *runtime, warm_kind kind,
                                   int device, warm_stream stream,
                                   wm_stream_info *info);

/* Returns the workspace for a binding of the handle, or null, and the library
 * then uses its own. Null for the per-thread default stream, since every thread
 * has one and nobody retires it; and for a default stream while another device
 * is current, since its id is then that of the other device. */
void *wm_handle_workspace(warm_runtime *runtime, warm_kind number, int device,
                          const void *handle, warm_stream stream,
                          const wm_stream_info *info, size_t *bytes);

typedef struct wm_binding_request {
    warm_stream stream;
    wm_stream_info info;
    uint64_t epoch; /* the runtime's, read before info */
} wm_binding_request;

/* Binds the handle that the window holds to the stream; makes no call of the
 * library if the handle is bound to it already. */
warm_status wm_binding_update(warm_runtime *runtime, wm_window *window,
                              const wm_window_call *call,
                              const wm_binding_request *want);

/* Called before the stream is destroyed: binds the handles of the device that
 * are bound to it to the default stream, except those that other threads hold.
 */
void wm_binding_unbind_stream(warm_runtime *runtime, int device,
                              warm_stream stream);

#endif
