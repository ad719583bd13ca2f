/* ipc_import.c: see ipc_import.h. */
#include "alloc/kinds/ipc_import.h"

#include "alloc/block/page_map.h"
#include "alloc/stream/timeline.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <string.h>

struct wm_mapping {
    struct wm_mapping *next; /* lock imports */
    uint64_t process;        /* const: who exported it */
    uint64_t number;         /* const: what that one knows it by */
    wm_ipc_name name;        /* const: the driver's, of the first handle */
    size_t bytes;            /* const */
    char *base;              /* const once it has not been busy */
    bool busy;               /* lock imports */
    size_t places;           /* lock imports; none: it is busy, or put off */
};

/* A block of a mapping that the program has open, by its address. */
typedef struct opening {
    struct wm_mapping *mapping; /* const */
    uint64_t count;             /* lock imports: how often */
} opening;

void wm_imports_init(wm_imports *imports, wm_driver *driver, int device)
{
    imports->driver = driver;
    imports->device = device;
    wm_lock_init(&imports->lock, WM_RANK_IMPORTS);
    wm_cond_init(&imports->settled);
}

static void free_openings(wm_imports *imports)
{
    const wm_map_entry *e = NULL;

    while ((e = wm_map_next(&imports->openings, e)) != NULL) {
        wm_meta_free(e->value);
    }
    wm_map_fini(&imports->openings);
}

void wm_imports_fini(wm_imports *imports)
{
    free_openings(imports);
    wm_cond_fini(&imports->settled);
    wm_lock_fini(&imports->lock);
}

static warm_status no_records(void)
{
    return wm_fail(WARM_OUT_OF_MEMORY,
                   "no memory for the records of another process's memory");
}

/* ---- the list ---------------------------------------------------------- */

static struct wm_mapping *find_locked(wm_imports *imports,
                                      const warm_ipc_handle *handle)
{
    struct wm_mapping *m = imports->mappings;

    while (m != NULL && (m->process != handle->process ||
                         m->number != handle->segment_number)) {
        m = m->next;
    }
    return m;
}

/* The same, once it is there to be used, or null: it is not there. */
static struct wm_mapping *settle_locked(wm_imports *imports,
                                        const warm_ipc_handle *handle)
{
    struct wm_mapping *m = find_locked(imports, handle);

    while (m != NULL && m->busy) {
        wm_cond_wait(&imports->settled, &imports->lock);
        m = find_locked(imports, handle);
    }
    return m;
}

/* A busy one, or null without memory. */
static struct wm_mapping *insert_locked(wm_imports *imports,
                                        const warm_ipc_handle *handle)
{
    struct wm_mapping *m = wm_meta_alloc(sizeof *m);

    if (m != NULL) {
        m->process = handle->process;
        m->number = handle->segment_number;
        memcpy(m->name.bytes, handle->segment, sizeof m->name);
        m->bytes = handle->segment_bytes;
        m->busy = true;
        m->next = imports->mappings;
        imports->mappings = m;
    }
    return m;
}

static void unlink_locked(wm_imports *imports, struct wm_mapping *mapping)
{
    struct wm_mapping **link = &imports->mappings;

    while (*link != mapping) {
        link = &(*link)->next;
    }
    *link = mapping->next;
}

/* ---- opening ---------------------------------------------------------- */

/* Counts a place of a mapping once more; *spare becomes its record if it has
 * none yet. */
static void *count_locked(wm_imports *imports, struct wm_mapping *mapping,
                          uint64_t offset, opening **spare)
{
    char *pointer = mapping->base + offset;
    opening *place = wm_map_get(&imports->openings, (uintptr_t)pointer);

    if (place == NULL) {
        place = *spare;
        *spare = NULL;
        place->mapping = mapping;
        wm_map_put(&imports->openings, (uintptr_t)pointer, place);
        mapping->places++;
    }
    place->count++;
    return pointer;
}

static warm_status note_pages(struct wm_mapping *mapping, char *base)
{
    warm_status status;

    if (((uintptr_t)base & (WM_PAGE - 1)) != 0) {
        return wm_fail(WARM_UNSUPPORTED,
                       "the driver mapped memory of another process at %p, "
                       "which is not the start of a page",
                       (void *)base);
    }
    if (wm_page_map_any(base, mapping->bytes)) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "the driver mapped memory of another process at %p, "
                       "where a reset of a device ended memory of the runtime; "
                       "destroy the runtime and make a new one",
                       (void *)base);
    }
    status = wm_page_map_reserve(base, mapping->bytes);
    if (status == WARM_OK) {
        wm_page_map_fill(base, mapping->bytes, mapping, WM_ENTRY_IMPORTED);
    }
    return status;
}

/* The end of a mapping may wait for the device, which breaks captures.
 * announced: see wm_timelines_begin_break(). */
static bool begin_break(wm_imports *imports, wm_breaking *breaking,
                        bool announced)
{
    return imports->timelines == NULL ||
           wm_timelines_begin_break(imports->timelines, breaking,
                                    imports->device, NULL, announced);
}

static void end_break(wm_imports *imports, wm_breaking *breaking)
{
    if (imports->timelines != NULL) {
        wm_timelines_end_break(imports->timelines, breaking);
    }
}

/* What cannot be recorded stays mapped while a stream captures. */
static warm_status map(wm_imports *imports, struct wm_mapping *mapping,
                       char **base)
{
    warm_error cause = {.size = sizeof cause};
    wm_breaking breaking;
    void *mapped = NULL;
    warm_status status = wm_driver_ipc_open(imports->driver, imports->device,
                                            &mapping->name, &mapped);

    if (status != WARM_OK) {
        return status;
    }
    status = note_pages(mapping, mapped);
    if (status == WARM_OK) {
        *base = mapped;
        return status;
    }
    warm_last_error(&cause);
    if (begin_break(imports, &breaking, true)) {
        (void)wm_driver_ipc_close(imports->driver, imports->device, mapped);
        end_break(imports, &breaking);
    }
    wm_error_restore(&cause);
    return status;
}

/* Of a mapping that this thread has inserted. */
static warm_status open_first(wm_imports *imports, struct wm_mapping *mapping,
                              uint64_t offset, opening **spare, void **pointer)
{
    char *base = NULL;
    warm_status status = map(imports, mapping, &base);

    wm_lock_acquire(&imports->lock);
    imports->promised--;
    if (status == WARM_OK) {
        mapping->base = base;
        *pointer = count_locked(imports, mapping, offset, spare);
    } else {
        unlink_locked(imports, mapping);
    }
    mapping->busy = false;
    wm_cond_broadcast(&imports->settled);
    wm_lock_release(&imports->lock);
    if (status != WARM_OK) {
        wm_meta_free(mapping);
    }
    return status;
}

warm_status wm_imports_open(wm_imports *imports, const warm_ipc_handle *handle,
                            void **pointer)
{
    opening *spare = wm_meta_alloc(sizeof *spare);
    struct wm_mapping *mapping;
    warm_status status = WARM_OK;
    bool first = false;

    if (spare == NULL) {
        return no_records();
    }
    wm_lock_acquire(&imports->lock);
    mapping = settle_locked(imports, handle);
    if (!wm_map_reserve(&imports->openings,
                        imports->openings.count + imports->promised + 1)) {
        mapping = NULL;
    } else if (mapping != NULL) {
        *pointer = count_locked(imports, mapping, handle->offset, &spare);
    } else {
        mapping = insert_locked(imports, handle);
        first = mapping != NULL;
        imports->promised += first;
    }
    wm_lock_release(&imports->lock);
    if (mapping == NULL) {
        status = no_records();
    } else if (first) {
        status = open_first(imports, mapping, handle->offset, &spare, pointer);
    }
    wm_meta_free(spare);
    return status;
}

/* ---- closing ----------------------------------------------------------- */

/* The pages first: once unmapped they may be anybody's. What was mapped into a
 * context that was reset is unmapped. */
static warm_status unmap(wm_imports *imports, struct wm_mapping *mapping)
{
    warm_status status;

    wm_page_map_fill(mapping->base, mapping->bytes, NULL, WM_ENTRY_RUN);
    if (wm_driver_is_lost(imports->driver, imports->device)) {
        return WARM_OK;
    }
    status =
        wm_driver_ipc_close(imports->driver, imports->device, mapping->base);
    if (status != WARM_OK) {
        wm_page_map_fill(mapping->base, mapping->bytes, mapping,
                         WM_ENTRY_IMPORTED);
    }
    return status;
}

/* Of a mapping that is busy since its last place went. */
static warm_status close_last(wm_imports *imports, const void *pointer,
                              opening *place)
{
    struct wm_mapping *mapping = place->mapping;
    wm_breaking breaking;
    bool later = !begin_break(imports, &breaking, true);
    warm_status status = WARM_OK;

    if (!later) {
        status = unmap(imports, mapping);
        end_break(imports, &breaking);
    }
    wm_lock_acquire(&imports->lock);
    imports->promised--;
    if (status == WARM_OK && !later) {
        unlink_locked(imports, mapping);
    } else if (status != WARM_OK) {
        place->count = 1;
        mapping->places = 1;
        wm_map_put(&imports->openings, (uintptr_t)pointer, place);
    }
    mapping->busy = false;
    wm_cond_broadcast(&imports->settled);
    wm_lock_release(&imports->lock);
    /* Not before: a thread that finds the captures over meanwhile takes the
     * flag back, and leaves a busy mapping alone. Relaxed: see
     * wm_private_tend(). */
    if (later) {
        atomic_store_explicit(&imports->timelines->runtime->put_off, true,
                              memory_order_relaxed);
    }
    if (status == WARM_OK) {
        wm_meta_free(place);
    }
    if (status == WARM_OK && !later) {
        wm_meta_free(mapping);
    }
    return status;
}

/* One that was put off, busy from now on; or null. */
static struct wm_mapping *take_put_off(wm_imports *imports)
{
    struct wm_mapping *m;

    wm_lock_acquire(&imports->lock);
    m = imports->mappings;
    while (m != NULL && (m->places > 0 || m->busy)) {
        m = m->next;
    }
    if (m != NULL) {
        m->busy = true;
    }
    wm_lock_release(&imports->lock);
    return m;
}

/* What the driver does not unmap stays until the next capture, or the end. */
static bool end_put_off(wm_imports *imports, struct wm_mapping *mapping,
                        bool *may)
{
    wm_breaking breaking;
    bool gone;

    *may = begin_break(imports, &breaking, true);
    gone = *may && unmap(imports, mapping) == WARM_OK;
    if (*may) {
        end_break(imports, &breaking);
    }
    wm_lock_acquire(&imports->lock);
    mapping->busy = false;
    if (gone) {
        unlink_locked(imports, mapping);
    }
    wm_cond_broadcast(&imports->settled);
    wm_lock_release(&imports->lock);
    if (gone) {
        wm_meta_free(mapping);
    }
    return gone;
}

bool wm_imports_captures_over(wm_imports *imports)
{
    warm_error before = {.size = sizeof before};
    struct wm_mapping *m;
    bool gone = true, may = true;

    warm_last_error(&before);
    while (gone && (m = take_put_off(imports)) != NULL) {
        gone = end_put_off(imports, m, &may);
    }
    wm_error_restore(&before);
    return may;
}

warm_status wm_imports_close(wm_imports *imports, const void *pointer)
{
    opening *place;
    bool gone = false, last = false;

    wm_lock_acquire(&imports->lock);
    /* One that is being closed has no place. */
    place = wm_map_get(&imports->openings, (uintptr_t)pointer);
    if (place != NULL && --place->count == 0) {
        gone = true;
        (void)wm_map_take(&imports->openings, (uintptr_t)pointer);
        last = --place->mapping->places == 0;
        place->mapping->busy = last;
        imports->promised += last; /* it returns if the driver keeps it */
    }
    wm_lock_release(&imports->lock);
    if (place == NULL) {
        return WARM_NOT_FOUND;
    }
    if (last) {
        return close_last(imports, pointer, place);
    }
    if (gone) {
        wm_meta_free(place);
    }
    return WARM_OK;
}

/* ---- all of them ------------------------------------------------------- */

static void end_mapping(wm_imports *imports, struct wm_mapping *mapping)
{
    wm_breaking breaking;
    warm_status status = WARM_CAPTURE_ERROR;

    if (begin_break(imports, &breaking, false)) {
        status = unmap(imports, mapping);
        end_break(imports, &breaking);
    } else {
        (void)wm_fail(status, "a stream captures");
    }
    if (status != WARM_OK) {
        wm_log(WARM_LOG_WARNING,
               "memory of another process stays mapped, the driver did not "
               "take it back: %s",
               warm_last_error_message());
    }
    wm_meta_free(mapping);
}

/* How often all blocks together are open. */
static uint64_t count_openings(const wm_imports *imports)
{
    const wm_map_entry *e = NULL;
    uint64_t count = 0;

    while ((e = wm_map_next(&imports->openings, e)) != NULL) {
        count += ((const opening *)e->value)->count;
    }
    return count;
}

uint64_t wm_imports_stop(wm_imports *imports)
{
    uint64_t count = count_openings(imports);
    bool mode;
    bool relaxed;

    if (imports->mappings == NULL) {
        return 0;
    }
    free_openings(imports);
    relaxed = wm_driver_capture_relaxed_begin(imports->driver, &mode);
    while (imports->mappings != NULL) {
        struct wm_mapping *mapping = imports->mappings;

        imports->mappings = mapping->next;
        end_mapping(imports, mapping);
    }
    if (relaxed) {
        wm_driver_capture_relaxed_end(imports->driver, &mode);
    }
    if (count > 0) {
        wm_log(WARM_LOG_WARNING,
               "a runtime was destroyed with %" PRIu64
               " blocks of other processes open on device %d",
               count, imports->device);
    }
    return count;
}

void wm_imports_add_stats(wm_imports *imports, warm_ipc_stats *stats)
{
    wm_lock_acquire(&imports->lock);
    for (struct wm_mapping *m = imports->mappings; m != NULL; m = m->next) {
        if (!m->busy) {
            stats->segments++;
            stats->bytes += m->bytes;
        }
    }
    stats->opened += count_openings(imports);
    wm_lock_release(&imports->lock);
}
