/* cusparse.c: the stand-in libcusparse.so.12: handles and their state. */
#include <cusparse.h>

#define LIBRARY "cusparse"
#define STATUS  cusparseStatus_t
#define BAD     CUSPARSE_STATUS_NOT_INITIALIZED
#define MEMORY  CUSPARSE_STATUS_ALLOC_FAILED

#include "handle.h"

const char *cusparseGetErrorString(cusparseStatus_t status)
{
    return status == CUSPARSE_STATUS_ALLOC_FAILED ? "insufficient resources"
                                                  : "an error of the stand-in";
}

/* Major, minor number and patch level, as with CUDA 13.0 and 12.9. */
cusparseStatus_t cusparseGetProperty(libraryPropertyType type, int *value)
{
    static const int newer[] = {12, 6, 3}, older[] = {12, 5, 10};

    *value = (standin_version() < 13000 ? older : newer)[type];
    return (cusparseStatus_t)0;
}

CREATE_DESTROY(cusparseHandle_t, cusparseCreate, cusparseDestroy)
SET_STREAM(cusparseHandle_t, cusparseSetStream, cusparseGetStream)
SETTING(cusparseHandle_t, cusparse, PointerMode, cusparsePointerMode_t, 0, 0)
