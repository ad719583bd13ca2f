/* warmpool/storage.h: ownership of memory.
 *
 * Three types, each built on the one before it:
 *
 *   warm_data_pointer  a pointer, and a context with a deleter that frees it
 *   warm_allocator     makes data pointers: one for each kind of memory, or a
 *                      program's own
 *   warm_storage       a data pointer with counted references; the last release
 *                      frees it
 *
 *   storage ──► data ──► memory     strong 2, weak 1: memory and record exist
 *      │          └────► context    strong 0, weak 1: only the record exists
 *      └──► allocator               strong 0, weak 0: the record is freed
 *
 * A storage around a block of the library does not hide the block:
 * warm_record_stream() and warm_block_get_info() find it by any pointer into
 * it, also if a context of the program owns it.
 *
 * Threads. Any thread may retain and release references. Only one thread at a
 * time may change a warm_data_pointer, or the data pointer of a storage.
 * Common status: INVALID_ARGUMENT (null, or a struct of unknown size).
 */
#ifndef WARMPOOL_STORAGE_H
#define WARMPOOL_STORAGE_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* name, value, text */
#define WARM_MEMORY_MAP(X)                                                     \
    X(HOST, 0, "host")     /* ordinary memory; the runtime has no allocator */ \
    X(PINNED, 1, "pinned") /* page-locked memory of the host */                \
    X(DEVICE, 2, "device") /* of one device */                                 \
    X(SHARED, 3, "shared") /* of host and device alike */

typedef enum warm_memory {
#define WARM_MEMORY_ENUM(name, value, text) WARM_MEMORY_##name = value,
    WARM_MEMORY_MAP(WARM_MEMORY_ENUM)
#undef WARM_MEMORY_ENUM
} warm_memory;

/* The device of host and pinned memory; as an argument for these any value is
 * accepted. */
#define WARM_NO_DEVICE (-1)

/* The name of a kind of memory ("pinned"), or "unknown". Static string. */
WARM_API const char *warm_memory_name(warm_memory memory);

/* ---- data pointers ------------------------------------------------------- */

/* Frees the context and the memory that it owns. Called once, by the thread
 * that drops the last reference, with no lock of the library held: it may call
 * the library. */
typedef void (*warm_deleter_fn)(void *context);

/* A pointer, and the context that owns its memory. Context and pointer are
 * often equal, but data may point into the middle of the context's memory, or
 * the context may be a record of another library.
 * Copying the struct does not copy the ownership: only one copy may be freed.
 * The owner may read every field and replace the deleter. */
typedef struct warm_data_pointer {
    size_t size;             /* sizeof(warm_data_pointer) */
    void *data;              /* first byte */
    void *context;           /* argument of deleter */
    warm_deleter_fn deleter; /* null: another owner frees it */
    warm_memory memory;
    int device;
} warm_data_pointer;

/* Calls the deleter, unless it is null, with the context, and empties the data
 * pointer. Does nothing if data is empty or null. */
WARM_API void warm_data_pointer_free(warm_data_pointer *data);

/* Moves the context out: the caller owns it afterwards and frees it with
 * *deleter. data still points to the memory, but owns nothing.
 * context, deleter: get null if data has none. Status: FORKED (data points to a
 * block of a runtime of the parent process). */
WARM_API warm_status warm_data_pointer_move_context(warm_data_pointer *data,
                                                    void **context,
                                                    warm_deleter_fn *deleter);

/* ---- allocators ---------------------------------------------------------- */

/* The interface of every kind of memory, which a program may implement. A null
 * function is not supported. The program must not change the struct, nor free
 * it while it is registered or while memory that it allocated exists. Functions
 * may return any status. If a function fails and has set no last error (no call
 * of the library failed inside it), warm_last_error() names the allocator. */
typedef struct warm_allocator {
    size_t size;        /* sizeof(warm_allocator) */
    const char *name;   /* for messages; not null */
    void *context;      /* first argument of the functions */
    warm_memory memory; /* the kind that it allocates */
    int device;
    /* Allocates. Required. bytes: at least 1. stream: the stream that uses the
     * memory first; memory of a device is allocated in the order of that
     * stream. data: size, memory and device are set before the call; the
     * function fills in the rest on success; owned by the caller. */
    warm_status (*alloc)(void *context, size_t bytes, warm_stream stream,
                         warm_data_pointer *data);
    /* Not null: in every data pointer that alloc makes, context equals data and
     * the deleter is raw_deleter; warm_allocator_alloc() requires that. */
    warm_deleter_fn raw_deleter;
    /* Queues a copy to memory of this allocator on stream. Null: the host
     * copies once the work that is queued on stream has finished, which
     * requires memory that the host can address. */
    warm_status (*copy)(void *context, void *destination, const void *source,
                        size_t bytes, warm_stream stream);
    /* As warm_record_stream(), for a pointer into memory of this allocator;
     * NOT_FOUND: the pointer is not into such memory. Null: freeing such memory
     * needs no record. */
    warm_status (*record)(void *context, const void *data, warm_stream stream);
} warm_allocator;

/* The allocator of a kind of memory: the one with the highest priority, of
 * several the one registered last. The runtime's own allocators have priority
 * 0.
 * device: of the runtime. allocator: borrowed; the runtime's own stays valid
 * for ever, and returns RUNTIME_GONE once the runtime is destroyed.
 * Status: NOT_FOUND (host and shared memory have none until one is registered),
 * RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_allocator_get(warm_runtime *runtime,
                                        warm_memory memory, int device,
                                        const warm_allocator **allocator);

/* Registers an allocator for its kind of memory and its device.
 * allocator: borrowed until it is unregistered or the runtime destroyed.
 * priority: warm_allocator_get() returns the highest; an allocator with a
 * priority below 0 never replaces one of the runtime's own.
 * Status: INVALID_ARGUMENT also for one that is registered already, has no
 * name or no alloc, or names an unknown memory or device; OUT_OF_MEMORY,
 * RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_allocator_register(warm_runtime *runtime,
                                             const warm_allocator *allocator,
                                             int priority);

/* Unregisters an allocator; warm_allocator_get() no longer returns it. It still
 * frees the memory that it has allocated. Status: NOT_FOUND, RUNTIME_GONE,
 * FORKED, EXITING. */
WARM_API warm_status warm_allocator_unregister(warm_runtime *runtime,
                                               const warm_allocator *allocator);

/* Allocates through an allocator. bytes 0: a data pointer with null data.
 * data: size set by the caller, the rest is ignored; owned, freed by
 * warm_data_pointer_free().
 * Status: those of the allocator. */
WARM_API warm_status warm_data_pointer_alloc(const warm_allocator *allocator,
                                             size_t bytes, warm_stream stream,
                                             warm_data_pointer *data);

/* Allocates, and copies bytes from source in the order of stream. The host may
 * read data, and free or change source, once the work queued on stream has
 * finished; a block of the library at source may be freed before.
 * runtime: of stream. source: memory that the allocator's copy can read; the
 * runtime's own allocators read all memory that the driver can.
 * An allocator with a copy function queues the copy. Without one the host
 * copies, after it has waited for stream.
 * Status: INVALID_ARGUMENT also for more bytes than a block of the library has
 * from source on (nothing has changed then); those of the allocator, of
 * warm_copy_async() for the runtime's own, and the new memory is freed again;
 * RUNTIME_GONE, FORKED, EXITING; without a copy function UNSUPPORTED (memory of
 * a device), CAPTURE_ERROR (stream captures), DRIVER_ERROR. */
WARM_API warm_status warm_data_pointer_clone(warm_runtime *runtime,
                                             const warm_allocator *allocator,
                                             const void *source, size_t bytes,
                                             warm_stream stream,
                                             warm_data_pointer *data);

/* Allocates a plain pointer, for interfaces without a context; freed by
 * warm_allocator_free().
 * Status: those of the allocator; UNSUPPORTED (no raw_deleter). */
WARM_API warm_status warm_allocator_alloc(const warm_allocator *allocator,
                                          size_t bytes, warm_stream stream,
                                          void **pointer);
/* Frees what warm_allocator_alloc() allocated.
 * pointer: taken; of warm_allocator_alloc() of the same allocator, or null.
 * Status: for the runtime's own allocators INVALID_POINTER (as warm_free(), and
 * for memory of another allocator; nothing changes), RUNTIME_GONE, FORKED,
 * EXITING. A program's raw_deleter cannot refuse a pointer. */
WARM_API warm_status warm_allocator_free(const warm_allocator *allocator,
                                         void *pointer);

/* ---- storages ------------------------------------------------------------ */

/* A data pointer, its size and the allocator that it came from, with counted
 * references. Opaque. */
typedef struct warm_storage warm_storage;

/* Makes a storage with memory of the allocator, and one strong reference.
 * bytes: may be 0. stream: as warm_allocator.alloc.
 * Status: those of the allocator; OUT_OF_MEMORY. */
WARM_API warm_status warm_storage_create(const warm_allocator *allocator,
                                         size_t bytes, warm_stream stream,
                                         warm_storage **storage);

/* Makes a storage of memory that exists already.
 * data: taken on success, and emptied; its deleter is called when the last
 * strong reference is released. bytes: of the memory at data.data.
 * allocator: where the memory came from; may be null.
 * Status: OUT_OF_MEMORY; INVALID_ARGUMENT (an allocator of other memory; more
 * bytes than a block of the library has from data.data on). data is not taken
 * then. */
WARM_API warm_status warm_storage_wrap(warm_data_pointer *data, size_t bytes,
                                       const warm_allocator *allocator,
                                       warm_storage **storage);

/* Adds a strong reference: while there is one, the memory exists. The caller
 * must have one. Null is ignored. */
WARM_API void warm_storage_retain(warm_storage *storage);
/* Drops a strong reference; the last one calls the deleter. Null is ignored. */
WARM_API void warm_storage_release(warm_storage *storage);

/* Adds a weak reference: while there is one, the storage's record exists,
 * perhaps without the memory. The caller must have a reference of either kind.
 * Null is ignored. */
WARM_API void warm_storage_weak_retain(warm_storage *storage);
/* Drops a weak reference. Null is ignored. */
WARM_API void warm_storage_weak_release(warm_storage *storage);

/* Adds a strong reference, for a caller that has a weak one, which stays.
 * Returns 1; 0 if the memory was freed. */
WARM_API int warm_storage_lock(warm_storage *storage);

/* The number of strong references, which other threads may change before the
 * call returns. A thread that holds the only reference can rely on 1. 0 for
 * null. */
WARM_API size_t warm_storage_use_count(const warm_storage *storage);
/* The number of weak references, as warm_storage_use_count(). */
WARM_API size_t warm_storage_weak_count(const warm_storage *storage);

typedef struct warm_storage_info {
    size_t size;  /* sizeof(warm_storage_info) */
    void *data;   /* null: none, or no strong reference is left */
    size_t bytes; /* of the memory at data */
    warm_memory memory;
    int device;
    const warm_allocator *allocator; /* null: wrapped without one */
} warm_storage_info;

/* Describes a storage. The caller must have a strong reference. Status: FORKED
 * (the memory is a block of a runtime of the parent process). */
WARM_API warm_status warm_storage_get_info(const warm_storage *storage,
                                           warm_storage_info *info);

/* The first byte, or null; null also where warm_storage_get_info() answers
 * FORKED, which is the last error then. The caller must have a strong
 * reference. */
WARM_API void *warm_storage_data(const warm_storage *storage);

/* Records that work queued on stream uses the memory: by the record function of
 * its allocator, else by warm_record_stream() if the memory is a block of the
 * library. For all other memory the call does nothing, and the owner must not
 * free it too early.
 * Status: INVALID_STREAM, OUT_OF_MEMORY, DRIVER_ERROR; RUNTIME_GONE, FORKED,
 * EXITING if it came from a runtime's own allocator. */
WARM_API warm_status warm_storage_record(const warm_storage *storage,
                                         warm_stream stream);

/* Replaces the data pointer of a storage.
 * data: taken on success, and replaced by the old data pointer, owned by the
 * caller. bytes: of the memory at the new data.data. Status: INVALID_ARGUMENT
 * (more bytes than a block of the library has); FORKED (either is a block of a
 * runtime of the parent process). */
WARM_API warm_status warm_storage_exchange(warm_storage *storage,
                                           warm_data_pointer *data,
                                           size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
