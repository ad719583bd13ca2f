/* cudart_copy.c: the stand-in libcudart: copies and sets. Those that wait do so
 * for the stream that they are in, the default one. */
#include "cudart.h"

int standin_copy(void *destination, const void *source, size_t bytes,
                 enum cudaMemcpyKind kind, cudaStream_t stream)
{
    if (kind == cudaMemcpyHostToDevice) {
        return (int)cuMemcpyHtoDAsync_v2((uintptr_t)destination, source, bytes,
                                         stream);
    }
    if (kind == cudaMemcpyDeviceToHost) {
        return (int)cuMemcpyDtoHAsync_v2(destination, (uintptr_t)source, bytes,
                                         stream);
    }
    return (int)cuMemcpyAsync((uintptr_t)destination, (uintptr_t)source, bytes,
                              stream);
}

static int copy_rows(void *destination, size_t destination_pitch,
                     const void *source, size_t source_pitch, size_t width,
                     size_t height, cudaStream_t stream)
{
    const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .srcDevice = (uintptr_t)source,
                                .srcPitch = source_pitch,
                                .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .dstDevice = (uintptr_t)destination,
                                .dstPitch = destination_pitch,
                                .WidthInBytes = width,
                                .Height = height};

    return width == 0 || height == 0 ? cudaSuccess
                                     : (int)cuMemcpy2DAsync_v2(&rows, stream);
}

static int set_rows(void *destination, size_t pitch, int value, size_t width,
                    size_t height, cudaStream_t stream)
{
    int code = cudaSuccess;

    for (size_t i = 0; i < height && code == cudaSuccess; i++) {
        code = (int)cuMemsetD8Async((uintptr_t)destination + i * pitch,
                                    (unsigned char)value, width, stream);
    }
    return code;
}

static int wait(int code, cudaStream_t stream)
{
    return code != cudaSuccess ? code : (int)cuStreamSynchronize(stream);
}

/* CALLS(suffix of what waits, suffix of the others, the default stream) */
#define COPY                                                                   \
    (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
#define COPY_ON                                                                \
    (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,       \
     cudaStream_t stream)
#define ROWS                                                                   \
    (void *to, size_t to_pitch, const void *from, size_t pitch, size_t width,  \
     size_t height, enum cudaMemcpyKind kind)
#define ROWS_ON                                                                \
    (void *to, size_t to_pitch, const void *from, size_t pitch, size_t width,  \
     size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
#define SET    (void *to, int value, size_t bytes)
#define SET_ON (void *to, int value, size_t bytes, cudaStream_t stream)
#define SET_ROWS                                                               \
    (void *to, size_t pitch, int value, size_t width, size_t height)
#define SET_ROWS_ON                                                            \
    (void *to, size_t pitch, int value, size_t width, size_t height,           \
     cudaStream_t stream)

FUNCTION(cudaMemcpy, COPY,
         wait(standin_copy(to, from, bytes, kind, NULL), NULL))
FUNCTION(cudaMemcpyAsync, COPY_ON, standin_copy(to, from, bytes, kind, stream))
FUNCTION(cudaMemcpy2D, ROWS,
         wait(copy_rows(to, to_pitch, from, pitch, width, height, NULL), NULL))
FUNCTION(cudaMemcpy2DAsync, ROWS_ON,
         copy_rows(to, to_pitch, from, pitch, width, height, stream))
FUNCTION(cudaMemset, SET,
         cuMemsetD8Async((uintptr_t)to, (unsigned char)value, bytes, NULL))
FUNCTION(cudaMemsetAsync, SET_ON,
         cuMemsetD8Async((uintptr_t)to, (unsigned char)value, bytes, stream))
FUNCTION(cudaMemset2D, SET_ROWS,
         set_rows(to, pitch, value, width, height, NULL))
FUNCTION(cudaMemset2DAsync, SET_ROWS_ON,
         set_rows(to, pitch, value, width, height, stream))

PER_THREAD(cudaMemcpy_ptds, COPY,
           wait(standin_copy(to, from, bytes, kind, cudaStreamPerThread),
                cudaStreamPerThread))
PER_THREAD(cudaMemcpyAsync_ptsz, COPY_ON,
           standin_copy(to, from, bytes, kind, OWN(stream)))
PER_THREAD(cudaMemcpy2D_ptds, ROWS,
           wait(copy_rows(to, to_pitch, from, pitch, width, height,
                          cudaStreamPerThread),
                cudaStreamPerThread))
PER_THREAD(cudaMemcpy2DAsync_ptsz, ROWS_ON,
           copy_rows(to, to_pitch, from, pitch, width, height, OWN(stream)))
PER_THREAD(cudaMemset_ptds, SET,
           cuMemsetD8Async((uintptr_t)to, (unsigned char)value, bytes,
                           cudaStreamPerThread))
PER_THREAD(cudaMemsetAsync_ptsz, SET_ON,
           cuMemsetD8Async((uintptr_t)to, (unsigned char)value, bytes,
                           OWN(stream)))

/* All devices have one address space. */
FUNCTION(cudaMemcpyPeer,
         (void *to, int device, const void *from, int other, size_t bytes),
         wait((int)cuMemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, NULL),
              NULL))
FUNCTION(cudaMemcpyPeerAsync,
         (void *to, int device, const void *from, int other, size_t bytes,
          cudaStream_t stream),
         cuMemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, stream))
