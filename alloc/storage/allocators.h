/* allocators.h: one interface for every kind of memory (row D4).
 *
 * A runtime has built-in allocators (its own) and those that the program
 * registered. Its own are part of the runtime's record, which is never freed: a
 * storage may outlive its runtime, and a free after its end is an error, not a
 * crash.
 *
 * Takes lock allocators, and no lock while holding it. No lock is held while a
 * deleter or a function of an allocator runs: both are user code, in which the
 * thread is not cancelled, since what the call has would be lost. */
#ifndef WM_ALLOCATORS_H
#define WM_ALLOCATORS_H

#include "runtime/thread/runtime_body.h"
#include "warmpool/storage.h"

#include <stdbool.h>

/* Status: OUT_OF_MEMORY. */
warm_status wm_allocators_open(warm_runtime *runtime);
/* Removes registered allocators. No other thread uses the runtime. */
void wm_allocators_close(warm_runtime *runtime);

/* INVALID_ARGUMENT if memory is no value of the enum. */
warm_status wm_memory_check(warm_memory memory);

static inline bool wm_memory_has_device(warm_memory memory)
{
    return memory == WARM_MEMORY_DEVICE || memory == WARM_MEMORY_SHARED;
}

static inline warm_data_pointer wm_data_empty(void)
{
    return (warm_data_pointer){.size = sizeof(warm_data_pointer),
                               .device = WARM_NO_DEVICE};
}

/* The runtime whose block holds the pointer; null: none. Borrowed: a runtime is
 * never freed. */
warm_runtime *wm_data_runtime(const void *data);
/* FORKED if the runtime (or null) was made before this process was forked: the
 * child has not got its memory. */
warm_status wm_data_check_fork(warm_runtime *runtime);

/* Check the caller's struct and copy it; the copy of an allocator has all
 * fields set. */
warm_status wm_data_in(const warm_data_pointer *given, warm_data_pointer *data);
warm_status wm_allocator_in(const warm_allocator *given, warm_allocator *full);

/* Whether it is a runtime's own allocator, whose copy records the stream on
 * both blocks. */
bool wm_allocator_is_own(const warm_allocator *allocator);

/* Calls a deleter. */
void wm_data_delete(warm_deleter_fn deleter, void *context);

/* Frees a plain pointer. The runtime's own allocators refuse pointers of
 * others: INVALID_POINTER. */
warm_status wm_allocator_free(const warm_allocator *allocator, void *pointer);

/* warm_data_pointer_alloc() with a checked allocator. */
warm_status wm_data_alloc(const warm_allocator *allocator, size_t bytes,
                          warm_stream stream, warm_data_pointer *data);

/* Records stream on data by the allocator's record function, else by
 * warm_record_stream() if data is part of a block. OK, without effect, for
 * other memory: its owner is responsible for it. allocator: checked, or null.
 */
warm_status wm_data_use(const warm_allocator *allocator, const void *data,
                        warm_stream stream);

#endif
