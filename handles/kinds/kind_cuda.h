/* kind_cuda.h: what the kinds of the CUDA libraries share.
 *
 * A kind describes its library in a wm_cuda_library: names, the functions it
 * needs, and five small steps. kind_cuda.c does around them what is the same
 * for all: it loads the library at the first create (row A9), the one of the
 * CUDA version whose runtime is in use and no other, makes the right
 * device current and puts back the thread's own, lets creation and
 * destruction run in relaxed capture mode, because they allocate (row B7),
 * and turns a code into a status with the library's own text (row A8).
 *
 * A table holds the library's functions and, learnt from the first handle
 * ever made, the library's defaults. It is published once and const then. */
#ifndef WM_KIND_CUDA_H
#define WM_KIND_CUDA_H

#include "handles/kind.h"
#include "runtime/base/log.h"
#include "runtime/cuda/cuda.h"

/* A library call and what it answered; 0 is success in all of them. */
typedef struct wm_cuda_answer {
    const char *call;
    int code;
} wm_cuda_answer;

#define WM_CUDA_ANSWER(call, ...)                                              \
    ((wm_cuda_answer){#call, (int)(t->call)(__VA_ARGS__)})

/* One function of the library, at an offset into its table. */
typedef struct wm_cuda_entry {
    const char *name;
    size_t offset;
    int optional;
} wm_cuda_entry;

/* A soname, and the major version of CUDA whose library has it; 0: several
 * have, or any may. The list ends with a null name. */
typedef struct wm_cuda_soname {
    int cuda;
    const char *name;
} wm_cuda_soname;

enum { WM_CUDA_SONAMES = 4 }; /* at most, with the end */

typedef struct wm_cuda_library {
    const char *what;   /* "cuBLAS" */
    const char *origin; /* "cublas" */
    const wm_cuda_soname *sonames;
    size_t path_offset; /* of the path option in wm_options */
    size_t table_bytes;
    const wm_cuda_entry *entries;
    int entry_count;
    wm_cuda_answer (*create)(const void *table, void **handle);
    wm_cuda_answer (*destroy)(const void *table, void *handle);
    /* Reads the defaults of a fresh handle into the table; null: none. */
    wm_cuda_answer (*learn)(void *table, void *handle);
    wm_cuda_answer (*bind)(const void *table, void *handle, warm_stream stream,
                           void *workspace, size_t bytes);
    wm_cuda_answer (*reset)(const void *table, void *handle);
    const char *(*text)(const void *table, int code);
    /* Major version of the CUDA that the library is a part of, or was built
     * for; 0: it does not know. */
    int (*cuda_major)(const void *table);
} wm_cuda_library;

warm_status wm_cuda_kind_create(wm_kind *kind, const wm_cuda_library *library,
                                int device, void **handle);
warm_status wm_cuda_kind_destroy(wm_kind *kind, const wm_cuda_library *library,
                                 int device, void *handle);
warm_status wm_cuda_kind_bind(wm_kind *kind, const wm_cuda_library *library,
                              int device, void *handle, warm_stream stream,
                              void *workspace, size_t bytes);
warm_status wm_cuda_kind_reset(wm_kind *kind, const wm_cuda_library *library,
                               int device, void *handle);
void wm_cuda_kind_close(wm_kind *kind);

/* The published table, or null before the first create. */
void *wm_cuda_kind_table(wm_kind *kind);

/* A setting: a getter, a setter and the default. */
#define WM_CUDA_SETTING_FIELD(prefix, name, type)                              \
    __typeof__(prefix##Get##name) *prefix##Get##name;                          \
    __typeof__(prefix##Set##name) *prefix##Set##name;                          \
    type name##_default;
#define WM_CUDA_SETTING_ENTRIES(table, prefix, name, optional)                 \
    {#prefix "Get" #name, offsetof(table, prefix##Get##name), optional},       \
        {#prefix "Set" #name, offsetof(table, prefix##Set##name), optional},
/* All go on only while answer is good, and skip what the library lacks. */
#define WM_CUDA_SETTING_LEARN(prefix, name)                                    \
    if (answer.code == 0 && t->prefix##Get##name != NULL) {                    \
        answer =                                                               \
            WM_CUDA_ANSWER(prefix##Get##name, handle, &t->name##_default);     \
    }
/* The same for a setting that came later: a library may have the functions and
 * refuse them on this device. It is put back once to find out, and left alone
 * from then on if it is refused; else no handle could be made, or reset. */
#define WM_CUDA_SETTING_TRY(prefix, name)                                      \
    if (answer.code == 0 && t->prefix##Get##name != NULL &&                    \
        (t->prefix##Set##name == NULL ||                                       \
         (int)t->prefix##Get##name(handle, &t->name##_default) != 0 ||         \
         (int)t->prefix##Set##name(handle, t->name##_default) != 0)) {         \
        t->prefix##Get##name = NULL;                                           \
        wm_log(WARM_LOG_INFO,                                                  \
               #prefix "Set" #name " is refused; threads may inherit it");     \
    }
#define WM_CUDA_SETTING_RESET(prefix, name)                                    \
    if (answer.code == 0 && t->prefix##Get##name != NULL &&                    \
        t->prefix##Set##name != NULL) {                                        \
        answer = WM_CUDA_ANSWER(prefix##Set##name, handle, t->name##_default); \
    }

/* What each file has by these names. */
#define WM_CUDA_LIBRARY(kind, name)                                            \
    .what = (name), .origin = #kind, .sonames = sonames,                       \
    .path_offset = offsetof(wm_options, kind), .table_bytes = sizeof(table),   \
    .entries = entries, .entry_count = sizeof entries / sizeof entries[0],     \
    .create = create, .destroy = destroy, .text = text,                        \
    .cuda_major = cuda_major

/* Defines wm_kind_<kind> on top of the file's own `library`. */
#define WM_CUDA_KIND(kind, bind_op, workspace_op)                              \
    static warm_status create_handle(wm_kind *k, int device, void **handle)    \
    {                                                                          \
        return wm_cuda_kind_create(k, &library, device, handle);               \
    }                                                                          \
    static warm_status destroy_handle(wm_kind *k, int device, void *handle)    \
    {                                                                          \
        return wm_cuda_kind_destroy(k, &library, device, handle);              \
    }                                                                          \
    static warm_status reset_handle(wm_kind *k, int device, void *handle)      \
    {                                                                          \
        return wm_cuda_kind_reset(k, &library, device, handle);                \
    }                                                                          \
    const wm_kind_ops wm_kind_##kind = {                                       \
        .name = #kind,                                                         \
        .create = create_handle,                                               \
        .destroy = destroy_handle,                                             \
        .bind = bind_op,                                                       \
        .reset = reset_handle,                                                 \
        .workspace_bytes = workspace_op,                                       \
        .close = wm_cuda_kind_close,                                           \
    }

#define WM_CUDA_KIND_BIND                                                      \
    static warm_status bind_handle(wm_kind *k, int device, void *handle,       \
                                   warm_stream stream, void *workspace,        \
                                   size_t bytes)                               \
    {                                                                          \
        return wm_cuda_kind_bind(k, &library, device, handle, stream,          \
                                 workspace, bytes);                            \
    }

/* The kind in a build that has no headers for it. */
warm_status wm_kind_left_out(const char *what);
#define WM_CUDA_KIND_LEFT_OUT(kind, what)                                      \
    static warm_status create_handle(wm_kind *k, int device, void **handle)    \
    {                                                                          \
        (void)k;                                                               \
        (void)device;                                                          \
        (void)handle;                                                          \
        return wm_kind_left_out(what);                                         \
    }                                                                          \
    static warm_status no_handle(wm_kind *k, int device, void *handle)         \
    {                                                                          \
        (void)k;                                                               \
        (void)device;                                                          \
        (void)handle;                                                          \
        return wm_kind_left_out(what);                                         \
    }                                                                          \
    const wm_kind_ops wm_kind_##kind = {                                       \
        .name = #kind,                                                         \
        .create = create_handle,                                               \
        .destroy = no_handle,                                                  \
        .reset = no_handle,                                                    \
    }

#endif
