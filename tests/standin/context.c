/* context.c: the stand-in libcuda.so.1: devices, contexts, and each thread's
 * stack of current ones.
 *
 * A primary context is created by the first retain and stays: the count of
 * creations is what tests ask for (row B13). A program's own contexts, and
 * green ones, have streams of their own; memory is not told apart. */
#include "standin.h"

#include "runtime/base/process.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUctx_st {
    int device;
    unsigned references; /* mutex */
    uint64_t created;    /* mutex */
    /* A primary one is not while nobody retained it, or it was reset. Mutex. */
    bool active;
    unsigned long long id; /* mutex */
};

/* Streams of contexts that are not primary; never freed. */
struct foreign {
    struct foreign *next;
    CUstream stream;
    CUcontext context;
};
static struct foreign *foreign_streams; /* mutex */

enum { STACK = 16 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st primary[STANDIN_DEVICES_MAX]; /* mutex */
static wm_driver *host;                              /* const after start */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int device_count, compute_major = 9;
static _Atomic int driver_version = CUDA_VERSION, major_in_use;
static _Atomic int has_ranges = 1;
static _Atomic int host_tables, stuck, managed = 1, read_only = 1,
                                       maps_host = 1, peers = 1, registers = 1;

static _Thread_local CUcontext stack[STACK];
static _Thread_local int depth;
static _Thread_local int wanted_device; /* cudart's, while no context is */

static bool is_active(CUcontext context);

static void start(void)
{
    const char *text = getenv("STANDIN_DEVICES");
    const char *driver = getenv("STANDIN_DRIVER");
    int count = text != NULL ? (int)strtol(text, NULL, 10) : 1;
    warm_options given = {.size = sizeof given,
                          .host_devices = STANDIN_DEVICES_MAX};
    wm_options options;

    wm_process_init();
    for (int i = 0; i < STANDIN_DEVICES_MAX; i++) {
        primary[i].device = i;
    }
    if (device_count == 0) {
        device_count = count;
    }
    if (driver != NULL) {
        driver_version = (int)strtol(driver, NULL, 10);
    }
    if (wm_options_resolve(&given, NULL, &options) != WARM_OK ||
        wm_host_open(&options, &host) != WARM_OK) {
        host = NULL;
    }
}

wm_driver *standin_driver(void)
{
    pthread_once(&once, start);
    if (host == NULL || wm_process_exiting() ||
        host->generation != wm_process_generation()) {
        return NULL;
    }
    return host;
}

/* What the calling thread was told last of a capture that was invalidated: who
 * did it. The real libcuda keeps that to itself. */
static _Thread_local char broken_text[160] = "the capture was invalidated";

/* The host device numbers its errors as cudart does. */
int standin_code(warm_status status)
{
    warm_error error = {.size = sizeof error};

    if (status == WARM_OK) {
        return cudaSuccess;
    }
    if (status == WARM_NOT_READY) {
        return cudaErrorNotReady;
    }
    warm_last_error(&error);
    if (error.code == cudaErrorStreamCaptureInvalidated) {
        snprintf(broken_text, sizeof broken_text, "%s",
                 warm_last_error_message());
    } else if (status == WARM_CAPTURE_ERROR) {
        standin_note_broken(warm_last_error_message());
    }
    if (error.code > 0) {
        return error.code;
    }
    return status == WARM_OUT_OF_MEMORY ? cudaErrorMemoryAllocation
                                        : cudaErrorUnknown;
}

int standin_device_count(void)
{
    pthread_once(&once, start);
    return device_count;
}

int standin_compute_major(void)
{
    return compute_major;
}

void standin_devices(int count)
{
    pthread_once(&once, start);
    device_count = count;
}

void standin_compute(int major)
{
    compute_major = major;
}

void standin_ranges(int has)
{
    has_ranges = has;
}

void standin_managed(int at_once)
{
    managed = at_once;
}

void standin_peers(int can)
{
    peers = can;
}

bool standin_are_peers(int device, int other)
{
    return peers && device != other && device >= 0 && other >= 0 &&
           device < standin_device_count() && other < standin_device_count();
}

void standin_read_only(int can)
{
    read_only = can;
}

void standin_maps_host(int can)
{
    maps_host = can;
}

void standin_registers(int can)
{
    registers = can;
}

int standin_can_register(void)
{
    return registers == 1;
}

void standin_host_tables(int uses)
{
    host_tables = uses;
}

void standin_driver_version(int version)
{
    pthread_once(&once, start);
    driver_version = version;
}

int standin_driver_serves(void)
{
    pthread_once(&once, start);
    return driver_version;
}

bool standin_version_works(int version)
{
    int major = version / 1000, none = 0;

    if (major > standin_driver_serves() / 1000) {
        return false;
    }
    if (!atomic_compare_exchange_strong(&major_in_use, &none, major) &&
        none != major) {
        standin_note_misuse("a library of CUDA %d beside one of CUDA %d", major,
                            none);
    }
    return true;
}

void standin_stick(int code)
{
    stuck = code;
}

int standin_stuck(void)
{
    return stuck;
}

int standin_unusable(void)
{
    if (standin_driver() == NULL) {
        return CUDA_ERROR_DEINITIALIZED;
    }
    if (stuck != 0) {
        return stuck;
    }
    if (depth == 0 || stack[depth - 1] == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    return is_active(stack[depth - 1]) ? 0 : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static unsigned long long next_id = 1; /* mutex */

void standin_context_ids(unsigned long long first)
{
    pthread_mutex_lock(&mutex);
    next_id = first;
    pthread_mutex_unlock(&mutex);
}

static void activate_locked(CUcontext context)
{
    if (!context->active) {
        context->active = true;
        context->id = next_id++;
        context->created++;
    }
}

static void register_exit(void)
{
    wm_process_exit_first();
}

static CUcontext retain(int device)
{
    static pthread_once_t first = PTHREAD_ONCE_INIT;
    CUcontext context = &primary[device];

    pthread_once(&once, start);
    pthread_once(&first, register_exit);
    pthread_mutex_lock(&mutex);
    context->references++;
    activate_locked(context);
    pthread_mutex_unlock(&mutex);
    return context;
}

uint64_t standin_contexts(int device)
{
    uint64_t created;

    pthread_mutex_lock(&mutex);
    created = primary[device].created;
    pthread_mutex_unlock(&mutex);
    return created;
}

int standin_current_device(void)
{
    return depth > 0 && stack[depth - 1] != NULL ? stack[depth - 1]->device
                                                 : wanted_device;
}

cudaError_t standin_set_device(int device)
{
    if (device < 0 || device >= standin_device_count()) {
        return cudaErrorInvalidDevice;
    }
    wanted_device = device;
    if (depth == 0) {
        depth = 1;
    }
    stack[depth - 1] = retain(device);
    return cudaSuccess;
}

static bool is_primary(CUcontext context)
{
    return context >= primary && context < primary + STANDIN_DEVICES_MAX;
}

/* Whether work can be queued in it. */
static bool is_active(CUcontext context)
{
    bool active;

    pthread_mutex_lock(&mutex);
    active = context->active;
    pthread_mutex_unlock(&mutex);
    return active || !is_primary(context);
}

standin_life standin_current_life(void)
{
    standin_life life = {0};

    if (depth > 0 && stack[depth - 1] != NULL) {
        life.context = stack[depth - 1];
        pthread_mutex_lock(&mutex);
        life.created = stack[depth - 1]->created;
        pthread_mutex_unlock(&mutex);
    }
    return life;
}

bool standin_is_alive(standin_life life)
{
    const struct CUctx_st *context = life.context;
    bool alive;

    pthread_mutex_lock(&mutex);
    alive = context == NULL ||
            (context->active && context->created == life.created);
    pthread_mutex_unlock(&mutex);
    return alive;
}

int standin_device_of(void *stream)
{
    const struct CUctx_st *context =
        (uintptr_t)stream > 2 ? standin_life_of(stream).context : NULL;

    return context != NULL ? context->device : standin_current_device();
}

bool standin_is_current(void *stream)
{
    const void *context =
        (uintptr_t)stream > 2 ? standin_life_of(stream).context : NULL;

    return context == NULL || context == stack[depth - 1];
}

/* cudart makes one that was reset again. */
void standin_need_context(void)
{
    if (depth == 0 || stack[depth - 1] == NULL ||
        !is_active(stack[depth - 1])) {
        (void)standin_set_device(standin_current_device());
    }
}

/* The host device knows one current device only, so the default streams of
 * the others are ordinary streams here: one a device, and one a thread. */
static warm_stream legacy_of[STANDIN_DEVICES_MAX]; /* mutex */
static _Thread_local warm_stream own_of[STANDIN_DEVICES_MAX];

static warm_stream made(warm_stream *slot, int device)
{
    warm_stream stream;

    pthread_mutex_lock(&mutex);
    if (*slot == NULL) {
        (void)host->ops->stream_create(host, device, slot);
    }
    stream = *slot;
    pthread_mutex_unlock(&mutex);
    return stream;
}

warm_stream standin_stream(void *stream)
{
    int device = standin_current_device();

    if (stream == NULL) {
        stream = WARM_STREAM_LEGACY;
    }
    if (device == 0 || (uintptr_t)stream > 2 || standin_driver() == NULL) {
        return stream;
    }
    return made(stream == WARM_STREAM_LEGACY ? &legacy_of[device]
                                             : &own_of[device],
                device);
}

/* As in CUDA, the call is refused and ends the capture if the stream captures;
 * it is refused for the legacy stream while any other stream captures. */
int standin_stream_info(wm_driver *d, warm_stream stream, wm_stream_info *info)
{
    wm_capture capture = WM_CAPTURE_NONE;

    (void)d->ops->stream_capture(d, stream, &capture);
    if (capture == WM_CAPTURE_ACTIVE) {
        return standin_code(d->ops->stream_query(d, stream));
    }
    return capture == WM_CAPTURE_BLOCKED
               ? (int)cudaErrorStreamCaptureImplicit
               : standin_code(d->ops->stream_info(d, stream, info));
}

void standin_memory_made(const char *function)
{
    if (depth > 0 && !is_primary(stack[depth - 1])) {
        standin_note_misuse("%s: memory of a context that is not primary",
                            function);
    }
}

void standin_stream_made(void *stream)
{
    struct foreign *f;

    if (depth == 0 || is_primary(stack[depth - 1])) {
        return;
    }
    f = calloc(1, sizeof *f);
    f->stream = stream;
    f->context = stack[depth - 1];
    pthread_mutex_lock(&mutex);
    f->next = foreign_streams;
    foreign_streams = f;
    pthread_mutex_unlock(&mutex);
}

static CUcontext context_of(void *stream, int device)
{
    CUcontext context = &primary[device];

    pthread_mutex_lock(&mutex);
    for (struct foreign *f = foreign_streams; f != NULL; f = f->next) {
        if (f->stream == stream) {
            context = f->context;
        }
    }
    pthread_mutex_unlock(&mutex);
    return context;
}

int64_t standin_references(int device)
{
    int64_t references;

    pthread_mutex_lock(&mutex);
    references = primary[device].references;
    pthread_mutex_unlock(&mutex);
    return references;
}

/* ---- libcuda.so.1 ---- */

#define ENTER(function) STANDIN_ENTER(CUresult, function)

static bool known(int device)
{
    return device >= 0 && device < standin_device_count();
}

CUresult cuInit(unsigned flags)
{
    ENTER(cuInit)
    STANDIN_DEMAND(flags == 0)
    return standin_device_count() < 1 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    ENTER(cuDriverGetVersion)
    *version = standin_driver_serves();
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
    ENTER(cuGetErrorString)
    *text = code == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory"
            : code == CUDA_SUCCESS           ? "no error"
            : code == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                ? broken_text
                : "an error of the stand-in";
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    ENTER(cuDeviceGetName)
    if (!known(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    snprintf(name, (size_t)bytes, "stand-in GPU %d", device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    size_t available;
    wm_driver *d = standin_driver();

    ENTER(cuDeviceTotalMem_v2)
    if (!known(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (d == NULL) {
        return CUDA_ERROR_DEINITIALIZED;
    }
    (void)d->ops->device_memory(d, device, &available, bytes);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                              CUdevice device)
{
    ENTER(cuDeviceGetAttribute)
    if (!known(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = compute_major;
        break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        *value = has_ranges != 0;
        break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
        *value = has_ranges == 2;
        break;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
        *value = host_tables == 1 && device == standin_device_count() - 1;
        break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
        *value = host_tables == 2 && device == standin_device_count() - 1;
        break;
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
        *value = read_only;
        break;
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
        *value = registers != 0;
        break;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
        *value = 1;
        break;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
        *value = maps_host;
        break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
        *value = managed;
        break;
    default:
        *value = standin_attribute((int)attribute);
        break;
    }
    return CUDA_SUCCESS;
}

/* Places that the machine may well have something on. */
CUresult cuDeviceGetPCIBusId(char *bus_id, int bytes, CUdevice device)
{
    ENTER(cuDeviceGetPCIBusId)
    if (!known(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    snprintf(bus_id, (size_t)bytes, "0000:00:%02X.0", (unsigned)device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    ENTER(cuDeviceGetUuid_v2)
    if (!known(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    memset(uuid, 0, sizeof *uuid);
    snprintf(uuid->bytes, sizeof uuid->bytes, "standin%u",
             (unsigned)device % 1000);
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    ENTER(cuDeviceCanAccessPeer)
    if (!known(device) || !known(peer)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *can = standin_are_peers(device, peer);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER(cuDevicePrimaryCtxRetain)
    if (!known(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *context = retain(device);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CUresult answer = CUDA_SUCCESS;

    ENTER(cuDevicePrimaryCtxRelease_v2)
    if (!known(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    pthread_mutex_lock(&mutex);
    if (primary[device].references == 0) {
        answer = CUDA_ERROR_INVALID_CONTEXT;
    } else {
        primary[device].references--;
        if (primary[device].references == 0) {
            primary[device].active = false;
        }
    }
    pthread_mutex_unlock(&mutex);
    return answer;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags,
                                    int *active)
{
    ENTER(cuDevicePrimaryCtxGetState)
    if (!known(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *flags = 0;
    pthread_mutex_lock(&mutex);
    *active = primary[device].active;
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}

/* What it had is gone, and none of its work goes on; references stay. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    wm_driver *d = standin_driver();

    ENTER(cuDevicePrimaryCtxReset_v2)
    if (!known(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (d != NULL) {
        (void)standin_wait_for_device(d, device);
    }
    pthread_mutex_lock(&mutex);
    primary[device].active = false;
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}

/* No misuse in a context that a reset destroyed: CUDA documents that answer,
 * and another thread may reset the device just before the call. */
CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    CUresult answer = CUDA_SUCCESS;

    ENTER(cuCtxGetId)
    pthread_mutex_lock(&mutex);
    if (!context->active) {
        answer = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    } else {
        *id = context->id;
    }
    pthread_mutex_unlock(&mutex);
    return answer;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    ENTER(cuCtxGetCurrent)
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

/* Without a user of it: contexts of programs that were destroyed stay here. */
static CUcontext made_context(int device)
{
    CUcontext context = calloc(1, sizeof *context);

    context->device = device;
    pthread_mutex_lock(&mutex);
    context->active = true;
    context->id = next_id++;
    pthread_mutex_unlock(&mutex);
    return context;
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters,
                        unsigned flags, CUdevice device)
{
    ENTER(cuCtxCreate_v4)
    if (!known(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *context = made_context(device);
    return cuCtxPushCurrent_v2(*context);
}

/* A green context is a context as well, under another handle. */
CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc resources,
                          CUdevice device, unsigned flags)
{
    ENTER(cuGreenCtxCreate)
    if (!known(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    (void)retain(device);
    *green = (CUgreenCtx)(void *)made_context(device);
    return CUDA_SUCCESS;
}

CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
    ENTER(cuCtxFromGreenCtx)
    *context = (CUcontext)(void *)green;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    ENTER(cuCtxPushCurrent_v2)
    if (depth == STACK) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    ENTER(cuCtxPopCurrent_v2)
    if (depth == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *context = stack[--depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    ENTER(cuCtxGetDevice)
    if (depth == 0 || stack[depth - 1] == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (!is_active(stack[depth - 1])) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    *device = stack[depth - 1]->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    wm_driver *d = standin_driver();

    ENTER(cuCtxSynchronize)
    if ((fault_ = standin_unusable()) != 0) {
        return (CUresult)fault_;
    }
    return (CUresult)standin_wait_for_device(d, standin_current_device());
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    wm_driver *d = standin_driver();
    wm_stream_info info = {.device = WM_DEVICE_UNKNOWN};
    int code;
    bool lives = standin_used("cuStreamGetCtx", stream);

    ENTER(cuStreamGetCtx)
    if (!lives) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (d == NULL) {
        return CUDA_ERROR_DEINITIALIZED;
    }
    if ((uintptr_t)stream <= 2) {
        *context = depth > 0 ? stack[depth - 1] : NULL;
        return *context != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    }
    if ((code = standin_stream_info(d, stream, &info)) != 0) {
        return (CUresult)code;
    }
    *context = context_of(stream, info.device);
    return CUDA_SUCCESS;
}

static _Thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void standin_mode_of(const char *function)
{
    standin_flagged(function, (unsigned)mode);
}

/* The host device knows two modes; the third is kept here. */
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *m)
{
    CUstreamCaptureMode before = mode;
    bool relaxed = *m == CU_STREAM_CAPTURE_MODE_RELAXED;
    wm_driver *d = standin_driver();

    ENTER(cuThreadExchangeStreamCaptureMode)
    STANDIN_DEMAND((unsigned)*m <= CU_STREAM_CAPTURE_MODE_RELAXED)
    if (d == NULL) {
        return CUDA_ERROR_DEINITIALIZED;
    }
    if (d->ops->capture_mode(d, &relaxed) != WARM_OK) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    mode = *m;
    *m = before;
    return CUDA_SUCCESS;
}
