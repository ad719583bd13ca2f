/* ipc_import.c: mapping memory of other processes, once for each segment. */
#include "alloc/kinds/ipc_import.h"

#include "alloc/block/page_map.h"
#include "alloc/stream/timeline.h"
#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/process.h"

#include <inttypes.h>
#include <string.h>

/* The pages of a mapping: CUDA maps a segment once for all runtimes of the
 * process, and unmaps it when the last of them has closed it. */
typedef struct pages {
    char *base;   /* const */
    size_t bytes; /* const */
    size_t users; /* lock wm_process_lock: mappings of runtimes */
} pages;

struct wm_mapping {
    struct wm_mapping *next; /* lock imports */
    uint64_t process;        /* const: that exported it */
    uint64_t number;         /* const: that process's number of the segment */
    wm_ipc_name name;        /* const: the driver's, of the first handle */
    size_t bytes;            /* const */
    char *base;              /* const after the first busy time */
    pages *pages;            /* of the thread that maps or unmaps it */
    bool busy;               /* lock imports: a thread maps or unmaps it */
    size_t places; /* lock imports: open blocks; 0: busy, or to be unmapped
                      after captures */
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
}

static warm_status no_records(void)
{
    return wm_fail(WARM_OUT_OF_MEMORY,
                   "no memory for the records of another process's memory");
}

/* ---- the list ---------------------------------------------------------- */

/* The mapping of the handle's segment, once it is not busy; null: none. */
static struct wm_mapping *find_locked(wm_imports *imports,
                                      const warm_ipc_handle *handle)
{
    struct wm_mapping *m = imports->mappings;

    while (m != NULL) {
        if (m->process != handle->process ||
            m->number != handle->segment_number) {
            m = m->next;
        } else if (m->busy) {
            wm_cond_wait(&imports->settled, &imports->lock);
            m = imports->mappings;
        } else {
            break;
        }
    }
    return m;
}

/* A new mapping, which is busy; null: no memory for its record. */
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

/* Ends the busy time of a mapping, which the waiting threads then look up
 * again. gone: it is not mapped, and its record is freed. */
static void settle_locked(wm_imports *imports, struct wm_mapping *mapping,
                          bool gone)
{
    struct wm_mapping **link = &imports->mappings;

    mapping->busy = false;
    wm_cond_broadcast(&imports->settled);
    if (gone) {
        while (*link != mapping) {
            link = &(*link)->next;
        }
        *link = mapping->next;
        wm_meta_free(mapping);
    }
}

/* ---- opening ---------------------------------------------------------- */

/* Counts one more opening of a place of a mapping; *spare becomes its record if
 * it has none yet. */
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

/* ---- pages ------------------------------------------------------------- */

/* Those that another runtime has mapped, or null. */
static pages *find_pages_locked(const char *base, size_t bytes)
{
    pages *found = NULL;

    if (wm_is_imported(base)) {
        found = (pages *)(wm_page_map_get(base) & ~(uintptr_t)3);
    }
    return found != NULL && found->base == base && found->bytes == bytes ? found
                                                                         : NULL;
}

/* mine: not in the page map; its leaves are reserved. Freed, if the pages of
 * another runtime are the same. */
static pages *share_pages_locked(pages *mine)
{
    pages *theirs = find_pages_locked(mine->base, mine->bytes);

    if (theirs != NULL) {
        wm_meta_free(mine);
        mine = theirs;
    } else {
        wm_page_map_fill(mine->base, mine->bytes, mine);
    }
    mine->users++;
    return mine;
}

static warm_status may_note(const char *base, size_t bytes)
{
    if (((uintptr_t)base & (WM_PAGE - 1)) != 0) {
        return wm_fail(WARM_UNSUPPORTED,
                       "the driver mapped memory of another process at %p, "
                       "which is not the start of a page",
                       (const void *)base);
    }
    if (find_pages_locked(base, bytes) == NULL &&
        wm_page_map_any(base, bytes)) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "the driver mapped memory of another process at %p, "
                       "where a reset of a device ended memory of the runtime; "
                       "destroy the runtime and make a new one",
                       (const void *)base);
    }
    return wm_page_map_reserve(base, bytes);
}

static warm_status note_pages(struct wm_mapping *mapping, char *base)
{
    pages *mine = wm_meta_alloc(sizeof *mine);
    warm_status status;

    if (mine == NULL) {
        return no_records();
    }
    *mine = (pages){.base = base, .bytes = mapping->bytes};
    wm_lock_acquire(&wm_process_lock);
    status = may_note(base, mapping->bytes);
    if (status == WARM_OK) {
        mapping->pages = share_pages_locked(mine);
    }
    wm_lock_release(&wm_process_lock);
    if (status != WARM_OK) {
        wm_meta_free(mine);
    }
    return status;
}

/* Before the driver unmaps them: another thread may get the addresses then. The
 * record is the caller's now; null: other runtimes have it. */
static pages *forget_pages(struct wm_mapping *mapping)
{
    pages *mine = mapping->pages;

    wm_lock_acquire(&wm_process_lock);
    if (mine != NULL && --mine->users > 0) {
        mine = NULL;
    } else if (mine != NULL) {
        wm_page_map_fill(mine->base, mine->bytes, NULL);
    }
    wm_lock_release(&wm_process_lock);
    return mine;
}

/* The driver did not unmap them. Without memory for a new record an error
 * message about the address says less. */
static void note_again(struct wm_mapping *mapping, pages *mine)
{
    if (mine == NULL) {
        mine = wm_meta_alloc(sizeof *mine);
    }
    if (mine != NULL) {
        *mine = (pages){.base = mapping->base, .bytes = mapping->bytes};
        wm_lock_acquire(&wm_process_lock);
        mine = share_pages_locked(mine);
        wm_lock_release(&wm_process_lock);
    }
    mapping->pages = mine;
}

/* ---- mapping ----------------------------------------------------------- */

/* Unmapping may wait for the device, which breaks captures. announced: as in
 * wm_timelines_begin_break(). */
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

/* If the pages cannot be recorded, unmaps them again; while a stream captures
 * they leak instead. */
static warm_status map(wm_imports *imports, struct wm_mapping *mapping,
                       char **base)
{
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
    WM_KEEP_ERROR();
    if (begin_break(imports, &breaking, true)) {
        (void)wm_driver_ipc_close(imports->driver, imports->device, mapped);
        end_break(imports, &breaking);
    }
    return status;
}

warm_status wm_imports_open(wm_imports *imports, const warm_ipc_handle *handle,
                            void **pointer)
{
    opening *spare = wm_meta_alloc(sizeof *spare);
    struct wm_mapping *mapping;
    warm_status status = WARM_OK;
    char *base = NULL;

    if (spare == NULL) {
        return no_records();
    }
    wm_lock_acquire(&imports->lock);
    mapping = find_locked(imports, handle);
    if (!wm_map_reserve(&imports->openings,
                        imports->openings.count + imports->promised + 1)) {
        goto full;
    }
    if (mapping != NULL) {
        *pointer = count_locked(imports, mapping, handle->offset, &spare);
        goto done;
    }
    mapping = insert_locked(imports, handle);
    if (mapping == NULL) {
        goto full;
    }
    imports->promised++;
    wm_lock_release(&imports->lock);
    status = map(imports, mapping, &base);
    wm_lock_acquire(&imports->lock);
    imports->promised--;
    if (status == WARM_OK) {
        mapping->base = base;
        *pointer = count_locked(imports, mapping, handle->offset, &spare);
    }
    settle_locked(imports, mapping, status != WARM_OK);
done:
    wm_lock_release(&imports->lock);
    wm_meta_free(spare);
    return status;
full:
    wm_lock_release(&imports->lock);
    wm_meta_free(spare);
    return no_records();
}

/* ---- closing ----------------------------------------------------------- */

/* Unmaps a mapping. Memory that was mapped into a context that was reset is
 * unmapped already. False: a stream captures, nothing was done. */
static bool unmap(wm_imports *imports, struct wm_mapping *mapping,
                  bool announced, warm_status *status)
{
    wm_breaking breaking;
    pages *mine;

    if (!begin_break(imports, &breaking, announced)) {
        return false;
    }
    mine = forget_pages(mapping);
    if (!wm_driver_is_lost(imports->driver, imports->device)) {
        *status = wm_driver_ipc_close(imports->driver, imports->device,
                                      mapping->base);
    }
    if (*status != WARM_OK) {
        note_again(mapping, mine);
    } else {
        wm_meta_free(mine);
    }
    end_break(imports, &breaking);
    return true;
}

/* Records that a mapping must be unmapped when captures end. Called once the
 * mapping is not busy: the thread that clears the flag skips busy mappings. The
 * captures may have ended before the flag was set, so this thread checks that
 * too. Relaxed: as in wm_private_tend(). */
static void note_later(const wm_imports *imports)
{
    warm_runtime *runtime = imports->timelines->runtime;

    atomic_store_explicit(&runtime->put_off, true, memory_order_relaxed);
    runtime->tend_pools(runtime, NULL);
}

/* Closes a mapping that is busy since its last place was closed. */
static warm_status close_last(wm_imports *imports, const void *pointer,
                              opening *place)
{
    struct wm_mapping *mapping = place->mapping;
    warm_status status = WARM_OK;
    bool later = !unmap(imports, mapping, true, &status);

    wm_lock_acquire(&imports->lock);
    imports->promised--;
    if (status != WARM_OK) {
        place->count = 1;
        mapping->places = 1;
        wm_map_put(&imports->openings, (uintptr_t)pointer, place);
    } else {
        wm_meta_free(place);
    }
    settle_locked(imports, mapping, status == WARM_OK && !later);
    wm_lock_release(&imports->lock);
    if (later) {
        note_later(imports);
    }
    return status;
}

bool wm_imports_captures_over(wm_imports *imports)
{
    warm_status status = WARM_OK;
    bool may = true;

    WM_KEEP_ERROR();
    wm_lock_acquire(&imports->lock);
    /* A mapping that the driver does not unmap stays until the next capture, or
     * the end. */
    while (may && status == WARM_OK) {
        struct wm_mapping *m = imports->mappings;

        while (m != NULL && (m->places > 0 || m->busy)) {
            m = m->next;
        }
        if (m == NULL) {
            break;
        }
        m->busy = true;
        wm_lock_release(&imports->lock);
        may = unmap(imports, m, true, &status);
        wm_lock_acquire(&imports->lock);
        settle_locked(imports, m, may && status == WARM_OK);
    }
    wm_lock_release(&imports->lock);
    return may;
}

warm_status wm_imports_close(wm_imports *imports, const void *pointer)
{
    opening *place;
    bool gone = false, last = false;

    wm_lock_acquire(&imports->lock);
    /* A mapping that is being closed has no place. */
    place = wm_map_get(&imports->openings, (uintptr_t)pointer);
    if (place != NULL && --place->count == 0) {
        gone = true;
        (void)wm_map_take(&imports->openings, (uintptr_t)pointer);
        last = --place->mapping->places == 0;
        place->mapping->busy = last;
        imports->promised += last; /* a slot for it, if unmapping fails */
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

/* The sum of the opening counts of all blocks. */
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
    struct wm_mapping *m;
    bool mode, relaxed;

    if (imports->mappings == NULL) {
        return 0;
    }
    free_openings(imports);
    relaxed = wm_driver_capture_relaxed_begin(imports->driver, &mode);
    while ((m = imports->mappings) != NULL) {
        warm_status status = WARM_OK;

        imports->mappings = m->next;
        if (!unmap(imports, m, false, &status)) {
            status = wm_fail(WARM_CAPTURE_ERROR, "a stream captures");
        }
        if (status != WARM_OK) {
            wm_log(WARM_LOG_WARNING,
                   "memory of another process stays mapped: %s",
                   warm_last_error_message());
        }
        wm_meta_free(m);
    }
    if (relaxed) {
        wm_driver_capture_relaxed_end(imports->driver, &mode);
    }
    if (count > 0) {
        wm_log(WARM_LOG_WARNING,
               "a runtime was destroyed with %s of other processes open on "
               "device %d",
               wm_counted(count, "block").text, imports->device);
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
