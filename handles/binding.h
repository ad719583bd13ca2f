/* binding.h: binding handles to streams, with their workspaces (row A10).
 *
 * A binding is trusted while the runtime's stream epoch stands: it was read
 * before the stream was looked at, so that one which retires meanwhile makes
 * the binding stale. */
#ifndef WM_BINDING_H
#define WM_BINDING_H

#include "handles/kind_table.h"
#include "runtime/thread/window.h"

/* Whether a handle can be bound to the stream; fills *info. */
warm_status wm_handle_check_stream(warm_runtime *runtime, warm_kind kind,
                                   int device, warm_stream stream,
                                   wm_stream_info *info);

/* The workspace for a binding of the handle, or null for the library's own: of
 * the per-thread default stream, which every thread has one of and which nobody
 * retires; and of a default stream while the thread's device is another one,
 * because its id is then that of the other device. */
void *wm_handle_workspace(warm_runtime *runtime, warm_kind number, int device,
                          const void *handle, warm_stream stream,
                          const wm_stream_info *info, size_t *bytes);

typedef struct wm_binding_request {
    warm_stream stream;
    wm_stream_info info;
    uint64_t epoch; /* the runtime's, before info was asked for */
} wm_binding_request;

/* Makes the handle that the window holds work on the stream, with no call of
 * the library if it does so already. */
warm_status wm_binding_update(warm_runtime *runtime, wm_window *window,
                              const wm_window_call *call,
                              const wm_binding_request *want);

/* The stream will go: handles of the device that are bound to it are bound to
 * the default stream instead, but for those that other threads hold. */
void wm_binding_unbind_stream(warm_runtime *runtime, int device,
                              warm_stream stream);

#endif
