/* allocators.c: a runtime's own allocators, and those that are registered with
 * it (allocators.h). */
#include "alloc/storage/allocators.h"

#include "alloc/api/copy.h"
#include "alloc/kinds/device_space.h"
#include "alloc/kinds/shared.h"
#include "runtime/base/meta.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"
#include "warmpool/device_memory.h"
#include "warmpool/memory.h"
#include "warmpool/shared.h"

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

/* ---- checks -------------------------------------------------------------- */

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

warm_status wm_memory_check(warm_memory memory)
{
    return (unsigned)memory <= WARM_MEMORY_SHARED
               ? WARM_OK
               : wm_fail(WARM_INVALID_ARGUMENT,
                         "memory %d is no value of enum warm_memory",
                         (int)memory);
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

static warm_status check_place(warm_runtime *runtime, warm_memory memory,
                               int device)
{
    warm_status status = wm_runtime_check(runtime);

    status = status != WARM_OK ? status : wm_memory_check(memory);
    return status == WARM_OK && wm_memory_has_device(memory)
               ? wm_runtime_check_range(runtime, device)
               : status;
}

/* ---- the runtime's own --------------------------------------------------- */

static void free_block(void *context)
{
    (void)warm_free(context);
}

void wm_data_delete(warm_deleter_fn deleter, void *context)
{
    if (deleter == free_block) { /* no call of ours can be cancelled */
        free_block(context);
        return;
    }
    WM_CANCEL_OFF();
    deleter(context);
}

static warm_status alloc_block(void *context, size_t bytes, warm_stream stream,
                               warm_data_pointer *data)
{
    const wm_own_allocator *own = context;
    warm_status status;
    void *pointer = NULL;

    /* Only a device's own memory is allocated in the order of a stream. */
    if (own->allocator.memory == WARM_MEMORY_PINNED) {
        status = warm_pinned_alloc(own->runtime, bytes, &pointer);
    } else if (own->allocator.memory == WARM_MEMORY_DEVICE) {
        status = warm_device_alloc(own->runtime, own->device, stream, bytes,
                                   &pointer);
    } else {
        status = warm_shared_alloc(own->runtime, own->device, bytes,
                                   WARM_USAGE_SHARED, &pointer);
    }
    if (status == WARM_OK) {
        data->data = data->context = pointer;
        data->deleter = free_block;
    }
    return status;
}

static warm_status copy_block(void *context, void *destination,
                              const void *source, size_t bytes,
                              warm_stream stream)
{
    const wm_own_allocator *own = context;

    return wm_copy_any(own->runtime, destination, source, bytes, stream);
}

static warm_status record_block(void *context, const void *data,
                                warm_stream stream)
{
    const wm_own_allocator *own = context;
    warm_status status = wm_runtime_check(own->runtime);

    return status == WARM_OK ? warm_record_stream(data, stream) : status;
}

bool wm_allocator_is_own(const warm_allocator *allocator)
{
    return allocator->alloc == alloc_block;
}

static bool is_from(const wm_own_allocator *own, const wm_block *block)
{
    const wm_arena_group *group = block->segment->arena->group;

    if (group->runtime != own->runtime) {
        return false;
    }
    return own->allocator.memory == WARM_MEMORY_SHARED
               ? group->shared &&
                     wm_shared_space_of(block)->device == own->device
               : !wm_block_is_buffer(block) &&
                     wm_device_of_block(block) == own->device;
}

/* A pointer to no block is left to warm_free(), whose error names it. */
static warm_status check_own(const warm_allocator *allocator,
                             const void *pointer)
{
    const wm_own_allocator *own = allocator->context;
    const wm_block *block = wm_space_find(pointer);
    warm_status status = wm_runtime_check(own->runtime);

    if (status == WARM_OK && block != NULL && !is_from(own, block)) {
        status = wm_fail(WARM_INVALID_POINTER,
                         "%p was not allocated by this allocator, %s", pointer,
                         allocator->name);
    }
    return status;
}

warm_status wm_allocator_free(const warm_allocator *allocator, void *pointer)
{
    warm_status status = WARM_OK;

    /* A program's allocator may have the deleter of the runtime's own. */
    if (allocator->raw_deleter != free_block) {
        wm_data_delete(allocator->raw_deleter, pointer);
        return WARM_OK;
    }
    if (wm_allocator_is_own(allocator)) {
        status = check_own(allocator, pointer);
    }
    return status == WARM_OK ? warm_free(pointer) : status;
}

/* The runtime's own allocator of a kind of memory, or null. */
static wm_own_allocator *own_of(warm_runtime *runtime, warm_memory memory,
                                int device)
{
    switch (memory) {
    case WARM_MEMORY_PINNED:
        return &runtime->own[0];
    case WARM_MEMORY_DEVICE:
        return &runtime->own[1 + device];
    case WARM_MEMORY_SHARED:
        return &runtime->own[1 + runtime->devices + device];
    case WARM_MEMORY_HOST:
        break;
    }
    return NULL;
}

static void make_own(warm_runtime *runtime, warm_memory memory, int device)
{
    static const char *const names[] = {
        [WARM_MEMORY_PINNED] = "warmpool pinned",
        [WARM_MEMORY_DEVICE] = "warmpool device",
        [WARM_MEMORY_SHARED] = "warmpool shared"};
    wm_own_allocator *own = own_of(runtime, memory, device);

    own->runtime = runtime;
    own->device = device;
    own->allocator = (warm_allocator){.size = sizeof own->allocator,
                                      .name = names[memory],
                                      .context = own,
                                      .memory = memory,
                                      .device = device,
                                      .alloc = alloc_block,
                                      .raw_deleter = free_block,
                                      .copy = copy_block,
                                      .record = record_block};
}

/* ---- registration -------------------------------------------------------- */

warm_status wm_allocators_open(warm_runtime *runtime)
{
    struct wm_allocators *all = wm_meta_alloc(sizeof *all);

    if (all == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    wm_lock_init(&all->lock, WM_RANK_ALLOCATORS);
    make_own(runtime, WARM_MEMORY_PINNED, WARM_NO_DEVICE);
    for (int device = 0; device < runtime->devices; device++) {
        make_own(runtime, WARM_MEMORY_DEVICE, device);
        make_own(runtime, WARM_MEMORY_SHARED, device);
    }
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
    wm_meta_free(all);
    runtime->allocators = NULL;
}

/* device: WARM_NO_DEVICE for host and pinned memory. */
static const warm_allocator *find_locked(warm_runtime *runtime,
                                         warm_memory memory, int device)
{
    const wm_own_allocator *found = own_of(runtime, memory, device);
    const warm_allocator *own = found != NULL ? &found->allocator : NULL;

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

    status = wm_check_given(status, allocator, "allocator");
    if (status != WARM_OK) {
        return status;
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

/* Returns the link to the allocator's entry, or to null. */
static struct entry **find_link_locked(struct wm_allocators *all,
                                       const warm_allocator *allocator)
{
    struct entry **link = &all->first;

    while (*link != NULL && (*link)->given != allocator) {
        link = &(*link)->next;
    }
    return link;
}

/* Inserts before entries of the same or lower priority. False: the allocator is
 * registered already. */
static bool add_locked(struct wm_allocators *all, struct entry *entry)
{
    struct entry **link = &all->first;

    if (*find_link_locked(all, entry->given) != NULL) {
        return false;
    }
    while (*link != NULL && (*link)->priority > entry->priority) {
        link = &(*link)->next;
    }
    entry->next = *link;
    *link = entry;
    return true;
}

warm_status warm_allocator_register(warm_runtime *runtime,
                                    const warm_allocator *allocator,
                                    int priority)
{
    warm_allocator full;
    warm_status status = wm_allocator_in(allocator, &full);
    struct entry *entry;
    bool added;

    if (status == WARM_OK) {
        status = check_place(runtime, full.memory, full.device);
    }
    if (status != WARM_OK) {
        return status;
    }
    entry = wm_meta_alloc(sizeof *entry);
    if (entry == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for an allocator");
    }
    *entry = (struct entry){.given = allocator,
                            .memory = full.memory,
                            .device = full.device,
                            .priority = priority};
    wm_lock_acquire(&runtime->allocators->lock);
    added = add_locked(runtime->allocators, entry);
    wm_lock_release(&runtime->allocators->lock);
    if (!added) {
        wm_meta_free(entry);
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "allocator %s is registered already for %s memory",
                       full.name, warm_memory_name(full.memory));
    }
    return WARM_OK;
}

warm_status warm_allocator_unregister(warm_runtime *runtime,
                                      const warm_allocator *allocator)
{
    warm_status status =
        wm_check_given(wm_runtime_check(runtime), allocator, "allocator");
    struct entry **link, *entry;

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&runtime->allocators->lock);
    link = find_link_locked(runtime->allocators, allocator);
    entry = *link;
    if (entry != NULL) {
        *link = entry->next;
    }
    wm_lock_release(&runtime->allocators->lock);
    if (entry == NULL) {
        return wm_fail(WARM_NOT_FOUND,
                       "the allocator was never registered with "
                       "this runtime, or was unregistered already");
    }
    wm_meta_free(entry);
    return WARM_OK;
}
