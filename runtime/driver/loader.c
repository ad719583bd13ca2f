/* loader.c: see loader.h. The system's loader keeps the table of what is
 * loaded; a second open of the same name is cheap. */
#include "runtime/driver/loader.h"

#include "runtime/base/lock.h"
#include "runtime/base/status.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* NODELETE: a library of a driver has threads and exit handlers of its own,
 * and must stay even if somebody else closes it. */
enum { OPEN_FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };

/* One name; on failure dlopen's words are added to reasons. */
static void *open_one(const char *name, char *reasons, size_t bytes)
{
    void *library = dlopen(name, OPEN_FLAGS);
    size_t used = strlen(reasons);
    const char *words;

    if (library == NULL) {
        words = dlerror();
        snprintf(reasons + used, bytes - used, "%s%s", used > 0 ? "; " : "",
                 words != NULL ? words : name);
    }
    return library;
}

static void *open_any(const char *const *sonames, char *reasons, size_t bytes)
{
    void *library = NULL;

    for (int i = 0; library == NULL && sonames[i] != NULL; i++) {
        library = dlopen(sonames[i], OPEN_FLAGS | RTLD_NOLOAD);
    }
    for (int i = 0; library == NULL && sonames[i] != NULL; i++) {
        library = open_one(sonames[i], reasons, bytes);
    }
    return library;
}

warm_status wm_library_open(const char *what, const char *path,
                            const char *const *sonames, void **library)
{
    char reasons[320] = "";
    int cancel = wm_cancel_off(); /* the loader's files are half open else */
    void *found = NULL;

    if (path != NULL && path[0] != '\0') {
        found = open_one(path, reasons, sizeof reasons);
    } else {
        found = open_any(sonames, reasons, sizeof reasons);
    }
    wm_cancel_restore(cancel);
    if (found == NULL) {
        return wm_fail(WARM_UNAVAILABLE, "%s could not be loaded: %s", what,
                       reasons);
    }
    *library = found;
    return WARM_OK;
}

warm_status wm_library_symbols(const char *what, void *library,
                               const wm_symbol *symbols, int count)
{
    int cancel = wm_cancel_off();
    const char *missing = NULL;

    for (int i = 0; i < count && missing == NULL; i++) {
        *symbols[i].slot = dlsym(library, symbols[i].name);
        if (*symbols[i].slot == NULL && !symbols[i].optional) {
            missing = symbols[i].name;
        }
    }
    wm_cancel_restore(cancel);
    if (missing == NULL) {
        return WARM_OK;
    }
    for (int i = 0; i < count; i++) {
        *symbols[i].slot = NULL;
    }
    return wm_fail(WARM_UNAVAILABLE, "%s has no function %s", what, missing);
}
