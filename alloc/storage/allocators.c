/* allocators.c: registration and lookup of allocators (allocators.h). */
#include "alloc/storage/allocators.h"

#include "runtime/base/meta.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"

struct entry {
    const warm_allocator *given; /* the program's pointer */
    warm_memory memory;
    int device, priority;
    struct entry *next;
};

struct wm_allocators {
    wm_lock lock;
    struct entry *first; /* lock allocators; by falling priority */
};

warm_status wm_memory_check(warm_memory memory)
{
    switch (memory) {
    case WARM_MEMORY_HOST:
    case WARM_MEMORY_PINNED:
    case WARM_MEMORY_DEVICE:
    case WARM_MEMORY_SHARED:
        return WARM_OK;
    }
    return wm_fail(WARM_INVALID_ARGUMENT,
                   "memory %d is no value of enum warm_memory", (int)memory);
}

warm_status wm_allocators_open(warm_runtime *runtime)
{
    struct wm_allocators *all = wm_meta_alloc(sizeof *all);

    if (all == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    wm_lock_init(&all->lock, WM_RANK_ALLOCATORS);
    wm_own_allocators_init(runtime);
    runtime->allocators = all;
    return WARM_OK;
}

void wm_allocators_close(warm_runtime *runtime)
{
    struct wm_allocators *all = runtime->allocators;

    while (all->first != NULL) {
        struct entry *entry = all->first;

        all->first = entry->next;
        wm_meta_free(entry);
    }
    wm_lock_fini(&all->lock);
    wm_meta_free(all);
    runtime->allocators = NULL;
}

/* ---- registration -------------------------------------------------------- */

static warm_status check_place(warm_runtime *runtime, warm_memory memory,
                               int device)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        status = wm_memory_check(memory);
    }
    if (status == WARM_OK && wm_memory_has_device(memory)) {
        status = wm_runtime_check_range(runtime, device);
    }
    return status;
}

static const warm_allocator *own_of(const warm_runtime *runtime,
                                    warm_memory memory, int device)
{
    if (memory == WARM_MEMORY_PINNED) {
        return &runtime->own[0].allocator;
    }
    return memory == WARM_MEMORY_DEVICE ? &runtime->own[1 + device].allocator
                                        : NULL;
}

static const warm_allocator *find_locked(const warm_runtime *runtime,
                                         warm_memory memory, int device)
{
    const warm_allocator *own = own_of(runtime, memory, device);

    for (struct entry *e = runtime->allocators->first; e != NULL; e = e->next) {
        if (e->memory == memory && e->device == device) {
            return e->priority < 0 && own != NULL ? own : e->given;
        }
    }
    return own;
}

warm_status warm_allocator_get(warm_runtime *runtime, warm_memory memory,
                               int device, const warm_allocator **allocator)
{
    warm_status status = check_place(runtime, memory, device);
    const warm_allocator *found;

    if (status != WARM_OK) {
        return status;
    }
    if (allocator == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "allocator is null");
    }
    wm_lock_acquire(&runtime->allocators->lock);
    found = find_locked(runtime, memory,
                        wm_memory_has_device(memory) ? device : WARM_NO_DEVICE);
    wm_lock_release(&runtime->allocators->lock);
    if (found == NULL) {
        return wm_fail(WARM_NOT_FOUND,
                       "no allocator of %s memory is registered",
                       warm_memory_name(memory));
    }
    *allocator = found;
    return WARM_OK;
}

/* Inserts before entries of the same or lower priority. False: it is registered
 * already. */
static bool add_locked(struct wm_allocators *all, struct entry *entry)
{
    struct entry **link = &all->first;

    for (struct entry *e = all->first; e != NULL; e = e->next) {
        if (e->given == entry->given) {
            return false;
        }
    }
    while (*link != NULL && (*link)->priority > entry->priority) {
        link = &(*link)->next;
    }
    entry->next = *link;
    *link = entry;
    return true;
}

static warm_status add(struct wm_allocators *all, const struct entry *wanted)
{
    struct entry *entry = wm_meta_alloc(sizeof *entry);
    bool added;

    if (entry == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for an allocator");
    }
    *entry = *wanted;
    wm_lock_acquire(&all->lock);
    added = add_locked(all, entry);
    wm_lock_release(&all->lock);
    if (!added) {
        wm_meta_free(entry);
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "allocator %s is registered already for %s memory",
                       wanted->given->name, warm_memory_name(wanted->memory));
    }
    return WARM_OK;
}

warm_status warm_allocator_register(warm_runtime *runtime,
                                    const warm_allocator *allocator,
                                    int priority)
{
    warm_allocator full;
    warm_status status = wm_allocator_in(allocator, &full);

    if (status == WARM_OK) {
        status = check_place(runtime, full.memory, full.device);
    }
    if (status == WARM_OK) {
        const struct entry wanted = {.given = allocator,
                                     .memory = full.memory,
                                     .device = full.device,
                                     .priority = priority};

        status = add(runtime->allocators, &wanted);
    }
    return status;
}

static struct entry *take_out_locked(struct wm_allocators *all,
                                     const warm_allocator *allocator)
{
    struct entry **link = &all->first;
    struct entry *entry;

    while (*link != NULL && (*link)->given != allocator) {
        link = &(*link)->next;
    }
    entry = *link;
    if (entry != NULL) {
        *link = entry->next;
    }
    return entry;
}

warm_status warm_allocator_unregister(warm_runtime *runtime,
                                      const warm_allocator *allocator)
{
    warm_status status = wm_runtime_check(runtime);
    struct entry *entry;

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&runtime->allocators->lock);
    entry = take_out_locked(runtime->allocators, allocator);
    wm_lock_release(&runtime->allocators->lock);
    if (entry == NULL) {
        return wm_fail(WARM_NOT_FOUND, "the allocator is not registered with "
                                       "this runtime, or not any more");
    }
    wm_meta_free(entry);
    return WARM_OK;
}

const char *warm_memory_name(warm_memory memory)
{
    switch (memory) {
#define NAME(name, value, text)                                                \
    case WARM_MEMORY_##name:                                                   \
        return text;
        WARM_MEMORY_MAP(NAME)
#undef NAME
    }
    return "unknown";
}

warm_status wm_allocator_in(const warm_allocator *given, warm_allocator *full)
{
    warm_status status = wm_sized_check(given, sizeof *full, "warm_allocator");

    if (status != WARM_OK) {
        return status;
    }
    wm_sized_in(full, given, sizeof *full);
    if (full->name == NULL || full->alloc == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "warm_allocator.%s is null",
                       full->name == NULL ? "name" : "alloc");
    }
    if (!wm_memory_has_device(full->memory)) {
        full->device = WARM_NO_DEVICE;
    }
    return wm_memory_check(full->memory);
}
