/* loader.h: shared libraries, loaded at first use and never unloaded.
 *
 * Any thread; takes no lock of ours. Not a cancellation point. */
#ifndef WM_LOADER_H
#define WM_LOADER_H

#include "warmpool/base.h"

/* Opens path alone if it is not empty; else the first of the null-terminated
 * sonames that the program has loaded already, because its handles are passed
 * to functions of that very version; else the first that loads.
 * what ("cuBLAS") names the library in errors.
 * Status: UNAVAILABLE with dlopen's own words for each name tried. */
warm_status wm_library_open(const char *what, const char *path,
                            const char *const *sonames, void **library);

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
