/* page.c: all snapshots as one text, and the page that shows them with the
 * statistics (warmpool/snapshot.h).
 *
 *   page.html   … <script id="data" type="application/json"></script> …
 *                                                          │
 *   warm_snapshot_write_html() puts the data ──────────────┘
 *
 * A page without data asks its server for it. Takes no lock. */
#include "runtime/page.h"

#include "runtime/base/lock.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"
#include "runtime/fields.h"
#include "runtime/thread/runtime_body.h"
#include "warmpool/device_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *warm_snapshot_page(void)
{
    return (const char *)wm_page_html;
}

/* ---- all snapshots ------------------------------------------------------- */

/* Where the next text goes, and the room there. */
static char *end_of(const wm_text *text, size_t *room)
{
    *room = text->used < text->bytes ? text->bytes - text->used : 0;
    return *room > 0 ? text->at + text->used : NULL;
}

/* Appends what a call of the form of warm_stats_json() writes. */
static warm_status append(warm_runtime *runtime, wm_text *text,
                          warm_status (*write)(warm_runtime *, char *, size_t,
                                               size_t *))
{
    size_t room, needed = 1;
    char *at = end_of(text, &room);
    warm_status status = write(runtime, at, room, &needed);

    text->used += needed - 1;
    return status;
}

static warm_status append_device(warm_runtime *runtime, wm_text *text,
                                 int device)
{
    size_t room, needed = 1;
    char *at = end_of(text, &room);
    warm_status status =
        warm_device_snapshot(runtime, device, at, room, &needed);

    text->used += needed - 1;
    return status;
}

static warm_status write_all(warm_runtime *runtime, wm_text *text)
{
    warm_status status = WARM_OK;

    wm_text_put(text, "{\"devices\":[");
    for (int i = 0; i < runtime->devices && status == WARM_OK; i++) {
        wm_text_put(text, "%s", i > 0 ? "," : "");
        status = append_device(runtime, text, i);
    }
    wm_text_put(text, "],\"pinned\":");
    if (status == WARM_OK) {
        status = append(runtime, text, warm_pinned_snapshot);
    }
    wm_text_put(text, ",\"shared\":");
    if (status == WARM_OK) {
        status = append(runtime, text, warm_shared_snapshot);
    }
    wm_text_put(text, "}");
    return status;
}

warm_status warm_snapshot_json(warm_runtime *runtime, char *text, size_t bytes,
                               size_t *needed)
{
    return wm_text_write(runtime, write_all, text, bytes, needed);
}

/* ---- the page with data -------------------------------------------------- */

static warm_status write_data(warm_runtime *runtime, wm_text *text)
{
    warm_status status;

    wm_text_put(text, "{\"stats\":");
    status = append(runtime, text, warm_stats_json);
    wm_text_put(text, ",\"snapshot\":");
    if (status == WARM_OK) {
        status = append(runtime, text, warm_snapshot_json);
    }
    wm_text_put(text, "}");
    return status;
}

/* The data; owned, wm_meta_free() it. Figures may grow while it is written, so
 * a text that was cut is written again with more room. */
static warm_status make_data(warm_runtime *runtime, char **data)
{
    wm_text text = {NULL, 0, 0};
    warm_status status = write_data(runtime, &text);

    *data = NULL;
    while (status == WARM_OK && text.used >= text.bytes) {
        size_t bytes = text.used + text.used / 4 + 4096;

        wm_meta_free(*data);
        *data = wm_meta_alloc(bytes);
        if (*data == NULL) {
            return wm_fail(WARM_OUT_OF_MEMORY, "no memory for the page");
        }
        text = (wm_text){*data, bytes, 0};
        status = write_data(runtime, &text);
    }
    return status;
}

/* 0, or an errno. */
static int write_bytes(int fd, const char *at, size_t bytes)
{
    while (bytes > 0) {
        ssize_t done = write(fd, at, bytes);

        if (done < 0 && errno != EINTR) {
            return errno;
        }
        if (done > 0) {
            at += done;
            bytes -= (size_t)done;
        }
    }
    return 0;
}

/* A script ends at "</", wherever that stands: a '<' can only be in a string
 * there, and is written as an escape. */
static int write_escaped(int fd, const char *data)
{
    int error = 0;

    while (error == 0 && *data != '\0') {
        size_t plain = strcspn(data, "<");

        error = write_bytes(fd, data, plain);
        data += plain;
        if (error == 0 && *data == '<') {
            error = write_bytes(fd, "\\u003c", 6);
            data++;
        }
    }
    return error;
}

static int write_page(int fd, const char *data)
{
    static const char place[] =
        "<script id=\"data\" type=\"application/json\">";
    const char *page = warm_snapshot_page();
    const char *at = strstr(page, place) + sizeof place - 1;
    int error = write_bytes(fd, page, (size_t)(at - page));

    if (error == 0) {
        error = write_escaped(fd, data);
    }
    return error == 0 ? write_bytes(fd, at, strlen(at)) : error;
}

/* Writes a new file beside path, and renames it. 0, or an errno. */
static int replace(const char *path, const char *data)
{
    char fresh[PATH_MAX];
    int length = snprintf(fresh, sizeof fresh, "%s.??????", path);
    int fd, error;

    if (length < 0 || (size_t)length >= sizeof fresh) {
        return ENAMETOOLONG;
    }
    memset(fresh + length - 6, 'X', 6); /* as mkostemp() wants it */
    fd = mkostemp(fresh, O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    error = write_page(fd, data);
    if (close(fd) != 0 && error == 0) {
        error = errno;
    }
    if (error == 0 && rename(fresh, path) != 0) {
        error = errno;
    }
    if (error != 0) {
        (void)unlink(fresh);
    }
    return error;
}

warm_status warm_snapshot_write_html(warm_runtime *runtime, const char *path)
{
    char *data = NULL;
    warm_status status = wm_runtime_check(runtime);
    int error = 0, cancel, before = errno;

    if (status == WARM_OK && path == NULL) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "path is null");
    }
    if (status != WARM_OK) {
        return status;
    }
    cancel = wm_cancel_off();
    status = make_data(runtime, &data);
    if (status == WARM_OK && data != NULL) {
        error = replace(path, data);
    }
    wm_meta_free(data);
    wm_cancel_restore(cancel);
    if (error != 0) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "could not write %.300s: %s",
                         path, strerrordesc_np(error));
    }
    errno = before;
    return status;
}
