/* python_entry.cpp: what PyTorch and CuPy call in libwarmpool-python.so.
 *
 * Functions with exactly the signatures that PyTorch's pluggable allocator and
 * CuPy's CFunctionAllocator ask for, over the public headers. Python loads them
 * by name (warmpool/torch.py, warmpool/cupy.py) and sets the runtime first.
 *
 * C++, for two reasons: PyTorch passes a pool's filter as a std::function by
 * value, and it uses what an allocator returns unchecked, so that a failure has
 * to be an exception, which PyTorch turns into one of Python.
 *
 * Any thread may call any function. `pools_lock` guards the map of pools. It is
 * held during calls of the library, which never call back into PyTorch with
 * it: a filter takes no lock of this file.
 */
#include <warmpool/warmpool.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <sys/types.h>
#include <tuple>
#include <utility>

/* What cudaStream_t points to. */
struct CUstream_st;

namespace
{

using stream_filter = std::function<bool(CUstream_st *)>;
/* PyTorch's MempoolId_t. */
using pool_id = std::pair<unsigned long long, unsigned long long>;

/* A pool of PyTorch, which has one for each device. */
struct torch_pool {
    warm_private_pool pool = {0};
    std::unique_ptr<stream_filter> filter; /* while it records */
};

/* Release: set; acquire: used. Without the pair a thread of PyTorch may see a
 * runtime before its body. */
std::atomic<warm_runtime *> chosen{nullptr};
std::mutex pools_lock;
std::map<std::pair<int, pool_id>, torch_pool> pools;
/* Set by warmpool_cupy_stream(), for the next allocation of its thread. */
thread_local warm_stream cupy_stream;

void check(warm_status status)
{
    if (status != WARM_OK) {
        throw std::runtime_error(warm_last_error_message());
    }
}

warm_runtime *runtime_of_torch()
{
    return chosen.load(std::memory_order_acquire);
}

int passes(void *context, warm_stream stream)
{
    return (*static_cast<stream_filter *>(context))(
        static_cast<CUstream_st *>(stream));
}

/* Throws if PyTorch names a pool that it never began. */
std::map<std::pair<int, pool_id>, torch_pool>::iterator find_pool(int device,
                                                                  pool_id id)
{
    auto found = pools.find({device, id});

    if (found == pools.end()) {
        throw std::runtime_error("warmpool has no such pool of PyTorch");
    }
    return found;
}

bool ended(warm_private_pool pool)
{
    warm_private_pool_info info = WARM_INIT(warm_private_pool_info);

    return warm_private_pool_get_info(runtime_of_torch(), pool, &info) !=
           WARM_OK;
}

/* Sets the option of that name; false if there is none. */
bool set_option(warm_options *options, const char *name, const char *text,
                uint64_t number)
{
#define SET_NUMBER(option, ...)                                                \
    if (std::strcmp(name, #option) == 0) {                                     \
        options->option = number;                                              \
        return text == nullptr;                                                \
    }
#define SET_TEXT(option, ...)                                                  \
    if (std::strcmp(name, #option) == 0) {                                     \
        options->option = text;                                                \
        return text != nullptr;                                                \
    }
    WARM_OPTION_MAP(SET_NUMBER, SET_TEXT, SET_TEXT, SET_TEXT, SET_TEXT)
#undef SET_NUMBER
#undef SET_TEXT
    return false;
}

} // namespace

extern "C" {

/* Creates a runtime with count options: each a name with a text, or with a
 * number where the text is null. wrong: index of an option that does not exist,
 * or has a value of the other sort; the status is INVALID_OPTION then, and the
 * thread's last error is not set. Else count. */
WARM_API warm_status warmpool_python_create(size_t count, const char **names,
                                            const char **texts,
                                            const uint64_t *numbers,
                                            size_t *wrong,
                                            warm_runtime **runtime)
{
    warm_options options = WARM_INIT(warm_options);

    for (*wrong = 0; *wrong < count; (*wrong)++) {
        if (!set_option(&options, names[*wrong], texts[*wrong],
                        numbers[*wrong])) {
            return WARM_INVALID_OPTION;
        }
    }
    return warm_runtime_create(&options, runtime);
}

/* Sets the runtime of the functions for PyTorch. */
WARM_API void warmpool_torch_use(warm_runtime *runtime)
{
    chosen.store(runtime, std::memory_order_release);
}

WARM_API void *warmpool_torch_alloc(ssize_t bytes, int device,
                                    CUstream_st *stream)
{
    void *pointer = nullptr;

    check(warm_device_alloc(runtime_of_torch(), device, stream,
                            static_cast<size_t>(bytes), &pointer));
    return pointer;
}

/* The allocating stream's later work may get the block at once; PyTorch has
 * recorded the others. Called by destructors: a refusal is not reported. */
WARM_API void warmpool_torch_free(void *pointer, ssize_t, int, CUstream_st *)
{
    (void)warm_free(pointer);
}

/* For a MemPool, above which PyTorch caches: a null pointer makes it return
 * what it caches, and try again. */
WARM_API void *warmpool_torch_segment_alloc(ssize_t bytes, int device,
                                            CUstream_st *stream)
{
    void *pointer = nullptr;

    if (warm_device_alloc(runtime_of_torch(), device, stream,
                          static_cast<size_t>(bytes), &pointer) != WARM_OK) {
        return nullptr;
    }
    return pointer;
}

/* PyTorch counts on cudaFree(), which waits for every stream. */
WARM_API void warmpool_torch_segment_free(void *pointer, ssize_t, int,
                                          CUstream_st *)
{
    (void)warm_free_deferred(pointer);
}

/* Memory of somebody else, such as another process's, is left alone, as
 * PyTorch's own allocator does. */
WARM_API void warmpool_torch_record_stream(void *pointer, CUstream_st *stream)
{
    warm_status status = warm_record_stream(pointer, stream);

    if (status != WARM_NOT_FOUND) {
        check(status);
    }
}

WARM_API void *warmpool_torch_base_alloc(void *pointer, size_t *bytes)
{
    void *base = nullptr;
    size_t length = 0;

    check(warm_device_base_allocation(pointer, &base, &length));
    if (bytes != nullptr) {
        *bytes = length;
    }
    return base;
}

/* torch.cuda.empty_cache() */
WARM_API void warmpool_torch_reset()
{
    int count = 0;

    check(warm_device_count(runtime_of_torch(), &count));
    for (int device = 0; device < count; device++) {
        check(warm_device_trim(runtime_of_torch(), device, 0, nullptr));
    }
}

/* torch.cuda.set_per_process_memory_fraction(): the device's high watermark. */
WARM_API void warmpool_torch_memory_fraction(double fraction, int device)
{
    warm_device_info info = WARM_INIT(warm_device_info);
    warm_watermarks marks = WARM_INIT(warm_watermarks);
    uint64_t high;

    check(warm_device_get_info(runtime_of_torch(), device, &info));
    check(warm_watermarks_get(runtime_of_torch(), device, &marks));
    high =
        static_cast<uint64_t>(fraction * static_cast<double>(info.total_bytes));
    /* 0 would lift the limit. */
    high = std::max<uint64_t>(high, 1);
    check(warm_watermarks_set(runtime_of_torch(), device, high,
                              std::min<uint64_t>(marks.low_bytes, high)));
}

/* A filter is kept until the pool's end: the library calls it until then. */
WARM_API void warmpool_torch_begin_pool(int device, pool_id id,
                                        stream_filter filter)
{
    std::lock_guard<std::mutex> lock(pools_lock);
    auto kept = std::make_unique<stream_filter>(std::move(filter));
    torch_pool &mine = pools[{device, id}];
    warm_status status = warm_private_pool_begin(runtime_of_torch(), &mine.pool,
                                                 0, passes, kept.get());

    if (status != WARM_OK && mine.pool.number == 0) {
        pools.erase({device, id});
    }
    check(status);
    mine.filter = std::move(kept);
}

WARM_API void warmpool_torch_end_pool(int device, pool_id id)
{
    std::lock_guard<std::mutex> lock(pools_lock);
    torch_pool &mine = find_pool(device, id)->second;

    check(warm_private_pool_end(runtime_of_torch(), mine.pool));
    mine.filter.reset();
}

WARM_API void warmpool_torch_release_pool(int device, pool_id id)
{
    std::lock_guard<std::mutex> lock(pools_lock);
    auto found = find_pool(device, id);

    check(warm_private_pool_release(runtime_of_torch(), found->second.pool));
    if (ended(found->second.pool)) {
        pools.erase(found);
    }
}

/* The stream of the calling thread's next warmpool_cupy_malloc(), since CuPy
 * passes none. */
WARM_API void warmpool_cupy_stream(warm_stream stream)
{
    cupy_stream = stream;
}

/* param: the runtime. Null for a failure, which warmpool/cupy.py reports. */
WARM_API void *warmpool_cupy_malloc(void *param, size_t bytes, int device)
{
    void *pointer = nullptr;

    if (warm_device_alloc(static_cast<warm_runtime *>(param), device,
                          cupy_stream, bytes, &pointer) != WARM_OK) {
        return nullptr;
    }
    return pointer;
}

WARM_API void warmpool_cupy_free(void *, void *pointer, int)
{
    (void)warm_free(pointer);
}

} /* extern "C" */
