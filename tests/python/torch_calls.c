/* torch_calls.c: functions of cudart that PyTorch needs before its first
 * allocation, and that the stand-in does not have, since the library never
 * calls them. Linked into the stand-in for PyTorch (torch_libraries.py), over
 * the stand-in's other functions. */
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <string.h>

#undef cudaGetDeviceProperties
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties,
                                    int device)
{
    size_t bytes_free, bytes;
    int current;
    cudaError_t error = cudaGetDevice(&current);

    memset(properties, 0, sizeof *properties);
    if (error == cudaSuccess && device != current) {
        error = cudaSetDevice(device);
    }
    if (error == cudaSuccess) {
        error = cudaMemGetInfo(&bytes_free, &bytes);
        (void)cudaSetDevice(current);
    }
    if (error != cudaSuccess) {
        return error;
    }
    strcpy(properties->name, "stand-in");
    properties->totalGlobalMem = bytes;
    properties->major = 9;
    properties->multiProcessorCount = 1;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(
    const char *symbol, void **funcPtr, unsigned cudaVersion,
    unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *driverStatus)
{
    (void)cudaVersion;
    (void)flags;
    *funcPtr = dlsym(RTLD_DEFAULT, symbol);
    if (driverStatus != NULL) {
        *driverStatus = *funcPtr != NULL ? cudaDriverEntryPointSuccess
                                         : cudaDriverEntryPointSymbolNotFound;
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = 0;
    return cudaSuccess;
}

/* Its version of CUDA 13. */
#undef cudaStreamGetCaptureInfo
cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
    unsigned long long *id_out, cudaGraph_t *graph_out,
    const cudaGraphNode_t **dependencies_out,
    const cudaGraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
    (void)graph_out;
    (void)dependencies_out;
    (void)edgeData_out;
    (void)numDependencies_out;
    if (id_out != NULL) {
        *id_out = 0;
    }
    return cudaStreamIsCapturing(stream, captureStatus_out);
}
