/* kind_cuda.h: shared by the kinds of the CUDA libraries.
 *
 * A kind describes its library in a wm_cuda_library: names, the functions that
 * it needs, and five steps. kind_cuda.c loads the library at the first create
 * (row A9), only the one for the CUDA version in use; makes the device current
 * and restores the thread's own; creates and destroys in relaxed capture mode,
 * since libraries allocate (row B7); and turns a code into a status with the
 * library's text (row A8).
 *
 * A table holds the library's functions and its default settings, read from the
 * first handle on each device, since models of GPU differ in what they have:
 * one table a device. It is published once and const from then on. */
#ifndef WM_KIND_CUDA_H
#define WM_KIND_CUDA_H

#include "handles/kind.h"
#include "runtime/base/log.h"
#include "runtime/cuda/cuda.h"

/* A library call and its code; 0 is success in every library. */
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

/* A soname and the CUDA major version whose library has it; 0: any. The list
 * ends with a null name. */
typedef struct wm_cuda_soname {
    int cuda;
    const char *name;
} wm_cuda_soname;

enum { WM_CUDA_SONAMES = 4 }; /* most, including the null entry */

typedef struct wm_cuda_library {
    const char *what; /* "cuBLAS" */
    const wm_cuda_soname *sonames;
    size_t table_bytes;
    const wm_cuda_entry *entries; /* null: built without its headers */
    int entry_count;
    wm_cuda_answer (*create)(const void *table, void **handle);
    wm_cuda_answer (*destroy)(const void *table, void *handle);
    /* Completes a table whose functions are loaded; null: nothing to do. */
    void (*prepare)(void *table);
    /* Reads the defaults of a fresh handle into the table; null: none. */
    wm_cuda_answer (*learn)(void *table, void *handle);
    wm_cuda_answer (*bind)(const void *table, void *handle, warm_stream stream,
                           void *workspace, size_t bytes);
    /* bind() of a handle that is bound to to->before; null: bind(). */
    wm_cuda_answer (*rebind)(const void *table, const wm_rebind *to);
    wm_cuda_answer (*reset)(const void *table, void *handle);
    const char *(*text)(const void *table, int code);
    /* CUDA major version that the library belongs to; 0: unknown. */
    int (*cuda_major)(const void *table);
} wm_cuda_library;

/* The operations of a kind whose ops name a library. */
warm_status wm_cuda_kind_create(wm_kind *kind, int device, void **handle);
warm_status wm_cuda_kind_destroy(wm_kind *kind, int device, void *handle);
warm_status wm_cuda_kind_bind(wm_kind *kind, int device, void *handle,
                              warm_stream stream, void *workspace,
                              size_t bytes);
warm_status wm_cuda_kind_rebind(const wm_rebind *to);
warm_status wm_cuda_kind_reset(wm_kind *kind, int device, void *handle);
void wm_cuda_kind_close(wm_kind *kind);
warm_status wm_cuda_kind_find(wm_kind *kind, char *file, size_t bytes);

/* The table of a device, or null before the first create there. */
void *wm_cuda_kind_table(wm_kind *kind, int device);
/* The table without settings that all of them begin as, or null before the
 * first create. */
const void *wm_cuda_kind_functions(wm_kind *kind);

/* A function that the library must have; its field is WM_CUDA_FIELD(name). */
#define WM_CUDA_ENTRY(name) {#name, offsetof(table, name), 0},

/* A setting: a getter, a setter and the default. */
#define WM_CUDA_SETTING_FIELD(prefix, name, type)                              \
    __typeof__(prefix##Get##name) *prefix##Get##name;                          \
    __typeof__(prefix##Set##name) *prefix##Set##name;                          \
    type name##_default;
#define WM_CUDA_SETTING_ENTRIES(table, prefix, name, optional)                 \
    {#prefix "Get" #name, offsetof(table, prefix##Get##name), optional},       \
        {#prefix "Set" #name, offsetof(table, prefix##Set##name), optional},
/* Each does nothing after a failure and skips functions that the library lacks.
 */
#define WM_CUDA_SETTING_LEARN(prefix, name)                                    \
    if (answer.code == 0 && t->prefix##Get##name != NULL) {                    \
        answer =                                                               \
            WM_CUDA_ANSWER(prefix##Get##name, handle, &t->name##_default);     \
    }
/* Learns a setting of newer libraries, which may have the functions and refuse
 * them on this device. Sets the default once to find out; a refused setting is
 * skipped from then on, since every create and reset would fail. */
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

/* Steps that are one call of the library. Each defines a function of the
 * file. */
#define WM_CUDA_CREATE_DESTROY(create_call, destroy_call, type)                \
    static wm_cuda_answer create(const void *functions, void **handle)         \
    {                                                                          \
        const table *t = functions;                                            \
                                                                               \
        return WM_CUDA_ANSWER(create_call, (type *)handle);                    \
    }                                                                          \
    static wm_cuda_answer destroy(const void *functions, void *handle)         \
    {                                                                          \
        const table *t = functions;                                            \
                                                                               \
        return WM_CUDA_ANSWER(destroy_call, handle);                           \
    }
#define WM_CUDA_BIND(call)                                                     \
    static wm_cuda_answer bind(const void *functions, void *handle,            \
                               warm_stream stream, void *workspace,            \
                               size_t bytes)                                   \
    {                                                                          \
        const table *t = functions;                                            \
                                                                               \
        (void)workspace;                                                       \
        (void)bytes;                                                           \
        return WM_CUDA_ANSWER(call, handle, stream);                           \
    }
#define WM_CUDA_TEXT(call, type)                                               \
    static const char *text(const void *functions, int code)                   \
    {                                                                          \
        return ((const table *)functions)->call((type)code);                   \
    }
#define WM_CUDA_CUDART(call)                                                   \
    static int cuda_major(const void *functions)                               \
    {                                                                          \
        return (int)(((const table *)functions)->call() / 1000);               \
    }

/* The names that each library's file defines. */
#define WM_CUDA_LIBRARY(kind, name)                                            \
    .what = (name), .sonames = sonames, .table_bytes = sizeof(table),          \
    .entries = entries, .entry_count = sizeof entries / sizeof entries[0],     \
    .create = create, .destroy = destroy, .text = text,                        \
    .cuda_major = cuda_major

/* Defines wm_kind_<kind> on top of the file's own `library`; the arguments
 * after kind are further operations. */
#define WM_CUDA_KIND(kind, ...)                                                \
    const wm_kind_ops wm_kind_##kind = {.name = #kind,                         \
                                        .create = wm_cuda_kind_create,         \
                                        .destroy = wm_cuda_kind_destroy,       \
                                        .reset = wm_cuda_kind_reset,           \
                                        .find = wm_cuda_kind_find,             \
                                        .close = wm_cuda_kind_close,           \
                                        .library = &library,                   \
                                        __VA_ARGS__}

/* The kind in a build without the library's headers: create fails, also where
 * a stream is named if the kind takes one. */
#define WM_CUDA_KIND_LEFT_OUT(kind, name, ...)                                 \
    static const wm_cuda_library library = {.what = (name)};                   \
    WM_CUDA_KIND(kind, __VA_ARGS__)

#endif
