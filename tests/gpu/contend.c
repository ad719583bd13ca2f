/* contend.c: what a completed use costs to learn on a GPU, by threads: events
 * of the driver beside words that the device writes to page-locked memory.
 *
 *   contend [threads...]   default: 1 2 4 8; below 40 s
 *   contend pairs [ms]     which calls wait for each other; ms for each pair
 *
 * 1. Nanoseconds a call of each libcuda call that a record or a query of
 *    warmpool makes, all threads at once, each with a stream and event of its
 * own.
 * 2. What a record and a write cost the GPU: a chain of small memsets on one
 *    stream, with nothing, a record, or a write between them.
 * 3. What a word must do to serve: arrive behind the stream's synchronize, with
 *    no further call, and from a stream destroyed at work.
 * With RESET=1 in the environment also what a word says after a reset of the
 * device. A function that libcuda lacks is named, and what needs it left out.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, CALLS = 20000, HELD_CALLS = 200, LINKS = 200, PAGE = 4096 };

/* ---- libcuda, by name ---------------------------------------------------- */

#define FUNCTIONS(F)                                                           \
    F(init, cuInit)                                                            \
    F(retain, cuDevicePrimaryCtxRetain)                                        \
    F(reset, cuDevicePrimaryCtxReset)                                          \
    F(state, cuDevicePrimaryCtxGetState)                                       \
    F(push, cuCtxPushCurrent)                                                  \
    F(current, cuCtxGetCurrent)                                                \
    F(context_id, cuCtxGetId)                                                  \
    F(context_synchronize, cuCtxSynchronize)                                   \
    F(attribute, cuDeviceGetAttribute)                                         \
    F(stream_create, cuStreamCreate)                                           \
    F(stream_destroy, cuStreamDestroy)                                         \
    F(stream_query, cuStreamQuery)                                             \
    F(stream_synchronize, cuStreamSynchronize)                                 \
    F(capturing, cuStreamIsCapturing)                                          \
    F(mode, cuThreadExchangeStreamCaptureMode)                                 \
    F(event_create, cuEventCreate)                                             \
    F(record, cuEventRecord)                                                   \
    F(query, cuEventQuery)                                                     \
    F(host_function, cuLaunchHostFunc)                                         \
    F(alloc, cuMemAlloc)                                                       \
    F(memset, cuMemsetD8Async)                                                 \
    F(lock, cuMemHostRegister)                                                 \
    F(device_pointer, cuMemHostGetDevicePointer)                               \
    F(write32, cuStreamWriteValue32)                                           \
    F(write64, cuStreamWriteValue64)

#define FIELD(field, name) __typeof__(&(name)) field;
static struct {
    FUNCTIONS(FIELD)
} cu;

#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

/* ---- one thread's own ---------------------------------------------------- */

static struct worker {
    CUstream stream;
    CUevent event;
    double ns; /* a call of the last measurement */
    int index;
    int call;
    _Alignas(128) pthread_t thread;
} workers[MOST];

static CUcontext context;
/* One page, mapped and registered: a word for each worker, then those of the
 * facts, and from 2048 on what memsets write. */
static _Atomic uint64_t *words;
static CUdeviceptr words_there; /* 0: there is none */
static bool words_serve;        /* both writes are there, and the page */

static CUdeviceptr word_there(int index)
{
    return words_there + sizeof *words * (CUdeviceptr)index;
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- the calls ----------------------------------------------------------- */

static void current(struct worker *w, int i)
{
    CUcontext is;

    cu.current(&is);
}

static void miss(struct worker *w, int i)
{
    unsigned flags;
    int active;
    unsigned long long id;

    cu.state(0, &flags, &active);
    if (cu.context_id != NULL) {
        cu.context_id(context, &id);
    }
    current(w, i);
}

static void modes(struct worker *w, int i)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    cu.mode(&mode);
    cu.mode(&mode);
}

static void capturing(struct worker *w, int i)
{
    CUstreamCaptureStatus status;

    cu.capturing(w->stream, &status);
}

static void record(struct worker *w, int i)
{
    cu.record(w->event, w->stream);
}

static void query(struct worker *w, int i)
{
    cu.query(w->event);
}

static void query_stream(struct worker *w, int i)
{
    cu.stream_query(w->stream);
}

/* As warmpool records an event, and as it queries one. */
static void mark(struct worker *w, int i)
{
    current(w, i);
    capturing(w, i);
    record(w, i);
}

static void passed(struct worker *w, int i)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    current(w, i);
    cu.mode(&mode);
    query(w, i);
    cu.mode(&mode);
}

static void mark_and_query(struct worker *w, int i)
{
    mark(w, i);
    passed(w, i);
}

static void set(struct worker *w, int i)
{
    cu.memset(words_there + 2048 + 8 * (CUdeviceptr)w->index, 1, 8, w->stream);
}

static void set_and_mark(struct worker *w, int i)
{
    set(w, i);
    mark_and_query(w, i);
}

static void write_32(struct worker *w, int i)
{
    cu.write32(w->stream, word_there(w->index), (cuuint32_t)i + 1, 0);
}

static void write_64(struct worker *w, int i)
{
    cu.write64(w->stream, word_there(w->index), (cuuint64_t)i + 1, 0);
}

static uint64_t word(int index)
{
    /* Acquire: what the device wrote before the word is there with it. */
    return atomic_load_explicit(&words[index], memory_order_acquire);
}

static void mark_by_word(struct worker *w, int i)
{
    current(w, i);
    capturing(w, i);
    write_64(w, i);
    (void)word(w->index);
}

static void set_and_mark_by_word(struct worker *w, int i)
{
    set(w, i);
    mark_by_word(w, i);
}

static void look_at_all(struct worker *w, int i)
{
    for (int k = 0; k < MOST; k++) {
        (void)word(k);
    }
}

static const struct call {
    const char *name;
    void (*call)(struct worker *, int);
    bool writes; /* needs the words */
    bool held;   /* the streams are held up meanwhile: "not ready" */
} calls[] = {{"cuCtxGetCurrent", current, false, false},
             {"what a miss asks of a context", miss, false, false},
             {"2 x cuThreadExchangeStreamCaptureMode", modes, false, false},
             {"cuStreamIsCapturing", capturing, false, false},
             {"cuEventRecord", record, false, false},
             {"cuEventQuery, done", query, false, false},
             {"cuStreamQuery, done", query_stream, false, false},
             {"a record, as warmpool", mark, false, false},
             {"a query, as warmpool", passed, false, false},
             {"record + query", mark_and_query, false, false},
             {"memset", set, true, false},
             {"memset + record + query", set_and_mark, true, false},
             {"cuStreamWriteValue32", write_32, true, false},
             {"cuStreamWriteValue64", write_64, true, false},
             {"a word + a load", mark_by_word, true, false},
             {"memset + a word + a load", set_and_mark_by_word, true, false},
             {"64 words looked at", look_at_all, true, false},
             {"cuEventQuery, not ready", query, false, true},
             {"cuStreamQuery, not ready", query_stream, false, true},
             {"cuEventRecord, stream held", record, false, true},
             {"cuStreamWriteValue64, stream held", write_64, true, true}};
enum { KINDS = sizeof calls / sizeof calls[0] };

/* ---- 1: by threads ------------------------------------------------------- */

static _Atomic bool gate_open, ended;
static pthread_barrier_t start;
static bool by_time; /* until `ended`; else a number of calls */

static void CUDA_CB hold(void *unused)
{
    (void)unused;
    while (!atomic_load_explicit(&gate_open, memory_order_acquire)) {
        usleep(100);
    }
}

static void *work(void *argument)
{
    struct worker *w = argument;
    const struct call *c = &calls[w->call];
    int n = c->held ? HELD_CALLS : CALLS, i = 0;
    double from;

    cu.push(context);
    for (int k = 0; k < 20; k++) {
        c->call(w, k);
    }
    pthread_barrier_wait(&start);
    from = now_ns();
    while (by_time ? !atomic_load_explicit(&ended, memory_order_relaxed)
                   : i < n) {
        c->call(w, i++);
        /* A queue of thousands would be what is measured. */
        if (by_time && i % 256 == 0) {
            cu.stream_synchronize(w->stream);
        }
    }
    w->ns = (now_ns() - from) / (i > 0 ? i : 1);
    return NULL;
}

/* Nanoseconds a call of the first `threads` workers; `beside` others make
 * another call at the same time, for ms (0: as many calls as there are). */
static double measure(int call, int threads, int other, int beside, int ms)
{
    int all = threads + beside;
    double sum = 0;

    by_time = ms > 0;
    atomic_store(&ended, false);
    atomic_store(&gate_open, !calls[call].held);
    for (int i = 0; i < all; i++) {
        workers[i].call = i < threads ? call : other;
        cu.stream_synchronize(workers[i].stream);
        if (calls[call].held) {
            cu.host_function(workers[i].stream, hold, NULL);
        }
        cu.record(workers[i].event, workers[i].stream);
        if (!calls[call].held) {
            cu.stream_synchronize(workers[i].stream);
        }
    }
    pthread_barrier_init(&start, NULL, (unsigned)all);
    for (int i = 0; i < all; i++) {
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            printf("no thread\n");
            exit(1);
        }
    }
    if (ms > 0) {
        usleep((useconds_t)ms * 1000);
        atomic_store(&ended, true);
    }
    for (int i = 0; i < all; i++) {
        pthread_join(workers[i].thread, NULL);
        sum += i < threads ? workers[i].ns : 0;
    }
    pthread_barrier_destroy(&start);
    atomic_store(&gate_open, true);
    cu.context_synchronize();
    return sum / threads;
}

static bool can(const struct call *c)
{
    return !c->writes || words_serve;
}

static void by_threads(const int *counts, int n)
{
    printf("%-40s", "ns a call, by threads");
    for (int k = 0; k < n; k++) {
        printf(" %9d", counts[k]);
    }
    for (int i = 0; i < KINDS; i++) {
        if (can(&calls[i])) {
            printf("\n%-40s", calls[i].name);
            for (int k = 0; k < n; k++) {
                printf(" %9.0f", measure(i, counts[k], i, 0, 0));
                fflush(stdout);
            }
        }
    }
    printf("\n");
}

/* ---- pairs --------------------------------------------------------------- */

/* A call that takes longer beside another one than beside itself alone waits
 * for a lock that both take. */
static void pairs(int ms)
{
    static const int asked[] = {0, 2, 3, 4, 5, 6, 13};
    enum { N = sizeof asked / sizeof asked[0] };

    printf("ns a call of the row's 4 threads; 4 others make the column's\n");
    printf("%-40s %9s", "", "nobody");
    for (int k = 0; k < N; k++) {
        printf(" %9.9s", calls[asked[k]].name + 2);
    }
    for (int i = 0; i < N; i++) {
        if (!can(&calls[asked[i]])) {
            continue;
        }
        printf("\n%-40s %9.0f", calls[asked[i]].name,
               measure(asked[i], 4, 0, 0, ms));
        for (int k = 0; k < N; k++) {
            if (can(&calls[asked[k]])) {
                printf(" %9.0f", measure(asked[i], 4, asked[k], 4, ms));
                fflush(stdout);
            }
        }
    }
    printf("\n");
}

/* ---- 2: what the GPU pays ------------------------------------------------ */

enum between { NOTHING, RECORDS, WRITES };

/* Nanoseconds a link of a chain; a gate leaves out the host's time. */
static double chain(enum between between, CUdeviceptr at)
{
    struct worker *w = &workers[0];
    double from;

    atomic_store(&gate_open, false);
    cu.host_function(w->stream, hold, NULL);
    for (int i = 0; i < LINKS; i++) {
        cu.memset(at, (unsigned char)i, 65536, w->stream);
        if (between == RECORDS) {
            record(w, i);
        } else if (between == WRITES) {
            write_64(w, i);
        }
    }
    from = now_ns();
    atomic_store(&gate_open, true);
    cu.stream_synchronize(w->stream);
    return (now_ns() - from) / LINKS;
}

static void chains(void)
{
    CUdeviceptr at = 0;

    if (cu.alloc(&at, 65536) != CUDA_SUCCESS) {
        printf("no memory for a chain\n");
        return;
    }
    (void)chain(NOTHING, at);
    for (int i = 0; i < 3; i++) {
        printf("GPU, ns a memset of 64 KiB: alone %.0f", chain(NOTHING, at));
        printf(", a record behind each %.0f", chain(RECORDS, at));
        if (words_serve) {
            printf(", a write %.0f", chain(WRITES, at));
        }
        printf("\n");
    }
}

/* ---- 3: whether words serve ---------------------------------------------- */

enum { TIMES = 1000, BEHIND = 400, ALONE, GONE, LEGACY, PER_THREAD };

static bool write_word(CUstream stream, int index, uint64_t value)
{
    return cu.write64(stream, word_there(index), value, 0) == CUDA_SUCCESS;
}

static void behind_synchronize(void)
{
    unsigned late = 0;

    for (uint64_t i = 1; i <= TIMES; i++) {
        set(&workers[0], 0);
        write_word(workers[0].stream, BEHIND, i);
        cu.stream_synchronize(workers[0].stream);
        late += word(BEHIND) != i;
    }
    printf("word behind cuStreamSynchronize: %u of %d late\n", late, TIMES);
}

static void with_no_call(void)
{
    unsigned missing = 0, early = 0;
    double worst = 0, sum = 0;

    for (uint64_t i = 1; i <= TIMES; i++) {
        double from, took;

        set(&workers[0], 0);
        record(&workers[0], 0);
        from = now_ns();
        write_word(workers[0].stream, ALONE, i);
        do {
            took = now_ns() - from;
        } while (word(ALONE) != i && took < 1e9);
        missing += word(ALONE) != i;
        early += cu.query(workers[0].event) == CUDA_ERROR_NOT_READY;
        worst = took > worst ? took : worst;
        sum += took;
    }
    printf("word with no call after it: %u of %d missing after a second; "
           "%.1f us, worst %.1f; before the event was done: %u\n",
           missing, TIMES, sum / TIMES / 1e3, worst / 1e3, early);
}

static void from_a_destroyed_stream(void)
{
    CUstream gone;
    CUresult destroyed;

    if (cu.stream_create(&gone, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
        return;
    }
    atomic_store(&gate_open, false);
    cu.host_function(gone, hold, NULL);
    write_word(gone, GONE, 7);
    destroyed = cu.stream_destroy(gone);
    atomic_store(&gate_open, true);
    cu.context_synchronize();
    printf("stream destroyed at work: %d; its word %s\n", (int)destroyed,
           word(GONE) == 7 ? "came" : "did not come");
}

static void default_streams(void)
{
    bool legacy = write_word(NULL, LEGACY, 1);
    bool own = write_word(CU_STREAM_PER_THREAD, PER_THREAD, 1);

    cu.context_synchronize();
    printf("legacy stream: %s; per-thread stream: %s\n",
           !legacy             ? "refused"
           : word(LEGACY) == 1 ? "its word came"
                               : "its word did not come",
           !own                    ? "refused"
           : word(PER_THREAD) == 1 ? "its word came"
                                   : "its word did not come");
}

static void after_a_reset(void)
{
    CUresult code = cu.reset(0);

    printf("reset: %d; ", (int)code);
    fflush(stdout);
    printf("a word is readable after it: %llu\n", (unsigned long long)words[0]);
}

/* ---- begin --------------------------------------------------------------- */

static bool load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);

    if (lib == NULL) {
        printf("skip: %s\n", dlerror());
        return false;
    }
#define LOAD(field, name)                                                      \
    *(void **)&cu.field = dlsym(lib, TEXT(name));                              \
    if (cu.field == NULL) {                                                    \
        printf("no %s here\n", TEXT(name));                                    \
    }
    FUNCTIONS(LOAD)
    if (cu.init == NULL || cu.init(0) != CUDA_SUCCESS ||
        cu.retain(&context, 0) != CUDA_SUCCESS ||
        cu.push(context) != CUDA_SUCCESS) {
        printf("skip: no device\n");
        return false;
    }
    return true;
}

static int asked(CUdevice_attribute attribute)
{
    int value = -1;

    if (cu.attribute(&value, attribute, 0) != CUDA_SUCCESS) {
        value = -1;
    }
    return value;
}

static void map_words(void)
{
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUresult code;

    if (page == MAP_FAILED) {
        printf("no page for words\n");
        exit(1);
    }
    words = page;
    memset(page, 0, PAGE);
    code = cu.lock == NULL ? CUDA_ERROR_NOT_FOUND
                           : cu.lock(page, PAGE,
                                     CU_MEMHOSTREGISTER_PORTABLE |
                                         CU_MEMHOSTREGISTER_DEVICEMAP);
    if (code == CUDA_SUCCESS) {
        code = cu.device_pointer(&words_there, page, 0);
    }
    words_serve = code == CUDA_SUCCESS && cu.memset != NULL &&
                  cu.write32 != NULL && cu.write64 != NULL &&
                  cu.write64(NULL, words_there, 0, 0) == CUDA_SUCCESS;
    printf("64-bit memory operations %d, host register %d, a page registered: "
           "%d; words %s\n",
           asked(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS),
           asked(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED), (int)code,
           words_serve ? "serve" : "do not serve");
}

static bool make_streams(void)
{
    for (int i = 0; i < MOST; i++) {
        workers[i].index = i;
        if (cu.stream_create(&workers[i].stream, CU_STREAM_NON_BLOCKING) !=
                CUDA_SUCCESS ||
            cu.event_create(&workers[i].event, CU_EVENT_DISABLE_TIMING) !=
                CUDA_SUCCESS) {
            printf("no stream %d\n", i);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    int counts[MOST] = {1, 2, 4, 8}, n = 4;

    if (!load()) {
        return 0;
    }
    map_words();
    if (!make_streams()) {
        return 1;
    }
    if (argc > 1 && strcmp(argv[1], "pairs") == 0) {
        pairs(argc > 2 ? atoi(argv[2]) : 20);
        return 0;
    }
    for (n = argc > 1 ? 0 : n; n + 1 < argc && n < MOST; n++) {
        int threads = atoi(argv[n + 1]);

        counts[n] = threads < 1 ? 1 : threads < MOST ? threads : MOST;
    }
    by_threads(counts, n);
    chains();
    if (words_serve) {
        behind_synchronize();
        with_no_call();
        from_a_destroyed_stream();
        default_streams();
    }
    if (getenv("RESET") != NULL) {
        after_a_reset();
    }
    return 0;
}
