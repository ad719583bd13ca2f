/* subject_torch.cpp: PyTorch's allocators, of its wheel, over the bench's
 * cudart: that of page-locked memory, compiled from the wheel's headers with
 * the few functions that libtorch_cuda adds, and that of devices, from its
 * libc10_cuda. See `make bench-peers`. */
#include "tests/bench/peers/peer_cudart.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <vector>

namespace c10::cuda::_internal
{
void setHasPrimaryContext(bool (*func)(c10::DeviceIndex));
}

namespace
{
using c10::cuda::CUDAStream;
using Event = c10::cuda::CUDAEventPool::Event;
using Block = at::HostBlock<CUDAStream>;

/* As ATen/cuda/CachingHostAllocator.cpp has it, by default options. */
struct host_allocator : at::CachingHostAllocatorImpl<CUDAStream, Event, Block> {
  private:
    c10::cuda::CUDAEventPool events;

    void allocate_host_memory(size_t size, void **pointer) override
    {
        C10_CUDA_CHECK(cudaHostAlloc(pointer, size, cudaHostAllocDefault));
    }

    void free_block(Block *block) override
    {
        C10_CUDA_CHECK(cudaFreeHost(block->ptr_));
    }

    void record_stream(std::optional<std::vector<Event>> &to,
                       CUDAStream stream) override
    {
        auto event = events.get(stream.device_index());

        event->record(stream);
        to->push_back(std::move(event));
    }

    bool query_event(Event &event) override
    {
        cudaError_t error = cudaEventQuery(*event);

        if (error == cudaErrorNotReady) {
            (void)cudaGetLastError();
            return false;
        }
        C10_CUDA_CHECK(error);
        return true;
    }
};

host_allocator *host;
thread_local cudaStream_t own_stream;
std::vector<cudaStream_t> numbered; /* a thread's own, or threads take turns */

bool has_context(c10::DeviceIndex)
{
    return true;
}

bool torch_open(const bench_setup *setup)
{
    numbered.assign(setup->size + 1, nullptr);
    bench_event_clock(setup->clock);
    bench_event_price(setup->record_ns, setup->query_ns, setup->lag,
                      setup->aging != 0);
    c10::cuda::_internal::setHasPrimaryContext(has_context);
    c10::cuda::CUDACachingAllocator::init(1);
    host = new host_allocator;
    return true;
}

cudaStream_t stream_of(unsigned stream)
{
    cudaStream_t &one = stream == 0 ? own_stream : numbered[stream];

    if (one == nullptr) {
        one = static_cast<cudaStream_t>(bench_stream_new());
    }
    return one;
}

/* Whoever allocates is told the block beside the pointer. It is written where
 * the cudart has room, before the memory. */
void **block_of(void *pointer)
{
    return static_cast<void **>(pointer) - 1;
}

void *host_alloc(size_t bytes)
{
    auto both = host->allocate(bytes);

    *block_of(both.first) = both.second;
    return both.first;
}

void host_free(void *pointer, size_t)
{
    host->free(*block_of(pointer));
}

void host_record(void *pointer, unsigned stream)
{
    cudaStream_t on = stream_of(stream);

    host->record_event(pointer, *block_of(pointer),
                       c10::cuda::getStreamFromExternal(on, 0).unwrap());
    bench_stream_use(on);
}

void *host_place(const bench_where *, size_t bytes)
{
    return host_alloc(bytes);
}

void *device_alloc(size_t bytes)
{
    return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(bytes,
                                                                  stream_of(0));
}

void device_free(void *pointer, size_t)
{
    c10::cuda::CUDACachingAllocator::raw_delete(pointer);
}

/* A block belongs to the stream it was allocated on. */
void device_record(void *, unsigned stream)
{
    bench_stream_use(stream_of(stream));
}

void *device_place(const bench_where *place, size_t bytes)
{
    cudaStream_t stream = stream_of(place->stream);

    bench_stream_use(stream);
    return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(bytes,
                                                                  stream);
}
} // namespace

#define SUBJECT                                                                \
    extern "C" __attribute__((visibility("default"))) const bench_subject

SUBJECT bench_torch = {"torch",    false,     torch_open,         nullptr,
                       host_alloc, host_free, host_record,        nullptr,
                       host_place, nullptr,   bench_cudart_counts};
SUBJECT bench_torch_device = {
    "torch-device", true,        torch_open,         nullptr,
    device_alloc,   device_free, device_record,      nullptr,
    device_place,   nullptr,     bench_cudart_counts};
