/* own_allocators.c: a runtime's own allocators (allocators.h, row D4). Takes no
 * lock. */
#include "alloc/storage/allocators.h"

#include "alloc/api/copy.h"
#include "alloc/kinds/device_space.h"
#include "runtime/base/status.h"
#include "warmpool/device_memory.h"
#include "warmpool/memory.h"

static void free_block(void *context)
{
    (void)warm_free(context);
}

static void is_block(warm_data_pointer *data, void *pointer)
{
    data->data = data->context = pointer;
    data->deleter = free_block;
}

static warm_status alloc_pinned(void *context, size_t bytes, warm_stream stream,
                                warm_data_pointer *data)
{
    const wm_own_allocator *own = context;
    void *pointer = NULL;
    warm_status status = warm_pinned_alloc(own->runtime, bytes, &pointer);

    (void)stream; /* page-locked memory belongs to no stream */
    if (status == WARM_OK) {
        is_block(data, pointer);
    }
    return status;
}

static warm_status alloc_on_device(void *context, size_t bytes,
                                   warm_stream stream, warm_data_pointer *data)
{
    const wm_own_allocator *on = context;
    void *pointer = NULL;
    warm_status status =
        warm_device_alloc(on->runtime, on->device, stream, bytes, &pointer);

    if (status == WARM_OK) {
        is_block(data, pointer);
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
    return allocator->alloc == alloc_pinned ||
           allocator->alloc == alloc_on_device;
}

/* A pointer to no block is left to warm_free(), whose error names it. */
static warm_status check_own(const warm_allocator *allocator,
                             const void *pointer)
{
    const wm_own_allocator *own = allocator->context;
    const wm_block *block = wm_space_find(pointer);
    warm_status status = wm_runtime_check(own->runtime);

    if (status == WARM_OK && block != NULL &&
        (wm_space_of(block)->group.runtime != own->runtime ||
         wm_device_of_block(block) != own->device)) {
        status = wm_fail(WARM_INVALID_POINTER,
                         "%p was not allocated by this allocator, %s", pointer,
                         allocator->name);
    }
    return status;
}

warm_status wm_allocator_free(const warm_allocator *allocator, void *pointer)
{
    warm_status status = WARM_OK;

    if (allocator->raw_deleter != free_block) {
        allocator->raw_deleter(pointer);
        return WARM_OK;
    }
    if (wm_allocator_is_own(allocator)) {
        status = check_own(allocator, pointer);
    }
    return status == WARM_OK ? warm_free(pointer) : status;
}

static const wm_own_allocator pinned_memory = {
    .device = WARM_NO_DEVICE,
    .allocator = {.size = sizeof(warm_allocator),
                  .name = "warmpool pinned",
                  .memory = WARM_MEMORY_PINNED,
                  .device = WARM_NO_DEVICE,
                  .alloc = alloc_pinned,
                  .raw_deleter = free_block,
                  .copy = copy_block,
                  .record = record_block}};

static const wm_own_allocator device_memory = {
    .allocator = {.size = sizeof(warm_allocator),
                  .name = "warmpool device",
                  .memory = WARM_MEMORY_DEVICE,
                  .alloc = alloc_on_device,
                  .raw_deleter = free_block,
                  .copy = copy_block,
                  .record = record_block}};

void wm_own_allocators_init(warm_runtime *runtime)
{
    for (int i = 0; i <= runtime->devices; i++) {
        wm_own_allocator *own = &runtime->own[i];

        *own = i == 0 ? pinned_memory : device_memory;
        own->runtime = runtime;
        own->allocator.context = own;
        if (i > 0) {
            own->device = own->allocator.device = i - 1;
        }
    }
}
