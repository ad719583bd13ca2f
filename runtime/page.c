/* page.c: the page that shows a snapshot and the statistics
 * (warmpool/snapshot.h).
 *
 *   page.html   … <script id="data" type="application/json"></script> …
 *                                                          │
 *   warm_snapshot_write_html() puts the data ──────────────┘
 *
 * A page without data asks its server for it. Takes no lock. */
#include "runtime/page.h"

#include "alloc/snapshot/snapshot.h"
#include "runtime/base/lock.h"
#include "runtime/base/meta.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"
#include "runtime/fields.h"
#include "runtime/thread/runtime_body.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *warm_snapshot_page(void)
{
    return (const char *)wm_page_html;
}

/* ---- the page with data -------------------------------------------------- */

static warm_status put_data(warm_runtime *runtime, const void *what,
                            wm_text *text)
{
    warm_status status;

    (void)what;
    wm_text_put(text, "{\"stats\":");
    status = wm_stats_put_json(runtime, NULL, text);
    wm_text_put(text, ",\"snapshot\":");
    if (status == WARM_OK) {
        status = wm_snapshot_put(runtime, NULL, text);
    }
    wm_text_put(text, "}");
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

/* For root, rename() replaces devices, too. */
static bool is_special(const char *path)
{
    struct stat file;

    return stat(path, &file) == 0 && !S_ISREG(file.st_mode);
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
    warm_status status =
        wm_check_given(wm_runtime_check(runtime), path, "path");
    int error = 0, before = errno;

    if (status != WARM_OK) {
        return status;
    }
    if (is_special(path)) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "could not write %.300s: it is not a regular file",
                       path);
    }
    WM_CANCEL_OFF();
    status = wm_text_call_whole(runtime, put_data, NULL, &data);
    if (status == WARM_OK) {
        error = replace(path, data);
    }
    wm_meta_free(data);
    if (error != 0) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "could not write %.300s: %s",
                         path, strerrordesc_np(error));
    }
    errno = before;
    return status;
}
