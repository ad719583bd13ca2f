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

const char legacy_name[] = "dltensor";
const char versioned_name[] = "dltensor_versioned";

/* PyCapsule_IsValid() and PyCapsule_GetPointer(); set before the first capsule
 * and const from then on. */
int (*capsule_is_valid)(void *capsule, const char *name);
void *(*capsule_pointer)(void *capsule, const char *name);

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

template <typename managed> bool end_capsule(void *capsule, const char *name)
{
    if (!capsule_is_valid(capsule, name)) {
        return false;
    }
    end(static_cast<managed *>(capsule_pointer(capsule, name)));
    return true;
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

WARM_API void
warmpool_python_capsules(int (*is_valid)(void *capsule, const char *name),
                         void *(*pointer)(void *capsule, const char *name))
{
    capsule_is_valid = is_valid;
    capsule_pointer = pointer;
}

/* Makes a managed tensor like `of`, which owns a reference of the storage: null
 * for memory of Python, of no bytes. Null if there is no memory for it. */
WARM_API void *warmpool_dlpack_make(warm_storage *storage, const dl_tensor *of,
                                    int versioned)
{
    if (versioned) {
        auto *made = make<dl_managed_versioned>(storage, of);

        if (made != nullptr) {
            made->major = 1;
        }
        return made;
    }
    return make<dl_managed>(storage, of);
}

/* The destructor of capsules. A consumer renames its capsule: the tensor of one
 * that still has its name belongs to nobody else. */
WARM_API void warmpool_dlpack_end_capsule(void *capsule)
{
    if (!end_capsule<dl_managed>(capsule, legacy_name)) {
        end_capsule<dl_managed_versioned>(capsule, versioned_name);
    }
}

} /* extern "C" */
