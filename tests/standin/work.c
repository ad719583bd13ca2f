/* work.c: the stand-in libcuda.so.1: memory, streams, events, captures and
 * graphs. Each function needs a current context, as the real one does, knows
 * nothing of cudart's last error, and passes the work on to the host device,
 * whose codes are CUDA's own. */
#include "standin.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Leaves d. */
#define ENTER(function)                                                        \
    wm_driver *d = standin_driver();                                           \
    STANDIN_ENTER(CUresult, function)                                          \
    if ((fault_ = standin_unusable()) != 0) {                                  \
        return (CUresult)fault_;                                               \
    }

/* Of a call that names a stream, event or graph, which may have ended with its
 * context: a GPU answered 400 for a stream (tests/gpu/RESULTS.md). */
#define ENTER_ON(function, object)                                             \
    bool lives_ = standin_used(#function, object);                             \
    ENTER(function)                                                            \
    if (!lives_) {                                                             \
        return CUDA_ERROR_INVALID_HANDLE;                                      \
    }

/* Of a call for which nothing says that it works while the context of another
 * stream is current. */
#define ENTER_IN(function, stream)                                             \
    ENTER_ON(function, stream)                                                 \
    if (!standin_is_current(stream)) {                                         \
        return CUDA_ERROR_INVALID_CONTEXT;                                     \
    }

/* Of a call that frees memory. */
#define ENTER_FREE(function, memory)                                           \
    bool lives_ = standin_used(#function, memory);                             \
    ENTER(function)                                                            \
    if (!lives_) {                                                             \
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;                                \
    }

#define CALL(op, ...) (CUresult) standin_code(d->ops->op(d, __VA_ARGS__))

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    ENTER(cuMemGetInfo_v2)
    return CALL(device_memory, standin_current_device(), available, total);
}

/* ---- Memory ---- */

/* The host device wants the bytes back with the pointer, CUDA does not. */
typedef struct pinned {
    struct pinned *next;
    void *pointer, *base; /* as answered; of the host device, null: registered
                           */
    size_t bytes;
} pinned;

static _Atomic size_t shift;

void standin_host_shift(size_t bytes)
{
    shift = bytes;
}

enum { BUCKETS = 1024 };

static pthread_mutex_t pinned_mutex = PTHREAD_MUTEX_INITIALIZER;
static pinned *pinned_blocks[BUCKETS]; /* pinned_mutex */

static pinned **bucket_of(const void *pointer)
{
    return &pinned_blocks[((uintptr_t)pointer >> 12) % BUCKETS];
}

static void pinned_add(pinned *p)
{
    pinned **bucket = bucket_of(p->pointer);

    pthread_mutex_lock(&pinned_mutex);
    p->next = *bucket;
    *bucket = p;
    pthread_mutex_unlock(&pinned_mutex);
}

/* Removes it from the table for the caller alone; null if it is not there. */
static pinned *pinned_take(const void *pointer, bool registered)
{
    pinned **at = bucket_of(pointer);
    pinned *p;

    pthread_mutex_lock(&pinned_mutex);
    while (*at != NULL &&
           ((*at)->pointer != pointer || ((*at)->base == NULL) != registered)) {
        at = &(*at)->next;
    }
    p = *at;
    if (p != NULL) {
        *at = p->next;
    }
    pthread_mutex_unlock(&pinned_mutex);
    return p;
}

static bool is_pinned(const void *pointer)
{
    return standin_place_of(pointer).type == cudaMemoryTypeHost;
}

static bool holds(const void *base, size_t bytes, const void *pointer)
{
    return (uintptr_t)pointer - (uintptr_t)base < bytes;
}

/* With one address space for all, as on every 64-bit Linux, the same one. */
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer,
                                      unsigned flags)
{
    ENTER(cuMemHostGetDevicePointer_v2)
    (void)d;
    if (flags != 0 || !is_pinned(pointer)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *address = (uintptr_t)pointer;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    pinned *p;
    CUresult code;

    ENTER(cuMemHostAlloc)
    STANDIN_DEMAND((flags & ~7u) == 0)
    standin_memory_made("cuMemHostAlloc");
    standin_flagged("cuMemHostAlloc", flags);
    p = calloc(1, sizeof *p);
    p->bytes = bytes + shift;
    code = CALL(pinned_alloc, p->bytes, &p->base);
    if (code == CUDA_SUCCESS) {
        p->pointer = (char *)p->base + (p->bytes - bytes);
        *pointer = p->pointer;
        standin_born(p->pointer);
        pinned_add(p);
    } else {
        free(p);
    }
    return code;
}

CUresult cuMemFreeHost(void *pointer)
{
    pinned *p;
    CUresult code;

    ENTER_FREE(cuMemFreeHost, pointer)
    p = pinned_take(pointer, false);
    if (p == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    code = (CUresult)standin_wait_for_device(d, -1);
    if (code == CUDA_SUCCESS) {
        standin_gone(p->pointer);
        code = CALL(pinned_free, p->base, p->bytes);
    }
    if (code == CUDA_SUCCESS) {
        free(p);
    } else {
        pinned_add(p);
    }
    return code;
}

static _Atomic size_t register_most = SIZE_MAX;

void standin_register_most(size_t bytes)
{
    register_most = bytes;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags)
{
    CUresult code;

    ENTER(cuMemHostRegister_v2)
    STANDIN_DEMAND((flags & ~15u) == 0)
    standin_memory_made("cuMemHostRegister_v2");
    standin_flagged("cuMemHostRegister_v2", flags);
    if (!standin_can_register()) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (bytes > register_most) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    code = CALL(pinned_register, pointer, bytes);
    if (code == CUDA_SUCCESS) {
        pinned *p = calloc(1, sizeof *p);

        *p = (pinned){.pointer = pointer, .bytes = bytes};
        pinned_add(p);
        standin_born(pointer);
    }
    return code;
}

CUresult cuMemHostUnregister(void *pointer)
{
    CUresult code;

    ENTER_FREE(cuMemHostUnregister, pointer)
    code = (CUresult)standin_wait_for_device(d, -1);
    if (code != CUDA_SUCCESS) {
        return code;
    }
    standin_gone(pointer);
    free(pinned_take(pointer, true));
    return CALL(pinned_unregister, pointer);
}

static void *pointer_of(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

/* Memory of devices with callers. Addresses are those of the process: what a
 * reset ended is given anew first, on whichever device. */
typedef struct given {
    struct given *next;
    void *pointer;
    size_t bytes;
    standin_life life;
    int device;
    bool managed;
} given;

static given *all_given; /* pinned_mutex */

static void *take_ended(size_t bytes)
{
    void *pointer = NULL;

    pthread_mutex_lock(&pinned_mutex);
    for (given *g = all_given; g != NULL && pointer == NULL; g = g->next) {
        if (g->bytes == bytes && !standin_is_alive(g->life)) {
            g->life = standin_current_life();
            g->device = standin_current_device();
            pointer = g->pointer;
        }
    }
    pthread_mutex_unlock(&pinned_mutex);
    return pointer;
}

static void note_given(void *pointer, size_t bytes, bool managed)
{
    given *g = calloc(1, sizeof *g);

    *g = (given){.pointer = pointer,
                 .bytes = bytes,
                 .life = standin_current_life(),
                 .device = standin_current_device(),
                 .managed = managed};
    pthread_mutex_lock(&pinned_mutex);
    g->next = all_given;
    all_given = g;
    pthread_mutex_unlock(&pinned_mutex);
}

static void forget_given(const void *pointer)
{
    given **at = &all_given, *g;

    pthread_mutex_lock(&pinned_mutex);
    while (*at != NULL && (*at)->pointer != pointer) {
        at = &(*at)->next;
    }
    g = *at;
    if (g != NULL) {
        *at = g->next;
    }
    pthread_mutex_unlock(&pinned_mutex);
    free(g);
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    void *pointer;
    CUresult code = CUDA_SUCCESS;

    ENTER(cuMemAlloc_v2)
    if (address == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    standin_memory_made("cuMemAlloc_v2");
    pointer = take_ended(bytes);
    if (pointer == NULL) {
        code = CALL(device_alloc, standin_current_device(), bytes, &pointer);
        if (code == CUDA_SUCCESS) {
            note_given(pointer, bytes, false);
        }
    }
    if (code == CUDA_SUCCESS) {
        *address = (uintptr_t)pointer;
        standin_born(pointer);
    }
    return code;
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    void *pointer;
    CUresult code;

    ENTER(cuMemAllocManaged)
    STANDIN_DEMAND(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST)
    standin_memory_made("cuMemAllocManaged");
    standin_flagged("cuMemAllocManaged", flags);
    code = CALL(managed_alloc, standin_current_device(), bytes, &pointer);
    if (code == CUDA_SUCCESS) {
        note_given(pointer, bytes, true);
        *address = (uintptr_t)pointer;
        standin_born(pointer);
    }
    return code;
}

/* A pointer does not say whose it is; a wrong guess changes nothing. */
#define ON_ITS_DEVICE(op, ...)                                                 \
    warm_status status_ = WARM_INVALID_POINTER;                                \
                                                                               \
    for (int i = 0;                                                            \
         i < STANDIN_DEVICES_MAX && status_ == WARM_INVALID_POINTER; i++) {    \
        status_ = d->ops->op(d, i, __VA_ARGS__);                               \
    }                                                                          \
    return (CUresult)standin_code(status_);

CUresult cuMemFree_v2(CUdeviceptr address)
{
    CUresult code;

    ENTER_FREE(cuMemFree_v2, pointer_of(address))
    code = (CUresult)standin_wait_for_device(d, standin_current_device());
    if (code != CUDA_SUCCESS) {
        return code;
    }
    standin_gone(pointer_of(address));
    forget_given(pointer_of(address));
    ON_ITS_DEVICE(device_free, pointer_of(address))
}

static void find_host_locked(const void *pointer, standin_place *place)
{
    for (int i = 0; i < BUCKETS; i++) {
        for (const pinned *p = pinned_blocks[i]; p != NULL; p = p->next) {
            if (holds(p->pointer, p->bytes, pointer)) {
                *place = (standin_place){cudaMemoryTypeHost, 0, p->pointer,
                                         p->bytes};
            }
        }
    }
}

/* Memory of ranges is not in the lists. */
standin_place standin_place_of(const void *pointer)
{
    standin_place place = {.type = cudaMemoryTypeUnregistered};

    pthread_mutex_lock(&pinned_mutex);
    find_host_locked(pointer, &place);
    for (const given *g = all_given; g != NULL; g = g->next) {
        if (holds(g->pointer, g->bytes, pointer)) {
            place = (standin_place){g->managed ? cudaMemoryTypeManaged
                                               : cudaMemoryTypeDevice,
                                    g->device, g->pointer, g->bytes};
        }
    }
    pthread_mutex_unlock(&pinned_mutex);
    return place;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes,
                                 CUdeviceptr address)
{
    standin_place place = standin_place_of(pointer_of(address));

    ENTER(cuMemGetAddressRange_v2)
    (void)d;
    if (place.bytes == 0) {
        return CUDA_ERROR_NOT_FOUND;
    }
    if (base != NULL) {
        *base = (uintptr_t)place.base;
    }
    if (bytes != NULL) {
        *bytes = place.bytes;
    }
    return CUDA_SUCCESS;
}

/* The memory that holds a pointer, as it was allocated; else the pointer. */
static void *whole_of(void *pointer)
{
    standin_place place = standin_place_of(pointer);

    return place.bytes > 0 ? place.base : pointer;
}

/* Names of the host device serve as CUDA's handles. CUDA promises that a handle
 * names the memory, not that its bytes are the same each time. */
enum { NAME_ENDS = 56 };

static CUresult name_of(wm_driver *d, void *pointer, CUipcMemHandle *handle)
{
    static _Atomic uint64_t exports;
    uint64_t number = atomic_fetch_add(&exports, 1) + 1;
    wm_ipc_name name;
    warm_status status = WARM_INVALID_POINTER;

    for (int i = 0; i < STANDIN_DEVICES_MAX && status == WARM_INVALID_POINTER;
         i++) {
        status = d->ops->ipc_export(d, i, pointer, &name);
    }
    if (status == WARM_OK) {
        memcpy(handle, &name, sizeof name);
        memcpy(handle->reserved + NAME_ENDS, &number, sizeof number);
    }
    return (CUresult)standin_code(status);
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    ENTER(cuIpcGetMemHandle)
    if (getenv("STANDIN_NO_IPC") != NULL) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return name_of(d, whole_of(pointer_of(address)), handle);
}

/* One mapping for all that open a name, as often to be closed. */
enum { MAPPINGS = 1024 };
static struct {
    wm_ipc_name name;
    void *pointer;
    standin_life life; /* a reset ends it */
    unsigned users;    /* 0: no mapping */
} mappings[MAPPINGS];  /* mapping_mutex */
static pthread_mutex_t mapping_mutex = PTHREAD_MUTEX_INITIALIZER;

static CUresult open_once(wm_driver *d, const wm_ipc_name *name, void **pointer)
{
    CUresult code = CUDA_SUCCESS;
    int at = -1;

    for (int i = 0; i < MAPPINGS; i++) {
        if (mappings[i].users == 0 || !standin_is_alive(mappings[i].life)) {
            at = at < 0 ? i : at;
        } else if (memcmp(&mappings[i].name, name, NAME_ENDS) == 0) {
            *pointer = mappings[i].pointer;
            mappings[i].users++;
            return CUDA_SUCCESS;
        }
    }
    code = CALL(ipc_open, standin_current_device(), name, pointer);
    if (code == CUDA_SUCCESS && at >= 0) {
        mappings[at].name = *name;
        mappings[at].pointer = *pointer;
        mappings[at].life = standin_current_life();
        mappings[at].users = 1;
    }
    return code;
}

/* Whether others have it open yet. */
static bool is_open_yet(const void *pointer)
{
    for (int i = 0; i < MAPPINGS; i++) {
        if (mappings[i].users > 0 && mappings[i].pointer == pointer &&
            standin_is_alive(mappings[i].life)) {
            return --mappings[i].users > 0;
        }
    }
    return false;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle,
                               unsigned flags)
{
    void *pointer = NULL;
    CUresult code;

    ENTER(cuIpcOpenMemHandle_v2)
    STANDIN_DEMAND(flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    standin_flagged("cuIpcOpenMemHandle_v2", flags);
    pthread_mutex_lock(&mapping_mutex);
    code = open_once(d, (const wm_ipc_name *)(void *)&handle, &pointer);
    pthread_mutex_unlock(&mapping_mutex);
    if (code == CUDA_SUCCESS) {
        *address = (uintptr_t)pointer;
    }
    return code;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    bool open_yet;

    ENTER(cuIpcCloseMemHandle)
    pthread_mutex_lock(&mapping_mutex);
    open_yet = is_open_yet(pointer_of(address));
    pthread_mutex_unlock(&mapping_mutex);
    if (open_yet) {
        return CUDA_SUCCESS;
    }
    ON_ITS_DEVICE(ipc_close, pointer_of(address))
}

/* CUDA's manual: memory must be registered as a whole, by one call, or not at
 * all; else the copy is refused. */
static bool is_torn(const void *pointer, size_t bytes)
{
    uintptr_t begin = (uintptr_t)pointer, end = begin + bytes;
    bool torn = false;

    pthread_mutex_lock(&pinned_mutex);
    for (int i = 0; i < BUCKETS; i++) {
        for (const pinned *p = pinned_blocks[i]; p != NULL; p = p->next) {
            uintptr_t first = (uintptr_t)p->pointer, last = first + p->bytes;

            torn = torn || (begin < last && first < end &&
                            (begin < first || end > last));
        }
    }
    pthread_mutex_unlock(&pinned_mutex);
    return torn;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr destination, const void *source,
                              size_t bytes, CUstream stream)
{
    ENTER_ON(cuMemcpyHtoDAsync_v2, stream)
    if (is_torn(source, bytes) ||
        !standin_reaches(stream, destination, bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CALL(copy, pointer_of(destination), source, bytes,
                WARM_COPY_TO_DEVICE, standin_stream(stream));
}

CUresult cuMemcpyDtoHAsync_v2(void *destination, CUdeviceptr source,
                              size_t bytes, CUstream stream)
{
    ENTER_ON(cuMemcpyDtoHAsync_v2, stream)
    if (is_torn(destination, bytes) ||
        !standin_reaches(stream, source, bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CALL(copy, destination, pointer_of(source), bytes, WARM_COPY_TO_HOST,
                standin_stream(stream));
}

struct move {
    void *destination;
    const void *source;
    size_t bytes;
    int value;
};

static void run_copy(void *argument)
{
    const struct move *m = argument;

    memmove(m->destination, m->source, m->bytes);
}

static void run_set(void *argument)
{
    const struct move *m = argument;

    memset(m->destination, m->value, m->bytes);
}

CUresult cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source,
                       size_t bytes, CUstream stream)
{
    struct move m = {pointer_of(destination), pointer_of(source), bytes, 0};

    ENTER_ON(cuMemcpyAsync, stream)
    (void)d;
    if (is_torn(m.destination, bytes) || is_torn(m.source, bytes) ||
        !standin_reaches(stream, destination, bytes) ||
        !standin_reaches(stream, source, bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return (CUresult)standin_launch(stream, run_copy, &m, sizeof m);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *rows, CUstream stream)
{
    const wm_copy_2d copy = {.destination = pointer_of(rows->dstDevice),
                             .destination_pitch = rows->dstPitch,
                             .source = pointer_of(rows->srcDevice),
                             .source_pitch = rows->srcPitch,
                             .width = rows->WidthInBytes,
                             .height = rows->Height};

    ENTER_ON(cuMemcpy2DAsync_v2, stream)
    if (rows->srcMemoryType != CU_MEMORYTYPE_UNIFIED ||
        rows->dstMemoryType != CU_MEMORYTYPE_UNIFIED ||
        rows->srcXInBytes != 0 || rows->srcY != 0 || rows->dstXInBytes != 0 ||
        rows->dstY != 0) {
        standin_note_misuse("cuMemcpy2DAsync_v2: not as the library calls it");
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (copy.height == 0 || copy.width > copy.source_pitch ||
        copy.width > copy.destination_pitch ||
        is_torn(copy.source, wm_copy_2d_extent(&copy, copy.source_pitch)) ||
        is_torn(copy.destination,
                wm_copy_2d_extent(&copy, copy.destination_pitch)) ||
        !standin_reaches(stream, rows->srcDevice,
                         wm_copy_2d_extent(&copy, copy.source_pitch)) ||
        !standin_reaches(stream, rows->dstDevice,
                         wm_copy_2d_extent(&copy, copy.destination_pitch))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CALL(copy_2d, &copy, standin_stream(stream));
}

CUresult cuMemsetD8Async(CUdeviceptr destination, unsigned char value,
                         size_t bytes, CUstream stream)
{
    struct move m = {pointer_of(destination), NULL, bytes, value};

    ENTER_ON(cuMemsetD8Async, stream)
    (void)d;
    if (!standin_reaches(stream, destination, bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return (CUresult)standin_launch(stream, run_set, &m, sizeof m);
}

/* ---- Streams and events ---- */

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    int code;

    ENTER(cuStreamCreate)
    STANDIN_DEMAND((flags & ~1u) == 0)
    standin_flagged("cuStreamCreate", flags);
    code = (int)CALL(stream_create, standin_current_device(),
                     (warm_stream *)(void *)stream);
    if (code == 0) {
        standin_born(*stream);
        standin_stream_made(*stream);
    }
    return (CUresult)code;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    ENTER_ON(cuStreamDestroy_v2, stream)
    standin_strand(stream);
    standin_gone(stream);
    return CALL(stream_destroy, stream);
}

CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
    wm_stream_info info = {0};
    int code;

    ENTER_ON(cuStreamGetId, stream)
    code = standin_stream_info(d, standin_stream(stream), &info);
    *id = info.id;
    return (CUresult)code;
}

CUresult cuStreamQuery(CUstream stream)
{
    ENTER_ON(cuStreamQuery, stream)
    standin_mode_of("cuStreamQuery");
    return CALL(stream_query, standin_stream(stream));
}

CUresult cuStreamSynchronize(CUstream stream)
{
    ENTER_ON(cuStreamSynchronize, stream)
    standin_mode_of("cuStreamSynchronize");
    return CALL(stream_synchronize, standin_stream(stream));
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    bool other_lives = standin_used("cuStreamWaitEvent", event);

    ENTER_ON(cuStreamWaitEvent, stream)
    STANDIN_DEMAND(flags == 0) /* 1: of captures, not here */
    if (!other_lives) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return CALL(stream_wait_event, standin_stream(stream), event);
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    CUresult code;

    ENTER(cuEventCreate)
    STANDIN_DEMAND((flags & ~7u) == 0)
    standin_flagged("cuEventCreate", flags);
    code = CALL(event_create, standin_current_device(),
                (warm_event *)(void *)event);
    if (code == CUDA_SUCCESS) {
        standin_born(*event);
        if ((flags & CU_EVENT_DISABLE_TIMING) == 0) {
            standin_time_event(*event);
        }
    }
    return code;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    ENTER_ON(cuEventDestroy_v2, event)
    standin_gone(event);
    standin_untime_event(event);
    return CALL(event_destroy, event);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    bool other_lives = standin_used("cuEventRecord", event);

    ENTER_ON(cuEventRecord, stream)
    if (!other_lives) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if ((fault_ = standin_stamp(event, stream)) != 0) {
        return (CUresult)fault_;
    }
    return CALL(event_record, event, standin_stream(stream));
}

CUresult cuEventQuery(CUevent event)
{
    ENTER_ON(cuEventQuery, event)
    standin_mode_of("cuEventQuery");
    return CALL(event_query, event);
}

CUresult cuEventSynchronize(CUevent event)
{
    ENTER_ON(cuEventSynchronize, event)
    standin_mode_of("cuEventSynchronize");
    return CALL(event_synchronize, event);
}

/* CUDA may run the host functions of all streams one after another. */
struct call {
    CUhostFn function;
    void *argument;
};

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void run_call(void *argument)
{
    const struct call *c = argument;

    pthread_mutex_lock(&one_at_a_time);
    c->function(c->argument);
    pthread_mutex_unlock(&one_at_a_time);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument)
{
    struct call c = {function, argument};

    ENTER_IN(cuLaunchHostFunc, stream)
    (void)d;
    return (CUresult)standin_launch(stream, run_call, &c, sizeof c);
}

/* ---- Captures and graphs ---- */

/* The host device makes an executable graph at once; a graph here keeps it
 * until it is instantiated, which works once. Never freed, and in a list, so
 * that one whose destruction was made to fail is no leak of the stand-in. */
struct CUgraph_st {
    struct CUgraph_st *next;
    warm_graph exec;
};

static _Atomic(struct CUgraph_st *) graphs;

static CUgraph graph_of(warm_graph exec)
{
    struct CUgraph_st *graph = calloc(1, sizeof *graph);

    graph->exec = exec;
    graph->next = atomic_load(&graphs);
    while (!atomic_compare_exchange_weak(&graphs, &graph->next, graph)) {
    }
    return graph;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode wanted)
{
    CUresult code;

    ENTER_IN(cuStreamBeginCapture_v2, stream)
    STANDIN_DEMAND((unsigned)wanted <= CU_STREAM_CAPTURE_MODE_RELAXED)
    standin_flagged("cuStreamBeginCapture_v2", (unsigned)wanted);
    code = CALL(capture_begin, standin_stream(stream));
    if (code == CUDA_SUCCESS && wanted == CU_STREAM_CAPTURE_MODE_GLOBAL) {
        standin_capture_globally(d, standin_stream(stream));
    }
    return code;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    warm_graph exec = NULL;
    CUresult code;

    ENTER_ON(cuStreamEndCapture, stream)
    code = CALL(capture_end, standin_stream(stream), &exec);
    *graph = NULL;
    if (code == CUDA_SUCCESS) {
        *graph = graph_of(exec);
    }
    return code;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    wm_capture capture = WM_CAPTURE_NONE;
    CUresult code;

    ENTER_ON(cuStreamIsCapturing, stream)
    code = CALL(stream_capture, standin_stream(stream), &capture);
    if (capture == WM_CAPTURE_BLOCKED) {
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    *status = capture == WM_CAPTURE_ACTIVE ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                           : CU_STREAM_CAPTURE_STATUS_NONE;
    return code;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                     unsigned long long flags)
{
    int code;

    ENTER(cuGraphInstantiateWithFlags)
    STANDIN_DEMAND((flags & ~15ull) == 0)
    standin_flagged("cuGraphInstantiateWithFlags", (unsigned)flags);
    code = standin_unsafe(d);
    if (code != 0 || graph->exec == NULL) {
        return code != 0 ? (CUresult)code : CUDA_ERROR_NOT_SUPPORTED;
    }
    *exec = graph->exec;
    standin_born(*exec);
    graph->exec = NULL;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    warm_graph exec;

    ENTER(cuGraphDestroy)
    exec = graph->exec;
    graph->exec = NULL;
    return exec != NULL ? CALL(graph_destroy, exec) : CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    int code;

    ENTER_ON(cuGraphExecDestroy, exec)
    code = standin_unsafe(d);
    if (code != 0) {
        return (CUresult)code;
    }
    standin_gone(exec);
    return CALL(graph_destroy, exec);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    bool other_lives = standin_used("cuGraphLaunch", exec);

    ENTER_IN(cuGraphLaunch, stream)
    if (!other_lives) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return CALL(graph_launch, exec, standin_stream(stream));
}
