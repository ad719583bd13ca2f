/* check_recorded.c: fixed programs, each played step by step on the host
 * device, end with the figures that recorded.inc has of them: every statistic
 * and every driver call (rows B2, B5, B11, B14, B25, C2, C5, C8, G1).
 *
 * A change that is to alter no behaviour alters no figure; where another one
 * does, WT_RECORD=tests/model/recorded.inc writes the table anew, and its diff
 * says what the change did. Only one thread acts at a time, streams run when
 * they are told to, and the clock is the program's. */
#include "wt_json.h"
#include "wt_kind.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PLAYS = 22, MIB = 1 << 20 };

/* What it was: the sum of the figure over all looks of the play. */
struct row {
    const char *name;
    uint64_t value[PLAYS];
};

static const struct row recorded[] = {
#include "model/recorded.inc"
};

/* Each letter of `steps` is as likely as the others. Requests have 1 << least …
 * 1 << (least + sizes) bytes. */
enum step {
    PINNED = 'p',
    DEVICE = 'd',
    SHARED = 's',
    FREE = 'f',
    DEFER = 'x', /* a free */
    RECORD = 'r',
    RUN = 'g', /* work of streams */
    TIME = 't',
    POLL = 'q',
    TRIM = 'm',
    POOL = 'o',
    TURN = 'n', /* another thread acts */
    EXIT = 'e',
    HANDLE = 'h',
    CAPTURE = 'c',
    LIMIT = 'l',
    ALIGNED = 'a',
    NODE = 'P', /* of any node */
    COMBINED = 'W',
    EMPTY = 'y',
    PAUSE = 'u',
    ADOPT = 'k',
    STAGE = 'j',
    LEASE = 'b',
    FAULT = 'v' /* of the driver */
};
static const struct play {
    unsigned least, sizes, live; /* at most so many blocks */
    const char *steps;
    warm_options options;
} plays[PLAYS] = {
    {6, 16, 60, "pppppppppppppppppppppppfffffffffffffffffffffftq", {0}},
    {8,
     14,
     90,
     "ppppppppppppppffffffffffrrrrrrrrrggtqm",
     {.keep = 100, .decay_ms = 30}},
    {9, 14, 90, "ddddddddddddddffffffffffffrrrrrggtqm", {0}},
    {12, 11, 60, "pppppdddddddffffffffffrrrrggtml", {.stream_wait = "off"}},
    {9, 12, 90, "ppppppppppppffffffffffffrrgtqnnnnne", {.keep = 60}},
    {9,
     12,
     90,
     "ppppdddddddddffffffffffffrrrggtnneocm",
     {.stream_wait = "off", .history = 100}},
    {8, 13, 70, "ssssssssssppfffffffffffrrrrggtxnm", {0}},
    {10, 10, 30, "hhhhhhhhhhhhhhhhhhhhppffggnnnnnnetm", {0}},
    {10,
     15,
     40,
     "ddddddddddddddffffffffffffrrrggtmo",
     {.segment = MIB, .decay_ms = 50}},
    {7,
     16,
     90,
     "ppppppppppppppffffffffffffrrrrrggtnem",
     {.keep = WARM_OFF, .test = "batch_count=4"}},
    {8, 14, 70, "ppppppppppppffffffffffrrrrggtqmyv", {0}},
    {9,
     14,
     70,
     "ddddddddddddffffffffffrrrrggtqmlvv",
     {.stream_wait = "off", .decay_ms = 40}},
    {8, 13, 60, "ppppppddddddssffffffffffrrrggtqnmov", {.stream_wait = "off"}},
    {9, 13, 80, "ppppppddddddffffffffffrrrrrggtqnxe", {.stream_wait = "off"}},
    {10,
     14,
     80,
     "aaaappppppddddddffffffffffrrggtly",
     {.decay_ms = 20, .segment = 4 * MIB}},
    {12, 10, 40, "dddddddddffffffffrrgtoouup", {0}},
    {8, 14, 60, "pppppppppkffffffffjjjdrrggtmyq", {.stream_wait = "off"}},
    {10, 8, 20, "hhhhhhhbbbbbbnnnntmpfge", {.stream_wait = "off"}},
    {9,
     13,
     80,
     "ppppPPPPPPffffffffffrrggtqmnnhly",
     {.test = "numa_nodes=2", .host_devices = 2}},
    {8, 13, 60, "ssssssWWWpffffffffffrrrggtxnmvv", {.stream_wait = "off"}},
    {9, 14, 60, "ppppppddddddffffffffffrrrggtqooovnem", {0}},
    {9,
     15,
     90,
     "ppppddddWWffffffffrrggtllxmny",
     {.keep = 40, .segment = 2 * MIB, .stream_wait = "off"}},
};

enum { THREADS = 3, STREAMS = 5, LIVE = 100, ROWS = 600 };

static struct row rows[ROWS]; /* of this program */
static unsigned row_count;

/* Written by the thread whose turn it is. */
static struct world {
    const struct play *play;
    unsigned number;
    warm_runtime *runtime;
    uint64_t random, now;
    warm_stream stream[STREAMS];
    void *live[LIVE];
    unsigned lives;
    char *base;
    uint64_t places, refused;
    warm_private_pool pool;
    bool has_pool, records, limited; /* ever */
    bool faults, paused;
    char *adopted;
    warm_staging *staging;
    warm_lease lease;
    wt_toy toy;
    warm_kind kind;
} w;

/* ---- addresses ----------------------------------------------------------- */

/* Memory is used from the lowest address on, so that its place counts: what the
 * library maps comes from here, each mapping above the one before. */
static char *next_address;

/* Reserves the addresses, from a multiple of many GiB on; false: there are not
 * so many. */
static bool reserve_addresses(void)
{
    const uintptr_t many = (uintptr_t)1 << 39;
    char *all = mmap(NULL, 2 * many, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (all == MAP_FAILED) {
        return false;
    }
    next_address = all + (many - (uintptr_t)all % many);
    return true;
}

#if !WT_TSAN /* it has its own */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
__attribute__((visibility("default"))) void *
mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    if (next_address != NULL && at == NULL) {
        at = next_address;
        next_address += (bytes + 2 * MIB - 1) / MIB * MIB; /* and a gap */
        flags |= MAP_FIXED;
    }
    return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
#endif

/* ---- threads in turn ----------------------------------------------------- */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    unsigned steps; /* lock mutex: that the thread is to do; 0: it is idle */
    bool ends;      /* lock mutex */
} turn[THREADS];

static uint64_t pick(uint64_t below)
{
    return wt_random(&w.random) % below;
}

static void do_step(void);

static void *take_turns(void *argument)
{
    unsigned i = *(unsigned *)argument;
    bool ends = false;

    pthread_mutex_lock(&turn[i].mutex);
    while (!ends) {
        while (turn[i].steps == 0 && !turn[i].ends) {
            pthread_cond_wait(&turn[i].cond, &turn[i].mutex);
        }
        for (; turn[i].steps > 0; turn[i].steps--) {
            do_step();
        }
        ends = turn[i].ends;
        pthread_cond_broadcast(&turn[i].cond);
    }
    pthread_mutex_unlock(&turn[i].mutex);
    return NULL;
}

static pthread_t thread[THREADS];
static unsigned number[THREADS];

static void begin_thread(unsigned i)
{
    number[i] = i;
    turn[i].ends = false;
    ck_assert_int_eq(pthread_create(&thread[i], NULL, take_turns, &number[i]),
                     0);
}

static void end_thread(unsigned i)
{
    pthread_mutex_lock(&turn[i].mutex);
    turn[i].ends = true;
    pthread_cond_broadcast(&turn[i].cond);
    pthread_mutex_unlock(&turn[i].mutex);
    pthread_join(thread[i], NULL);
}

static void let_act(unsigned i, unsigned steps)
{
    pthread_mutex_lock(&turn[i].mutex);
    turn[i].steps = steps;
    pthread_cond_broadcast(&turn[i].cond);
    while (turn[i].steps > 0) {
        pthread_cond_wait(&turn[i].cond, &turn[i].mutex);
    }
    pthread_mutex_unlock(&turn[i].mutex);
}

/* ---- steps --------------------------------------------------------------- */

static uint64_t clock_of_play(void)
{
    return w.now;
}

static warm_stream a_stream(void)
{
    return w.stream[pick(STREAMS)];
}

/* True if it is OK; where something fails on purpose it need not be. */
static bool went(warm_status status)
{
    wt_require(status == WARM_OK || w.faults ||
                   (status == WARM_OUT_OF_MEMORY && w.limited) ||
                   (status == WARM_UNAVAILABLE && w.paused),
               "%s", warm_last_error_message());
    w.refused += (uint64_t)status;
    return status == WARM_OK;
}

static void free_one(warm_status (*how)(void *pointer))
{
    unsigned i = (unsigned)pick(w.lives);
    void *pointer = w.live[i];

    w.live[i] = w.live[--w.lives];
    if (!went(how(pointer))) {
        w.live[w.lives++] = pointer; /* nothing has changed */
    }
}

static warm_status request(enum step step, size_t bytes, void **pointer)
{
    warm_runtime *r = w.runtime;

    switch ((int)step) {
    case PINNED:
        return warm_pinned_alloc(r, bytes, pointer);
    case ALIGNED:
        return warm_pinned_alloc_aligned(r, bytes, (size_t)256 << pick(14), 0,
                                         pointer);
    case NODE:
        return warm_pinned_alloc_on(r, bytes, (int)pick(2), 0, pointer);
    case COMBINED:
        return warm_pinned_alloc_on(r, bytes, WARM_NODE_ANY,
                                    WARM_ALLOC_WRITE_COMBINED, pointer);
    case DEVICE:
        return warm_device_alloc(r, 0, a_stream(), bytes, pointer);
    default:
        return warm_shared_alloc(
            r, 0, bytes, pick(2) == 0 ? WARM_USAGE_PRIVATE : WARM_USAGE_SHARED,
            pointer);
    }
}

static void allocate(enum step step)
{
    size_t top = (size_t)1 << (w.play->least + pick(w.play->sizes));
    size_t bytes = top + pick(top);
    void *pointer = NULL;

    if (w.lives >= w.play->live) {
        free_one(warm_free);
    }
    if (went(request(step, bytes, &pointer))) {
        w.live[w.lives++] = pointer;
        w.places += (uint64_t)((char *)pointer - w.base);
    }
}

/* Without an event the library would wait for a stream that is held. */
static void refuse_waits(bool refuse)
{
    if (strchr(w.play->steps, FAULT) != NULL) {
        wt_ok(
            warm_testing_fail(w.runtime, "stream_synchronize", refuse, refuse));
    }
}

/* All that is queued on all streams. */
static void run_streams(void)
{
    refuse_waits(false);
    for (unsigned i = 0; i < STREAMS; i++) {
        wt_ok(warm_testing_resume(w.runtime, w.stream[i]));
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        (void)went(warm_stream_synchronize(w.runtime, w.stream[i]));
        wt_ok(warm_testing_hold(w.runtime, w.stream[i]));
    }
    refuse_waits(true);
}

/* Work of a stream; of all, where it may wait for another one's. */
static void run_stream(void)
{
    warm_stream stream;

    if (w.play->options.stream_wait == NULL) {
        run_streams();
    } else {
        stream = a_stream();
        wt_ok(warm_testing_step(w.runtime, stream, 1 + (unsigned)pick(6)));
    }
}

static void trim(void)
{
    size_t target = pick(3) == 0 ? 0 : pick(64) * MIB;

    run_streams(); /* it would wait */
    switch (pick(4)) {
    case 0:
        (void)went(warm_pinned_trim(w.runtime, target, NULL));
        break;
    case 1:
        (void)went(warm_device_trim(w.runtime, 0, target, NULL));
        break;
    case 2:
        (void)went(warm_shared_free_inactive(w.runtime, 0, NULL));
        break;
    default:
        target = pick(2) * MIB;
        (void)went(
            warm_handle_trim(w.runtime, w.kind, 0, pick(3), target, NULL));
    }
}

static int serves(void *context, warm_stream stream)
{
    return 1;
}

static void resume_pool(void)
{
    w.paused = w.paused && !went(warm_memory_resume(w.runtime, w.pool));
}

static void pause_pool(void)
{
    if (w.paused) {
        resume_pool();
    } else if (w.has_pool) {
        run_streams();
        for (unsigned i = 0; i < STREAMS; i++) {
            wt_ok(warm_testing_resume(w.runtime, w.stream[i]));
        }
        w.paused = went(warm_memory_pause(w.runtime, w.pool,
                                          (unsigned)pick(2) * WARM_PAUSE_DROP));
        for (unsigned i = 0; i < STREAMS; i++) {
            wt_ok(warm_testing_hold(w.runtime, w.stream[i]));
        }
    }
}

static void change_pool(void)
{
    unsigned pausable =
        strchr(w.play->steps, PAUSE) != NULL ? WARM_POOL_PAUSABLE : 0;

    if (w.records) {
        (void)went(warm_private_pool_end(w.runtime, w.pool));
        w.records = false;
    } else if (w.has_pool) {
        resume_pool();
        w.has_pool = !went(warm_private_pool_release(w.runtime, w.pool));
    } else {
        w.pool = (warm_private_pool){0};
        w.has_pool = w.records = went(warm_private_pool_begin(
            w.runtime, &w.pool, WARM_POOL_USER | pausable, serves, NULL));
    }
}

static void change_limit(void)
{
    int memory = (int)pick(2) - 1;
    uint64_t high;

    run_streams();
    high = pick(2) == 0 ? 0 : (4 + pick(60)) * MIB;
    (void)went(warm_watermarks_set(w.runtime, memory, high, high / 2));
    w.limited = true;
}

static void capture(void)
{
    warm_graph graph = NULL;

    run_streams();
    (void)went(warm_capture_begin(w.runtime, w.stream[0]));
    if (w.lives > 0) {
        (void)went(warm_record_stream(w.live[pick(w.lives)], w.stream[0]));
    }
    (void)went(warm_capture_end(w.runtime, w.stream[0], &graph));
    (void)went(warm_graph_destroy(w.runtime, graph));
}

/* On another device a thread's memory is of that one's node. */
static void use_handle(void)
{
    uint64_t devices = w.play->options.host_devices;
    int device = devices > 1 ? (int)pick(devices) : 0;
    void *handle = NULL;

    if (device > 0 || pick(3) == 0) {
        (void)went(warm_handle_reserve(w.runtime, w.kind, device, &handle));
    } else {
        (void)went(
            warm_handle_reserve_on(w.runtime, w.kind, 0, a_stream(), &handle));
    }
}

static void empty(void)
{
    run_streams();
    switch (pick(3)) {
    case 0:
        (void)went(warm_pinned_trim(w.runtime, 0, NULL));
        break;
    case 1:
        (void)went(warm_device_trim(w.runtime, 0, 0, NULL));
        break;
    default:
        (void)went(warm_trim(w.runtime, pick(64) * MIB, NULL));
    }
}

/* Memory of the program, which serves requests meanwhile. */
static void adopt(void)
{
    const size_t bytes = 8 * MIB;
    warm_status status;

    if (w.adopted == NULL) {
        w.adopted = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert_ptr_ne(w.adopted, MAP_FAILED);
        wt_ok(warm_pinned_adopt(w.runtime, w.adopted, bytes, WARM_ADOPT_SERVE));
        return;
    }
    run_streams();
    status = warm_pinned_adopt_end(w.runtime, w.adopted, NULL, NULL);
    if (status == WARM_NOT_READY) {
        w.refused++; /* a block is live */
    } else {
        wt_ok(status);
        ck_assert_int_eq(munmap(w.adopted, bytes), 0);
        w.adopted = NULL;
    }
}

static void stage(void)
{
    static char from[300000];
    size_t bytes = pick(sizeof from);
    void *to = NULL;

    if (w.staging == NULL) {
        const warm_staging_options options = {
            .size = sizeof options, .slice_bytes = 64 << 10, .slices = 8};

        (void)went(warm_staging_create(w.runtime, 0, &options, &w.staging));
    }
    run_streams();
    if (w.staging != NULL &&
        went(warm_device_alloc(w.runtime, 0, w.stream[0], sizeof from, &to))) {
        (void)went(warm_staging_copy(w.staging, to, from, bytes,
                                     WARM_COPY_TO_DEVICE, w.stream[0],
                                     WARM_STAGING_MORE));
        (void)went(warm_staging_flush(w.staging));
        (void)went(warm_free(to));
    }
}

static void lease(void)
{
    void *handle = NULL;

    if (w.lease.number != 0) {
        wt_ok(warm_handle_return(w.runtime, w.lease));
        w.lease = (warm_lease){0};
    } else {
        wt_ok(warm_handle_lease_on(w.runtime, w.kind, 0, a_stream(), &w.lease,
                                   &handle));
    }
}

static const char *const breakable[] = {
    "pinned_alloc",  "pinned_free",  "device_alloc", "device_free",
    "event_create",  "event_mark",   "event_passed", "stream_info",
    "device_memory", "stream_passed"};
enum { BREAKABLE = sizeof breakable / sizeof *breakable };

static void break_driver(void)
{
    const char *call = breakable[pick(BREAKABLE)];

    w.faults = true;
    wt_ok(warm_testing_fail(w.runtime, call, 1 + pick(5), 0));
}

static void mend_all(void)
{
    for (int i = 0; i < BREAKABLE; i++) {
        wt_ok(warm_testing_fail(w.runtime, breakable[i], 0, 0));
    }
    refuse_waits(false);
}

static enum step a_step(void)
{
    return (enum step)w.play->steps[pick(strlen(w.play->steps))];
}

static void do_rare_step(enum step step)
{
    static void (*const does[128])(void) = {
        [EMPTY] = empty, [PAUSE] = pause_pool, [ADOPT] = adopt,
        [STAGE] = stage, [LEASE] = lease,      [FAULT] = break_driver,
    };

    does[step]();
}

static void do_step_of(enum step step)
{
    warm_stream stream;

    switch ((int)step) {
    case PINNED:
    case DEVICE:
    case SHARED:
    case ALIGNED:
    case NODE:
    case COMBINED:
        allocate(step);
        break;
    case FREE:
    case DEFER:
        if (w.lives > 0) {
            free_one(step == FREE ? warm_free : warm_free_deferred);
        }
        break;
    case RECORD:
        if (w.lives > 0) {
            stream = a_stream();
            (void)went(warm_record_stream(w.live[pick(w.lives)], stream));
        }
        break;
    case RUN:
        run_stream();
        break;
    case TIME:
        w.now += pick(40 * (uint64_t)1000000);
        break;
    case POLL:
        (void)went(warm_poll(w.runtime));
        break;
    case TRIM:
        trim();
        break;
    case POOL:
        change_pool();
        break;
    case LIMIT:
        change_limit();
        break;
    case CAPTURE:
        capture();
        break;
    case HANDLE:
        use_handle();
        break;
    case TURN:
    case EXIT: /* the first thread does it */
        break;
    default:
        do_rare_step(step);
    }
}

static void do_step(void)
{
    do_step_of(a_step());
}

/* ---- figures ------------------------------------------------------------- */

static void add(const char *name, uint64_t value)
{
    unsigned i = 0;

    while (i < row_count && strcmp(rows[i].name, name) != 0) {
        i++;
    }
    if (i == row_count && value != 0) {
        ck_assert_uint_lt(row_count, ROWS);
        rows[row_count++].name = strdup(name);
    }
    if (i < row_count) {
        rows[i].value[w.number] += value;
    }
}

/* Every number below, by its path; of an array the i-th, from 1, i times. */
static void add_json(const char *path, uint64_t times, json_t *value)
{
    char name[200];
    const char *key;
    json_t *member;
    size_t i;

    if (json_is_integer(value)) {
        add(path, times * (uint64_t)json_integer_value(value));
        return;
    }
    json_object_foreach(value, key, member)
    {
        snprintf(name, sizeof name, "%s%s%s", path, *path != 0 ? "." : "", key);
        add_json(name, times, member);
    }
    json_array_foreach (value, i, member) {
        add_json(path, (i + 1) * times, member);
    }
}

static char text[1 << 20];

static void look(void)
{
    json_t *json;

    wt_ok(warm_testing_check(w.runtime, 1));
    wt_ok(warm_stats_json(w.runtime, text, sizeof text, NULL));
    json = wt_json_read(text);
    ck_assert_ptr_nonnull(json);
    add_json("", 1, json);
    json_decref(json);
}

static void add_calls(void)
{
    char name[100];
    const char *call;

    for (int i = 0; (call = warm_testing_call_name(i)) != NULL; i++) {
        snprintf(name, sizeof name, "calls.%s", call);
        add(name, wt_calls(w.runtime, call));
    }
    add("play.places", w.places);
    add("play.refused", w.refused);
    add("play.creates", w.toy.creates);
    add("play.binds", w.toy.binds);
    add("play.resets", w.toy.resets);
}

/* ---- plays --------------------------------------------------------------- */

static void begin_play(unsigned i)
{
    warm_options options = plays[i].options;

    memset(&w, 0, sizeof w);
    w.play = &plays[i];
    w.number = i;
    w.base = next_address;
    w.random = 12345 + i;
    w.now = 1000000000;
    warm_testing_set_clock(clock_of_play);
    options.size = sizeof options;
    options.test = wt_list("%s:arenas=1:numa_nodes=1:pin_threads=1",
                           options.test != NULL ? options.test : "");
    options.pinned_high = (uint64_t)8 << 30;
    options.pinned_low = (uint64_t)4 << 30;
    options.limit_wait_ms = WARM_OFF;
    options.huge_pages = "off";
    options.log = "none";
    w.runtime = wt_runtime(&options);
    wt_toy_init(&w.toy);
    w.kind = wt_toy_register(&w.toy, w.runtime, "toy");
    /* A held stream is not waited for. */
    wt_ok(warm_testing_fail(w.runtime, "event_synchronize", 1, 1));
    for (unsigned k = 0; k < STREAMS; k++) {
        wt_ok(warm_stream_create(w.runtime, 0, &w.stream[k]));
        wt_ok(warm_testing_hold(w.runtime, w.stream[k]));
    }
    refuse_waits(true);
    for (unsigned k = 1; k < THREADS; k++) {
        begin_thread(k);
    }
}

static void end_play(void)
{
    mend_all();
    resume_pool();
    if (w.lease.number != 0) {
        lease();
    }
    while (w.lives > 0) {
        free_one(warm_free);
    }
    if (w.records) {
        wt_ok(warm_private_pool_end(w.runtime, w.pool));
    }
    if (w.has_pool) {
        wt_ok(warm_private_pool_release(w.runtime, w.pool));
    }
    for (unsigned k = 1; k < THREADS; k++) {
        end_thread(k);
    }
    run_streams();
    refuse_waits(false);
    wt_ok(warm_staging_destroy(w.staging));
    if (w.adopted != NULL) {
        adopt();
    }
    for (unsigned k = 0; k < STREAMS; k++) {
        wt_ok(warm_testing_resume(w.runtime, w.stream[k]));
        wt_stream_end(w.runtime, w.stream[k]);
    }
    look();
    add_calls();
    wt_runtime_end(w.runtime);
    wt_toy_end(&w.toy);
    warm_testing_set_clock(NULL);
}

static void act_first(void)
{
    enum step step;
    unsigned i;

    step = a_step();
    i = 1 + (unsigned)pick(THREADS - 1);
    if (step == TURN) {
        let_act(i, 1 + (unsigned)pick(20));
    } else if (step == EXIT) {
        end_thread(i);
        begin_thread(i);
    } else {
        do_step_of(step);
    }
}

enum { LOOKS = 20, EACH = 100 };

static void play(unsigned i)
{
    begin_play(i);
    for (unsigned k = 0; k < LOOKS; k++) {
        for (unsigned step = 0; step < EACH; step++) {
            act_first();
        }
        look();
    }
    end_play();
}

/* ---- compared ------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static void write_rows(const char *path)
{
    FILE *file = fopen(path, "we");

    ck_assert_ptr_nonnull(file);
    for (unsigned i = 0; i < row_count; i++) {
        fprintf(file, "{\"%s\", {", rows[i].name);
        for (unsigned k = 0; k < PLAYS; k++) {
            fprintf(file, "%s%" PRIu64, k > 0 ? ", " : "", rows[i].value[k]);
        }
        fprintf(file, "}},\n");
    }
    ck_assert_int_eq(fclose(file), 0);
}

static const struct row *find_row(const struct row *in, size_t count,
                                  const char *name)
{
    size_t i = 0;

    while (i < count && strcmp(in[i].name, name) != 0) {
        i++;
    }
    return i < count ? &in[i] : NULL;
}

/* Appends the figure if it differs; returns whether. */
static bool differs(const char *name, const struct row *was,
                    const struct row *is, char *said, size_t room)
{
    static const struct row none;
    size_t length = strlen(said);
    unsigned k = 0;

    was = was != NULL ? was : &none;
    is = is != NULL ? is : &none;
    while (k < PLAYS && was->value[k] == is->value[k]) {
        k++;
    }
    if (k < PLAYS) {
        snprintf(said + length, room - length,
                 "\n  %s of play %u: %" PRIu64 ", recorded %" PRIu64, name, k,
                 is->value[k], was->value[k]);
    }
    return k < PLAYS;
}

WT_TEST(test_B2_B5_B11_B25_C2_C5_fixed_programs_end_with_the_recorded_figures)
{
    const size_t count = sizeof recorded / sizeof *recorded;
    const char *path = getenv("WT_RECORD");
    static char said[2000];
    unsigned wrong = 0;

    wt_needs(wt_on_host(), "of the host device");
    wt_needs(!WT_TSAN, "its memory comes from where ThreadSanitizer says");
    wt_needs(sysconf(_SC_PAGESIZE) == 4096, "of pages of 4 KiB");
    wt_needs(!wt_emulated(), "its memory comes from where the emulator says");
    wt_needs(reserve_addresses(), "no room for addresses");
    for (unsigned i = 0; i < PLAYS; i++) {
        play(i);
    }
    qsort(rows, row_count, sizeof *rows, by_name);
    if (path != NULL) {
        write_rows(path);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        wrong += differs(recorded[i].name, &recorded[i],
                         find_row(rows, row_count, recorded[i].name), said,
                         sizeof said);
    }
    for (unsigned i = 0; i < row_count; i++) {
        if (find_row(recorded, count, rows[i].name) == NULL) {
            wrong += differs(rows[i].name, NULL, &rows[i], said, sizeof said);
        }
    }
    ck_assert_msg(wrong == 0, "%u figures differ:%s", wrong, said);
}
