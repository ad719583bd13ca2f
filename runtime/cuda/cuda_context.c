/* cuda_context.c: contexts, current devices, and error messages.
 *
 * One compare-and-swap publishes a context to all threads of the driver. The
 * process lock guards the references that the process holds. A thread's stack
 * of contexts belongs to the thread. */
#include "runtime/cuda/cuda.h"

#if WM_HAVE_CUDA
#include "runtime/base/process.h"
#include "runtime/base/status.h"

#include <string.h>

static warm_status status_of(CUresult code)
{
    if (code == CUDA_ERROR_OUT_OF_MEMORY) {
        return WARM_OUT_OF_MEMORY;
    }
    if (code == CUDA_ERROR_INVALID_HANDLE) {
        return WARM_INVALID_STREAM;
    }
    if (code == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {
        return WARM_INVALID_ARGUMENT;
    }
    if (code == CUDA_ERROR_NOT_SUPPORTED) {
        return WARM_UNSUPPORTED;
    }
    if (code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
        code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) {
        return WARM_CAPTURE_ERROR;
    }
    return WARM_DRIVER_ERROR;
}

/* Whether a reset has destroyed the primary context. The next context may have
 * the same handle, so a reset shows in that the context is not active, or has
 * another id. If libcuda fails, the context counts as not reset. */
static bool has_another_id(wm_cuda *c, int device, CUcontext context)
{
    /* Acquire and relaxed: see note_id(). */
    bool known = atomic_load_explicit(&c->primary[device].id_known,
                                      memory_order_acquire);
    uint64_t id =
        atomic_load_explicit(&c->primary[device].id, memory_order_relaxed);
    unsigned long long now = 0;
    CUresult code;

    if (!known) {
        return false;
    }
    code = c->cu.cuCtxGetId(context, &now);
    return code == CUDA_SUCCESS ? now != id
                                : code == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
                                      code == CUDA_ERROR_INVALID_CONTEXT;
}

static bool was_reset(wm_cuda *c, int device)
{
    /* Relaxed: see retain(). */
    CUcontext context =
        atomic_load_explicit(&c->primary[device].context, memory_order_relaxed);
    unsigned flags = 0;
    int active = 0;

    if (context == NULL || c->cu.cuDevicePrimaryCtxGetState(
                               device, &flags, &active) != CUDA_SUCCESS) {
        return false;
    }
    return active == 0 || has_another_id(c, device, context);
}

/* A device whose reset the runtime has not noticed yet; -1: there is none. */
static int reset_unnoticed(wm_cuda *c)
{
    for (int i = 0; i < c->base.devices; i++) {
        if (!wm_driver_is_lost(&c->base, i) && was_reset(c, i)) {
            return i;
        }
    }
    return -1;
}

/* Length of a function's name without its version suffix. */
static int length_of(const char *function)
{
    return (int)strcspn(function, "_");
}

warm_status wm_cuda_unloading(const char *origin, int code, const char *what)
{
    wm_process_set_exiting();
    return wm_fail_code(WARM_EXITING, origin, code, NULL,
                        "%.*s: the CUDA driver is shutting down",
                        length_of(what), what);
}

static const char *meaning(const wm_cuda *c, warm_status status)
{
    if (status != WARM_INVALID_STREAM) {
        return "";
    }
    return wm_driver_any_lost(&c->base)
               ? " (a stream, event or graph that was destroyed, ended when "
                 "its "
                 "device was reset, never was one, or is of another context)"
               : " (a stream, event or graph that was destroyed, never was "
                 "one, "
                 "or is of another context)";
}

warm_status wm_cuda_fail(wm_cuda *c, warm_status status, CUresult code,
                         const char *what)
{
    const char *text = NULL;

    c->cu.cuGetErrorString(code, &text);
    return wm_fail_code(
        status, "cuda", (int)code, text, "%.*s: %s%s", length_of(what), what,
        text != NULL ? text : "unknown error", meaning(c, status));
}

/* CUDA answers so for what was destroyed, and for what ended with the context
 * of a device that was reset. Until the runtime has noticed the reset the
 * failure is one of the device, not of the object. */
static warm_status fail_handle(wm_cuda *c, CUresult code, const char *what)
{
    int device = reset_unnoticed(c);

    if (device < 0) {
        return wm_cuda_fail(c, WARM_INVALID_STREAM, code, what);
    }
    return wm_fail_code(WARM_DRIVER_ERROR, "cuda", (int)code, NULL,
                        "%.*s: device %d was reset (cudaDeviceReset()), which "
                        "ended its streams, events and graphs",
                        length_of(what), what, device);
}

warm_status wm_cuda_result(wm_cuda *c, CUresult code, const char *what)
{
    if (wm_likely(code == CUDA_SUCCESS)) {
        return WARM_OK;
    }
    if (code == CUDA_ERROR_NOT_READY) {
        return WARM_NOT_READY;
    }
    if (code == CUDA_ERROR_DEINITIALIZED) {
        return wm_cuda_unloading("cuda", (int)code, what);
    }
    return code == CUDA_ERROR_INVALID_HANDLE
               ? fail_handle(c, code, what)
               : wm_cuda_fail(c, status_of(code), code, what);
}

/* If libcuda does not know the context's id, a reset is noticed only while the
 * device has no primary context. */
static void note_id(wm_cuda *c, int device, CUcontext context)
{
    unsigned long long id = 0;

    if (c->cu.cuCtxGetId(context, &id) == CUDA_SUCCESS) {
        atomic_store_explicit(&c->primary[device].id, id, memory_order_relaxed);
        /* Release pairs with the acquire in has_another_id(). A thread that
         * does not see it yet checks at its next miss. */
        atomic_store_explicit(&c->primary[device].id_known, true,
                              memory_order_release);
    }
}

/* The contexts to which the process holds a reference, by device. */
static struct {
    CUcontext context;
    uint64_t id;
} held[WM_NODE_DEVICES]; /* process lock */

/* The caller has just retained the device's context. True if the process held a
 * reference before; else the caller's reference becomes the process's. A
 * context without a known id may be a new one at the same address and counts as
 * new. */
static bool is_held(wm_cuda *c, int device)
{
    /* Relaxed: this thread has published both. */
    CUcontext context =
        atomic_load_explicit(&c->primary[device].context, memory_order_relaxed);
    uint64_t id =
        atomic_load_explicit(&c->primary[device].id, memory_order_relaxed);
    bool same;

    if (device >= WM_NODE_DEVICES ||
        !atomic_load_explicit(&c->primary[device].id_known,
                              memory_order_relaxed)) {
        return false;
    }
    wm_lock_acquire(&wm_process_lock);
    same = held[device].context == context && held[device].id == id;
    held[device].context = context;
    held[device].id = id;
    wm_lock_release(&wm_process_lock);
    return same;
}

static warm_status retain(wm_cuda *c, int device, CUcontext *context)
{
    CUcontext mine = NULL;
    CUcontext none = NULL;
    warm_status status =
        WM_CUDA_RESULT(c, cuDevicePrimaryCtxRetain, &mine, device);

    if (status != WARM_OK) {
        return status;
    }
    /* Relaxed: only the handle is published; libcuda orders what it stands for.
     * A thread that loses the race, or follows another runtime, releases its
     * reference: the process holds one. */
    if (!atomic_compare_exchange_strong_explicit(
            &c->primary[device].context, &none, mine, memory_order_relaxed,
            memory_order_relaxed)) {
        c->cu.cuDevicePrimaryCtxRelease_v2(device);
        mine = none;
    } else {
        note_id(c, device, mine);
        if (is_held(c, device)) {
            c->cu.cuDevicePrimaryCtxRelease_v2(device);
        } else {
            wm_process_exit_first(); /* a context may have brought a handler */
        }
    }
    *context = mine;
    return WARM_OK;
}

warm_status wm_cuda_device_push(wm_driver *d, int device, wm_cuda_scope *scope)
{
    wm_cuda *c = wm_cuda_of(d);
    CUcontext current = NULL;
    /* Relaxed: see retain(). */
    CUcontext wanted =
        atomic_load_explicit(&c->primary[device].context, memory_order_relaxed);
    warm_status status = WARM_OK;

    scope->pushed = false;
    if (wm_driver_any_lost(d)) {
        status = wm_driver_check_lost(d, device);
    }
    if (status == WARM_OK && wanted == NULL) {
        status = retain(c, device, &wanted);
    }
    if (status == WARM_OK &&
        (status = WM_CUDA_RESULT(c, cuCtxGetCurrent, &current)) == WARM_OK &&
        current != wanted) {
        status = WM_CUDA_RESULT(c, cuCtxPushCurrent_v2, wanted);
        scope->pushed = status == WARM_OK;
    }
    return status;
}

void wm_cuda_device_pop(wm_driver *d, const wm_cuda_scope *scope)
{
    CUcontext popped;

    /* Fails only if the program has destroyed the context meanwhile. */
    if (scope->pushed &&
        wm_cuda_of(d)->cu.cuCtxPopCurrent_v2(&popped) != CUDA_SUCCESS) {
        wm_driver_warn(d, "cuCtxPopCurrent failed: the thread's current CUDA "
                          "context may have changed");
    }
}

bool wm_cuda_active(wm_cuda *c, int device)
{
    unsigned flags = 0;
    int active = 0;

    return c->cu.cuDevicePrimaryCtxGetState(device, &flags, &active) ==
               CUDA_SUCCESS &&
           active != 0;
}

warm_status wm_cuda_enter_device(wm_driver *d, int device, bool *entered)
{
    wm_cuda_scope scope = {.pushed = false};
    warm_status status = WARM_NOT_READY;

    if (wm_cuda_active(wm_cuda_of(d), device)) {
        status = wm_cuda_device_push(d, device, &scope);
    }
    *entered = scope.pushed;
    return status;
}

void wm_cuda_leave_device(wm_driver *d, bool entered)
{
    wm_cuda_scope scope = {.pushed = entered};

    wm_cuda_device_pop(d, &scope);
}

/* The failure of a cudart call, with cudart's text: it has codes that libcuda
 * lacks, for instance for a driver that is too old. All other codes mean the
 * same in both. */
static warm_status cudart_failed(wm_cuda *c, cudaError_t code, const char *what)
{
    const char *text = c->rt.cudaGetErrorString(code);

    if (code == cudaErrorCudartUnloading) {
        return wm_cuda_unloading("cudart", (int)code, what);
    }
    return wm_fail_code(status_of((CUresult)code), "cudart", (int)code, text,
                        "%s: %s", what, text);
}

/* Queries cudart for the thread's device. If that fails, the failure is removed
 * from cudart's last error. But if an error of the program was pending there,
 * our failure has overwritten it, and nothing can restore it: then the failure
 * stays, so that the program finds some error. */
warm_status wm_cuda_current_device(wm_driver *d, int *device)
{
    wm_cuda *c = wm_cuda_of(d);
    bool pending = c->rt.cudaPeekAtLastError() != cudaSuccess;
    int current = 0;
    cudaError_t code = c->rt.cudaGetDevice(&current);

    if (code == cudaSuccess) {
        *device = current;
        return WARM_OK;
    }
    if (!pending) {
        (void)c->rt.cudaGetLastError();
    }
    return cudart_failed(c, code, "cudaGetDevice");
}

static bool has_context(wm_cuda *c, int device)
{
    return !wm_driver_is_lost(&c->base, device) && wm_cuda_active(c, device);
}

/* Chooses a device that has a primary context, the thread's own first; if none
 * has one, the thread's own, because the work needs some context. Lost devices
 * are left out. */
static int with_context(wm_cuda *c, int own)
{
    if (has_context(c, own)) {
        return own;
    }
    for (int i = 0; i < c->base.devices; i++) {
        if (has_context(c, i)) {
            return i;
        }
    }
    return own;
}

/* ---- which context is current -------------------------------------------- */

/* The device's primary context if it has one, retained; else null. If the
 * program resets the device in between, a new context may be made here. */
static CUcontext primary_of(wm_cuda *c, int device)
{
    /* Relaxed: see retain(). */
    CUcontext context =
        atomic_load_explicit(&c->primary[device].context, memory_order_relaxed);

    if (context == NULL && wm_cuda_active(c, device) &&
        retain(c, device, &context) != WARM_OK) {
        context = NULL;
    }
    return context;
}

/* The device of the current context; -1 if libcuda fails. */
static int device_in_use(wm_cuda *c)
{
    CUdevice device = 0;

    return c->cu.cuCtxGetDevice(&device) == CUDA_SUCCESS && device >= 0 &&
                   device < c->base.devices
               ? device
               : -1;
}

static bool is_known(wm_cuda *c, CUcontext current)
{
    for (int i = 0; i < c->base.devices; i++) {
        /* Relaxed: see retain(). */
        if (atomic_load_explicit(&c->primary[i].context,
                                 memory_order_relaxed) == current &&
            !wm_driver_is_lost(&c->base, i)) {
            return true;
        }
    }
    return false;
}

/* Whether a context is one of the primary ones that the runtime uses. */
static bool is_usable(wm_cuda *c, CUcontext current)
{
    int device = -1;

    if (wm_likely(is_known(c, current))) {
        return true;
    }
    device = device_in_use(c);
    return device >= 0 && !wm_driver_is_lost(&c->base, device) &&
           primary_of(c, device) == current;
}

/* Whether the current context was destroyed by a reset, or was made after one
 * on a lost device: the runtime does not work in it, but calls that work in
 * other contexts need not fail because of it. */
static bool is_over(wm_cuda *c)
{
    CUdevice device = 0;
    CUresult code = c->cu.cuCtxGetDevice(&device);

    return code == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
           (code == CUDA_SUCCESS && wm_driver_is_lost(&c->base, device));
}

warm_status wm_cuda_foreign(wm_cuda *c, CUcontext context, const char *whose)
{
    return wm_fail(WARM_UNSUPPORTED,
                   "%s CUDA context %p, of device %d, is not the device's "
                   "primary context but one of cuCtxCreate() or a green one: "
                   "warmpool works in primary contexts only; make that current "
                   "with cudaSetDevice()",
                   whose, (void *)context, device_in_use(c));
}

bool wm_cuda_is_foreign(wm_cuda *c, CUcontext context)
{
    return context != NULL && !is_usable(c, context) && !is_over(c);
}

/* Marks a device (none in particular: every one) as lost if it was reset. */
void wm_cuda_notice(wm_driver *d, int device)
{
    wm_cuda *c = wm_cuda_of(d);

    for (int i = 0; i < d->devices; i++) {
        if ((device < 0 || device == i) && !wm_driver_is_lost(d, i) &&
            was_reset(c, i)) {
            wm_driver_lose(d, i);
        }
    }
}

warm_status wm_cuda_look(wm_driver *d, int device)
{
    wm_cuda *c = wm_cuda_of(d);
    CUcontext current = NULL;
    warm_status status;

    wm_cuda_notice(d, device);
    if ((status = wm_driver_check_lost(d, device)) == WARM_OK) {
        status = WM_CUDA_RESULT(c, cuCtxGetCurrent, &current);
    }
    return status == WARM_OK && wm_cuda_is_foreign(c, current)
               ? wm_cuda_foreign(c, current, "the calling thread's")
               : status;
}

/* Two queries: for a context that was destroyed libcuda reports that instead of
 * the id. */
wm_unchanged wm_cuda_is_unchanged(wm_driver *d, int device)
{
    wm_cuda *c = wm_cuda_of(d);
    /* Relaxed: see retain(). Acquire and relaxed: see note_id(). */
    CUcontext context =
        atomic_load_explicit(&c->primary[device].context, memory_order_relaxed);
    CUcontext current = NULL;
    unsigned long long id = 0;

    if (!atomic_load_explicit(&c->primary[device].id_known,
                              memory_order_acquire) ||
        c->cu.cuCtxGetCurrent(&current) != CUDA_SUCCESS ||
        c->cu.cuCtxGetId(context, &id) != CUDA_SUCCESS ||
        id != atomic_load_explicit(&c->primary[device].id,
                                   memory_order_relaxed)) {
        return WM_UNCHANGED_UNKNOWN;
    }
    if (wm_likely(current == context)) {
        return WM_UNCHANGED_CURRENT;
    }
    return current == NULL || is_known(c, current) ? WM_UNCHANGED
                                                   : WM_UNCHANGED_UNKNOWN;
}

/* own_only: the thread's own device, not just any that has a context. */
static warm_status enter(wm_cuda *c, bool own_only, wm_cuda_scope *scope)
{
    CUcontext current = NULL;
    int device = 0;
    warm_status status = WM_CUDA_RESULT(c, cuCtxGetCurrent, &current);

    scope->pushed = false;
    if (status != WARM_OK ||
        wm_likely(current != NULL && is_usable(c, current))) {
        return status;
    }
    status = wm_cuda_current_device(&c->base, &device);
    if (status == WARM_OK) {
        status = wm_cuda_device_push(
            &c->base, own_only ? device : with_context(c, device), scope);
    }
    return status;
}

/* If CUDA fails here, the call that names the stream fails as well, and says
 * why. */
bool wm_cuda_has_default(wm_driver *d)
{
    wm_cuda *c = wm_cuda_of(d);
    CUcontext current = NULL;
    int device = 0;

    return c->cu.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != NULL ||
           wm_cuda_current_device(d, &device) != WARM_OK ||
           wm_driver_is_lost(d, device) || wm_cuda_active(c, device);
}

warm_status wm_cuda_enter(wm_cuda *c, wm_cuda_scope *scope)
{
    return enter(c, false, scope);
}

/* All page-locked memory belongs to one context; otherwise it would be unknown
 * which part of it a reset destroyed. It is the context of the first thread
 * that needs page-locked memory, chosen once that thread has entered it. */
warm_status wm_cuda_enter_host(wm_cuda *c, wm_cuda_scope *scope)
{
    int own = 0, home, none = 0;
    warm_status status = WARM_OK;

    scope->pushed = false;
    for (;;) {
        /* Relaxed: see the field. */
        home = atomic_load_explicit(&c->base.host_home, memory_order_relaxed);
        if (home == 0) {
            status = wm_cuda_current_device(&c->base, &own);
            own = status == WARM_OK ? with_context(c, own) : own;
        }
        if (status == WARM_OK) {
            status =
                wm_cuda_device_push(&c->base, home > 0 ? home - 1 : own, scope);
        }
        if (status != WARM_OK || home > 0 ||
            atomic_compare_exchange_strong_explicit(
                &c->base.host_home, &none, own + 1, memory_order_relaxed,
                memory_order_relaxed)) {
            return status;
        }
        wm_cuda_device_pop(&c->base, scope); /* another thread was first */
    }
}

warm_status wm_cuda_enter_known(wm_cuda *c, warm_stream stream,
                                wm_cuda_scope *scope)
{
    return enter(c, wm_stream_is_default(stream), scope);
}

warm_status wm_cuda_enter_stream(wm_cuda *c, warm_stream stream,
                                 wm_cuda_scope *scope)
{
    CUcontext current = NULL;
    warm_status status = WARM_OK;

    if (wm_stream_is_default(stream)) {
        status = WM_CUDA_RESULT(c, cuCtxGetCurrent, &current);
    }
    if (status == WARM_OK && wm_cuda_is_foreign(c, current)) {
        status = wm_cuda_foreign(c, current, "the calling thread's");
    }

    return status == WARM_OK ? wm_cuda_enter_known(c, stream, scope) : status;
}

#else

/* Built without CUDA there is no CUDA driver: these are never called. */
warm_status wm_cuda_device_push(wm_driver *d, int device, wm_cuda_scope *scope)
{
    (void)d;
    (void)device;
    scope->pushed = false;
    return WARM_UNSUPPORTED;
}

void wm_cuda_device_pop(wm_driver *d, const wm_cuda_scope *scope)
{
    (void)d;
    (void)scope;
}
#endif
