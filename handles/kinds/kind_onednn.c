/* kind_onednn.c: a oneDNN engine of the CPU, for the host device.
 *
 * Only the header is needed to build; the library is loaded by the first
 * creation, under the major version of that header, because an engine must
 * come from the library that the program itself uses. An engine has no
 * settings and takes no stream. */
#include "handles/kind.h"
#include "handles/kinds/builtin.h"
#include "runtime/base/status.h"

#include <string.h>

#if __has_include(<dnnl.h>)
#include "runtime/driver/loader.h"

#include <dnnl.h>

#define SONAME_(major) "libdnnl.so." #major
#define SONAME(major)  SONAME_(major)

struct functions {
    __typeof__(dnnl_engine_create) *create;
    __typeof__(dnnl_engine_destroy) *destroy;
};

static const char *const texts[] = {
    "success",       "out of memory", "invalid arguments", "unimplemented",
    "iterator ends", "runtime error", "not required"};
enum { TEXTS = sizeof texts / sizeof texts[0] };

static const char *code_text(dnnl_status_t code)
{
    return (unsigned)code < TEXTS ? texts[code] : "unknown";
}

/* The loader opens the library once; a later call is a lookup. */
static warm_status open_library(void **library)
{
    static const char *const sonames[] = {SONAME(DNNL_VERSION_MAJOR), NULL};

    return wm_library_open("oneDNN", "", sonames, library);
}

static warm_status find(wm_kind *kind, char *file, size_t bytes)
{
    void *library = NULL;
    warm_status status = open_library(&library);

    (void)kind;
    if (status == WARM_OK) {
        wm_library_file(library, file, bytes);
    }
    return status;
}

static warm_status load(struct functions *functions)
{
    const wm_symbol rows[] = {
        {"dnnl_engine_create", (void **)(void *)&functions->create, 0},
        {"dnnl_engine_destroy", (void **)(void *)&functions->destroy, 0}};
    void *library = NULL;
    warm_status status = open_library(&library);

    return status == WARM_OK ? wm_library_symbols("oneDNN", library, rows, 2)
                             : status;
}

static warm_status answer(const char *what, dnnl_status_t code)
{
    if (code == dnnl_success) {
        return WARM_OK;
    }
    return wm_fail_code(code == dnnl_out_of_memory ? WARM_OUT_OF_MEMORY
                                                   : WARM_LIBRARY_ERROR,
                        "onednn", (int)code, code_text(code), "oneDNN: %s: %s",
                        what, code_text(code));
}

static warm_status create(wm_kind *kind, int device, void **handle)
{
    struct functions f = {NULL, NULL};
    dnnl_engine_t engine = NULL;
    warm_status status;

    if (strcmp(kind->driver->name, "host") != 0) {
        return wm_fail(WARM_UNAVAILABLE,
                       "oneDNN engines are for the host device; device %d is "
                       "of driver %s",
                       device, kind->driver->name);
    }
    /* All host devices are the one CPU, index 0. */
    if ((status = load(&f)) == WARM_OK &&
        (status = answer("dnnl_engine_create",
                         f.create(&engine, dnnl_cpu, 0))) == WARM_OK) {
        *handle = engine;
    }
    return status;
}

static warm_status destroy(wm_kind *kind, int device, void *handle)
{
    struct functions f = {NULL, NULL};
    warm_status status = load(&f);

    (void)kind;
    (void)device;
    return status != WARM_OK ? status
                             : answer("dnnl_engine_destroy", f.destroy(handle));
}

#else

static warm_status find(wm_kind *kind, char *file, size_t bytes)
{
    (void)kind;
    (void)file;
    (void)bytes;
    return wm_fail(WARM_UNSUPPORTED, "oneDNN was left out of this build");
}

static warm_status create(wm_kind *kind, int device, void **handle)
{
    (void)kind;
    (void)device;
    (void)handle;
    return wm_fail(WARM_UNSUPPORTED, "oneDNN was left out of this build");
}

static warm_status destroy(wm_kind *kind, int device, void *handle)
{
    (void)kind;
    (void)device;
    (void)handle;
    return WARM_OK;
}

#endif

const wm_kind_ops wm_kind_onednn = {
    .name = "onednn",
    .create = create,
    .destroy = destroy,
    .find = find,
    .of_host = true,
};
