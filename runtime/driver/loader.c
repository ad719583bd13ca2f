/* loader.c: see loader.h. The system's loader knows which libraries are loaded;
 * a second open of the same name is cheap. */
#include "runtime/driver/loader.h"

#include "runtime/base/lock.h"
#include "runtime/base/status.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* NODELETE: a driver's library has threads and exit handlers of its own, and
 * must stay loaded even if the program closes it. */
enum { OPEN_FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };

enum { REFUSALS = 4 }; /* the names of a library, and one beside */

/* State of a search. */
typedef struct trial {
    const wm_library_search *search;
    void *library;           /* the library that fits, or null */
    void *refused[REFUSALS]; /* the last libraries that do not fit */
    unsigned refusals;
    warm_status ends; /* not OK: the search is over */
    warm_error first; /* error of the first library that does not fit */
    char reasons[400];
} trial;

static void add_reason(trial *t, const char *name, const char *words)
{
    size_t used = strlen(t->reasons);

    snprintf(t->reasons + used, sizeof t->reasons - used, "%s%s%s%s",
             used > 0 ? "; " : "", name, name[0] != '\0' ? ": " : "", words);
}

/* Checks whether an open library fits. It may be found under several names. */
static void judge(trial *t, const char *name, void *library)
{
    warm_error error = {.size = sizeof error};
    warm_status status = WARM_OK;

    for (unsigned i = 0; i < REFUSALS; i++) {
        if (t->refused[i] == library) {
            return;
        }
    }
    if (t->search->fits != NULL) {
        status = t->search->fits(t->search->context, library);
    }
    if (status == WARM_OK) {
        t->library = library;
        return;
    }
    t->refused[t->refusals++ % REFUSALS] = library;
    warm_last_error(&error);
    add_reason(t, name, error.message);
    if (t->first.status == WARM_OK) {
        t->first = error;
    }
    if (status != WARM_UNAVAILABLE) {
        t->ends = status;
    }
}

static void try_loaded(trial *t, const char *name)
{
    void *library = dlopen(name, OPEN_FLAGS | RTLD_NOLOAD);

    if (library == NULL) {
        return;
    }
    judge(t, name, library);
    if (t->library == NULL && t->search->loaded_decides) {
        t->ends = WARM_UNAVAILABLE;
    }
}

static void try_file(trial *t, const char *name)
{
    void *library = dlopen(name, OPEN_FLAGS);
    const char *words;

    if (library != NULL) {
        judge(t, name, library);
        return;
    }
    words = dlerror(); /* begins with the name */
    add_reason(t, words != NULL ? "" : name,
               words != NULL ? words : "it cannot be loaded");
}

/* The soname in the folder of search->beside, if there is a file. */
static void try_beside(trial *t, const char *name)
{
    const char *beside = t->search->beside;
    const char *end = beside != NULL ? strrchr(beside, '/') : NULL;
    char path[PATH_MAX];

    if (end != NULL) {
        int length = snprintf(path, sizeof path, "%.*s/%s", (int)(end - beside),
                              beside, name);

        if (length > 0 && (size_t)length < sizeof path &&
            access(path, F_OK) == 0) {
            try_file(t, path);
        }
    }
}

static bool goes_on(const trial *t)
{
    return t->library == NULL && t->ends == WARM_OK;
}

static void try_all(trial *t)
{
    const char *const *sonames = t->search->sonames;

    for (int i = 0; goes_on(t) && sonames[i] != NULL; i++) {
        try_loaded(t, sonames[i]);
    }
    for (int i = 0; goes_on(t) && sonames[i] != NULL; i++) {
        try_beside(t, sonames[i]);
        if (goes_on(t)) {
            try_file(t, sonames[i]);
        }
    }
}

warm_status wm_library_find(const wm_library_search *search, void **library)
{
    trial t = {.search = search, .first = {.size = sizeof t.first}};
    warm_error before = wm_error_save();

    WM_CANCEL_OFF(); /* dlopen() must not be left half done */
    if (search->path != NULL && search->path[0] != '\0') {
        try_file(&t, search->path);
    } else {
        try_all(&t);
    }
    if (t.library != NULL) {
        wm_error_restore(&before);
        *library = t.library;
        return WARM_OK;
    }
    if (t.ends != WARM_OK && t.ends != WARM_UNAVAILABLE) {
        return t.ends; /* fits() has set the message */
    }
    return wm_fail_code(WARM_UNAVAILABLE,
                        t.refusals > 0 ? t.first.origin : "warmpool",
                        t.first.code, t.first.code_text,
                        "%s could not be loaded: %s", search->what, t.reasons);
}

warm_status wm_library_open(const char *what, const char *path,
                            const char *const *sonames, void **library)
{
    const wm_library_search search = {
        .what = what, .path = path, .sonames = sonames};

    return wm_library_find(&search, library);
}

void wm_library_file(void *library, char *path, size_t bytes)
{
    struct link_map *map = NULL;

    path[0] = '\0';
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != NULL &&
        strlen(map->l_name) < bytes) {
        strcpy(path, map->l_name);
    }
}

bool wm_library_loaded_file(const char *soname, char *path, size_t bytes)
{
    WM_CANCEL_OFF();
    /* Not OPEN_FLAGS: a mere query must not keep the library loaded. */
    void *library = dlopen(soname, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);

    path[0] = '\0';
    if (library != NULL) {
        wm_library_file(library, path, bytes);
        (void)dlclose(library);
    }
    return library != NULL;
}

bool wm_library_is_loaded(const char *soname)
{
    char path[PATH_MAX];

    return wm_library_loaded_file(soname, path, sizeof path);
}

warm_status wm_library_symbols(const char *what, void *library,
                               const wm_symbol *symbols, int count)
{
    const char *missing = NULL;

    WM_CANCEL_OFF();
    for (int i = 0; i < count && missing == NULL; i++) {
        *symbols[i].slot = dlsym(library, symbols[i].name);
        if (*symbols[i].slot == NULL && !symbols[i].optional) {
            missing = symbols[i].name;
        }
    }
    if (missing == NULL) {
        return WARM_OK;
    }
    for (int i = 0; i < count; i++) {
        *symbols[i].slot = NULL;
    }
    return wm_fail(WARM_UNAVAILABLE, "%s has no function %s", what, missing);
}
