/* subject_cub.cpp: CUB's caching device allocator, from the toolkit's headers,
 * over the few functions of cudart that it calls, made of the bench's events.
 *
 * With BENCH_CUB_CUDA it is over the real cudart instead, which the program has
 * loaded before; calls and bytes are not counted then.
 *
 * As its authors advise for mixed sizes (and measured best of three set-ups):
 * bins of powers of two from 512 bytes to 32 MiB, no limit on what is cached.
 * Device memory is address space that nobody touches. */
#include "tests/bench/bench_cub.h"

#include <cub/util_allocator.cuh>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sys/mman.h>
#include <unordered_map>
#include <vector>

namespace
{
std::atomic<uint64_t> records, queries, others, obtains, held, peak;
std::mutex regions_lock;
std::unordered_map<void *, size_t> regions; /* lock: bytes of each */
cub::CachingDeviceAllocator *allocator;
thread_local cudaStream_t own_stream;
std::vector<cudaStream_t> numbered; /* of a replay, whose threads take turns */

void count(std::atomic<uint64_t> &counter)
{
    counter.fetch_add(1, std::memory_order_relaxed);
}
} // namespace

#ifndef BENCH_CUB_CUDA
/* ---- the cudart that CUB gets ------------------------------------------ */

#define HIDDEN extern "C" __attribute__((visibility("hidden")))

HIDDEN cudaError_t cudaGetDevice(int *device)
{
    count(others);
    *device = 0;
    return cudaSuccess;
}

HIDDEN cudaError_t cudaSetDevice(int)
{
    count(others);
    return cudaSuccess;
}

HIDDEN cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

HIDDEN cudaError_t cudaPeekAtLastError(void)
{
    return cudaSuccess;
}

HIDDEN const char *cudaGetErrorString(cudaError_t)
{
    return "an error";
}

HIDDEN cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED) {
        return cudaErrorMemoryAllocation;
    }
    count(others);
    count(obtains);
    std::lock_guard<std::mutex> guard(regions_lock);
    regions[memory] = bytes;
    held += bytes;
    peak = held > peak ? held.load() : peak.load();
    *pointer = memory;
    return cudaSuccess;
}

HIDDEN cudaError_t cudaFree(void *pointer)
{
    std::lock_guard<std::mutex> guard(regions_lock);

    count(others);
    munmap(pointer, regions[pointer]);
    held -= regions[pointer];
    regions.erase(pointer);
    return cudaSuccess;
}

HIDDEN cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    count(others);
    *event = reinterpret_cast<cudaEvent_t>(bench_event_new());
    return cudaSuccess;
}

HIDDEN cudaError_t cudaEventDestroy(cudaEvent_t)
{
    /* CUB records on events that another thread has destroyed: leaked. */
    count(others);
    return cudaSuccess;
}

HIDDEN cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    count(records);
    bench_event_record(event, stream);
    return cudaSuccess;
}

HIDDEN cudaError_t cudaEventQuery(cudaEvent_t event)
{
    count(queries);
    return bench_event_done(event) ? cudaSuccess : cudaErrorNotReady;
}

#endif

/* ---- the subject --------------------------------------------------------- */

static bool cub_open(const bench_setup *setup)
{
    numbered.assign(setup->size + 1, nullptr);
#ifndef BENCH_CUB_CUDA
    bench_event_clock(setup->clock);
    bench_event_price(setup->record_ns, setup->query_ns, setup->lag,
                      setup->aging != 0);
#endif
    allocator = new cub::CachingDeviceAllocator(
        2, 9, 25, cub::CachingDeviceAllocator::INVALID_SIZE, true);
    return true;
}

static cudaStream_t new_stream(void)
{
#ifdef BENCH_CUB_CUDA
    cudaStream_t stream;

    if (cudaSetDevice(0) != cudaSuccess ||
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) !=
            cudaSuccess) {
        std::fprintf(stderr, "bench: cub: no stream\n");
        std::exit(1);
    }
    return stream;
#else
    return static_cast<cudaStream_t>(bench_stream_new());
#endif
}

static void cub_enter(void)
{
    own_stream = new_stream();
}

static void *cub_alloc(size_t bytes)
{
    void *pointer = nullptr;

    if (allocator->DeviceAllocate(0, &pointer, bytes, own_stream) !=
        cudaSuccess) {
        std::fprintf(stderr, "bench: cub: no memory\n");
        std::exit(1);
    }
    return pointer;
}

static void cub_free(void *pointer, size_t)
{
    (void)allocator->DeviceFree(0, pointer);
}

/* A block of CUB's belongs to the stream it was allocated on. */
static void cub_record(void *, unsigned stream)
{
    bench_stream_use(stream < numbered.size() && numbered[stream] != nullptr
                         ? numbered[stream]
                         : own_stream);
}

/* All of it is memory of device 0. */
static void *cub_place(const bench_where *place, size_t bytes)
{
    void *pointer = nullptr;

    if (place->device < 0) {
        return cub_alloc(bytes);
    }
    cudaStream_t &stream = numbered[place->stream];
    if (stream == nullptr) {
        stream = new_stream();
    }
    if (allocator->DeviceAllocate(0, &pointer, bytes, stream) != cudaSuccess) {
        std::fprintf(stderr, "bench: cub: no memory\n");
        std::exit(1);
    }
#ifndef BENCH_CUB_CUDA
    bench_stream_use(stream);
#endif
    return pointer;
}

#ifdef BENCH_CUB_CUDA
#define cub_counts nullptr
#else
static void cub_counts(bench_counts *counts)
{
    counts->records = records;
    counts->queries = queries;
    counts->others = others;
    counts->obtains = obtains;
    counts->peak = peak;
}
#endif

extern "C" __attribute__((visibility("default")))
const bench_subject bench_cub = {"cub",    true, cub_open,   cub_enter, cub_alloc,
                                 cub_free, cub_record, nullptr,   cub_place,
                                 nullptr,  cub_counts};
