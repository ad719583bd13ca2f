/* cudart_pool.c: the stand-in libcudart: memory pools. A pool keeps nothing:
 * its memory is allocated and freed like any of a stream's order. Settings are
 * kept; figures of use are not supported. */
#include "cudart.h"

#include <stdlib.h>
#include <string.h>

struct CUmemPoolHandle_st {
    int device;                  /* const */
    _Atomic uint64_t setting[4]; /* of the first attributes, threshold last */
};

static struct CUmemPoolHandle_st defaults[STANDIN_DEVICES_MAX];
/* Null: the default one. */
static _Atomic(cudaMemPool_t) current[STANDIN_DEVICES_MAX];

static bool known(int device)
{
    return device >= 0 && device < standin_device_count();
}

static int default_of(cudaMemPool_t *pool, int device)
{
    if (!known(device)) {
        return cudaErrorInvalidDevice;
    }
    defaults[device].device = device;
    *pool = &defaults[device];
    return cudaSuccess;
}

static int current_of(cudaMemPool_t *pool, int device)
{
    int code = default_of(pool, device);

    if (code == cudaSuccess && current[device] != NULL) {
        *pool = current[device];
    }
    return code;
}

static int set_current(int device, cudaMemPool_t pool)
{
    if (!known(device) || pool == NULL) {
        return cudaErrorInvalidValue;
    }
    current[device] = pool;
    return cudaSuccess;
}

static int create(cudaMemPool_t *pool, const struct cudaMemPoolProps *wanted)
{
    if (!known(wanted->location.id)) {
        return cudaErrorInvalidDevice;
    }
    *pool = calloc(1, sizeof **pool);
    (*pool)->device = wanted->location.id;
    return cudaSuccess;
}

static int destroy(cudaMemPool_t pool)
{
    if (pool == NULL || pool == &defaults[pool->device]) {
        return cudaErrorInvalidValue;
    }
    free(pool);
    return cudaSuccess;
}

/* The first three are ints, the fourth, the threshold, is 64 bits wide. */
static int attribute(cudaMemPool_t pool, enum cudaMemPoolAttr which,
                     void *value, bool set)
{
    size_t bytes = which == cudaMemPoolAttrReleaseThreshold ? sizeof(uint64_t)
                                                            : sizeof(int);
    uint64_t kept = 0;

    if (which < cudaMemPoolReuseFollowEventDependencies ||
        which > cudaMemPoolAttrReleaseThreshold) {
        return cudaErrorNotSupported;
    }
    if (set) {
        memcpy(&kept, value, bytes);
        pool->setting[which - 1] = kept;
    } else {
        kept = pool->setting[which - 1];
        memcpy(value, &kept, bytes);
    }
    return cudaSuccess;
}

FUNCTION(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device),
         default_of(pool, device))
FUNCTION(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device),
         current_of(pool, device))
FUNCTION(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool),
         set_current(device, pool))
FUNCTION(cudaMemPoolCreate,
         (cudaMemPool_t * pool, const struct cudaMemPoolProps *wanted),
         create(pool, wanted))
FUNCTION(cudaMemPoolDestroy, (cudaMemPool_t pool), destroy(pool))
FUNCTION(cudaMemPoolGetAttribute,
         (cudaMemPool_t pool, enum cudaMemPoolAttr which, void *value),
         attribute(pool, which, value, false))
FUNCTION(cudaMemPoolSetAttribute,
         (cudaMemPool_t pool, enum cudaMemPoolAttr which, void *value),
         attribute(pool, which, value, true))
FUNCTION(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t bytes), cudaSuccess)
FUNCTION(cudaMemPoolSetAccess,
         (cudaMemPool_t pool, const struct cudaMemAccessDesc *access,
          size_t count),
         cudaSuccess)
FUNCTION(cudaMallocFromPoolAsync,
         (void **pointer, size_t bytes, cudaMemPool_t pool,
          cudaStream_t stream),
         standin_alloc_async(pointer, bytes, stream))
PER_THREAD(cudaMallocFromPoolAsync_ptsz,
           (void **pointer, size_t bytes, cudaMemPool_t pool,
            cudaStream_t stream),
           standin_alloc_async(pointer, bytes, OWN(stream)))
