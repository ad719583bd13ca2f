/* kind_stream.c: streams as handles of a pool.
 *
 * A stream has no settings, but its last thread may have exited during a
 * capture. Only that thread could end the capture, so the reset fails and the
 * pool destroys the stream. Queued work may remain: it runs before the next
 * thread's. */
#include "handles/kind_table.h"
#include "handles/kinds/builtin.h"
#include "runtime/base/status.h"
#include "runtime/cuda/cuda.h"

#include <stdio.h>

static warm_status create(wm_kind *kind, int device, void **handle)
{
    const wm_stream_hooks *life = wm_kind_context(kind);
    warm_status status = wm_driver_stream_create(kind->driver, device, handle);

    if (status != WARM_OK || life == NULL) {
        return status;
    }
    status = life->adopt(life->runtime, *handle);
    if (status != WARM_OK) {
        WM_KEEP_ERROR();
        (void)wm_driver_stream_destroy(kind->driver, *handle);
    }
    return status;
}

static warm_status destroy(wm_kind *kind, int device, void *handle)
{
    const wm_stream_hooks *life = wm_kind_context(kind);
    warm_status status = WARM_OK;

    (void)device;
    /* Blocks and workspaces that use the stream must learn of its retirement:
     * if retire fails, the stream is leaked. */
    if (life != NULL) {
        status = life->retire(life->runtime, handle);
    }
    return status == WARM_OK ? wm_driver_stream_destroy(kind->driver, handle)
                             : status;
}

static warm_status reset(wm_kind *kind, int device, void *handle)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status;

    (void)device;
    status = wm_driver_stream_capture(kind->driver, handle, &capture);
    if (status == WARM_OK && capture != WM_CAPTURE_NONE) {
        status = wm_fail(WARM_CAPTURE_ERROR,
                         "the stream still captures: it was returned to the "
                         "pool before its capture ended");
    }
    return status;
}

/* CUDA's streams come from cudart; those of another driver from no file. */
static warm_status find(wm_kind *kind, char *file, size_t bytes)
{
    snprintf(file, bytes, "%s",
             wm_cuda_is(kind->driver) ? wm_cuda_file(kind->driver) : "");
    return WARM_OK;
}

const wm_kind_ops wm_kind_stream = {
    .name = "stream",
    .create = create,
    .destroy = destroy,
    .reset = reset,
    .find = find,
    .is_stream = true,
};
