/* cusolver.c: the stand-in libcusolver.so.12: dense handles, their state. */
#include <cusolverDn.h>

#define LIBRARY "cusolver"
#define STATUS  cusolverStatus_t
#define BAD     CUSOLVER_STATUS_NOT_INITIALIZED
#define MEMORY  CUSOLVER_STATUS_ALLOC_FAILED

#include "handle.h"

/* Major, minor number and patch level, as with CUDA 13.0 and 12.9. */
cusolverStatus_t cusolverGetProperty(libraryPropertyType type, int *value)
{
    static const int newer[] = {12, 0, 4}, older[] = {11, 7, 5};

    *value = (standin_version() < 13000 ? older : newer)[type];
    return (cusolverStatus_t)0;
}

CREATE_DESTROY(cusolverDnHandle_t, cusolverDnCreate, cusolverDnDestroy)
SET_STREAM(cusolverDnHandle_t, cusolverDnSetStream, cusolverDnGetStream)
#if CUSOLVER_VERSION >= 11600
SETTING(cusolverDnHandle_t, cusolverDn, DeterministicMode,
        cusolverDeterministicMode_t, 0, 1)
#endif
#if CUSOLVER_VERSION >= 12004
SETTING(cusolverDnHandle_t, cusolverDn, MathMode, cusolverMathMode_t, 1, 0)
SETTING(cusolverDnHandle_t, cusolverDn, EmulationStrategy,
        cudaEmulationStrategy_t, 2, 0)
#endif
