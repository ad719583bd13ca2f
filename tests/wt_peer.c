/* wt_peer.c: see wt_peer.h. */
#include "wt_peer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct wt_peer {
    pid_t pid;
    int in, out; /* as this process sees them */
};

enum step {
    STEP_EXPORT,
    STEP_FREE,
    STEP_OPEN,
    STEP_CLOSE,
    STEP_READ,
    STEP_WRITE,
    STEP_END,
    STEP_DIE
};

struct request {
    enum step step;
    int slot, device;
    size_t bytes;
    uint32_t word;
    warm_ipc_handle handle;
};

struct reply {
    warm_status status;
    uint32_t word;
    warm_ipc_handle handle;
    char message[256];
};

/* ---- pipes ------------------------------------------------------------- */

static bool send_all(int file, const void *data, size_t bytes)
{
    const char *at = data;

    while (bytes > 0) {
        ssize_t done = write(file, at, bytes);

        if (done <= 0 && errno != EINTR) {
            return false;
        }
        at += done > 0 ? done : 0;
        bytes -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

static bool receive_all(int file, void *data, size_t bytes)
{
    char *at = data;

    while (bytes > 0) {
        ssize_t done = read(file, at, bytes);

        if (done == 0 || (done < 0 && errno != EINTR)) {
            return false;
        }
        at += done > 0 ? done : 0;
        bytes -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

/* ---- memory of a device ------------------------------------------------ */

static warm_status copy(warm_runtime *runtime, void *to, const void *from,
                        size_t bytes, warm_copy_direction direction)
{
    warm_status status =
        warm_copy_async(runtime, to, from, bytes, direction, NULL);

    return status == WARM_OK ? warm_stream_synchronize(runtime, NULL) : status;
}

static warm_status fill(warm_runtime *runtime, void *pointer, size_t bytes,
                        uint32_t word)
{
    void *pinned = NULL;
    warm_status status = warm_pinned_alloc(runtime, bytes, &pinned);

    if (status == WARM_OK) {
        for (size_t i = 0; i < bytes / sizeof word; i++) {
            ((uint32_t *)pinned)[i] = word;
        }
        status = copy(runtime, pointer, pinned, bytes, WARM_COPY_TO_DEVICE);
        (void)warm_free(pinned);
    }
    return status;
}

static warm_status look(warm_runtime *runtime, const void *pointer,
                        size_t bytes, uint32_t *word)
{
    void *pinned = NULL;
    warm_status status = warm_pinned_alloc(runtime, bytes, &pinned);

    if (status != WARM_OK) {
        return status;
    }
    status = copy(runtime, pinned, pointer, bytes, WARM_COPY_TO_HOST);
    *word = *(uint32_t *)pinned;
    for (size_t i = 0; i < bytes / sizeof *word; i++) {
        if (((uint32_t *)pinned)[i] != ((uint32_t *)pinned)[0]) {
            *word = 0;
        }
    }
    (void)warm_free(pinned);
    return status;
}

uint32_t wt_device_read(warm_runtime *runtime, const void *pointer,
                        size_t bytes)
{
    uint32_t word = 0;

    wt_ok(look(runtime, pointer, bytes, &word));
    return word;
}

void wt_device_write(warm_runtime *runtime, void *pointer, size_t bytes,
                     uint32_t word)
{
    wt_ok(fill(runtime, pointer, bytes, word));
}

/* ---- the peer ---------------------------------------------------------- */

static void *slots[WT_PEER_SLOTS];

static warm_status export_new(warm_runtime *runtime, const struct request *q,
                              struct reply *r)
{
    void **slot = &slots[q->slot];
    warm_status status =
        warm_device_alloc(runtime, q->device, NULL, q->bytes, slot);

    /* The null stream is of device 0. */
    if (status == WARM_OK && q->device == 0) {
        status = fill(runtime, *slot, q->bytes, q->word);
    }
    r->handle.size = sizeof r->handle;
    return status == WARM_OK ? warm_ipc_export(*slot, &r->handle) : status;
}

static warm_status end(warm_runtime *runtime)
{
    warm_destroy_report report = {.size = sizeof report};
    warm_status status = warm_runtime_destroy(runtime, &report);

    return report.live + report.imports + report.pending == 0
               ? status
               : WARM_INVALID_POINTER;
}

static warm_status take_step(warm_runtime *runtime, const struct request *q,
                             struct reply *r)
{
    switch (q->step) {
    case STEP_EXPORT:
        return export_new(runtime, q, r);
    case STEP_FREE:
        return warm_free(slots[q->slot]);
    case STEP_OPEN:
        return warm_ipc_open(runtime, &q->handle, &slots[q->slot]);
    case STEP_CLOSE:
        return warm_ipc_close(runtime, slots[q->slot]);
    case STEP_READ:
        return look(runtime, slots[q->slot], q->bytes, &r->word);
    case STEP_WRITE:
        return fill(runtime, slots[q->slot], q->bytes, q->word);
    case STEP_END:
        return end(runtime);
    case STEP_DIE:
        _exit(0);
    }
    return WARM_INVALID_ARGUMENT;
}

/* The peer: runs the steps that the parent sends, until STEP_END or STEP_DIE,
 * or until the parent has ended. Does not return. */
static void serve(int in, int out, int devices)
{
    warm_options options = {.size = sizeof options,
                            .device = wt_on_host() ? "host" : "cuda",
                            .segment = (uint64_t)2 << 20};
    warm_runtime *runtime = NULL;
    struct request q = {.step = STEP_READ};
    char number[16];

    if (wt_on_host()) {
        options.host_devices = (uint64_t)devices;
    }
    snprintf(number, sizeof number, "%d", devices);
    setenv("STANDIN_DEVICES", number, 1);
    if (warm_runtime_create(&options, &runtime) != WARM_OK) {
        _exit(2);
    }
    while (q.step != STEP_END && receive_all(in, &q, sizeof q)) {
        struct reply r;

        memset(&r, 0, sizeof r);
        r.status = take_step(runtime, &q, &r);
        snprintf(r.message, sizeof r.message, "%s", warm_last_error_message());
        if (!send_all(out, &r, sizeof r)) {
            break;
        }
    }
    _exit(q.step == STEP_END ? 0 : 3);
}

wt_peer *wt_peer_start(int devices)
{
    wt_peer *peer = calloc(1, sizeof *peer);
    int there[2], back[2];

    ck_assert_ptr_nonnull(peer);
    ck_assert(pipe(there) == 0 && pipe(back) == 0);
    signal(SIGPIPE, SIG_IGN);
    peer->pid = fork();
    wt_require(peer->pid >= 0, "no other process");
    if (peer->pid == 0) {
        close(there[1]);
        close(back[0]);
        serve(there[0], back[1], devices);
    }
    close(there[0]);
    close(back[1]);
    peer->out = there[1];
    peer->in = back[0];
    return peer;
}

static struct reply ask(wt_peer *peer, const struct request *q)
{
    struct reply r;

    memset(&r, 0, sizeof r);
    wt_require(send_all(peer->out, q, sizeof *q) &&
                   receive_all(peer->in, &r, sizeof r),
               "the other process has ended");
    return r;
}

/* A step that must succeed. */
static struct reply tell(wt_peer *peer, const struct request *q)
{
    struct reply r = ask(peer, q);

    wt_require(r.status == WARM_OK, "step %d of the other process: %s: %s",
               (int)q->step, warm_status_name(r.status), r.message);
    return r;
}

static void leave(wt_peer *peer)
{
    int status = 0;

    close(peer->out);
    close(peer->in);
    ck_assert_int_eq(waitpid(peer->pid, &status, 0), peer->pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    free(peer);
}

void wt_peer_end(wt_peer *peer)
{
    struct request q = {.step = STEP_END};

    (void)tell(peer, &q);
    leave(peer);
}

void wt_peer_die(wt_peer *peer)
{
    struct request q = {.step = STEP_DIE};

    wt_require(send_all(peer->out, &q, sizeof q),
               "the other process has ended");
    leave(peer);
}

warm_ipc_handle wt_peer_export(wt_peer *peer, int slot, int device,
                               size_t bytes, uint32_t word)
{
    struct request q = {STEP_EXPORT, slot, device, bytes, word, {0}};

    return tell(peer, &q).handle;
}

void wt_peer_free(wt_peer *peer, int slot)
{
    struct request q = {.step = STEP_FREE, .slot = slot};

    (void)tell(peer, &q);
}

warm_status wt_peer_open(wt_peer *peer, int slot, const warm_ipc_handle *handle)
{
    struct request q = {.step = STEP_OPEN, .slot = slot, .handle = *handle};

    return ask(peer, &q).status;
}

warm_status wt_peer_close(wt_peer *peer, int slot)
{
    struct request q = {.step = STEP_CLOSE, .slot = slot};

    return ask(peer, &q).status;
}

uint32_t wt_peer_read(wt_peer *peer, int slot, size_t bytes)
{
    struct request q = {.step = STEP_READ, .slot = slot, .bytes = bytes};

    return tell(peer, &q).word;
}

void wt_peer_write(wt_peer *peer, int slot, size_t bytes, uint32_t word)
{
    struct request q = {
        .step = STEP_WRITE, .slot = slot, .bytes = bytes, .word = word};

    (void)tell(peer, &q);
}
