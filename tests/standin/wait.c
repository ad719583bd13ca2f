/* wait.c: CUDA calls that wait for the device although their names do not say
 * so. If a thread makes one while a host function waits for that thread, both
 * wait for ever, and a test that does so must hang here as it would on a GPU.
 * If a stream of the device captures, in any thread and mode, the call is
 * refused and the capture becomes invalid. */
#include "standin.h"

#include "runtime/host/host.h"

#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A core and how far it had come to at the call. */
struct mark {
    wm_host_core *core;
    uint64_t queued;
};

static size_t count_locked(const wm_host *host)
{
    size_t count = 1; /* the array is never empty */

    for (const wm_host_core *c = host->all_cores; c != NULL; c = c->next) {
        count++;
    }
    return count;
}

enum { FRAMES = 40 };

void standin_note_broken(const char *what)
{
    void *frame[FRAMES];

    if (getenv("STANDIN_BACKTRACE") != NULL) {
        fprintf(stderr, "stand-in: refused since a stream captures: %s\n",
                what);
        backtrace_symbols_fd(frame, backtrace(frame, FRAMES), STDERR_FILENO);
    }
}

/* device: or negative, for all. */
static bool break_captures_locked(wm_host *host, int device)
{
    bool found = false;

    for (wm_host_capture *c = host->captures; c != NULL; c = c->next) {
        for (unsigned i = 0; i < c->streams; i++) {
            if (c->stream[i] != NULL &&
                (device < 0 || c->stream[i]->device == device)) {
                wm_host_capture_invalidate_locked(host, c, standin_call());
                found = true;
            }
        }
    }
    return found;
}

void standin_capture_globally(wm_driver *d, warm_stream stream)
{
    wm_host *host = wm_host_of(d);
    wm_host_core *core = NULL;

    wm_host_lock(host);
    if (wm_host_core_find_locked(host, stream, &core) == WARM_OK &&
        core->capture != NULL) {
        core->capture->global = true;
    }
    wm_host_unlock(host);
}

int standin_unsafe(wm_driver *d)
{
    return standin_code(wm_host_unsafe(wm_host_of(d), standin_call()));
}

int standin_wait_for_device(wm_driver *d, int device)
{
    wm_host *host = wm_host_of(d);
    struct mark *marks;
    size_t count = 0;

    wm_host_lock(host);
    if (break_captures_locked(host, device)) {
        wm_host_unlock(host);
        standin_note_broken(standin_call());
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    marks = calloc(count_locked(host), sizeof *marks);
    for (wm_host_core *c = host->all_cores; c != NULL; c = c->next) {
        c->references++;
        marks[count++] = (struct mark){c, c->queued};
    }
    for (size_t i = 0; i < count; i++) {
        wm_host_wait_locked(host, marks[i].core, marks[i].queued);
        wm_host_core_unref_locked(host, marks[i].core);
    }
    wm_host_unlock(host);
    free(marks);
    return 0;
}
