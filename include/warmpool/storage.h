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
 * A block of ours keeps its own record, whatever is wrapped around it:
 * warm_record_stream() and warm_block_get_info() find it by any pointer into
 * it, also if a foreign context owns it by now.
 *
 * Threads. Counts may be taken and dropped by any thread. What changes a
 * warm_data_pointer or what a storage holds is for one thread at a time.
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
    X(HOST, 0, "host")     /* ordinary memory: no allocator of ours */         \
    X(PINNED, 1, "pinned") /* page-locked memory of the host */                \
    X(DEVICE, 2, "device") /* of one device */                                 \
    X(SHARED, 3, "shared") /* of host and device alike */

typedef enum warm_memory {
#define WARM_MEMORY_ENUM(name, value, text) WARM_MEMORY_##name = value,
    WARM_MEMORY_MAP(WARM_MEMORY_ENUM)
#undef WARM_MEMORY_ENUM
} warm_memory;

/* Device of host and pinned memory. What a caller says for these is not looked
 * at. */
#define WARM_NO_DEVICE (-1)

/* "pinned", or "unknown". Static string. */
WARM_API const char *warm_memory_name(warm_memory memory);

/* ---- data pointers ------------------------------------------------------- */

/* Frees what belongs to the context. Called once, by whichever thread lets go
 * last, with no lock of the library held: it may call the library. */
typedef void (*warm_deleter_fn)(void *context);

/* A pointer and what keeps its memory alive: the context, not the pointer. The
 * two are often the same, and need not be: data may lie in the middle of what
 * the context owns, or the context be a record of another library.
 * It is owned by whoever has it: copying the struct copies no ownership. */
typedef struct warm_data_pointer {
    size_t size;             /* sizeof(warm_data_pointer) */
    void *data;              /* first byte */
    void *context;           /* what deleter gets */
    warm_deleter_fn deleter; /* null: nothing is freed, somebody else owns it */
    warm_memory memory;
    int device;
} warm_data_pointer;

/* Calls the deleter with the context, unless it is null, and leaves an empty
 * data pointer. An empty one, or null, is left alone. */
WARM_API void warm_data_pointer_free(warm_data_pointer *data);

/* Moves the context out: it is the caller's, who frees it with *deleter; data
 * still says where the memory is, and owns nothing any more. context, deleter:
 * null where there was none. */
WARM_API warm_status warm_data_pointer_move_context(warm_data_pointer *data,
                                                    void **context,
                                                    warm_deleter_fn *deleter);

/* The context, if deleter is what frees it: says that it is of the type that
 * the caller takes it for. Else null. Borrowed. */
WARM_API void *warm_data_pointer_cast_context(const warm_data_pointer *data,
                                              warm_deleter_fn deleter);

/* Puts desired in the place of the deleter, if that is expected; *exchanged: 1,
 * or 0 if it is another, and nothing changed. May be null. */
WARM_API warm_status warm_data_pointer_exchange_deleter(
    warm_data_pointer *data, warm_deleter_fn expected, warm_deleter_fn desired,
    int *exchanged);

/* ---- allocators ---------------------------------------------------------- */

/* What every kind of memory presents itself as. A program fills one of its
 * own; fields that are null are not supported. It is const, and lives as long
 * as what it allocated, or is registered. */
typedef struct warm_allocator {
    size_t size;        /* sizeof(warm_allocator) */
    const char *name;   /* for messages; not null */
    void *context;      /* what the functions get first */
    warm_memory memory; /* what it allocates */
    int device;
    /* Allocates; not null. bytes: at least 1. stream: where it will be used
     * first; for memory of a device it is allocated in its order. data: filled
     * on success, with size, memory and device set already; owned by the
     * caller. Status: any, here and below; where no call of the library has
     * failed inside warm_last_error() names the allocator. */
    warm_status (*alloc)(void *context, size_t bytes, warm_stream stream,
                         warm_data_pointer *data);
    /* Not null: alloc always gives a data pointer whose context is the data
     * itself, and whose deleter is this. See warm_allocator_alloc(). */
    warm_deleter_fn raw_deleter;
    /* Queues a copy within this memory on stream, or makes it in the order of
     * that: work that writes the source may be queued already. Null: the host
     * copies once the stream has passed, which is right for memory that it can
     * address. Whose stream it is must be known then: the allocator is
     * registered in one runtime, or there is no other one. */
    warm_status (*copy)(void *context, void *destination, const void *source,
                        size_t bytes, warm_stream stream);
    /* As warm_record_stream(), for a pointer into memory of this allocator;
     * NOT_FOUND: it is none. Null: nothing has to be told; one that has no copy
     * either is kept from freeing what the stream uses, by waiting. */
    warm_status (*record)(void *context, const void *data, warm_stream stream);
} warm_allocator;

/* The allocator of a kind of memory: the one registered last of those with the
 * highest priority, else the runtime's own, which has priority 0. Allocator:
 * borrowed; the runtime's own stays valid for ever, and answers RUNTIME_GONE
 * once that is.
 * device: of the runtime. Status: NOT_FOUND (host and shared memory have none
 * until one is registered), RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_allocator_get(warm_runtime *runtime,
                                        warm_memory memory, int device,
                                        const warm_allocator **allocator);

/* Registers an allocator for its kind of memory and its device.
 * allocator: borrowed until it is unregistered or the runtime destroyed.
 * priority: of two the higher one serves; below 0 it never stands before one
 * of the runtime's own.
 * Status: INVALID_ARGUMENT also for one that is registered already, has no
 * name or no alloc, or is for memory or a device that is not known;
 * OUT_OF_MEMORY, RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_allocator_register(warm_runtime *runtime,
                                             const warm_allocator *allocator,
                                             int priority);

/* Unregisters an allocator: the one that served before it serves again. Memory
 * that it has allocated is still freed by it. Status: NOT_FOUND, RUNTIME_GONE,
 * FORKED, EXITING. */
WARM_API warm_status warm_allocator_unregister(warm_runtime *runtime,
                                               const warm_allocator *allocator);

/* Allocates through an allocator. bytes 0: a data pointer with null data.
 * data: its size set, else not looked at; owned, freed by
 * warm_data_pointer_free().
 * Status: those of the allocator. */
WARM_API warm_status warm_data_pointer_alloc(const warm_allocator *allocator,
                                             size_t bytes, warm_stream stream,
                                             warm_data_pointer *data);

/* The same with a copy of bytes at source, which is memory that the
 * allocator's copy can read (the runtime's own: all that the driver can).
 * The copy is in the order of stream: source stays valid until that has passed,
 * and the host reads data then; a block of ours may be freed before. To pinned
 * memory on a stream without work the copy has been made on return.
 * Status: those of the allocator, of warm_copy_async() for the runtime's own;
 * where the host copies: CAPTURE_ERROR, and UNSUPPORTED, if it cannot wait for
 * the stream (it captures, or nobody knows whose it is), RUNTIME_GONE, FORKED,
 * EXITING, of a block at source or the runtime that the stream is of, and
 * DRIVER_ERROR. UNSUPPORTED also for memory of a device without a copy. Where
 * the driver fails to wait, which is what its own earlier errors do as well,
 * the copy may be queued, and source must stay valid until that has passed. */
WARM_API warm_status warm_data_pointer_clone(const warm_allocator *allocator,
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
 * EXITING. What a user's own deleter is given it cannot refuse. */
WARM_API warm_status warm_allocator_free(const warm_allocator *allocator,
                                         void *pointer);

/* ---- storages ------------------------------------------------------------ */

/* A data pointer, its size, its device and the allocator that it came from.
 * Opaque; counted. */
typedef struct warm_storage warm_storage;

/* Flag: warm_storage_resize() may put other memory in its place. */
#define WARM_STORAGE_RESIZABLE 1u

/* Makes a storage with memory of the allocator, and one strong reference.
 * bytes: may be 0. stream: as warm_allocator.alloc.
 * Status: those of the allocator; OUT_OF_MEMORY; INVALID_ARGUMENT (flags). */
WARM_API warm_status warm_storage_create(const warm_allocator *allocator,
                                         size_t bytes, warm_stream stream,
                                         unsigned flags,
                                         warm_storage **storage);

/* The same of memory that is there already.
 * data: taken on success, and empty then; its deleter is called once the last
 * strong reference goes. bytes: at data.data.
 * allocator: where it came from, for resizing; may be null.
 * Status: OUT_OF_MEMORY; INVALID_ARGUMENT (flags; resizable without an
 * allocator, or with one of other memory; more bytes than a block of ours has
 * from there on). Nothing is taken then. */
WARM_API warm_status warm_storage_wrap(warm_data_pointer *data, size_t bytes,
                                       const warm_allocator *allocator,
                                       unsigned flags, warm_storage **storage);

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

/* How many there are of each, at a moment that may be over. Of use to tests,
 * and for 1: whoever has the only reference can trust that. 0 for null. */
WARM_API size_t warm_storage_use_count(const warm_storage *storage);
WARM_API size_t warm_storage_weak_count(const warm_storage *storage);

typedef struct warm_storage_info {
    size_t size;  /* sizeof(warm_storage_info) */
    void *data;   /* null if there is none, or no strong reference any more */
    size_t bytes; /* at data */
    warm_memory memory;
    int device;
    int resizable;
    const warm_allocator *allocator; /* null: wrapped without one */
} warm_storage_info;

/* The caller has a strong reference. */
WARM_API warm_status warm_storage_get_info(const warm_storage *storage,
                                           warm_storage_info *info);

/* First byte, or null: what is asked most often. The caller has a strong
 * reference. */
WARM_API void *warm_storage_data(const warm_storage *storage);

/* Says that work queued on stream uses the memory: by the allocator that it
 * came from, else by warm_record_stream() where that knows the memory. Memory
 * that neither knows is left to its owner.
 * Status: INVALID_STREAM, OUT_OF_MEMORY, DRIVER_ERROR; RUNTIME_GONE, FORKED,
 * EXITING if it came from a runtime's own allocator. */
WARM_API warm_status warm_storage_record(const warm_storage *storage,
                                         warm_stream stream);

/* Puts another data pointer in the place of the one that is there.
 * data: taken on success; the old one is put there, owned by the caller.
 * bytes: at the new one. Status: INVALID_ARGUMENT (resizable, and of other
 * memory than its allocator's; more bytes than a block of ours has). */
WARM_API warm_status warm_storage_exchange(warm_storage *storage,
                                           warm_data_pointer *data,
                                           size_t bytes);

/* Changes the size: allocates anew, copies what fits in the order of stream,
 * records stream on the old memory and frees it. The host reads and writes the
 * new memory once the stream has passed; pinned memory on return, where no work
 * was queued. A size that is there already changes nothing. Waits for the
 * stream where the host copies (warm_allocator.copy), and before it frees
 * memory that nobody knows to record; CUDA may do so for pinned memory. Where
 * stream captures, the copy is part of the graph, and what it uses is kept as
 * all that a graph does.
 * Status: INVALID_ARGUMENT (not resizable); those of warm_data_pointer_clone()
 * and warm_storage_record(), with nothing changed; but where the driver, or a
 * copy of the user's, fails the stream may be recorded on the memory. */
WARM_API warm_status warm_storage_resize(warm_storage *storage, size_t bytes,
                                         warm_stream stream);

#ifdef __cplusplus
}
#endif
#endif
