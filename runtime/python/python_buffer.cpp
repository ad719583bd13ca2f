/* python_buffer.cpp: memory of buffers, and DLPack's tensors over it.
 *
 * A buffer of Python and each tensor own a reference of a storage, and the last
 * release frees the memory. A consumer may end a tensor in any thread, without
 * the interpreter's lock, and after the interpreter has ended: no deleter here
 * runs Python.
 */
#include <warmpool/warmpool.h>

#include <cstdlib>
#include <cstring>

/* Of the interpreter that has loaded this library. Weak: a program of C++ that
 * calls the functions for PyTorch needs none. */
extern "C" {
[[gnu::weak]] void *PyCapsule_New(void *pointer, const char *name,
                                  void (*destructor)(void *));
[[gnu::weak]] int PyCapsule_IsValid(void *capsule, const char *name);
[[gnu::weak]] void *PyCapsule_GetPointer(void *capsule, const char *name);
[[gnu::weak]] void *PyErr_NoMemory();
}

namespace
{

/* The structs of dlpack.h, version 1.0; warmpool/_dlpack.py has the tensor. */
struct dl_tensor {
    void *data;
    int32_t device_type, device;
    int32_t dimensions;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

struct dl_managed {
    dl_tensor tensor;
    void *context; /* the storage */
    void (*deleter)(dl_managed *);
};

struct dl_managed_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(dl_managed_versioned *);
    uint64_t flags;
    dl_tensor tensor;
};

template <typename managed> void end(managed *made)
{
    warm_storage_release(static_cast<warm_storage *>(made->context));
    std::free(made);
}

/* Shape and strides follow the struct. */
template <typename managed>
managed *make(warm_storage *storage, const dl_tensor *of)
{
    size_t count = static_cast<size_t>(of->dimensions);
    size_t bytes = count * sizeof(int64_t);
    auto *made =
        static_cast<managed *>(std::malloc(sizeof(managed) + 2 * bytes));

    if (made == nullptr) {
        return nullptr;
    }
    *made = managed();
    made->tensor = *of;
    made->tensor.shape = reinterpret_cast<int64_t *>(made + 1);
    made->tensor.strides = made->tensor.shape + count;
    std::memcpy(made->tensor.shape, of->shape, bytes);
    std::memcpy(made->tensor.strides, of->strides, bytes);
    warm_storage_retain(storage);
    made->context = storage;
    made->deleter = end<managed>;
    return made;
}

/* The destructor of a capsule. A consumer renames its capsule: the tensor of
 * one that still has its name belongs to nobody else. */
template <typename managed> void end_capsule(void *capsule, const char *name)
{
    if (PyCapsule_IsValid(capsule, name)) {
        end(static_cast<managed *>(PyCapsule_GetPointer(capsule, name)));
    }
}

void end_legacy(void *capsule)
{
    end_capsule<dl_managed>(capsule, "dltensor");
}

void end_versioned(void *capsule)
{
    end_capsule<dl_managed_versioned>(capsule, "dltensor_versioned");
}

template <typename managed>
void *capsule_of(managed *made, const char *name, void (*destructor)(void *))
{
    void *capsule;

    if (made == nullptr) {
        return PyErr_NoMemory();
    }
    capsule = PyCapsule_New(made, name, destructor);
    if (capsule == nullptr) {
        end(made);
    }
    return capsule;
}

} // namespace

extern "C" {

/* Allocates page-locked memory in a storage with one reference. bytes: not 0.
 * Both outputs are written on success. */
WARM_API warm_status warmpool_python_pinned(warm_runtime *runtime, size_t bytes,
                                            warm_storage **storage, void **data)
{
    const warm_allocator *allocator = nullptr;
    warm_status status = warm_allocator_get(runtime, WARM_MEMORY_PINNED,
                                            WARM_NO_DEVICE, &allocator);

    if (status == WARM_OK) {
        status = warm_storage_create(allocator, bytes, nullptr, storage);
    }
    if (status == WARM_OK) {
        *data = warm_storage_data(*storage);
    }
    return status;
}

/* Makes a capsule with a tensor like `of`, which owns a reference of the
 * storage: null for memory of Python, of no bytes. Called with the
 * interpreter's lock. Null, and an exception is set, if there is no memory for
 * it. */
WARM_API void *warmpool_dlpack_capsule(warm_storage *storage,
                                       const dl_tensor *of, int versioned)
{
    if (!versioned) {
        return capsule_of(make<dl_managed>(storage, of), "dltensor",
                          end_legacy);
    }

    auto *made = make<dl_managed_versioned>(storage, of);

    if (made != nullptr) {
        made->major = 1;
    }
    return capsule_of(made, "dltensor_versioned", end_versioned);
}

} /* extern "C" */
