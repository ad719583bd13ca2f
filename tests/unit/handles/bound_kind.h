/* bound_kind.h: a kind with workspaces, whose handles are device memory: a
 * measurable cost. What a thread's handle was bound to last is in `last`. */
#ifndef BOUND_KIND_H
#define BOUND_KIND_H

#include "handles/kind.h"

enum { WORKSPACE = 1 << 16 };

static _Thread_local struct {
    warm_stream stream;
    void *workspace;
    size_t bytes;
} last;

static warm_status bound_create(wm_kind *k, int device, void **handle)
{
    return wm_driver_device_alloc(k->driver, device, 4096, handle);
}

static warm_status bound_destroy(wm_kind *k, int device, void *handle)
{
    warm_status status;

    wm_driver_break_begin();
    status = wm_driver_device_free(k->driver, device, handle);
    wm_driver_break_end();
    return status;
}

static warm_status bound_bind(wm_kind *k, int device, void *handle,
                              warm_stream stream, void *workspace, size_t bytes)
{
    (void)k;
    (void)device;
    (void)handle;
    last.stream = stream;
    last.workspace = workspace;
    last.bytes = bytes;
    return WARM_OK;
}

static size_t bound_bytes(wm_kind *k, int device)
{
    (void)k;
    (void)device;
    return WORKSPACE;
}

static const wm_kind_ops bound_ops = {
    .name = "bound",
    .create = bound_create,
    .destroy = bound_destroy,
    .bind = bound_bind,
    .workspace_bytes = bound_bytes,
};

#endif
