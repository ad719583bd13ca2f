/* cusolver.c: the stand-in libcusolver.so.12: dense handles, their state. */
#include <cusolverDn.h>

#define LIBRARY "cusolver"
#define STATUS  cusolverStatus_t
#define BAD     CUSOLVER_STATUS_NOT_INITIALIZED
#define MEMORY  CUSOLVER_STATUS_ALLOC_FAILED

#include "handle.h"

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
