/* kind_cuda.c: loads a CUDA library and calls it (kind_cuda.h). Takes no lock:
 * a compare-and-swap publishes each table, and a thread that loses frees its
 * copy. */
#include "handles/kinds/kind_cuda.h"

#include "runtime/base/meta.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/driver/loader.h"

#include <string.h>

enum { MOST_ENTRIES = 32 };

/* The context of a kind: the tables of all devices, and then the one without
 * settings. */
typedef _Atomic(void *) slot;

/* Acquire, here and below: pairs with the release in publish(): the reader sees
 * the table's functions and defaults. */
static inline void *read_slot(wm_kind *kind, int device)
{
    slot *tables = atomic_load_explicit(&kind->context, memory_order_acquire);

    return wm_likely(tables != NULL)
               ? atomic_load_explicit(&tables[device], memory_order_acquire)
               : NULL;
}

void *wm_cuda_kind_table(wm_kind *kind, int device)
{
    return read_slot(kind, device);
}

const void *wm_cuda_kind_functions(wm_kind *kind)
{
    return read_slot(kind, kind->driver->devices);
}

/* names: the sonames of the CUDA version in use. A library of another version
 * is refused if the program has loaded it: the program would pass our handles
 * to its functions. */
static warm_status choose(const wm_cuda_library *library, int cuda,
                          const char **names)
{
    const char *other = NULL;
    bool loaded = false;
    int count = 0;

    for (const wm_cuda_soname *s = library->sonames; s->name != NULL; s++) {
        bool here = wm_library_is_loaded(s->name);

        if (s->cuda == 0 || s->cuda == cuda) {
            names[count++] = s->name;
            loaded = loaded || here;
        } else if (here) {
            other = s->name;
        }
    }
    names[count] = NULL;
    if (other != NULL && !loaded) {
        return wm_fail(WARM_UNAVAILABLE,
                       "%s cannot be used: the program has loaded %s, and the "
                       "CUDA runtime in use is version %d; name another one by "
                       "libraries:cudart=FILE",
                       library->what, other, cuda);
    }
    return WARM_OK;
}

/* A library to check by fits(). */
typedef struct candidate {
    const wm_cuda_library *library;
    char *table;
    int cuda;
} candidate;

static warm_status fits(void *context, void *opened)
{
    const candidate *c = context;
    const wm_cuda_library *library = c->library;
    wm_symbol symbols[MOST_ENTRIES];
    warm_status status;
    int found;

    wm_assert(library->entry_count <= MOST_ENTRIES);
    for (int i = 0; i < library->entry_count; i++) {
        const wm_cuda_entry *entry = &library->entries[i];

        symbols[i] = (wm_symbol){entry->name,
                                 (void **)(void *)(c->table + entry->offset),
                                 entry->optional};
    }
    status = wm_library_symbols(library->what, opened, symbols,
                                library->entry_count);
    if (status != WARM_OK) {
        return status;
    }
    found = library->cuda_major(c->table);
    if (found != 0 && found != c->cuda) {
        return wm_fail(WARM_UNAVAILABLE,
                       "it is made for CUDA %d, and the CUDA runtime in use "
                       "is version %d",
                       found, c->cuda);
    }
    return WARM_OK;
}

/* file: gets the library's. */
static warm_status load(wm_kind *kind, void **table, char *file, size_t bytes)
{
    const wm_cuda_library *library = kind->ops->library;
    const char *names[WM_CUDA_SONAMES];
    char path[WM_OPTION_LIST_MAX] = "";
    candidate c = {.library = library, .cuda = wm_cuda_major(kind->driver)};
    const wm_library_search search = {
        .what = library->what,
        .path = path,
        .beside = wm_cuda_file(kind->driver),
        .sonames = names,
        .fits = fits,
        .context = &c,
        .loaded_decides = true,
    };
    void *opened = NULL;
    warm_status status = choose(library, c.cuda, names);

    if (status != WARM_OK) {
        return status;
    }
    (void)wm_options_part(kind->options->libraries, kind->ops->name, path,
                          sizeof path);
    c.table = wm_meta_alloc(library->table_bytes);
    if (c.table == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for the functions of %s",
                       library->what);
    }
    status = wm_library_find(&search, &opened);
    if (status != WARM_OK) {
        wm_meta_free(c.table);
        return status;
    }
    wm_library_file(opened, file, bytes);
    *table = c.table;
    return WARM_OK;
}

static warm_status load_first(wm_kind *kind, void **table)
{
    char file[512];
    warm_status status = load(kind, table, file, sizeof file);

    if (status == WARM_OK) {
        wm_log(WARM_LOG_INFO, "%s for CUDA %d: %s", kind->ops->library->what,
               wm_cuda_major(kind->driver), file);
        if (kind->ops->library->prepare != NULL) {
            kind->ops->library->prepare(*table);
        }
    }
    return status;
}

/* Whether the build and the driver have the kind's library at all. */
static warm_status check_there(const wm_kind *kind)
{
    const wm_cuda_library *library = kind->ops->library;

    if (library->entries == NULL) {
        return wm_fail(WARM_UNSUPPORTED, "warmpool was built without %s",
                       library->what);
    }
    return wm_cuda_is(kind->driver)
               ? WARM_OK
               : wm_fail(WARM_UNAVAILABLE, "%s needs a CUDA device",
                         library->what);
}

warm_status wm_cuda_kind_find(wm_kind *kind, char *file, size_t bytes)
{
    void *table = NULL;
    warm_status status = check_there(kind);

    if (status == WARM_OK) {
        status = load(kind, &table, file, bytes);
    }
    wm_meta_free(table);
    return status;
}

/* Sets *at to the value unless another thread has set it: then frees the value.
 * Returns what it is. */
static void *publish(slot *at, void *value)
{
    void *none = NULL;

    /* Release: see read_slot(). Acquire on failure: the other thread's value is
     * read. */
    if (atomic_compare_exchange_strong_explicit(
            at, &none, value, memory_order_release, memory_order_acquire)) {
        return value;
    }
    wm_meta_free(value);
    return none;
}

static slot *get_slots(wm_kind *kind)
{
    void *slots = atomic_load_explicit(&kind->context, memory_order_acquire);

    if (slots == NULL) {
        slots =
            wm_meta_alloc(((size_t)kind->driver->devices + 1) * sizeof(slot));
        slots = slots != NULL ? publish(&kind->context, slots) : NULL;
    }
    return slots;
}

static warm_status result(const wm_kind *kind, const void *table, int device,
                          wm_cuda_answer answer)
{
    const char *text;

    if (wm_likely(answer.code == 0)) {
        return WARM_OK;
    }
    text = kind->ops->library->text(table, answer.code);
    return wm_fail_code(WARM_LIBRARY_ERROR, kind->ops->name, answer.code, text,
                        "%s on device %d: %s", answer.call, device,
                        text != NULL ? text : "unknown error");
}

/* Brackets a library call: the device is current, and the thread may allocate
 * although it, or another thread, captures. */
typedef struct scope {
    wm_cuda_scope device;
    bool mode; /* the thread's capture mode before */
} scope;

static warm_status enter(wm_kind *kind, int device, scope *s)
{
    warm_status status = wm_cuda_device_push(kind->driver, device, &s->device);

    if (status != WARM_OK) {
        return status;
    }
    s->mode = true;
    status = wm_driver_capture_mode(kind->driver, &s->mode);
    if (status != WARM_OK) {
        wm_cuda_device_pop(kind->driver, &s->device);
    }
    return status;
}

/* A capture mode that cannot be restored does not fail the call: the handle
 * would be lost. */
static void leave(wm_kind *kind, scope *s)
{
    wm_driver_capture_relaxed_end(kind->driver, &s->mode);
    wm_cuda_device_pop(kind->driver, &s->device);
}

/* Destroys a handle that is in no pool yet. */
static void destroy_unknown(const wm_kind *kind, const void *table, int device,
                            void *handle)
{
    wm_breaking breaking;

    if (!wm_captures_begin_break(kind->captures, &breaking, device, NULL)) {
        wm_log(WARM_LOG_WARNING,
               "a handle of %s is leaked: reading its default settings "
               "failed, and destroying it would break a capture",
               kind->ops->library->what);
        return;
    }
    (void)kind->ops->library->destroy(table, handle);
    wm_captures_end_break(kind->captures, &breaking);
}

/* Creates a handle; learn: also reads its default settings into the table,
 * which is not published yet. */
static warm_status make(const wm_kind *kind, void *table, bool learn,
                        int device, void **handle)
{
    const wm_cuda_library *library = kind->ops->library;
    void *made = NULL;
    warm_status status =
        result(kind, table, device, library->create(table, &made));

    if (status != WARM_OK) {
        return status;
    }
    if (learn && library->learn != NULL) {
        status = result(kind, table, device, library->learn(table, made));
        if (status != WARM_OK) {
            destroy_unknown(kind, table, device, made);
            return status;
        }
    }
    *handle = made;
    return WARM_OK;
}

/* make() with the device current. */
static warm_status make_in(wm_kind *kind, void *table, bool learn, int device,
                           void **handle)
{
    scope s;
    warm_status status = enter(kind, device, &s);

    if (status == WARM_OK) {
        status = make(kind, table, learn, device, handle);
        leave(kind, &s);
    }
    return status;
}

/* A handle on a device that has no table yet. */
static warm_status make_first(wm_kind *kind, int device, void **handle)
{
    const wm_cuda_library *library = kind->ops->library;
    slot *slots = get_slots(kind);
    void *all = slots != NULL ? read_slot(kind, kind->driver->devices) : NULL;
    void *loaded = NULL, *table = NULL;
    warm_status status = WARM_OK;

    if (slots != NULL && all == NULL) {
        status = load_first(kind, &loaded);
        all = loaded;
    }
    if (status == WARM_OK) {
        table = slots != NULL ? wm_meta_alloc(library->table_bytes) : NULL;
        if (table == NULL) {
            status =
                wm_fail(WARM_OUT_OF_MEMORY, "no memory for the functions of %s",
                        library->what);
        }
    }
    if (status == WARM_OK) {
        memcpy(table, all, library->table_bytes);
        status = make_in(kind, table, true, device, handle);
    }
    if (status != WARM_OK) {
        wm_meta_free(table);
        wm_meta_free(loaded);
        return status;
    }
    /* Our exit handler runs before the library's. */
    wm_process_exit_after(
        *(void **)(void *)((char *)table + library->entries[0].offset));
    if (loaded != NULL) {
        (void)publish(&slots[kind->driver->devices], loaded);
    }
    (void)publish(&slots[device], table);
    return WARM_OK;
}

warm_status wm_cuda_kind_create(wm_kind *kind, int device, void **handle)
{
    warm_status status = check_there(kind);
    void *table = wm_cuda_kind_table(kind, device);

    if (status != WARM_OK) {
        return status;
    }
    return table != NULL ? make_in(kind, table, false, device, handle)
                         : make_first(kind, device, handle);
}

warm_status wm_cuda_kind_destroy(wm_kind *kind, int device, void *handle)
{
    const wm_cuda_library *library = kind->ops->library;
    void *table = wm_cuda_kind_table(kind, device);
    scope s;
    warm_status status = enter(kind, device, &s);

    if (status != WARM_OK) {
        return status;
    }
    /* The stream, which the program may have set, may be destroyed already. */
    if (library->bind != NULL) {
        (void)library->bind(table, handle, NULL, NULL, 0);
    }
    status = result(kind, table, device, library->destroy(table, handle));
    leave(kind, &s);
    return status;
}

warm_status wm_cuda_kind_bind(wm_kind *kind, int device, void *handle,
                              warm_stream stream, void *workspace, size_t bytes)
{
    void *table = wm_cuda_kind_table(kind, device);
    wm_cuda_scope s;
    warm_status status = wm_cuda_device_push(kind->driver, device, &s);

    if (status == WARM_OK) {
        status = result(
            kind, table, device,
            kind->ops->library->bind(table, handle, stream, workspace, bytes));
        wm_cuda_device_pop(kind->driver, &s);
    }
    return status;
}

static wm_cuda_answer rebind(const wm_rebind *to)
{
    const wm_cuda_library *library = to->kind->ops->library;
    const void *table = read_slot(to->kind, to->device);

    return library->rebind != NULL
               ? library->rebind(table, to)
               : library->bind(table, to->handle, to->stream, to->workspace,
                               to->bytes);
}

static warm_status rebind_elsewhere(const wm_rebind *to)
    __attribute__((noinline));
static warm_status rebind_elsewhere(const wm_rebind *to)
{
    wm_driver *driver = to->kind->driver;
    wm_cuda_scope s;
    warm_status status = wm_cuda_device_push(driver, to->device, &s);

    if (status == WARM_OK) {
        status = result(to->kind, read_slot(to->kind, to->device), to->device,
                        rebind(to));
        wm_cuda_device_pop(driver, &s);
    }
    return status;
}

warm_status wm_cuda_kind_rebind(const wm_rebind *to)
{
    if (wm_unlikely(!to->is_current)) {
        return rebind_elsewhere(to);
    }
    return result(to->kind, read_slot(to->kind, to->device), to->device,
                  rebind(to));
}

warm_status wm_cuda_kind_reset(wm_kind *kind, int device, void *handle)
{
    const wm_cuda_library *library = kind->ops->library;
    void *table = wm_cuda_kind_table(kind, device);
    wm_cuda_scope s;
    warm_status status;

    if (library->reset == NULL) {
        return WARM_OK;
    }
    status = wm_cuda_device_push(kind->driver, device, &s);
    if (status == WARM_OK) {
        status = result(kind, table, device, library->reset(table, handle));
        wm_cuda_device_pop(kind->driver, &s);
    }
    return status;
}

void wm_cuda_kind_close(wm_kind *kind)
{
    /* Relaxed: no other thread uses the kind any more. */
    slot *slots =
        atomic_exchange_explicit(&kind->context, NULL, memory_order_relaxed);

    for (int i = 0; slots != NULL && i <= kind->driver->devices; i++) {
        wm_meta_free(atomic_load_explicit(&slots[i], memory_order_relaxed));
    }
    wm_meta_free(slots);
}
