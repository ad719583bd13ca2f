/* cudart_device.c: the stand-in libcudart: what devices, pointers and kernels
 * are like. */
#include "cudart.h"

#include <cuda_profiler_api.h>

#include <stdlib.h>
#include <string.h>

static bool known(int device)
{
    return device >= 0 && device < standin_device_count();
}

/* ---- Attributes and properties ---- */

/* The values are the same in both interfaces. */
FUNCTION(cudaDeviceGetAttribute,
         (int *value, enum cudaDeviceAttr attribute, int device),
         cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device))
FUNCTION(cudaDeviceGetPCIBusId, (char *bus_id, int bytes, int device),
         cuDeviceGetPCIBusId(bus_id, bytes, device))

static int by_bus_id(int *device, const char *bus_id)
{
    char text[32];

    for (int i = 0; i < standin_device_count(); i++) {
        if (cuDeviceGetPCIBusId(text, sizeof text, i) == CUDA_SUCCESS &&
            strcasecmp(text, bus_id) == 0) {
            *device = i;
            return cudaSuccess;
        }
    }
    return cudaErrorInvalidDevice;
}

FUNCTION(cudaDeviceGetByPCIBusId, (int *device, const char *bus_id),
         by_bus_id(device, bus_id))

static int attribute(CUdevice_attribute of, int device)
{
    int value = 0;

    (void)cuDeviceGetAttribute(&value, of, device);
    return value;
}

#define IS(field, name)                                                        \
    p->field =                                                                 \
        (__typeof__(p->field))attribute(CU_DEVICE_ATTRIBUTE_##name, device)

static void fill_limits(struct cudaDeviceProp *p, int device)
{
    IS(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK);
    IS(maxThreadsDim[0], MAX_BLOCK_DIM_X);
    IS(maxThreadsDim[1], MAX_BLOCK_DIM_Y);
    IS(maxThreadsDim[2], MAX_BLOCK_DIM_Z);
    IS(maxGridSize[0], MAX_GRID_DIM_X);
    IS(maxGridSize[1], MAX_GRID_DIM_Y);
    IS(maxGridSize[2], MAX_GRID_DIM_Z);
    IS(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK);
    IS(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    IS(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    IS(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK);
    IS(totalConstMem, TOTAL_CONSTANT_MEMORY);
    IS(warpSize, WARP_SIZE);
    IS(memPitch, MAX_PITCH);
    IS(regsPerBlock, MAX_REGISTERS_PER_BLOCK);
    IS(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR);
    IS(textureAlignment, TEXTURE_ALIGNMENT);
    IS(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT);
    IS(surfaceAlignment, SURFACE_ALIGNMENT);
    IS(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR);
    IS(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR);
}

static void fill_abilities(struct cudaDeviceProp *p, int device)
{
    IS(major, COMPUTE_CAPABILITY_MAJOR);
    IS(minor, COMPUTE_CAPABILITY_MINOR);
    IS(multiProcessorCount, MULTIPROCESSOR_COUNT);
    IS(integrated, INTEGRATED);
    IS(canMapHostMemory, CAN_MAP_HOST_MEMORY);
    IS(concurrentKernels, CONCURRENT_KERNELS);
    IS(asyncEngineCount, ASYNC_ENGINE_COUNT);
    IS(unifiedAddressing, UNIFIED_ADDRESSING);
    IS(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH);
    IS(l2CacheSize, L2_CACHE_SIZE);
    IS(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED);
    IS(managedMemory, MANAGED_MEMORY);
    IS(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS);
    IS(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED);
    IS(canUseHostPointerForRegisteredMem,
       CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
    IS(cooperativeLaunch, COOPERATIVE_LAUNCH);
    IS(pageableMemoryAccessUsesHostPageTables,
       PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
    IS(hostRegisterSupported, HOST_REGISTER_SUPPORTED);
    IS(hostRegisterReadOnlySupported, READ_ONLY_HOST_REGISTER_SUPPORTED);
    IS(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED);
}

static int properties(struct cudaDeviceProp *p, int device)
{
    if (!known(device)) {
        return cudaErrorInvalidDevice;
    }
    memset(p, 0, sizeof *p);
    (void)cuDeviceGetName(p->name, (int)sizeof p->name, device);
    (void)cuDeviceGetUuid_v2((CUuuid *)(void *)&p->uuid, device);
    (void)cuDeviceTotalMem_v2(&p->totalGlobalMem, device);
    p->pciDeviceID = device; /* as in cuDeviceGetPCIBusId() */
    fill_limits(p, device);
    fill_abilities(p, device);
    return cudaSuccess;
}

FUNCTION(cudaGetDeviceProperties, (struct cudaDeviceProp * p, int device),
         properties(p, device))
FUNCTION(cudaChooseDevice, (int *device, const struct cudaDeviceProp *wanted),
         (*device = 0, cudaSuccess))

/* ---- Settings ---- */

enum { LIMITS = 8 };
static _Atomic size_t limits[LIMITS] = {
    [cudaLimitStackSize] = 1 << 10,
    [cudaLimitPrintfFifoSize] = 1 << 20,
    [cudaLimitMallocHeapSize] = 8 << 20,
};
static _Atomic unsigned device_flags = cudaDeviceScheduleAuto;

static int limit(enum cudaLimit which, size_t *get, const size_t *set)
{
    if ((unsigned)which >= LIMITS) {
        return cudaErrorUnsupportedLimit;
    }
    if (set != NULL) {
        limits[which] = *set;
    } else {
        *get = limits[which];
    }
    return cudaSuccess;
}

FUNCTION(cudaDeviceGetLimit, (size_t * value, enum cudaLimit which),
         limit(which, value, NULL))
FUNCTION(cudaDeviceSetLimit, (enum cudaLimit which, size_t value),
         limit(which, NULL, &value))
FUNCTION(cudaInitDevice, (int device, unsigned device_flags_, unsigned flags),
         known(device) ? cudaSuccess : cudaErrorInvalidDevice)

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    ENTER_PLAIN(cudaSetDeviceFlags)
    device_flags = flags;
    return cudaSuccess;
}

FUNCTION(cudaGetDeviceFlags, (unsigned *flags),
         (*flags = device_flags, cudaSuccess))
FUNCTION(cudaDeviceSetCacheConfig, (enum cudaFuncCache config), cudaSuccess)
FUNCTION(cudaDeviceGetCacheConfig, (enum cudaFuncCache * config),
         (*config = cudaFuncCachePreferNone, cudaSuccess))
FUNCTION(cudaProfilerStart, (void), cudaSuccess)
FUNCTION(cudaProfilerStop, (void), cudaSuccess)

/* ---- Peers ---- */

/* A bit for each peer of a device. */
static _Atomic unsigned peers_of[STANDIN_DEVICES_MAX];

static int enable(int peer, bool on)
{
    int device = standin_current_device(), can = 0;
    unsigned bit = 1u << (unsigned)peer, before;

    if (cuDeviceCanAccessPeer(&can, device, peer) != CUDA_SUCCESS) {
        return cudaErrorInvalidDevice;
    }
    if (!can) {
        return cudaErrorPeerAccessUnsupported;
    }
    before = on ? atomic_fetch_or(&peers_of[device], bit)
                : atomic_fetch_and(&peers_of[device], ~bit);
    if (((before & bit) != 0) == on) {
        return on ? cudaErrorPeerAccessAlreadyEnabled
                  : cudaErrorPeerAccessNotEnabled;
    }
    return cudaSuccess;
}

FUNCTION(cudaDeviceCanAccessPeer, (int *can, int device, int peer),
         cuDeviceCanAccessPeer(can, device, peer))
FUNCTION(cudaDeviceEnablePeerAccess, (int peer, unsigned flags),
         flags == 0 ? enable(peer, true) : (int)cudaErrorInvalidValue)
FUNCTION(cudaDeviceDisablePeerAccess, (int peer), enable(peer, false))

/* ---- Pointers ---- */

static int attributes_of(struct cudaPointerAttributes *a, const void *pointer)
{
    standin_place place = standin_place_of(pointer);
    void *address = NULL;

    memcpy(&address, &pointer, sizeof address);
    *a = (struct cudaPointerAttributes){.type = place.type, .device = -2};
    if (place.type != cudaMemoryTypeUnregistered) {
        a->device = place.device;
        a->devicePointer = address;
    }
    if (place.type != cudaMemoryTypeDevice) {
        a->hostPointer = address;
    }
    return cudaSuccess;
}

FUNCTION(cudaPointerGetAttributes,
         (struct cudaPointerAttributes * a, const void *pointer),
         attributes_of(a, pointer))

static int host_flags(unsigned *flags, const void *pointer)
{
    *flags = cudaHostAllocPortable | cudaHostAllocMapped;
    return standin_place_of(pointer).type == cudaMemoryTypeHost
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

FUNCTION(cudaHostGetFlags, (unsigned *flags, void *pointer),
         host_flags(flags, pointer))

static int alloc_pitch(void **pointer, size_t *pitch, size_t width,
                       size_t height)
{
    enum { ALIGNMENT = 512 };

    *pitch = (width + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return (int)cuMemAlloc_v2((CUdeviceptr *)(void *)pointer, *pitch * height);
}

FUNCTION(cudaMallocPitch,
         (void **pointer, size_t *pitch, size_t width, size_t height),
         alloc_pitch(pointer, pitch, width, height))
/* Managed memory is everywhere. */
#if CUDART_VERSION >= 13000
FUNCTION(cudaMemPrefetchAsync,
         (const void *pointer, size_t bytes, struct cudaMemLocation location,
          unsigned flags, cudaStream_t stream),
         cudaSuccess)
FUNCTION(cudaMemAdvise,
         (const void *pointer, size_t bytes, enum cudaMemoryAdvise advice,
          struct cudaMemLocation location),
         cudaSuccess)
#endif
