/* warmpool/storage.h: who owns memory, and who frees it.
 *
 * Three things, each built of the one before it:
 *
 *   warm_data_pointer  a pointer, and what frees it: a context and its deleter
 *   warm_allocator     what makes such pointers: one for each kind of memory,
 *                      or a program's own
 *   warm_storage       a pointer that several own, counted: the last one frees
 *                      it
 *
 *   storage ──► data ──► memory     strong 2, weak 1: there
 *      │          └────► context    strong 0, weak 1: freed, the record left
 *      └──► allocator               strong 0, weak 0: gone
 *
 * A block of the library keeps its own record, whatever is wrapped around it:
 * warm_record_stream() and warm_block_get_info() find it by any pointer into
 * it, also if a foreign context owns it.
 *
 * Threads. Any thread may take and drop references. Only one thread at a time
 * may change a warm_data_pointer, or what a storage holds.
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

/* Device of host and pinned memory. For these a caller's value is ignored. */
#define WARM_NO_DEVICE (-1)

/* "pinned", or "unknown". Static string. */
WARM_API const char *warm_memory_name(warm_memory memory);

/* ---- data pointers ------------------------------------------------------- */

/* Frees what belongs to the context. Called once, by the thread that drops the
 * last reference, with no lock of the library held: it may call the library. */
typedef void (*warm_deleter_fn)(void *context);

/* A pointer and what keeps its memory alive: the context, not the pointer. The
 * two are often the same, but data may lie in the middle of what the context
 * owns, or the context may be a record of another library.
 * Copying the struct copies no ownership: only one copy may be freed. The owner
 * may read every field and replace the deleter. */
typedef struct warm_data_pointer {
    size_t size;             /* sizeof(warm_data_pointer) */
    void *data;              /* first byte */
    void *context;           /* argument of deleter */
    warm_deleter_fn deleter; /* null: nothing is freed, another owner does */
    warm_memory memory;
    int device;
} warm_data_pointer;

/* Calls the deleter with the context, unless it is null, and leaves an empty
 * data pointer. An empty one, or null, is left alone. */
WARM_API void warm_data_pointer_free(warm_data_pointer *data);

/* Moves the context out: the caller owns it then and frees it with *deleter.
 * data still points to the memory, and owns nothing. context, deleter: null
 * where there was none. */
WARM_API warm_status warm_data_pointer_move_context(warm_data_pointer *data,
                                                    void **context,
                                                    warm_deleter_fn *deleter);

/* ---- allocators ---------------------------------------------------------- */

/* The interface of every kind of memory, which a program may implement. A
 * function that is null is not supported. The struct is const, and stays valid
 * while it is registered and while memory that it allocated exists.
 * Functions may return any status. If one fails without a failed call of the
 * library inside, warm_last_error() names the allocator. */
typedef struct warm_allocator {
    size_t size;        /* sizeof(warm_allocator) */
    const char *name;   /* for messages; not null */
    void *context;      /* first argument of the functions */
    warm_memory memory; /* what it allocates */
    int device;
    /* Allocates; not null. bytes: at least 1. stream: where the memory is used
     * first; memory of a device is allocated in the order of that stream.
     * data: filled on success, with size, memory and device set already; owned
     * by the caller. */
    warm_status (*alloc)(void *context, size_t bytes, warm_stream stream,
                         warm_data_pointer *data);
    /* Not null: alloc always gives a data pointer whose context is the data
     * itself, and whose deleter is this: see warm_allocator_alloc(). */
    warm_deleter_fn raw_deleter;
    /* Queues a copy to memory of this allocator on stream. Null: the host
     * copies once the work that is queued on stream has finished, which is
     * right for memory that the host can address. */
    warm_status (*copy)(void *context, void *destination, const void *source,
                        size_t bytes, warm_stream stream);
    /* As warm_record_stream(), for a pointer into memory of this allocator;
     * NOT_FOUND: it is none. Null: its frees need no record. */
    warm_status (*record)(void *context, const void *data, warm_stream stream);
} warm_allocator;

/* The allocator of a kind of memory: of those with the highest priority the one
 * registered last, else the runtime's own, which has priority 0.
 * device: of the runtime. allocator: borrowed; the runtime's own stays valid
 * for ever, and returns RUNTIME_GONE once the runtime is destroyed.
 * Status: NOT_FOUND (host and shared memory have none until one is registered),
 * RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_allocator_get(warm_runtime *runtime,
                                        warm_memory memory, int device,
                                        const warm_allocator **allocator);

/* Registers an allocator for its kind of memory and its device.
 * allocator: borrowed until it is unregistered or the runtime destroyed.
 * priority: the highest one serves; below 0 it never serves instead of one of
 * the runtime's own.
 * Status: INVALID_ARGUMENT also for one that is registered already, has no
 * name or no alloc, or names an unknown memory or device; OUT_OF_MEMORY,
 * RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_allocator_register(warm_runtime *runtime,
                                             const warm_allocator *allocator,
                                             int priority);

/* Unregisters an allocator: the one that served before it serves again. It
 * still frees the memory that it has allocated. Status: NOT_FOUND,
 * RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_allocator_unregister(warm_runtime *runtime,
                                               const warm_allocator *allocator);

/* Allocates through an allocator. bytes 0: a data pointer with null data.
 * data: its size set, the rest is ignored; owned, freed by
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
 * Status: those of the allocator, of warm_copy_async() for the runtime's own;
 * RUNTIME_GONE, FORKED, EXITING; without a copy function UNSUPPORTED (memory of
 * a device), CAPTURE_ERROR (stream captures), DRIVER_ERROR. */
WARM_API warm_status warm_data_pointer_clone(warm_runtime *runtime,
                                             const warm_allocator *allocator,
                                             const void *source, size_t bytes,
                                             warm_stream stream,
                                             warm_data_pointer *data);

/* Plain pointers, for interfaces that have no room for a context.
 * Status: UNSUPPORTED if the allocator has no raw_deleter. */
WARM_API warm_status warm_allocator_alloc(const warm_allocator *allocator,
                                          size_t bytes, warm_stream stream,
                                          void **pointer);
/* pointer: taken; of warm_allocator_alloc() of the same allocator, or null.
 * Status: for the runtime's own allocators INVALID_POINTER (as warm_free(), and
 * for memory of another allocator; nothing changes), RUNTIME_GONE, FORKED,
 * EXITING. A program's raw_deleter cannot refuse a pointer. */
WARM_API warm_status warm_allocator_free(const warm_allocator *allocator,
                                         void *pointer);

/* ---- storages ------------------------------------------------------------ */

/* A data pointer, its size, its device and the allocator that it came from.
 * Opaque; counted. */
typedef struct warm_storage warm_storage;

/* Makes a storage with memory of the allocator, and one strong reference.
 * bytes: may be 0. stream: as warm_allocator.alloc.
 * Status: those of the allocator; OUT_OF_MEMORY. */
WARM_API warm_status warm_storage_create(const warm_allocator *allocator,
                                         size_t bytes, warm_stream stream,
                                         warm_storage **storage);

/* Makes a storage of memory that exists already.
 * data: taken on success, and empty then; its deleter is called once the last
 * strong reference goes. bytes: at data.data.
 * allocator: where the memory came from; may be null.
 * Status: OUT_OF_MEMORY; INVALID_ARGUMENT (an allocator of other memory; more
 * bytes than a block of the library has from data.data on). Nothing is taken
 * then. */
WARM_API warm_status warm_storage_wrap(warm_data_pointer *data, size_t bytes,
                                       const warm_allocator *allocator,
                                       warm_storage **storage);

/* Strong references: the memory stays. The caller of retain has one. The last
 * release calls the deleter. Null is ignored. */
WARM_API void warm_storage_retain(warm_storage *storage);
WARM_API void warm_storage_release(warm_storage *storage);

/* Weak references: the record stays, the memory need not. The caller of
 * weak_retain has a reference of either kind. Null is ignored. */
WARM_API void warm_storage_weak_retain(warm_storage *storage);
WARM_API void warm_storage_weak_release(warm_storage *storage);

/* Makes a strong reference of a weak one, which stays: 1; 0 if the memory is
 * gone. */
WARM_API int warm_storage_lock(warm_storage *storage);

/* How many references of each kind there are; other threads may have changed
 * that on return. A thread that holds the only strong reference can rely on 1.
 * 0 for null. */
WARM_API size_t warm_storage_use_count(const warm_storage *storage);
WARM_API size_t warm_storage_weak_count(const warm_storage *storage);

typedef struct warm_storage_info {
    size_t size;  /* sizeof(warm_storage_info) */
    void *data;   /* null if there is none, or no strong reference any more */
    size_t bytes; /* at data */
    warm_memory memory;
    int device;
    const warm_allocator *allocator; /* null: wrapped without one */
} warm_storage_info;

/* The caller has a strong reference. */
WARM_API warm_status warm_storage_get_info(const warm_storage *storage,
                                           warm_storage_info *info);

/* First byte, or null. The caller has a strong reference. */
WARM_API void *warm_storage_data(const warm_storage *storage);

/* Records that work queued on stream uses the memory: with the allocator that
 * it came from, else with warm_record_stream() where that knows the memory. For
 * memory that neither knows its owner is responsible.
 * Status: INVALID_STREAM, OUT_OF_MEMORY, DRIVER_ERROR; RUNTIME_GONE, FORKED,
 * EXITING if it came from a runtime's own allocator. */
WARM_API warm_status warm_storage_record(const warm_storage *storage,
                                         warm_stream stream);

/* Replaces the data pointer of a storage.
 * data: taken on success; the old one is put there, owned by the caller.
 * bytes: at the new one. Status: INVALID_ARGUMENT (more bytes than a block of
 * the library has). */
WARM_API warm_status warm_storage_exchange(warm_storage *storage,
                                           warm_data_pointer *data,
                                           size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
