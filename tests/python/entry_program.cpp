/* entry_program.cpp: calls libwarmpool-python.so as PyTorch does: by functions
 * of its signatures, with filters by value, and catching exceptions. One case a
 * run, named by the argument; prints what is wrong. */
#include <warmpool/warmpool.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <sys/types.h>
#include <utility>

struct CUstream_st;
using stream = CUstream_st *;
using pool_id = std::pair<unsigned long long, unsigned long long>;

extern "C" {
void warmpool_torch_use(warm_runtime *runtime);
void *warmpool_torch_alloc(ssize_t bytes, int device, stream on);
void warmpool_torch_free(void *pointer, ssize_t bytes, int device, stream on);
void *warmpool_torch_segment_alloc(ssize_t bytes, int device, stream on);
void warmpool_torch_segment_free(void *pointer, ssize_t bytes, int device,
                                 stream on);
void warmpool_torch_record_stream(void *pointer, stream on);
void *warmpool_torch_base_alloc(void *pointer, size_t *bytes);
void warmpool_torch_reset();
void warmpool_torch_memory_fraction(double fraction, int device);
void warmpool_torch_begin_pool(int device, pool_id id,
                               std::function<bool(stream)> filter);
void warmpool_torch_end_pool(int device, pool_id id);
void warmpool_torch_release_pool(int device, pool_id id);
}

namespace
{

warm_runtime *runtime;
int wrong;

void want(bool condition, const char *text)
{
    if (!condition) {
        std::printf("wrong: %s\n", text);
        wrong++;
    }
}
#define WANT(condition) want(condition, #condition)

template <typename function> std::string thrown(function call)
{
    try {
        call();
    } catch (const std::runtime_error &error) {
        return error.what();
    }
    return "";
}

warm_device_stats stats()
{
    warm_device_stats found = WARM_INIT(warm_device_stats);

    WANT(warm_device_get_stats(runtime, 0, &found) == WARM_OK);
    return found;
}

stream new_stream()
{
    warm_stream made = nullptr;

    WANT(warm_stream_create(runtime, 0, &made) == WARM_OK);
    return static_cast<stream>(made);
}

void memory()
{
    stream on = new_stream();
    size_t bytes = 0;
    void *first = warmpool_torch_alloc(3000, 0, on);
    char *base = static_cast<char *>(warmpool_torch_base_alloc(first, &bytes));

    WANT(warm_owns(first) == 1);
    WANT(base <= static_cast<char *>(first));
    WANT(base + bytes >= static_cast<char *>(first) + 3000);
    warmpool_torch_free(first, 3000, 0, on);
    WANT(warmpool_torch_alloc(3000, 0, on) == first);
    warmpool_torch_free(first, 3000, 0, on);
    WANT(warmpool_torch_alloc(0, 0, on) == nullptr);
    warmpool_torch_free(nullptr, 0, 0, on);
    WANT(stats().all.live.current == 0);
    warmpool_torch_reset();
    WANT(stats().all.held_bytes.current == 0);
}

std::mutex gate;

void wait_at(void *)
{
    std::lock_guard<std::mutex> lock(gate);
}

/* While work on `other` waits at a gate a freed block is with nobody. */
void later(void (*free_by)(void *, ssize_t, int, stream), bool record)
{
    stream own = new_stream(), other = new_stream();
    void *block = warmpool_torch_alloc(5000, 0, own), *next;

    gate.lock();
    WANT(warm_stream_host_func(runtime, other, wait_at, nullptr) == WARM_OK);
    if (record) {
        warmpool_torch_record_stream(block, other);
    }
    free_by(block, 5000, 0, own);
    next = warmpool_torch_alloc(5000, 0, own);
    WANT(next != block);
    gate.unlock();
    WANT(warm_stream_synchronize(runtime, other) == WARM_OK);
    warmpool_torch_free(next, 5000, 0, own);
}

void streams()
{
    later(warmpool_torch_free, true);
    later(warmpool_torch_segment_free, false);
    warmpool_torch_record_stream(nullptr, new_stream());
}

void failures()
{
    int nothing = 0;
    size_t bytes = 7;

    WANT(thrown([] { warmpool_torch_alloc(100, 77, nullptr); }).find("77") !=
         std::string::npos);
    WANT(warmpool_torch_segment_alloc(100, 77, nullptr) == nullptr);
    WANT(thrown([&] { warmpool_torch_record_stream(&nothing, nullptr); }) ==
         "");
    WANT(thrown([&] { warmpool_torch_base_alloc(&nothing, &bytes); }) != "");
    WANT(bytes == 7);
    warmpool_torch_free(&nothing, 4, 0, nullptr);
    WANT(stats().all.live.current == 0);
}

void fraction()
{
    warm_device_info info = WARM_INIT(warm_device_info);
    warm_watermarks marks = WARM_INIT(warm_watermarks);

    WANT(warm_device_get_info(runtime, 0, &info) == WARM_OK);
    warmpool_torch_memory_fraction(0.5, 0);
    WANT(warm_watermarks_get(runtime, 0, &marks) == WARM_OK);
    WANT(marks.high_bytes == info.total_bytes / 2);
    warmpool_torch_memory_fraction(0.0, 0);
    WANT(thrown([] { warmpool_torch_alloc(1 << 20, 0, nullptr); }) != "");
    warmpool_torch_memory_fraction(1.0, 0);
    warmpool_torch_free(warmpool_torch_alloc(1 << 20, 0, nullptr), 1 << 20, 0,
                        nullptr);
}

uint64_t pool_of(void *pointer)
{
    warm_block_info info = WARM_INIT(warm_block_info);

    WANT(warm_block_get_info(pointer, &info) == WARM_OK);
    return info.pool.number;
}

void pools()
{
    stream routed = new_stream(), other = new_stream();
    const pool_id id = {0, 5};
    std::string owned = "a filter may own what it likes";
    void *in, *out, *after;

    warmpool_torch_begin_pool(0, id, [routed, owned](stream on) {
        return on == routed && !owned.empty();
    });
    WANT(thrown([&] {
             warmpool_torch_begin_pool(0, id, [](stream) { return true; });
         }) != "");
    in = warmpool_torch_alloc(4000, 0, routed);
    out = warmpool_torch_alloc(4000, 0, other);
    warmpool_torch_end_pool(0, id);
    after = warmpool_torch_alloc(4000, 0, routed);
    WANT(pool_of(in) != 0);
    WANT(pool_of(out) == 0);
    WANT(pool_of(after) == 0);
    warmpool_torch_free(in, 4000, 0, routed);
    /* A second capture with the same pool finds its memory. */
    warmpool_torch_begin_pool(0, id, [](stream) { return true; });
    WANT(warmpool_torch_alloc(4000, 0, routed) == in);
    warmpool_torch_end_pool(0, id);
    warmpool_torch_free(in, 4000, 0, routed);
    warmpool_torch_free(out, 4000, 0, other);
    warmpool_torch_free(after, 4000, 0, routed);
    warmpool_torch_release_pool(0, id);
    warmpool_torch_release_pool(0, id);
    WANT(thrown([&] { warmpool_torch_release_pool(0, id); }) != "");
    WANT(thrown([&] { warmpool_torch_end_pool(1, id); }) != "");
    WANT(stats().all.live.current == 0);
}

} // namespace

int main(int count, char **arguments)
{
    const std::pair<const char *, void (*)()> cases[] = {
        {"memory", memory},     {"streams", streams}, {"failures", failures},
        {"fraction", fraction}, {"pools", pools},
    };

    if (count != 2 || warm_runtime_default(&runtime) != WARM_OK) {
        return 2;
    }
    warmpool_torch_use(runtime);
    for (const auto &one : cases) {
        if (std::strcmp(one.first, arguments[1]) == 0) {
            one.second();
            std::printf("%s on %s: %d wrong\n", one.first,
                        warm_runtime_driver(runtime), wrong);
            return wrong != 0;
        }
    }
    return 2;
}
