/* peer_cudart.c: the cudart of the bench, for peers that call it: memory is
 * address space that nobody touches, streams have no work, events are those of
 * event.h, and every call is counted. Device 0 is the only one.
 *
 * Whatever else a peer's library names stays open: it is resolved when it is
 * called, which nothing here does. */
#include "tests/bench/event.h"
#include "tests/bench/peers/peer_cudart.h"

#ifndef WM_NO_CUDA
#include <cuda_runtime_api.h>

#include <stdlib.h>
#include <string.h>

/* Relaxed: figures only. */
static struct {
    _Alignas(64) _Atomic uint64_t records, queries;
    _Alignas(64) _Atomic uint64_t others, obtains, held, peak;
} calls;

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

void bench_cudart_counts(bench_counts *counts)
{
    *counts = (bench_counts){.records = atomic_load(&calls.records),
                             .queries = atomic_load(&calls.queries),
                             .others = atomic_load(&calls.others),
                             .obtains = atomic_load(&calls.obtains),
                             .peak = atomic_load(&calls.peak)};
}

/* ---- memory -------------------------------------------------------------- */

enum { HEAD = 4096 }; /* before the memory: its size */

static cudaError_t obtain(void **pointer, size_t bytes)
{
    char *memory = bench_map(bytes + HEAD);
    uint64_t held, peak;

    if (memory == NULL) {
        return cudaErrorMemoryAllocation;
    }
    count(&calls.others);
    count(&calls.obtains);
    *(size_t *)(void *)memory = bytes;
    *pointer = memory + HEAD;
    held = atomic_fetch_add(&calls.held, bytes) + bytes;
    peak = atomic_load(&calls.peak);
    while (held > peak &&
           !atomic_compare_exchange_weak(&calls.peak, &peak, held)) {
    }
    return cudaSuccess;
}

static cudaError_t release(void *pointer)
{
    char *memory;
    size_t bytes;

    count(&calls.others);
    if (pointer != NULL) {
        memory = (char *)pointer - HEAD;
        bytes = *(size_t *)(void *)memory;
        atomic_fetch_sub(&calls.held, bytes);
        bench_unmap(memory, bytes + HEAD);
    }
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    return obtain(pointer, bytes);
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    return obtain(pointer, bytes);
}

cudaError_t cudaFree(void *pointer)
{
    return release(pointer);
}

cudaError_t cudaFreeHost(void *pointer)
{
    return release(pointer);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    *free = *total = (size_t)1 << 40;
    return cudaSuccess;
}

/* ---- events and streams -------------------------------------------------- */

static bench_stream *stream_of(cudaStream_t stream)
{
    static bench_stream standard;

    return (uintptr_t)stream <= 2 ? &standard : (bench_stream *)(void *)stream;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    count(&calls.others);
    *event = (cudaEvent_t)(void *)bench_event_new();
    return *event != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* CUB records on events that another thread has destroyed: left behind. */
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    count(&calls.others);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    count(&calls.records);
    bench_event_record((bench_event *)(void *)event, stream_of(stream));
    return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                     unsigned flags)
{
    return cudaEventRecord(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    count(&calls.queries);
    return bench_event_done((bench_event *)(void *)event) ? cudaSuccess
                                                          : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    count(&calls.others);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int priority)
{
    *stream = (cudaStream_t)(void *)bench_stream_new();
    return *stream != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    count(&calls.others);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    count(&calls.others);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  enum cudaStreamCaptureStatus *status)
{
    count(&calls.others);
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t
cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    count(&calls.others);
    return cudaSuccess;
}

/* ---- the device ---------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *devices)
{
    *devices = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    count(&calls.others);
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    count(&calls.others);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties,
                                    int device)
{
    memset(properties, 0, sizeof *properties);
    strcpy(properties->name, "bench device");
    properties->major = 9;
    properties->totalGlobalMem = (size_t)1 << 40;
    properties->multiProcessorCount = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* Functions of the driver are looked up, and not called. */
cudaError_t
cudaGetDriverEntryPointByVersion(const char *name, void **function,
                                 unsigned version, unsigned long long flags,
                                 enum cudaDriverEntryPointQueryResult *found)
{
    *function = NULL;
    if (found != NULL) {
        *found = cudaDriverEntryPointSymbolNotFound;
    }
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaPeekAtLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return "an error";
}

const char *cudaGetErrorName(cudaError_t error)
{
    return "an error";
}
#endif
