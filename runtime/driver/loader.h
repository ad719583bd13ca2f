/* loader.h: shared libraries, loaded at first use and never unloaded.
 *
 * Any thread; takes no lock of ours. Not a cancellation point. */
#ifndef WM_LOADER_H
#define WM_LOADER_H

#include "warmpool/base.h"

#include <stdbool.h>

/* Which library is wanted, and which ones fit. */
typedef struct wm_library_search {
    const char *what;   /* its name in errors: "cuBLAS" */
    const char *path;   /* this file alone, if neither null nor empty */
    const char *beside; /* a file in whose folder the sonames are looked for
                           first; may be null or empty */
    const char *const *sonames; /* null-terminated, the best one first */
    /* Whether an open library fits; null: any does. UNAVAILABLE with a message:
     * it does not, the next one is tried. Any other failure ends the search. */
    warm_status (*fits)(void *context, void *library);
    void *context;
    /* If the program has loaded a library that does not fit, no other one is
     * loaded: the program calls functions of the one that it has. */
    bool loaded_decides;
} wm_library_search;

/* Finds the first library that fits: if path is given, that file alone. Else a
 * soname that the program has loaded already, because its handles are passed
 * to functions of that very version; else the first soname that can be loaded,
 * each from the folder of beside before elsewhere.
 * Status: UNAVAILABLE with a reason for each name tried and the code of the
 * first library that did not fit; fits()'s. */
warm_status wm_library_find(const wm_library_search *search, void **library);

/* wm_library_find() without beside and fits. */
warm_status wm_library_open(const char *what, const char *path,
                            const char *const *sonames, void **library);

/* True if the program has loaded a library of that soname. */
bool wm_library_is_loaded(const char *soname);

/* The same; and the library's file, with its folder, or empty. */
bool wm_library_loaded_file(const char *soname, char *path, size_t bytes);

/* The file of an open library; empty if that is not known or too long. */
void wm_library_file(void *library, char *path, size_t bytes);

/* A row of symbols to fill in; optional ones may stay null. */
typedef struct wm_symbol {
    const char *name;
    void **slot;
    int optional;
} wm_symbol;

/* Fills count slots; on failure all are null again.
 * Status: UNAVAILABLE, names the first symbol that is missing. */
warm_status wm_library_symbols(const char *what, void *library,
                               const wm_symbol *symbols, int count);

#endif
