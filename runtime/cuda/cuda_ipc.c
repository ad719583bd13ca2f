/* cuda_ipc.c: device memory shared with other processes by CUDA. */
#include "runtime/cuda/cuda.h"

#if WM_HAVE_CUDA
#include "runtime/base/status.h"

#include <string.h>

_Static_assert(sizeof(CUipcMemHandle) == sizeof(wm_ipc_name),
               "a name is CUDA's handle");
_Static_assert(sizeof(CUuuid) == sizeof(wm_device_id), "an id is CUDA's");

/* The UUID, because processes number devices differently
 * (CUDA_VISIBLE_DEVICES). */
warm_status wm_cuda_device_id(wm_driver *d, int device, wm_device_id *id)
{
    wm_cuda *c = wm_cuda_of(d);
    CUuuid found;
    warm_status status = WM_CUDA_RESULT(c, cuDeviceGetUuid_v2, &found, device);

    if (status == WARM_OK) {
        memcpy(id->bytes, &found, sizeof found);
    }
    return status;
}

warm_status wm_cuda_ipc_export(wm_driver *d, int device, void *pointer,
                               wm_ipc_name *name)
{
    wm_cuda *c = wm_cuda_of(d);
    CUipcMemHandle handle;
    wm_cuda_scope scope;
    warm_status status = wm_cuda_device_push(d, device, &scope);

    if (status == WARM_OK &&
        (status = WM_CUDA_CALL(c, &scope, cuIpcGetMemHandle, &handle,
                               (uintptr_t)pointer)) == WARM_OK) {
        memcpy(name->bytes, &handle, sizeof handle);
    }
    return status;
}

/* Some codes mean here that the name refers to no memory. */
static warm_status open_result(wm_cuda *c, CUresult code)
{
    const char *what = "cuIpcOpenMemHandle";

    if (code != CUDA_ERROR_INVALID_HANDLE && code != CUDA_ERROR_MAP_FAILED &&
        code != CUDA_ERROR_INVALID_CONTEXT &&
        code != CUDA_ERROR_INVALID_VALUE) {
        return wm_cuda_result(c, code, what);
    }
    return wm_cuda_fail(c, WARM_UNAVAILABLE, code, what);
}

warm_status wm_cuda_ipc_open(wm_driver *d, int device, const wm_ipc_name *name,
                             void **pointer)
{
    wm_cuda *c = wm_cuda_of(d);
    CUipcMemHandle handle;
    wm_cuda_scope scope;
    CUdeviceptr got = 0;
    warm_status status = wm_cuda_device_push(d, device, &scope);

    memcpy(&handle, name->bytes, sizeof handle);
    if (status == WARM_OK) {
        status = wm_cuda_leave(
            c, &scope,
            open_result(c,
                        c->cu.cuIpcOpenMemHandle_v2(
                            &got, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
    }
    if (status == WARM_OK) {
        *pointer = (void *)(uintptr_t)got;
    }
    return status;
}

WM_CUDA_DEFINE(ipc_close, (wm_driver * d, int device, void *pointer),
               wm_cuda_device_push(d, device, &scope), cuIpcCloseMemHandle,
               (uintptr_t)pointer)
#endif
