/* bench.h: what the files of the bench share.
 *
 *   bench ──► plan (rows) ──► run: one child a figure ──► report, chart
 *                                    │
 *        bench one SUBJECT WORK … ◄──┘  measures, prints key=value
 *
 * A *subject* is what is measured (warmpool, a yardstick, a peer), a *work*
 * what is done with it. Every figure comes from a process of its own, so that
 * malloc can be replaced (LD_PRELOAD) and nothing is warm from before.
 *
 * ns/op = wall time × min(threads, cores) / operations: latency at one
 * thread, core time where threads are more than cores. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    BENCH_SLOTS = 64,      /* live buffers a thread */
    BENCH_HOT = 65536,     /* bytes of the hot work */
    BENCH_THREADS = 1000,  /* most threads */
    BENCH_WORKERS = 8,     /* of the made traces */
    BENCH_FIGURES_MAX = 64 /* timed runs, at most */
};

/* What differs in a made trace from what made.h says; 0: nothing. */
typedef struct bench_made {
    unsigned seed, buffers, threads, slots;
    unsigned streams; /* of each thread, used in turn; 0: one */
    bool device; /* streams allocate, instead of using what was allocated */
} bench_made;

/* How one figure is measured. */
typedef struct bench_setup {
    const char *subject, *work;
    unsigned threads;
    uint64_t ops;                 /* a thread and run; traces: most steps */
    unsigned ms;                  /* fewer where a run takes longer; 0: not */
    uint64_t warm;                /* a thread, at least ops / 4 + 1024 */
    unsigned warm_ms;             /* fewer: longer, or of no use; 0: not */
    unsigned runs;                /* timed ones */
    unsigned record_ns, query_ns; /* what an event costs */
    unsigned lag;                 /* later uses until an event is done */
    unsigned aging;               /* 1: also done when 100 µs old */
    unsigned size;                /* of the scale works, else 0 */
    bench_made made;              /* of the traces; threads is ignored */
    const char *conf;             /* WARMPOOL_CONF of the child, or null */
    bool quiet;                   /* the child says nothing to people */
    uint64_t (*clock)(void);      /* by which events grow old; null: time */
    /* Of a replay, else 0: devices, the number of the legacy default stream,
     * and each stream's device. */
    unsigned devices, legacy;
    const unsigned char *device_of; /* [size + 1] */
} bench_setup;

/* What is measured; X(name, meaning). A negative value: not measured. */
#define BENCH_RESULT_MAP(X)                                                    \
    X(ns, "ns an operation, median of the runs")                               \
    X(ops, "operations of all threads and runs")                               \
    X(min, "least of the runs")                                                \
    X(max, "most of the runs")                                                 \
    X(cpu, "ns of processor time an operation, in the median run")             \
    X(records, "event records a free")                                         \
    X(queries, "event queries a free")                                         \
    X(others, "other driver calls a free")                                     \
    X(later, "work that they delayed, of all work (traces)")                   \
    X(obtains, "driver calls that obtained memory, after the warm-up")         \
    X(warm_ops, "operations of a thread before the first run")                 \
    X(warm_ns, "ns an operation until then")                                   \
    X(warm_obtains, "driver calls that obtained memory until then")            \
    X(peak, "bytes obtained from the driver at the peak")                      \
    X(live, "bytes requested at the peak (traces)")                            \
    X(least, "bytes live, or freed and not done, at the peak")                 \
    X(waits, "of streams for events, a free")                                  \
    X(delay, "pieces of work a wait was for, of 100 that were queued")         \
    X(metadata, "bytes of the library's own records at the end")               \
    X(p50, "ns of an allocation and its record that half took at most (tail)") \
    X(p90, "ns that 90 of 100 took at most")                                   \
    X(p99, "ns that 99 of 100 took at most")                                   \
    X(p999, "ns that 999 of 1,000 took at most")                               \
    X(p9999, "ns that 9,999 of 10,000 took at most")

typedef struct bench_result {
#define BENCH_RESULT_FIELD(name, meaning) double name;
    BENCH_RESULT_MAP(BENCH_RESULT_FIELD)
#undef BENCH_RESULT_FIELD
} bench_result;

#define BENCH_RESULT_NONE                                                      \
    (bench_result)                                                             \
    {                                                                          \
        BENCH_RESULT_MAP(BENCH_RESULT_MINUS)                                   \
    }
#define BENCH_RESULT_MINUS(name, meaning) .name = -1,

/* Driver calls so far, and the bytes obtained. */
typedef struct bench_counts {
    uint64_t records, queries, others, obtains;
    uint64_t peak;
    uint64_t waits, delayed, metadata; /* the library's: see bench_result */
} bench_counts;

/* Where an allocation of a replay was. */
typedef struct bench_where {
    unsigned sort;   /* enum bench_sort (steps.h) */
    int device;      /* -1: host memory */
    bool pageable;   /* of the host: that need not be page-locked */
    unsigned stream; /* numbered; of a device's memory */
    unsigned pool;   /* private pool, from 1; 0: none */
    bool user;       /* it has WARM_POOL_USER */
} bench_where;

/* One subject of the allocation works. Every call but open is made by the
 * working threads. record: null if there are no streams; stream 0 is the
 * thread's own, others are numbered to setup->size. stream: the numbered one is
 * adopted, or retired; null if that is nothing to it. place: an allocation of
 * any sort; null if the subject knows one sort only, that of alloc. pool_end:
 * the private pool is gone; null if there are none. counts: null if there is no
 * driver. */
typedef struct bench_subject {
    const char *name;
    bool device; /* allocates on a stream, instead of recording what is used */
    bool (*open)(const bench_setup *setup);
    void (*enter)(void);
    void *(*alloc)(size_t bytes);
    void (*free)(void *pointer, size_t bytes);
    void (*record)(void *pointer, unsigned stream);
    void (*stream)(unsigned stream, bool adopt);
    void *(*place)(const bench_where *place, size_t bytes);
    void (*pool_end)(unsigned pool);
    void (*counts)(bench_counts *counts);
} bench_subject;

extern const bench_subject bench_none, bench_floor, bench_malloc;
extern const bench_subject bench_warmpool, bench_host, bench_raw,
    bench_on_device;
extern const bench_subject bench_cuda, bench_raw_cuda, bench_async;

/* The CUDA runtime library, its names open to libraries loaded later; null,
 * with a line on standard error, if there is none. */
void *bench_cudart(void);

/* Null, with a line on standard error, if there is none or it is missing
 * here. */
const bench_subject *bench_subject_find(const char *name);

/* Measures setup; false, with a line on standard error, if it cannot. */
bool bench_one(const bench_setup *setup, bench_result *result);

/* The parts of bench_one(), by sort of work. */
bool bench_work_alloc(const bench_setup *setup, bench_result *result);
bool bench_work_handle(const bench_setup *setup, bench_result *result);
bool bench_work_churn(const bench_setup *setup, bench_result *result);
bool bench_work_birth(const bench_setup *setup, bench_result *result);
bool bench_work_trace(const bench_setup *setup, bench_result *result);
bool bench_work_event(const bench_setup *setup, bench_result *result);

/* What a thread does in one run. */
typedef void (*bench_loop)(void *context, unsigned thread, uint64_t ops);

/* Runs loop in setup->threads threads at once: a warm-up in rounds of ops / 4 +
 * 1024, one at least, then setup->runs timed runs behind a barrier. enter:
 * called first by every thread, may be null. warm: called once after the
 * warm-up, may be null. */
void bench_measure(const bench_setup *setup, bench_loop loop, void *context,
                   void (*enter)(void), void (*warm)(void *context),
                   bench_result *result);

/* A warm-up, which goes on as long as that helps: when its last part ended,
 * when this one may, and what an operation of the last one cost. Zero at first;
 * bench_is_warm() is told a thread's time and operations since it began. */
typedef struct bench_warmth {
    uint64_t ns, ops, end;
    double cost;
    unsigned steady; /* parts in a row that gained nothing */
} bench_warmth;

bool bench_is_warm(bench_warmth *w, uint64_t ns, uint64_t ops);

/* Sorts values and returns the median. */
double bench_median(double *value, size_t count);

/* Monotonic time; processor time of the process. */
uint64_t bench_now_ns(void);
uint64_t bench_cpu_ns(void);
unsigned bench_cores(void);

/* xorshift64*; *state is not 0. */
static inline uint64_t bench_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(2685821657736338717);
}

/* Uniform in [0, 1). */
static inline double bench_uniform(uint64_t *state)
{
    return (double)(bench_random(state) >> 11) * 0x1p-53;
}

/* Log-uniform from least bytes to so many doublings of it. One thread at a
 * time. */
size_t bench_log_uniform(uint64_t *state, size_t least, unsigned doublings);

/* Memory that nobody has touched, from the system; null if there is none. */
void *bench_map(size_t bytes);
void bench_unmap(void *pointer, size_t bytes);

#endif
