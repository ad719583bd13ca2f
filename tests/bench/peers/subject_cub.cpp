/* subject_cub.cpp: CUB's caching device allocator, from the toolkit's headers,
 * over the bench's cudart.
 *
 * With BENCH_CUB_CUDA it is over the real cudart instead, which the program has
 * loaded before; calls and bytes are not counted then.
 *
 * As its authors advise for mixed sizes (and measured best of three set-ups):
 * bins of powers of two from 512 bytes to 32 MiB, no limit on what is cached.
 * Device memory is address space that nobody touches. */
#include "tests/bench/peers/peer_cudart.h"

#include <cub/util_allocator.cuh>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace
{
cub::CachingDeviceAllocator *allocator;
thread_local cudaStream_t own_stream;
std::vector<cudaStream_t> numbered; /* of a replay, whose threads take turns */
} // namespace

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
#ifdef BENCH_CUB_CUDA
    (void)stream;
#else
    bench_stream_use(stream < numbered.size() && numbered[stream] != nullptr
                         ? numbered[stream]
                         : own_stream);
#endif
}

/* All of it is memory of device 0. */
static void *cub_place(const bench_where *place, size_t bytes)
{
    void *pointer = nullptr;

    if (place->device < 0 || place->stream == 0) {
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
#define cub_counts bench_cudart_counts
#endif

extern "C" __attribute__((visibility("default")))
const bench_subject bench_cub = {"cub",     true,     cub_open,   cub_enter,
                                 cub_alloc, cub_free, cub_record, nullptr,
                                 cub_place, nullptr,  cub_counts};
