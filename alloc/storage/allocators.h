/* allocators.h: one interface before every kind of memory (row D4).
 *
 * A runtime has allocators of its own and those that users registered. The own
 * ones lie in the runtime's block, which is never freed: storages outlive a
 * runtime, and a free after its end is an error and no crash.
 *
 * Takes lock allocators, and nothing under it. */
#ifndef WM_ALLOCATORS_H
#define WM_ALLOCATORS_H

#include "runtime/thread/control.h"
#include "warmpool/storage.h"

#include <stdbool.h>

/* Status: OUT_OF_MEMORY. */
warm_status wm_allocators_open(warm_runtime *runtime);
void wm_own_allocators_init(warm_runtime *runtime);
/* Forgets what users registered. No other thread is inside. */
void wm_allocators_close(warm_runtime *runtime);

/* INVALID_ARGUMENT for no kind of memory. */
warm_status wm_memory_check(warm_memory memory);

static inline bool wm_memory_has_device(warm_memory memory)
{
    return memory == WARM_MEMORY_DEVICE || memory == WARM_MEMORY_SHARED;
}

/* INVALID_ARGUMENT unless data has a size that a warm_data_pointer can have. */
warm_status wm_data_check(const warm_data_pointer *data);

/* In from a caller, checked, with all fields; and out again. */
warm_status wm_data_in(const warm_data_pointer *given, warm_data_pointer *data);
void wm_data_out(warm_data_pointer *given, const warm_data_pointer *data);
warm_status wm_allocator_in(const warm_allocator *given, warm_allocator *full);

/* What an allocator's function answered. before: of wm_error_hush(), ahead of
 * the call. Where it failed and said nothing, what it did not do is said. */
warm_status wm_allocator_said(const warm_allocator *allocator,
                              warm_status before, warm_status answer,
                              const char *what);

/* Frees a plain pointer. The runtime's own allocator refuses what it did not
 * allocate: INVALID_POINTER. */
warm_status wm_allocator_free(const warm_allocator *allocator, void *pointer);

/* The public functions, of an allocator that came in. */
warm_status wm_data_alloc(const warm_allocator *allocator, size_t bytes,
                          warm_stream stream, warm_data_pointer *data);

/* Copies in the order of stream: queued by the allocator, or made by the host
 * once the stream has passed. given: what the caller knows allocator by.
 * Status: also CAPTURE_ERROR, UNSUPPORTED (nobody knows whose stream it is),
 * RUNTIME_GONE, FORKED, EXITING. */
warm_status wm_data_copy(const warm_allocator *given,
                         const warm_allocator *allocator, void *destination,
                         const void *source, size_t bytes, warm_stream stream);

/* The same from old memory, null if there is none, which its owner may free
 * then. */
warm_status wm_data_replace(const warm_allocator *given,
                            const warm_allocator *allocator, void *made,
                            const void *old, size_t bytes, warm_stream stream);

/* Says that stream uses data, by what allocator has for that, else by
 * warm_record_stream(). *known: somebody knows the memory. */
warm_status wm_data_use(const warm_allocator *allocator, const void *data,
                        warm_stream stream, bool *known);

/* A runtime's own one: its copy records the stream on both ends by itself. */
bool wm_allocator_is_own(const warm_allocator *allocator);

/* The runtime on whose streams an allocator's memory is used: its own, the one
 * where it is registered, or the only one that lives. Pinned; null if none
 * does. Status: UNSUPPORTED (several live, and it is not of one of them alone),
 * RUNTIME_GONE. */
warm_status wm_allocator_runtime(const warm_allocator *given,
                                 warm_runtime **runtime);

#endif
