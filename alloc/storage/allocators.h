/* allocators.h: one interface for every kind of memory (row D4).
 *
 * A runtime has its own allocators and those that the program registered. Its
 * own are part of the runtime's block, which is never freed: a storage may
 * outlive its runtime, and a free after its end is an error, not a crash.
 *
 * Takes lock allocators, and no lock while holding it. */
#ifndef WM_ALLOCATORS_H
#define WM_ALLOCATORS_H

#include "runtime/thread/runtime_body.h"
#include "warmpool/storage.h"

#include <stdbool.h>

/* Status: OUT_OF_MEMORY. */
warm_status wm_allocators_open(warm_runtime *runtime);
void wm_own_allocators_init(warm_runtime *runtime);
/* Removes registered allocators. No other thread uses the runtime. */
void wm_allocators_close(warm_runtime *runtime);

/* INVALID_ARGUMENT if memory is no value of the enum. */
warm_status wm_memory_check(warm_memory memory);

static inline bool wm_memory_has_device(warm_memory memory)
{
    return memory == WARM_MEMORY_DEVICE || memory == WARM_MEMORY_SHARED;
}

/* INVALID_ARGUMENT unless data->size is valid for a warm_data_pointer. */
warm_status wm_data_check(const warm_data_pointer *data);

/* Copy a caller's struct in, checked, with all fields set; and out again. */
warm_status wm_data_in(const warm_data_pointer *given, warm_data_pointer *data);
void wm_data_out(warm_data_pointer *given, const warm_data_pointer *data);
warm_status wm_allocator_in(const warm_allocator *given, warm_allocator *full);

/* Returns `answer`, the status of an allocator's function. If the function
 * failed and set no error, sets one that names the allocator. before: from
 * wm_error_hush(), called ahead of the function. */
warm_status wm_allocator_said(const warm_allocator *allocator,
                              warm_status before, warm_status answer,
                              const char *what);

/* Frees a plain pointer. The runtime's own allocators refuse pointers of
 * others: INVALID_POINTER. */
warm_status wm_allocator_free(const warm_allocator *allocator, void *pointer);

/* warm_data_pointer_alloc() with a checked allocator. */
warm_status wm_data_alloc(const warm_allocator *allocator, size_t bytes,
                          warm_stream stream, warm_data_pointer *data);

/* Copies in stream order: the allocator queues the copy, or the host copies
 * once the stream's work has completed. given: the caller's pointer to the
 * allocator. Status: also CAPTURE_ERROR, UNSUPPORTED (the stream's runtime is
 * unknown), RUNTIME_GONE, FORKED, EXITING. */
warm_status wm_data_copy(const warm_allocator *given,
                         const warm_allocator *allocator, void *destination,
                         const void *source, size_t bytes, warm_stream stream);

/* wm_data_copy() from memory that the owner frees afterwards; old may be null.
 */
warm_status wm_data_replace(const warm_allocator *given,
                            const warm_allocator *allocator, void *made,
                            const void *old, size_t bytes, warm_stream stream);

/* Records stream on data by the allocator's record function, else by
 * warm_record_stream(). *known: one of the two knows the memory. */
warm_status wm_data_use(const warm_allocator *allocator, const void *data,
                        warm_stream stream, bool *known);

/* Whether it is a runtime's own allocator, whose copy records the stream on
 * both blocks. */
bool wm_allocator_is_own(const warm_allocator *allocator);

/* Pins the runtime on whose streams an allocator's memory is used: its own, the
 * one where it is registered, or the only live one; null: none is live. Status:
 * UNSUPPORTED (several are live, and it is registered with none or several),
 * RUNTIME_GONE. */
warm_status wm_allocator_runtime(const warm_allocator *given,
                                 warm_runtime **runtime);

#endif
