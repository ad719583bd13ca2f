/* cublaslt.c: the stand-in libcublasLt.so.13: handles. */
#include <cublasLt.h>

#define LIBRARY "cublaslt"
#define STATUS  cublasStatus_t
#define BAD     CUBLAS_STATUS_NOT_INITIALIZED
#define MEMORY  CUBLAS_STATUS_ALLOC_FAILED

#include "handle.h"

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_ALLOC_FAILED
               ? "the resource allocation failed"
               : "an error of the stand-in";
}

size_t cublasLtGetCudartVersion(void)
{
    return (size_t)standin_version();
}

/* All handles of a device are one, as with the one of CUDA 13.0. */
CREATE_DESTROY_BY(standin_handle_share, cublasLtHandle_t, cublasLtCreate,
                  cublasLtDestroy)
