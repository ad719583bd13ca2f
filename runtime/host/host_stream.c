/* host_stream.c: stream handles of the host device: those that users create,
 * the default stream of each device, and each thread's own default streams,
 * which end with the thread. */
#include "runtime/host/host.h"

#include "runtime/base/meta.h"
#include "runtime/base/process.h"

wm_host_stream *wm_host_stream_make_locked(wm_host *host, int device)
{
    wm_host_stream *stream = wm_host_cell_take(&host->streams);

    if (stream == NULL) {
        goto fail;
    }
    stream->core = wm_host_core_make_locked(host, device);
    if (stream->core == NULL) {
        goto fail_core;
    }
    if (!wm_host_add_locked(host, WM_HOST_STREAM, stream, stream)) {
        goto fail_map;
    }
    return stream;

fail_map:
    wm_host_core_unref_locked(host, stream->core);
fail_core:
    wm_host_cell_put(&host->streams, stream);
fail:
    return NULL;
}

/* Frees the handle now; the core is freed when its work is done. */
void wm_host_stream_close_locked(wm_host *host, wm_host_stream *stream)
{
    wm_host_remove_locked(host, WM_HOST_STREAM, stream);
    if (stream->core->capture != NULL) {
        wm_host_capture_leave_locked(host, stream->core);
    }
    wm_host_core_unref_locked(host, stream->core);
    wm_host_cell_put(&host->streams, stream);
}

/* Closes the thread's default streams; work queued on them still runs. */
static void close_streams(wm_host_thread *thread)
{
    wm_host_root *root = thread->root;

    wm_lock_acquire(&root->lock);
    if (root->host != NULL) {
        for (int i = 0; i < root->host->driver.devices; i++) {
            if (thread->stream[i] != NULL) {
                wm_host_stream_close_locked(root->host, thread->stream[i]);
            }
        }
    }
    wm_lock_release(&root->lock);
}

/* In a forked child only the record is freed: locks may be held by threads that
 * do not exist there. */
static void thread_exit(void *argument)
{
    wm_host_thread *thread = argument;

    if (wm_host_thread_put_off(thread)) {
        return;
    }
    while (thread != NULL && !wm_process_exiting()) {
        wm_host_thread *next = thread->next;

        if (thread->generation == wm_process_generation()) {
            close_streams(thread);
            wm_host_root_release(thread->root);
        }
        wm_meta_free(thread);
        thread = next;
    }
}

static void make_key(void)
{
    wm_host_thread_key(thread_exit);
}

void wm_host_streams_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_key);
}

static warm_status default_locked(wm_host *host, int device, bool per_thread,
                                  wm_host_stream **stream)
{
    wm_host_thread *thread;

    if (!per_thread) {
        *stream = host->device[device].legacy;
        return WARM_OK;
    }
    thread = wm_host_thread_locked(host, true);
    if (thread != NULL && thread->stream[device] == NULL) {
        thread->stream[device] = wm_host_stream_make_locked(host, device);
        if (thread->stream[device] != NULL) {
            thread->stream[device]->core->fixed = true;
        }
    }
    if (thread == NULL || thread->stream[device] == NULL) {
        wm_host_fail(WM_HOST_ERROR_MEMORY,
                     "no memory for the default stream of a thread");
        return WARM_OUT_OF_MEMORY;
    }
    *stream = thread->stream[device];
    return WARM_OK;
}

warm_status wm_host_default_stream(wm_driver *d, int device, bool per_thread,
                                   warm_stream *stream)
{
    wm_host *host = wm_host_of(d);
    wm_host_stream *found = NULL;
    warm_status status;

    wm_host_lock(host);
    status = default_locked(host, device, per_thread, &found);
    wm_host_unlock(host);
    if (status == WARM_OK) {
        *stream = found;
    }
    return status;
}

/* The names of default streams mean device 0, the current device of every
 * thread. */
static warm_status find_locked(wm_host *host, warm_stream name,
                               wm_host_stream **stream)
{
    if (name == NULL || name == WARM_STREAM_LEGACY) {
        return default_locked(host, 0, false, stream);
    }
    if (name == WARM_STREAM_PER_THREAD) {
        return default_locked(host, 0, true, stream);
    }
    *stream = wm_host_find_locked(host, WM_HOST_STREAM, name);
    if (*stream == NULL) {
        wm_host_fail(WM_HOST_ERROR_HANDLE,
                     "%p is not a live stream of the host device", name);
        return WARM_INVALID_STREAM;
    }
    return WARM_OK;
}

warm_status wm_host_core_find_locked(wm_host *host, warm_stream name,
                                     wm_host_core **core)
{
    wm_host_stream *stream = NULL;
    warm_status status = find_locked(host, name, &stream);

    if (status == WARM_OK) {
        *core = stream->core;
    }
    return status;
}

warm_status wm_host_stream_create(wm_driver *d, int device, warm_stream *stream)
{
    wm_host *host = wm_host_of(d);
    wm_host_stream *made;

    wm_host_lock(host);
    made = wm_host_stream_make_locked(host, device);
    wm_host_unlock(host);
    if (made == NULL) {
        return wm_host_fail(WM_HOST_ERROR_MEMORY, "no memory for a stream");
    }
    *stream = made;
    return WARM_OK;
}

static warm_status stream_destroy_locked(wm_host *host, warm_stream stream)
{
    wm_host_stream *found = wm_host_find_locked(host, WM_HOST_STREAM, stream);

    if (found == NULL || found->core->fixed) {
        return wm_host_fail(WM_HOST_ERROR_HANDLE,
                            "%p is not a stream that can be destroyed", stream);
    }
    wm_host_stream_close_locked(host, found);
    return WARM_OK;
}
WM_HOST_LOCKED(stream_destroy, (wm_driver * d, warm_stream stream),
               (host, stream))

static warm_status stream_info_locked(wm_host *host, warm_stream stream,
                                      wm_stream_info *info)
{
    wm_host_core *core = NULL;
    warm_status status = wm_host_core_find_locked(host, stream, &core);

    if (status != WARM_OK) {
        return status;
    }
    info->id = core->id;
    info->device = core->device;
    info->capture = WM_CAPTURE_NONE;
    if (core->capture != NULL) { /* as in CUDA, only that is known then */
        info->id = wm_stream_capture_id(stream);
        info->device = WM_DEVICE_UNKNOWN;
        info->capture = WM_CAPTURE_ACTIVE;
    }
    return WARM_OK;
}
WM_HOST_LOCKED(stream_info,
               (wm_driver * d, warm_stream stream, wm_stream_info *info),
               (host, stream, info))

static warm_status capture_begin_locked(wm_host *host, warm_stream stream)
{
    wm_host_core *core = NULL;
    warm_status status = wm_host_core_find_locked(host, stream, &core);

    return status == WARM_OK ? wm_host_capture_begin_locked(host, core)
                             : status;
}
WM_HOST_LOCKED(capture_begin, (wm_driver * d, warm_stream stream),
               (host, stream))

static warm_status capture_end_locked(wm_host *host, warm_stream stream,
                                      warm_graph *graph)
{
    wm_host_core *core = NULL;
    warm_status status = wm_host_core_find_locked(host, stream, &core);

    return status == WARM_OK ? wm_host_capture_end_locked(host, core, graph)
                             : status;
}
WM_HOST_LOCKED(capture_end,
               (wm_driver * d, warm_stream stream, warm_graph *graph),
               (host, stream, graph))

warm_status wm_host_stream_capture(wm_driver *d, warm_stream stream,
                                   wm_capture *capture)
{
    wm_stream_info info = {.device = WM_DEVICE_UNKNOWN};
    warm_status status = wm_host_stream_info(d, stream, &info);

    if (status == WARM_OK) {
        *capture = info.capture;
    }
    return status;
}
