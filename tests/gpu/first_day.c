/* first_day.c: questions about CUDA that only a GPU can answer, one line for
 * each answer, in order of risk: what would break programs first, what only
 * costs time last.
 *
 * Each question is asked in a process of its own, so that one that crashes or
 * hangs stops no other. Ends with status 1 if one got no answer. The libraries
 * are loaded as warmpool loads them; a function that is missing is an answer.
 */
#include "warmpool/warmpool.h"

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 30, MIB = 1 << 20 };

/* ---- CUDA, by name ------------------------------------------------------- */

static void *library(const char *const *names)
{
    void *found = NULL;

    for (; *names != NULL && found == NULL; names++) {
        found = dlopen(*names, RTLD_NOW | RTLD_GLOBAL);
    }
    return found;
}

static _Noreturn void end(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
    _exit(0);
}

static void *function(const char *name)
{
    static const char *const driver[] = {"libcuda.so.1", NULL};
    static const char *const runtime[] = {"libcudart.so.13", "libcudart.so.12",
                                          NULL};
    static const char *const blas[] = {"libcublas.so.13", "libcublas.so.12",
                                       NULL};
    void *in = library(strncmp(name, "cublas", 6) == 0 ? blas
                       : strncmp(name, "cuda", 4) == 0 ? runtime
                                                       : driver);
    void *found = in != NULL ? dlsym(in, name) : NULL;

    if (found == NULL) {
        end("no function %s here", name);
    }
    return found;
}

/* CALL(cudaMalloc)(…): by the name that the header gives it. */
#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)
#define CALL(name)  ((__typeof__(&name))(uintptr_t)function(TEXT(name)))

static const char *word(int code)
{
    static char text[4][64];
    static unsigned turn;
    char *out = text[turn++ % 4];

    if (code == 0) {
        return "ok";
    }
    snprintf(out, sizeof text[0], "error %d", code);
    return out;
}

static void need(const char *what, int code)
{
    if (code != 0) {
        end("%s: %s", what, word(code));
    }
}

#define NEED(name, ...) need(#name, (int)CALL(name)(__VA_ARGS__))

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static cudaStream_t new_stream(void)
{
    cudaStream_t stream = NULL;

    NEED(cudaStreamCreateWithFlags, &stream, cudaStreamNonBlocking);
    return stream;
}

/* ---- 1: does it work at all ---------------------------------------------- */

static void which(void)
{
    int driver = 0, runtime = 0, major = 0, minor = 0;
    char name[64] = "";

    NEED(cuInit, 0);
    NEED(cuDriverGetVersion, &driver);
    NEED(cuDeviceGetName, name, sizeof name, 0);
    NEED(cudaRuntimeGetVersion, &runtime);
    NEED(cudaDeviceGetAttribute, &major, cudaDevAttrComputeCapabilityMajor, 0);
    NEED(cudaDeviceGetAttribute, &minor, cudaDevAttrComputeCapabilityMinor, 0);
    end("%s, compute capability %d.%d, driver %d, cudart %d", name, major,
        minor, driver, runtime);
}

static void try(const char *what, warm_status status)
{
    if (status != WARM_OK) {
        end("%s: %s: %s", what, warm_status_name(status),
            warm_last_error_message());
    }
}

#define TRY(call) try(#call, call)

static warm_runtime *open_cuda(void)
{
    warm_options options = {.size = sizeof options, .device = "cuda"};
    warm_runtime *runtime = NULL;

    TRY(warm_runtime_create(&options, &runtime));
    return runtime;
}

/* Buffers that are filled, copied from, freed at once and had again: what comes
 * to the device must be what was there when the copy was queued. */
static void early_reuse(void)
{
    enum { SLOTS = 64, BYTES = MIB, ROUNDS = 20 };
    warm_runtime *runtime = open_cuda();
    warm_stream stream;
    unsigned wrong = 0;
    char *far;
    void *pointer;

    TRY(warm_stream_create(runtime, 0, &stream));
    TRY(warm_device_alloc(runtime, 0, stream, (size_t)SLOTS * BYTES, &pointer));
    far = pointer;
    for (int i = 0; i < SLOTS * ROUNDS; i++) {
        TRY(warm_pinned_alloc(runtime, BYTES, &pointer));
        memset(pointer, i, BYTES);
        TRY(warm_copy_async(runtime, far + (size_t)(i % SLOTS) * BYTES, pointer,
                            BYTES, WARM_COPY_TO_DEVICE, stream));
        TRY(warm_free(pointer));
    }
    TRY(warm_pinned_alloc(runtime, BYTES, &pointer));
    for (int i = 0; i < SLOTS; i++) {
        TRY(warm_copy_async(runtime, pointer, far + (size_t)i * BYTES, BYTES,
                            WARM_COPY_TO_HOST, stream));
        TRY(warm_stream_synchronize(runtime, stream));
        for (int k = 0; k < BYTES; k += 4096) {
            wrong += ((unsigned char *)pointer)[k] !=
                     (unsigned char)(SLOTS * (ROUNDS - 1) + i);
        }
    }
    TRY(warm_free(pointer));
    TRY(warm_free(far));
    TRY(warm_stream_destroy(runtime, stream));
    TRY(warm_runtime_destroy(runtime, NULL));
    end("%d copies of 1 MiB from buffers freed at once: %u wrong pages",
        SLOTS * ROUNDS, wrong);
}

/* ---- 2: what breaks a capture that another thread has under way -------- */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool open;
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

static void wait_at_gate(void *argument)
{
    pthread_mutex_lock(&gate.mutex);
    while (!gate.open) {
        pthread_cond_wait(&gate.cond, &gate.mutex);
    }
    pthread_mutex_unlock(&gate.mutex);
}

static void open_gate(void)
{
    pthread_mutex_lock(&gate.mutex);
    gate.open = true;
    pthread_cond_broadcast(&gate.cond);
    pthread_mutex_unlock(&gate.mutex);
}

/* What the other thread calls; prepared, if need be, before the capture. */
static void *prepared;
static cublasHandle_t blas;

static int blas_create(void)
{
    return (int)CALL(cublasCreate)(&blas);
}

static int blas_destroy(void)
{
    return (int)CALL(cublasDestroy)(blas);
}

static int stream_create(void)
{
    return (int)CALL(cudaStreamCreateWithFlags)((cudaStream_t *)&prepared,
                                                cudaStreamNonBlocking);
}

static int stream_destroy(void)
{
    return (int)CALL(cudaStreamDestroy)((cudaStream_t)prepared);
}

static int device_malloc(void)
{
    return (int)CALL(cuMemAlloc)((CUdeviceptr *)&prepared, MIB);
}

static int device_free(void)
{
    return (int)CALL(cuMemFree)((CUdeviceptr)prepared);
}

static int host_malloc(void)
{
    return (int)CALL(cuMemHostAlloc)(&prepared, MIB, CU_MEMHOSTALLOC_PORTABLE);
}

static int host_free(void)
{
    return (int)CALL(cuMemFreeHost)(prepared);
}

static int host_pages(void)
{
    prepared = aligned_alloc(MIB, MIB);
    return prepared == NULL;
}

static int host_register(void)
{
    return (int)CALL(cuMemHostRegister)(prepared, MIB,
                                        CU_MEMHOSTREGISTER_PORTABLE);
}

static int host_registered(void)
{
    return host_pages() != 0 ? 1 : host_register();
}

static int host_unregister(void)
{
    return (int)CALL(cuMemHostUnregister)(prepared);
}

static int event_create(void)
{
    return (int)CALL(cuEventCreate)((CUevent *)&prepared,
                                    CU_EVENT_DISABLE_TIMING);
}

static int event_query(void)
{
    return (int)CALL(cuEventQuery)((CUevent)prepared);
}

static int context_synchronize(void)
{
    return (int)CALL(cuCtxSynchronize)();
}

static const struct meddling {
    const char *name;
    int (*prepare)(void), (*call)(void);
} meddlings[] = {{"cublasDestroy", blas_create, blas_destroy},
                 {"cublasCreate", NULL, blas_create},
                 {"cuCtxSynchronize", NULL, context_synchronize},
                 {"cuMemFree", device_malloc, device_free},
                 {"cuMemFreeHost", host_malloc, host_free},
                 {"cuMemHostUnregister", host_registered, host_unregister},
                 {"cuMemAlloc", NULL, device_malloc},
                 {"cuMemHostAlloc", NULL, host_malloc},
                 {"cuMemHostRegister", host_pages, host_register},
                 {"cuEventQuery", event_create, event_query},
                 {"cudaStreamCreate", NULL, stream_create},
                 {"cudaStreamDestroy", stream_create, stream_destroy}};

static const struct meddling *meddling;
static bool is_relaxed;
static int answered;

static void *meddle(void *argument)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;

    /* The device's context, for what is called past cudart. */
    NEED(cudaSetDevice, 0);
    if (is_relaxed) {
        NEED(cudaThreadExchangeStreamCaptureMode, &mode);
    }
    answered = meddling->call();
    return argument;
}

/* How a capture in that mode ends. */
static int capture_beside(enum cudaStreamCaptureMode mode)
{
    cudaStream_t stream = new_stream();
    cudaGraph_t graph = NULL;
    pthread_t other;
    int ended;

    if (meddling->prepare != NULL) {
        need("to prepare that", meddling->prepare());
    }
    NEED(cudaStreamBeginCapture, stream, mode);
    if (pthread_create(&other, NULL, meddle, NULL) != 0 ||
        pthread_join(other, NULL) != 0) {
        end("no thread");
    }
    ended = (int)CALL(cudaStreamEndCapture)(stream, &graph);
    return ended;
}

static void beside_captures(void)
{
    char text[256] = "";

    for (int i = 0; i < 4; i++) {
        char one[64];
        int ended;

        is_relaxed = i >= 2;
        ended = capture_beside(i % 2 == 0 ? cudaStreamCaptureModeThreadLocal
                                          : cudaStreamCaptureModeGlobal);
        snprintf(one, sizeof one, "%s%s%s %s (call %s)", i > 0 ? ", " : "",
                 i % 2 == 0 ? "local" : "global", is_relaxed ? "/relaxed" : "",
                 ended == 0 ? "kept" : "BROKEN", word(answered));
        strcat(text, one);
    }
    end("%s", text);
}

/* ---- 3: errors, exit, contexts ----------------------------------------- */

static void last_error(void)
{
    cudaStream_t stream = new_stream();
    cudaEvent_t event = NULL;
    int by_runtime, left = 0, by_driver, left_then = 0;

    NEED(cudaEventCreateWithFlags, &event, cudaEventDisableTiming);
    NEED(cudaLaunchHostFunc, stream, wait_at_gate, NULL);
    NEED(cudaEventRecord, event, stream);
    (void)CALL(cudaGetLastError)();
    by_runtime = (int)CALL(cudaEventQuery)(event);
    left = (int)CALL(cudaGetLastError)();
    by_driver = (int)CALL(cuEventQuery)(event);
    left_then = (int)CALL(cudaGetLastError)();
    open_gate();
    NEED(cudaStreamSynchronize, stream);
    end("cudaEventQuery answers %s and leaves %s; cuEventQuery %s, leaves %s",
        word(by_runtime), word(left), word(by_driver), word(left_then));
}

static const char *when;

static void at_exit(void)
{
    int count = 0, code = (int)CALL(cudaGetDeviceCount)(&count);

    printf("%s %s", when, word(code));
    when = ", registered before:";
    fflush(stdout);
}

/* Handlers run in reverse order: the one that was registered last comes first,
 * CUDA's own in between, or not. */
static void exit_order(void)
{
    cudaStream_t stream;

    when = "a handler registered after CUDA was opened:";
    atexit(at_exit);
    stream = new_stream();
    (void)stream;
    atexit(at_exit);
    exit(0); /* NOLINT(concurrency-mt-unsafe) */
}

static void contexts(void)
{
    int (*create)(CUcontext *, unsigned, CUdevice);
    CUcontext own = NULL, primary = NULL, current = NULL;
    cudaStream_t stream = new_stream();
    int made, used;

    create = (int (*)(CUcontext *, unsigned, CUdevice))(uintptr_t)function(
        "cuCtxCreate_v2");
    NEED(cuCtxGetCurrent, &primary);
    made = create(&own, 0, 0);
    NEED(cuCtxGetCurrent, &current);
    used = (int)CALL(cudaStreamQuery)(stream);
    end("a second context: %s, current %s; a stream of the first one there: %s",
        word(made), current == own ? "it" : "not it", word(used));
}

static void reset(void)
{
    void *pointer = NULL, *after = NULL;
    cudaStream_t stream = new_stream();
    int freed, queried, again;

    NEED(cudaMalloc, &pointer, MIB);
    need("cudaDeviceReset", (int)CALL(cudaDeviceReset)());
    queried = (int)CALL(cudaStreamQuery)(stream);
    again = (int)CALL(cudaMalloc)(&after, MIB);
    freed = (int)CALL(cudaFree)(pointer);
    end("after cudaDeviceReset: query of an old stream %s, cudaMalloc %s, "
        "cudaFree of an old pointer %s",
        word(queried), word(again), word(freed));
}

/* ---- 4: streams and memory --------------------------------------------- */

static void stream_ids(void)
{
    enum { STREAMS = 200 };
    unsigned long long id[STREAMS];
    cudaStream_t name[STREAMS];
    unsigned addresses = 0, ids = 0;

    for (int i = 0; i < STREAMS; i++) {
        name[i] = new_stream();
        NEED(cudaStreamGetId, name[i], &id[i]);
        NEED(cudaStreamDestroy, name[i]);
        for (int k = 0; k < i; k++) {
            addresses += name[k] == name[i];
            ids += id[k] == id[i];
        }
    }
    end("%d streams one after the other: %u pairs with one address, %u with "
        "one id",
        STREAMS, addresses, ids);
}

static void destroy_at_work(void)
{
    cudaStream_t stream = new_stream();
    double begun;

    NEED(cudaLaunchHostFunc, stream, wait_at_gate, NULL);
    begun = now_us();
    NEED(cudaStreamDestroy, stream);
    begun = now_us() - begun;
    open_gate();
    need("cudaDeviceSynchronize", (int)CALL(cudaDeviceSynchronize)());
    end("cudaStreamDestroy of a stream at work returned in %.1f us", begun);
}

static void granularity(void)
{
    static const size_t sizes[] = {1, MIB + 1, 2 * MIB + 1, 20 * MIB + 1};
    char text[256] = "";
    size_t before, after, all;
    void *pointer = NULL;

    NEED(cudaMalloc, &pointer, 1);
    for (int i = 0; i < 4; i++) {
        char one[64];

        NEED(cudaMemGetInfo, &before, &all);
        NEED(cudaMalloc, &pointer, sizes[i]);
        NEED(cudaMemGetInfo, &after, &all);
        snprintf(one, sizeof one, "%s%zu takes %zu", i > 0 ? ", " : "",
                 sizes[i], before - after);
        strcat(text, one);
    }
    end("cudaMalloc of bytes: %s", text);
}

static void alignment(void)
{
    static const size_t sizes[] = {1, 511, 4097, 65537, MIB};
    size_t host = 0, device = 0;
    void *pointer = NULL;

    for (int i = 0; i < 50; i++) {
        NEED(cudaHostAlloc, &pointer, sizes[i % 5], cudaHostAllocPortable);
        host |= (size_t)(uintptr_t)pointer;
        NEED(cudaMalloc, &pointer, sizes[i % 5]);
        device |= (size_t)(uintptr_t)pointer;
    }
    end("least alignment of cudaHostAlloc %zu, of cudaMalloc %zu bytes",
        host & -host, device & -device);
}

static void ipc_bytes(void)
{
    cudaIpcMemHandle_t one, two;
    void *pointer = NULL;

    NEED(cudaMalloc, &pointer, 4 * MIB);
    memset(&one, 0, sizeof one);
    memset(&two, 0, sizeof two);
    NEED(cudaIpcGetMemHandle, &one, pointer);
    NEED(cudaIpcGetMemHandle, &two, pointer);
    end("two exports of one allocation have %s bytes",
        memcmp(&one, &two, sizeof one) == 0 ? "the same" : "different");
}

static int attribute(enum cudaDeviceAttr which_one)
{
    int value = -1;

    NEED(cudaDeviceGetAttribute, &value, which_one, 0);
    return value;
}

static void page_locking(void)
{
    enum { BYTES = 256 * MIB };
    void *pointer = NULL;
    double begun, taken, touched, locked;

    (void)new_stream();
    begun = now_us();
    NEED(cudaHostAlloc, &pointer, BYTES, cudaHostAllocPortable);
    taken = now_us() - begun;
    NEED(cudaFreeHost, pointer);
    pointer = aligned_alloc(2 * MIB, BYTES);
    need("aligned_alloc", pointer == NULL);
    begun = now_us();
    memset(pointer, 1, BYTES);
    touched = now_us() - begun;
    begun = now_us();
    NEED(cudaHostRegister, pointer, BYTES, cudaHostRegisterPortable);
    locked = now_us() - begun;
    end("256 MiB: cudaHostAlloc %.1f ms; touch %.1f + cudaHostRegister %.1f "
        "ms; "
        "pageable access %d, by the host's page tables %d, node %d",
        taken / 1e3, touched / 1e3, locked / 1e3,
        attribute(cudaDevAttrPageableMemoryAccess),
        attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables),
        attribute(cudaDevAttrHostNumaId));
}

/* ---- 5: what things cost ----------------------------------------------- */

static void event_costs(void)
{
    enum { TIMES = 20000 };
    __typeof__(&cuEventRecord) record = CALL(cuEventRecord);
    __typeof__(&cuEventQuery) query = CALL(cuEventQuery);
    cudaStream_t stream = new_stream();
    cudaEvent_t event = NULL;
    double begun, recorded, queried;
    int failed = 0;

    NEED(cudaEventCreateWithFlags, &event, cudaEventDisableTiming);
    begun = now_us();
    for (int i = 0; i < TIMES; i++) {
        failed |= (int)record(event, stream);
    }
    recorded = (now_us() - begun) / TIMES;
    NEED(cudaStreamSynchronize, stream);
    begun = now_us();
    for (int i = 0; i < TIMES; i++) {
        failed |= (int)query(event);
    }
    queried = (now_us() - begun) / TIMES;
    end("cuEventRecord %.2f us, cuEventQuery %.2f us%s", recorded, queried,
        failed != 0 ? ", with errors" : "");
}

static void ranges(void)
{
    static const size_t sizes[] = {2 * MIB, 64 * MIB};
    CUmemAllocationProp prop;
    CUmemAccessDesc access;
    char text[200] = "";
    size_t unit = 0;
    int part = 0;

    memset(&prop, 0, sizeof prop);
    memset(&access, 0, sizeof access);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    (void)new_stream();
    NEED(cuMemGetAllocationGranularity, &unit, &prop,
         CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    for (int i = 0; i < 2; i++) {
        CUmemGenericAllocationHandle memory = 0;
        CUdeviceptr range = 0;
        double begun = now_us(), mapped;
        char one[100];

        NEED(cuMemAddressReserve, &range, sizes[i], 0, 0, 0);
        NEED(cuMemCreate, &memory, sizes[i], &prop, 0);
        NEED(cuMemMap, range, sizes[i], 0, memory, 0);
        NEED(cuMemSetAccess, range, sizes[i], &access, 1);
        mapped = now_us() - begun;
        part = (int)CALL(cuMemUnmap)(range, sizes[i] / 2);
        begun = now_us();
        NEED(cuMemUnmap, range, sizes[i]);
        NEED(cuMemRelease, memory);
        snprintf(one, sizeof one,
                 "; %zu MiB mapped in %.1f us, unmapped in %.1f",
                 sizes[i] / MIB, mapped, now_us() - begun);
        strcat(text, one);
    }
    end("unit %zu bytes%s; half of that alone: %s", unit, text, word(part));
}

static void host_pools(void)
{
    struct cudaMemPoolProps props;
    cudaMemPool_t pool = NULL;
    int made;

    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeHostNuma;
    made = (int)CALL(cudaMemPoolCreate)(&pool, &props);
    end("cudaMemPoolCreate for memory of host node 0: %s", word(made));
}

/* ---- 6: not asked on the first day --------------------------------------- */

static void attributes(void)
{
    static const CUdevice_attribute asked[] = {
        CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID};
    int value[3];

    NEED(cuInit, 0);
    for (int i = 0; i < 3; i++) {
        NEED(cuDeviceGetAttribute, &value[i], asked[i], 0);
    }
    end("host memory can be registered %d, 64-bit words from a stream %d, "
        "nearest node of the host %d",
        value[0], value[1], value[2]);
}

/* Page-locked, so that the host reads what a stream writes. */
static unsigned *new_word(CUdeviceptr *there)
{
    void *at = NULL, *address = NULL;

    NEED(cudaHostAlloc, &at, 4096, cudaHostAllocMapped);
    NEED(cudaHostGetDevicePointer, &address, at, 0);
    memset(at, 0, 4096);
    *there = (CUdeviceptr)(uintptr_t)address;
    return at;
}

/* What cuda.h calls by the name without a version has been version 1. */
static void words_by_name(void)
{
    CUresult (*first)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    cudaStream_t stream = new_stream();
    CUdeviceptr there;
    unsigned *at = new_word(&there);
    int by_first, by_second;

    first = (__typeof__(first))(uintptr_t)function("cuStreamWriteValue32");
    by_first = (int)first(stream, there, 1, 0);
    by_second = (int)CALL(cuStreamWriteValue32)(stream, there + 4, 2, 0);
    need("cudaStreamSynchronize", (int)CALL(cudaStreamSynchronize)(stream));
    end("cuStreamWriteValue32 %s, its word %u; ..._v2 %s, its word %u",
        word(by_first), at[0], word(by_second), at[1]);
}

static void words_in_a_capture(void)
{
    cudaStream_t stream = new_stream();
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    CUdeviceptr there;
    unsigned *at = new_word(&there), seen;
    size_t nodes = 0;
    int written;

    NEED(cudaStreamBeginCapture, stream, cudaStreamCaptureModeThreadLocal);
    written = (int)CALL(cuStreamWriteValue32)(stream, there, 5, 0);
    NEED(cudaStreamEndCapture, stream, &graph);
    NEED(cudaGraphGetNodes, graph, NULL, &nodes);
    seen = at[0];
    NEED(cudaGraphInstantiateWithFlags, &exec, graph, 0);
    NEED(cudaGraphLaunch, exec, stream);
    NEED(cudaStreamSynchronize, stream);
    end("a write %s, %zu nodes; the word is %u in the capture, %u after a "
        "launch",
        word(written), nodes, seen, at[0]);
}

/* Each call in a process of its own: some may crash. */
static void dead_stream(const char *call)
{
    cudaStream_t stream = new_stream();
    cudaEvent_t event = NULL;
    enum cudaStreamCaptureStatus status;
    int code;

    NEED(cudaEventCreateWithFlags, &event, cudaEventDisableTiming);
    NEED(cudaStreamDestroy, stream);
    code = strcmp(call, "query") == 0 ? (int)CALL(cuStreamQuery)(stream)
           : strcmp(call, "record") == 0
               ? (int)CALL(cuEventRecord)(event, stream)
               : (int)CALL(cudaStreamIsCapturing)(stream, &status);
    end("%s", word(code));
}

static void dead_query(void)
{
    dead_stream("query");
}
static void dead_record(void)
{
    dead_stream("record");
}
static void dead_capturing(void)
{
    dead_stream("capturing");
}

/* A kernel that traps leaves its context in error for good. */
static void sticky_error(void)
{
    static const char trap[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                               ".visible .entry k() { trap; }\n";
    cudaStream_t stream = new_stream();
    cudaEvent_t event = NULL;
    CUdeviceptr there;
    unsigned *at = new_word(&there);
    CUmodule module = NULL;
    CUfunction kernel = NULL;
    void *memory = NULL;
    int waited, recorded, queried, written, freed, unlocked;
    int reset_code = 0;

    NEED(cudaMalloc, &memory, MIB);
    NEED(cudaEventCreateWithFlags, &event, cudaEventDisableTiming);
    NEED(cuModuleLoadData, &module, trap);
    NEED(cuModuleGetFunction, &kernel, module, "k");
    NEED(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
    waited = (int)CALL(cudaStreamSynchronize)(stream);
    recorded = (int)CALL(cuEventRecord)(event, stream);
    queried = (int)CALL(cuEventQuery)(event);
    written = (int)CALL(cuStreamWriteValue32)(stream, there, 1, 0);
    freed = (int)CALL(cudaFree)(memory);
    unlocked = (int)CALL(cuMemFreeHost)(at);
    reset_code = (int)CALL(cudaDeviceReset)();
    end("wait %s, record %s, query %s, write %s, cudaFree %s, cuMemFreeHost "
        "%s, reset %s",
        word(waited), word(recorded), word(queried), word(written), word(freed),
        word(unlocked), word(reset_code));
}

/* Whether a look at the id alone tells that a context was reset. */
static void context_ids(void)
{
    CUcontext before = NULL, after = NULL;
    unsigned long long id = 0, gone = 0, id_after = 0;
    int of_gone;

    NEED(cudaFree, NULL);
    NEED(cuCtxGetCurrent, &before);
    NEED(cuCtxGetId, before, &id);
    need("cudaDeviceReset", (int)CALL(cudaDeviceReset)());
    of_gone = (int)CALL(cuCtxGetId)(before, &gone);
    NEED(cudaFree, NULL);
    NEED(cuCtxGetCurrent, &after);
    NEED(cuCtxGetId, after, &id_after);
    end("cuCtxGetId of a context after its reset %s; made again it has %s "
        "address and %s id",
        word(of_gone), before == after ? "the same" : "another",
        id == id_after ? "the same" : "another");
}

static const struct question {
    const char *text;
    void (*ask)(void);
    int meddling; /* index, or -1 */
} questions[] = {
    {"Which CUDA is here?", which, -1},
    {"Is memory handed out too early?", early_reuse, -1},
    {"Breaks another thread's capture:", beside_captures, 0},
    {"Who leaves an error behind?", last_error, -1},
    {"Whose exit handler comes first?", exit_order, -1},
    {"What does a second context see?", contexts, -1},
    {"What is left after a reset?", reset, -1},
    {"Do ids tell streams apart?", stream_ids, -1},
    {"Does the end of a stream wait for its work?", destroy_at_work, -1},
    {"What does the driver back memory with?", granularity, -1},
    {"How is memory aligned?", alignment, -1},
    {"Is memory known by the bytes of its export?", ipc_bytes, -1},
    {"What does page-locking cost?", page_locking, -1},
    {"What do events cost?", event_costs, -1},
    {"What do ranges of addresses cost?", ranges, -1},
    {"Are there pools of the host's memory?", host_pools, -1},
    {"Which memory operations are there?", attributes, -1},
    {"Which function writes a word?", words_by_name, -1},
    {"What is a word in a capture?", words_in_a_capture, -1},
    {"What does a context's id say after a reset?", context_ids, -1},
    {"cuStreamQuery of a destroyed stream?", dead_query, -1},
    {"cuEventRecord on one?", dead_record, -1},
    {"cudaStreamIsCapturing of one?", dead_capturing, -1},
    {"What works after a kernel that traps?", sticky_error, -1}};

static bool ask(const struct question *question)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        alarm(SECONDS);
        question->ask();
        _exit(1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        printf("no process for it\n");
        return false;
    }
    if (WIFSIGNALED(status)) {
        printf("no answer: signal %d%s\n", WTERMSIG(status),
               WTERMSIG(status) == SIGALRM ? " (it hangs)" : "");
    } else if (question->ask == exit_order) {
        printf("\n");
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void)
{
    unsigned number = 0, unanswered = 0;

    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        const struct question *q = &questions[i];
        size_t last =
            q->meddling < 0 ? 1 : sizeof meddlings / sizeof meddlings[0];

        for (size_t k = 0; k < last; k++) {
            meddling = &meddlings[k];
            printf("%2u. %s%s%s ", ++number, q->text,
                   q->meddling < 0 ? "" : " ",
                   q->meddling < 0 ? "" : meddling->name);
            unanswered += !ask(q);
        }
    }
    printf("first day: %u questions, %u without an answer\n", number,
           unanswered);
    return unanswered > 0;
}
