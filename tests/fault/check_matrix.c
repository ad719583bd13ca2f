/* check_matrix.c: every public call, under every fault that it can meet (row
 * T2).
 *
 * A cell is a public call with right arguments (wt_calls.h), in one of three
 * states of a runtime, while the n-th call of one point fails, once or from
 * then on: a function of the driver, an allocation of a record, a function of
 * the C library or the kernel, a callback of a program's kind, or, on the
 * stand-in, a function of CUDA. n counts up until the call meets no fault.
 *
 * Beside them blocks are freed that a stream still reads, and others allocated,
 * under each fault in turn, by runtimes with several options (row B4).
 *
 * What must hold each time: the status suits the fault, and the last error says
 * why; a success leaves the last error; a refused call has written no output,
 * changed no figure but those of table `changes`, and works once the fault is
 * gone; live blocks are whole, and a block that a stream still reads is not
 * handed out, by what the stream reads in the end; the walker finds nothing
 * wrong, and nothing is left when the runtime ends.
 *
 * WT_TABLE names a file to which each cell's outcome is appended. */
#include "wt_calls.h"
#include "wt_system.h"

#include <dlfcn.h>
#include <fnmatch.h>
#include <jansson.h>
#include <unistd.h>

enum { N_MOST = 200, POINTS_MOST = 400, VICTIMS = 3, UNCOUNTED = 6 };

enum state { FRESH, WARM, BUSY, STATES };
static const char *const state_names[] = {"fresh", "warm", "busy"};

/* Not 0: f.kind, of a library whose functions are points; else that is a toy.
 */
static warm_kind built_in;

/* ---- points at which calls fail ------------------------------------------ */

enum kind { DRIVER, RECORD, SYSTEM, TOY, CUDA };
typedef struct point {
    enum kind kind;
    int index;
    const char *name;
    uint64_t calls; /* by point_count() */
} point;

static point points[POINTS_MOST];
static int point_count;
static warm_runtime *target; /* whose driver fails */

static struct {
    uint64_t (*calls)(const char *function);
    void (*refuse)(const char *function, uint64_t n, int persistent, int code);
    const char *(*function)(unsigned i);
} standin;

static void find_standin(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

    if (library != NULL && !wt_on_gpu()) {
        *(void **)&standin.calls = dlsym(library, "standin_calls");
        *(void **)&standin.refuse = dlsym(library, "standin_fail");
        *(void **)&standin.function = dlsym(library, "standin_function");
    }
}

static void find_points(void)
{
    static const char *const toy_names[] = {"create", "destroy", "bind",
                                            "reset"};
    const char *name;

    point_count = 0;
    for (int i = 0; (name = warm_testing_call_name(i)) != NULL; i++) {
        points[point_count++] = (point){DRIVER, i, name, 0};
    }
    points[point_count++] = (point){RECORD, 0, "record", 0};
    for (int i = 0; i < WT_SYSTEM_CALLS; i++) {
        points[point_count++] = (point){SYSTEM, i, wt_system[i].name, 0};
    }
    for (int i = 0; i < 4; i++) {
        points[point_count++] = (point){TOY, i, toy_names[i], 0};
    }
    for (unsigned i = 0;
         standin.function != NULL && (name = standin.function(i)) != NULL &&
         point_count < POINTS_MOST;
         i++) {
        /* What the library cannot pop fills the thread's stack of contexts,
         * as it warns. */
        if (strcmp(name, "cuCtxPopCurrent_v2") != 0) {
            points[point_count++] = (point){CUDA, (int)i, name, 0};
        }
    }
}

static int code_of(const char *function)
{
    return strstr(function, "Alloc") != NULL ||
                   strstr(function, "MemCreate") != NULL ||
                   strstr(function, "Register") != NULL
               ? 2    /* out of memory */
               : 999; /* unknown */
}

static void arm(const point *p, uint64_t n, bool on)
{
    switch (p->kind) {
    case DRIVER:
        (void)warm_testing_fail(target, p->name, n, on);
        break;
    case RECORD:
        warm_testing_fail_metadata(n, on);
        break;
    case SYSTEM:
        wt_system_fail(p->index, n, on);
        break;
    case TOY:
        wt_toy_fail(&f.toy, (enum wt_toy_call)p->index, (unsigned)n, on);
        break;
    case CUDA:
    default:
        standin.refuse(p->name, n, on, code_of(p->name));
        break;
    }
}

/* A mode that cannot be exchanged stays. */
static void end_mode(const point *p)
{
    if (p != NULL &&
        (strcmp(p->name, "capture_mode") == 0 ||
         strcmp(p->name, "cuThreadExchangeStreamCaptureMode") == 0)) {
        (void)wt_relaxed_end();
    }
}

static uint64_t calls_of(const point *p)
{
    const atomic_uint *toy[] = {&f.toy.creates, &f.toy.destroys, &f.toy.binds,
                                &f.toy.resets};
    uint64_t count = 0;

    switch (p->kind) {
    case DRIVER:
        (void)warm_testing_calls(target, p->name, &count);
        return count;
    case RECORD:
        return wt_metadata_calls();
    case SYSTEM:
        return wt_system[p->index].calls;
    case TOY:
        return *toy[p->index];
    case CUDA:
    default:
        return standin.calls(p->name);
    }
}

/* Statuses that a call may have which meets the fault. */
static unsigned mask_of_point(const point *p)
{
    switch (p->kind) {
    case RECORD:
        return OK | M(OUT_OF_MEMORY);
    case TOY:
        return OK | M(LIBRARY_ERROR);
    case SYSTEM:
        return OK | M(OUT_OF_MEMORY) | M(UNAVAILABLE) | M(DRIVER_ERROR) |
               (built_in != 0 ? M(LIBRARY_ERROR) : 0);
    case DRIVER:
    case CUDA:
    default:
        return OK | M(OUT_OF_MEMORY) | M(DRIVER_ERROR) | M(LIBRARY_ERROR) |
               M(UNAVAILABLE);
    }
}

/* ---- what a refused call may answer and change --------------------------- */

/* Statuses that the headers give for a call beside those of the fault. */
static const struct {
    const char *call;
    unsigned mask;
    const char *why;
} answers[] = {
    {"warm_snapshot_write_html", INV, "the file cannot be written"},
    {"warm_pinned_adopt", M(UNSUPPORTED), "pages stay in forked children"},
};

enum { OF_LIBRARY = 1 << STATES }; /* beside all states */

/* call and key: patterns of fnmatch(); a key with [] is a list that has another
 * length. */
static const struct {
    const char *call, *key;
    unsigned states; /* bits, and OF_LIBRARY: only of handles of one */
    const char *why;
} changes[] = {
    {"*", "total.*", 7, "sums of the others"},
    {"*", "*driver_*", 7, "calls of the driver, and their time, are counted"},
    {"*", "*.failures", 7, "requests that ended out of memory are counted"},
    {"*", "handles.binds", 7, "calls of a kind's bind are counted"},
    {"*", "handles.failed", 7, "creations that failed are counted"},
    {"*", "*[[]]", 7, "an empty pool of a kind or device is made first"},
    {"*", "*.lost*", 7, "a block whose end the driver cannot tell leaks"},
    {"warm_*_reserve*", "handles.*", 7,
     "a handle that cannot be reset is destroyed, or deferred"},
    {"warm_*lease*", "handles.*", 7 | OF_LIBRARY,
     "the same, and a workspace was allocated, and is idle"},
    {"*", "*pending*", 1 << BUSY, "a stream reads its blocks meanwhile"},
    {"*", "*idle_bytes", 1 << BUSY, "the same: they become idle"},
    {"*", "*.reuse_delay.*", 1 << BUSY, "the same: this took so long"},
    {"warm_storage_create", "device_memory.*", 7,
     "a block was allocated, and freed again"},
    {"warm_data_pointer_clone", "device_memory.*", 7,
     "a block was allocated, and freed again"},
    {"warm_staging_create", "pinned.*", 7,
     "slices were allocated, and freed again"},
    {"warm_pinned_adopt_end", "pinned.adopted*", 7,
     "serves no request any more, and stays locked"},
    {"warm_memory_pause", "*pinned.*", 7,
     "room for the contents was allocated, and freed again"},
    {"warm_memory_pause", "device_memory.*", 7, "it is paused all the same"},
    {"warm_memory_resume", "device_memory.*", 7,
     "what was mapped stays, until the next resume"},
};

static bool may_change(const char *call, enum state state, const char *key)
{
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        if ((changes[i].states >> state & 1) != 0 &&
            (built_in != 0 || (changes[i].states & OF_LIBRARY) == 0) &&
            fnmatch(changes[i].call, call, 0) == 0 &&
            fnmatch(changes[i].key, key, 0) == 0) {
            return true;
        }
    }
    return false;
}

static bool may_answer(const char *call, const point *p, unsigned status)
{
    unsigned mask = mask_of_point(p);

    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        mask |= strcmp(call, answers[i].call) == 0 ? answers[i].mask : 0;
    }
    return (mask >> status & 1) != 0;
}

/* ---- the table ----------------------------------------------------------- */

static struct outcome {
    unsigned statuses[NONE + 1];
    char keys[2000];
} outcome;
static const char *cell_call;
static enum state cell_state;
static char cell_name[200];

static void note_change(const char *key)
{
    size_t used = strlen(outcome.keys);

    if (!may_change(cell_call, cell_state, key)) {
        fault("%s: refused, and changed %s", cell_name, key);
    }
    if (strstr(outcome.keys, key) == NULL &&
        used + strlen(key) + 2 < sizeof outcome.keys) {
        snprintf(outcome.keys + used, sizeof outcome.keys - used, " %s", key);
    }
}

/* Notes each leaf that differs. */
static void differ(json_t *a, json_t *b, const char *path)
{
    char below[300];
    const char *key;
    json_t *child;
    size_t i;

    if (json_is_object(a) && json_is_object(b)) {
        json_object_foreach(a, key, child)
        {
            snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "",
                     key);
            differ(child, json_object_get(b, key), below);
        }
    } else if (json_is_array(a) && json_is_array(b)) {
        if (json_array_size(a) != json_array_size(b)) {
            snprintf(below, sizeof below, "%s[]", path);
            note_change(below);
        }
        json_array_foreach (a, i, child) {
            differ(child, json_array_get(b, i), path);
        }
    } else if (!json_equal(a, b)) {
        note_change(path);
    }
}

static void compare_figures(const char *before, const char *after)
{
    json_t *a, *b;

    if (strcmp(before, after) == 0) {
        return;
    }
    a = json_loads(before, 0, NULL);
    b = json_loads(after, 0, NULL);
    differ(a, b, "");
    json_decref(a);
    json_decref(b);
}

static void write_row(const char *call, enum state state, const point *p,
                      bool on)
{
    const char *path = getenv("WT_TABLE");
    FILE *table = path != NULL ? fopen(path, "a") : NULL;

    if (table != NULL) {
        fprintf(table, "%-8s%-6s%-32s%-24s%-6s", wt_backend(),
                state_names[state], call, p->name, on ? "on" : "once");
        for (int s = 0; s <= NONE; s++) {
            if (outcome.statuses[s] > 0) {
                fprintf(table, " %s:%u",
                        s == NONE ? "none" : warm_status_name((warm_status)s),
                        outcome.statuses[s]);
            }
        }
        fprintf(table, "%s%s\n", outcome.keys[0] != '\0' ? "; changed" : "",
                outcome.keys);
        fclose(table);
    }
}

/* ---- a runtime ----------------------------------------------------------- */

static struct scene {
    warm_stream late;    /* its work waits until it is let go, or for long */
    warm_stream foreign; /* the same, but it is not adopted */
    _Atomic bool go;
    bool dry; /* only pageable memory can be had, and will do */
    void *result[VICTIMS];
    void *victim[VICTIMS]; /* that nobody could record */
} scene;
static int64_t records_before,
    gone; /* gone: runtimes, of which a record stays */
/* A pause whose copies nobody could wait for: their memory leaks. */
static bool leaks;

static void begin_runtime(void)
{
    records_before = wt_metadata_live();
    gone = 1;
    wt_toy_init(&f.toy);
    wt_toy_init(&f.other_toy);
    f.runtime = wt_two_devices(&(const warm_options){
        .size = sizeof(warm_options), .limit_wait_ms = 1, .history = 50});
    f.kind =
        built_in != 0 ? built_in : wt_toy_register(&f.toy, f.runtime, "toy");
    f.stream = wt_stream(f.runtime, 0);
    f.far = wt_stream(f.runtime, 1);
    wt_ok(warm_allocator_get(f.runtime, WARM_MEMORY_DEVICE, 0, &f.allocator));
}

static void begin_scenes(void)
{
    scene.late = wt_stream(f.runtime, 0);
    scene.foreign = wt_stream(f.runtime, 0);
    wt_ok(warm_stream_retire(f.runtime, scene.foreign));
    for (int i = 0; i < VICTIMS; i++) {
        scene.result[i] = wt_pinned(f.runtime, BLOCK_BYTES);
    }
}

static void end_scenes(void)
{
    wt_free_all(scene.result, VICTIMS);
    wt_stream_end(f.runtime, scene.late);
    wt_stream_end(f.runtime, scene.foreign);
}

/* Blocks whose end the driver could not tell: they leak, with their records. */
static json_int_t lost_in(json_t *figures)
{
    json_int_t count = 0;
    const char *key;
    json_t *child;
    size_t i;

    json_object_foreach(figures, key, child)
    {
        count += strcmp(key, "lost") == 0 ? json_integer_value(child)
                                          : lost_in(child);
    }
    json_array_foreach (figures, i, child) {
        count += lost_in(child);
    }
    return count;
}

static json_int_t lost_now(void)
{
    static char text_now[1 << 19];
    json_t *figures;
    json_int_t lost;

    (void)warm_stats_json(f.runtime, text_now, sizeof text_now, NULL);
    figures = json_loads(text_now, 0, NULL);
    lost = lost_in(figures);
    json_decref(figures);
    return lost;
}

static void end_runtime(void)
{
    warm_destroy_report report = {.size = sizeof report};
    int64_t lost = lost_now(), left;

    need(warm_thread_release(f.runtime));
    need(warm_stream_destroy(f.runtime, f.stream));
    need(warm_stream_destroy(f.runtime, f.far));
    need(warm_testing_check(f.runtime, 1));
    need(warm_runtime_destroy(f.runtime, &report));
    if (leaks) {
        leaks = false;
        wt_toy_free_left(&f.toy);
        return;
    }
    if (report.handles + report.live + report.pending + report.imports +
            report.pools !=
        0) {
        fault("%s: something is in use at the end", cell_name);
    }
    left = wt_metadata_live() - records_before - gone;
    if (left < 0 || left > lost) {
        fault("%s: %ld records are left, of %ld blocks that are lost",
              cell_name, (long)left, (long)lost);
    }
    wt_toy_free_left(&f.toy);
}

/* ---- blocks that a stream still reads ------------------------------------ */

static void wait_for_go(void *argument)
{
    wt_linger linger = {0};

    while (!atomic_load_explicit(&scene.go, memory_order_acquire) &&
           wt_lingers(&linger)) {
    }
}

static void *new_victim(int i, warm_stream stream)
{
    void *block = NULL;

    need(i == 0 ? warm_pinned_alloc_on(f.runtime, BLOCK_BYTES, WARM_NODE_ANY,
                                       scene.dry ? WARM_ALLOC_PAGEABLE_OK : 0,
                                       &block)
         : i == 1
             ? warm_device_alloc(f.runtime, 0, stream, BLOCK_BYTES, &block)
             : warm_shared_alloc(
                   f.runtime, 0, BLOCK_BYTES,
                   scene.dry ? WARM_USAGE_PRIVATE : WARM_USAGE_SHARED, &block));
    return block;
}

static void write_block(void *block, int word, warm_stream stream)
{
    static unsigned char pattern[BLOCK_BYTES];

    memset(pattern, word, sizeof pattern);
    need(warm_testing_copy(f.runtime, block, pattern, BLOCK_BYTES, stream));
    need(warm_stream_synchronize(f.runtime, stream));
}

/* A stream is about to read blocks of each sort. */
static void begin_reads(warm_stream by)
{
    atomic_store_explicit(&scene.go, false, memory_order_relaxed);
    for (int i = 0; i < VICTIMS; i++) {
        scene.victim[i] = new_victim(i, by);
        write_block(scene.victim[i], i + 1, by);
    }
    need(warm_stream_host_func(f.runtime, by, wait_for_go, NULL));
    for (int i = 0; i < VICTIMS; i++) {
        need(warm_testing_copy(f.runtime, scene.result[i], scene.victim[i],
                               BLOCK_BYTES, by));
    }
}

/* Frees them meanwhile; those are kept of which the stream cannot be recorded.
 */
static void free_victims(warm_stream by)
{
    for (int i = 0; i < VICTIMS; i++) {
        if (need(warm_record_stream(scene.victim[i], by))) {
            need(warm_free(scene.victim[i]));
            scene.victim[i] = NULL;
        }
    }
}

static void begin_scene(void)
{
    begin_reads(scene.late);
    free_victims(scene.late);
}

/* Overwrites what is handed out now. */
static void overwrite(void *block[2 * VICTIMS])
{
    for (int i = 0; i < 2 * VICTIMS; i++) {
        block[i] = new_victim(i % VICTIMS, f.stream);
        if (block[i] != NULL) {
            write_block(block[i], 0xee, f.stream);
        }
    }
}

/* Checks what the stream has read. */
static void end_reads(warm_stream by)
{
    atomic_store_explicit(&scene.go, true, memory_order_release);
    need(warm_stream_synchronize(f.runtime, by));
    for (int i = 0; i < VICTIMS; i++) {
        const unsigned char *bytes = scene.result[i];

        if (bytes[0] != i + 1 ||
            memcmp(bytes, bytes + 1, BLOCK_BYTES - 1) != 0) {
            fault("%s: block %d was handed out while a stream reads it",
                  cell_name, i);
        }
        need(warm_free(scene.victim[i]));
    }
}

static void end_scene(void)
{
    void *block[2 * VICTIMS];

    overwrite(block);
    end_reads(scene.late);
    for (int i = 0; i < 2 * VICTIMS; i++) {
        need(warm_free(block[i]));
    }
}

/* ---- one cell ------------------------------------------------------------ */

static unsigned char outputs[8][2048];
static const char mark[] = "0123456789012345678901234567890123456789"
                           "01234567890123456789";

static void check_refused(const struct call *c, unsigned status)
{
    warm_error error = WARM_INIT(warm_error);

    warm_last_error(&error);
    if (c->status && (error.status != status || error.message[0] == '\0')) {
        fault("%s: %s, but the last error is %s: %s", cell_name,
              warm_status_name(status), warm_status_name(error.status),
              error.message);
    }
    for (int i = 0; i < c->count; i++) {
        if (memcmp(outputs[i], area[c->domain[i]], sizeof outputs[i]) != 0) {
            fault("%s: failed, and wrote argument %d", cell_name, i);
        }
    }
}

/* Nobody counts the driver's calls once their runtime is destroyed: the first
 * few of each function fail, whether there are so many or not. */
static bool counts_end(const struct call *c, const point *p)
{
    return p->kind == DRIVER && has(c, D_OWN_RUNTIME);
}

static unsigned invoke_inside(int which, const value v[8])
{
    unsigned status;

    wt_system_inside = true;
    status = invoke(which, v);
    wt_system_inside = false;
    return status;
}

/* Makes the call; p null: without a fault, and counts what it calls. */
static unsigned call_once(int which, const value v[8], const point *p,
                          uint64_t n, bool on, bool *met)
{
    static char before[1 << 19], after[1 << 19];
    const struct call *c = &calls[which];
    uint64_t count = 0;
    char marked[sizeof((warm_error *)0)->message], said[sizeof marked];
    unsigned status;

    (void)warm_stats_json(f.runtime, before, sizeof before, NULL);
    for (int i = 0; i < c->count; i++) {
        memcpy(outputs[i], area[c->domain[i]], sizeof outputs[i]);
    }
    (void)warm_memory_tag_set(mark);
    snprintf(marked, sizeof marked, "%s", warm_last_error_message());
    if (p != NULL) {
        count = calls_of(p);
        arm(p, n, on);
    }
    for (int i = 0; p == NULL && i < point_count; i++) {
        points[i].calls = calls_of(&points[i]);
    }
    status = invoke_inside(which, v);
    snprintf(said, sizeof said, "%s", warm_last_error_message());
    for (int i = 0; p == NULL && i < point_count; i++) {
        points[i].calls = counts_end(c, &points[i])
                              ? UNCOUNTED
                              : calls_of(&points[i]) - points[i].calls;
    }
    if (p == NULL) {
        return status;
    }
    arm(p, 0, false);
    *met = counts_end(c, p) ? n <= p->calls : calls_of(p) - count >= n;
    outcome.statuses[status]++;
    if (status == WARM_OK) {
        if (strcmp(marked, said) != 0 && c->status) {
            fault("%s: a success left the error: %s", cell_name, said);
        }
        return status;
    }
    if (status != NONE && !may_answer(c->name, p, status)) {
        fault("%s: %s: %s", cell_name, warm_status_name(status),
              warm_last_error_message());
    }
    check_refused(c, status);
    (void)warm_stats_json(f.runtime, after, sizeof after, NULL);
    compare_figures(before, after);
    return status;
}

/* A capture of which no graph is made has ended, in spite of the status. */
static bool has_ended(const struct call *c, const point *p)
{
    if (!(has(c, D_CAPTURING) || has(c, D_TEST_CAPTURING)) ||
        (strcmp(p->name, "cuGraphInstantiateWithFlags") != 0 &&
         strcmp(p->name, "cuThreadExchangeStreamCaptureMode") != 0)) {
        return false;
    }
    memset(one[D_NEW_GRAPH].p, 0, sizeof(void *));
    return true;
}

/* After a failure, without a fault. Memory may be paused in spite of that. */
static unsigned try_again(int which, const value v[8])
{
    unsigned status;

    if (has(&calls[which], D_TO_PAUSE)) {
        (void)warm_memory_resume(f.runtime,
                                 (warm_private_pool){one[D_TO_PAUSE].n});
    }
    status = invoke(which, v);
    if (status != WARM_OK) {
        fault("%s: refused, and again: %s", cell_name,
              warm_last_error_message());
    }
    return status;
}

/* A thread without a context can wait for nothing. */
static bool hides_context(const point *p)
{
    return strcmp(p->name, "cudaGetDevice") == 0 ||
           strcmp(p->name, "cuCtxPushCurrent_v2") == 0 ||
           strcmp(p->name, "cuCtxGetCurrent") == 0;
}

static bool cell(int which, enum state state, const point *p, uint64_t n,
                 bool on)
{
    const struct call *c = &calls[which];
    unsigned status;
    bool met = false;
    value v[8];

    snprintf(cell_name, sizeof cell_name, "%s %s: %s %lu%s", state_names[state],
             c->name, p != NULL ? p->name : "", (unsigned long)n,
             on ? " and on" : "");
    cell_call = c->name;
    cell_state = state;
    if (state == FRESH) {
        begin_runtime();
    }
    if (state == BUSY) {
        begin_scene();
    }
    make_arguments(c, v);
    target = has(c, D_OWN_RUNTIME) ? one[D_OWN_RUNTIME].p : f.runtime;
    status = call_once(which, v, p, n, on, &met);
    end_mode(p);
    leaks |= on && p != NULL && has(c, D_TO_PAUSE) && hides_context(p);
    if (status != WARM_OK && c->status && p != NULL) {
        status = has_ended(c, p) ? WARM_OK : try_again(which, v);
    }
    drop_arguments(c, status == WARM_OK);
    if (state == BUSY) {
        end_scene();
    }
    gone += has(c, D_OWN_RUNTIME) ||
            (status == WARM_OK && (has(c, D_NEW_RUNTIME) || has(c, D_DEFAULT)));
    need(warm_testing_check(f.runtime, 1));
    if (state == FRESH) {
        end_runtime();
    }
    return met;
}

static void play_point(int which, enum state state, const point *p, bool on)
{
    uint64_t n = 1;
    unsigned seen = troubles;

    memset(&outcome, 0, sizeof outcome);
    while (n < N_MOST && cell(which, state, p, n, on)) {
        cells++;
        n++;
        if (troubles > seen + 3) {
            break;
        }
    }
    if (n == N_MOST) {
        fault("%s: more calls than %d", cell_name, N_MOST);
    }
    if (n > 1) {
        write_row(calls[which].name, state, p, on);
    }
}

/* WT_POINT names the one point to play. */
static bool is_wanted(const point *p)
{
    const char *only = getenv("WT_POINT");

    return p->calls > 0 && (only == NULL || strcmp(only, p->name) == 0);
}

static void play_call(int which, enum state state)
{
    if (state != FRESH) {
        begin_runtime();
        begin_scenes();
        (void)cell(which, state, NULL, 0, false);
    }
    (void)cell(which, state, NULL, 0, false);
    find_points(); /* CUDA's are known once they are called */
    (void)cell(which, state, NULL, 0, false);
    for (int i = 0; i < point_count; i++) {
        point p = points[i];

        for (int on = 0; is_wanted(&p) && on < 2; on++) {
            play_point(which, state, &p, on);
        }
    }
    if (state != FRESH) {
        end_scenes();
        end_runtime();
    }
}

/* ---- frees under faults ------------------------------------------------- */

/* Options of the runtimes; with "dry" their memory is pageable. */
static const char *const lives[] = {
    "",
    "pin:register,pin_chunk:2M,stream_wait:off",
    "keep:off",
    "test:numa_nodes=2,shared_memory:managed",
    "history:100,test:arenas=2",
    "dry",
};
enum { LIVES = sizeof lives / sizeof lives[0] };

static void begin_life(const char *life)
{
    bool dry = strcmp(life, "dry") == 0;

    setenv("WARMPOOL_CONF", dry ? "" : life, 1);
    begin_runtime();
    unsetenv("WARMPOOL_CONF");
    begin_scenes();
    target = f.runtime;
    scene.dry = dry;
    need(warm_testing_fail(f.runtime, "pinned_alloc", dry, 1));
}

/* A stream that waits for the test must not be waited for: n odd. */
static void arm_free(const point *p, uint64_t n, bool on)
{
    need(warm_testing_fail(f.runtime, "stream_synchronize", n % 2, 1));
    arm(p, n, on);
}

static bool free_under_fault(const point *p, uint64_t n, bool on)
{
    warm_stream by = n % 4 < 2 ? scene.late : scene.foreign;
    void *block[4 * VICTIMS];
    uint64_t count;
    bool met;

    snprintf(cell_name, sizeof cell_name, "a free: %s %lu%s", p->name,
             (unsigned long)n, on ? " and on" : "");
    begin_reads(by);
    quiet = true;
    count = calls_of(p);
    arm_free(p, n, on);
    free_victims(by);
    overwrite(block);
    (void)warm_poll(f.runtime);
    (void)warm_trim(f.runtime, 0, NULL); /* closes batches, and polls */
    overwrite(&block[2 * VICTIMS]);
    met = calls_of(p) - count >= n;
    arm_free(p, 0, false);
    end_mode(p);
    quiet = false;
    end_reads(by);
    need(warm_stream_synchronize(f.runtime, f.stream));
    for (int i = 0; i < 4 * VICTIMS; i++) {
        need(warm_free(block[i]));
    }
    need(warm_poll(f.runtime));
    need(warm_testing_check(f.runtime, 0));
    cells++;
    return met;
}

static void play_frees(const char *life)
{
    begin_life(life);
    find_points();
    for (int i = 0; i < point_count; i++) {
        point p = points[i];

        /* In a dry life it fails anyway. */
        if (p.kind == TOY ||
            (scene.dry && strcmp(p.name, "pinned_alloc") == 0)) {
            continue;
        }
        for (int on = 0; on < 2; on++) {
            uint64_t n = 1;

            while (n < N_MOST && troubles < 20 &&
                   free_under_fault(&p, n, on != 0)) {
                n++;
            }
        }
    }
    end_scenes();
    end_runtime();
}

/* ---- the tests ----------------------------------------------------------- */

/* All calls in all states if WT_SCALE is 300 or more (make faults), else a part
 * of them. WT_CALL names the one call to play. The variants for threads' own
 * default streams differ in the stream's name alone. */
static bool is_played(int i, enum state state)
{
    const char *only = getenv("WT_CALL");
    int stride = (int)(300 / wt_scaled(100));

    if (strstr(calls[i].name, "_ptsz") != NULL) {
        return false;
    }
    return only != NULL ? strcmp(only, calls[i].name) == 0
                        : stride < 2 || (i + (int)state) % stride == 0;
}

static void set_up(void)
{
    wt_peer *peer = wt_peer_start(2);

    memset(&f, 0, sizeof f);
    setenv("STANDIN_DEVICES", "2", 1); /* read once, by the first runtime */
    f.other = wt_runtime(NULL);
    f.peer = peer;
    f.handle = wt_peer_export(peer, 0, 0, BLOCK_BYTES, 7);
    wt_ok(warm_memory_tag_set("matrix"));
    wt_folder(f.folder);
    snprintf(f.html, sizeof f.html, "%s/page", f.folder);
    find_standin();
}

static void tear_down(void)
{
    wt_runtime_end(f.other);
    wt_peer_free(f.peer, 0);
    wt_peer_end(f.peer);
    wt_folder_end(f.folder);
}

WT_CASE("matrix", .setup = set_up, .teardown = tear_down, .timeout = 120);

/* A call that the fault refuses, and that works without it. */
static warm_status refused_by(const char *name, enum kind kind)
{
    warm_status status[2] = {WARM_OK, WARM_OK};
    const point *p = points;
    void *out = NULL;

    while (p < points + point_count &&
           (p->kind != kind || strcmp(p->name, name) != 0)) {
        p++;
    }
    ck_assert_msg(p < points + point_count, "no point: %s", name);
    for (int i = 0; i < 2; i++) {
        arm(p, i == 0, true);
        wt_system_inside = true;
        status[i] = kind == TOY
                        ? warm_handle_reserve(f.runtime, f.kind, 0, &out)
                        : warm_pinned_alloc(f.runtime, BLOCK_BYTES, &out);
        wt_system_inside = false;
    }
    wt_ok(status[1]);
    if (kind != TOY) {
        wt_ok(warm_free(out));
    }
    return status[0];
}

/* Else no cell could be wrong. */
WT_TEST(test_T2_a_fault_of_each_kind_is_met)
{
    static const struct {
        const char *name;
        enum kind kind;
        warm_status status;
    } faults[] = {{"pinned_alloc", DRIVER, WARM_OUT_OF_MEMORY},
                  {"record", RECORD, WARM_OUT_OF_MEMORY},
                  {"mmap", SYSTEM, WARM_OUT_OF_MEMORY},
                  {"create", TOY, WARM_LIBRARY_ERROR},
                  {"cuMemHostAlloc", CUDA, WARM_OUT_OF_MEMORY}};

    wt_ok(warm_free(wt_pinned(f.other, BLOCK_BYTES)));
    find_points(); /* CUDA's are known once they are called */
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if ((faults[i].kind == SYSTEM && (WT_TSAN || wt_on_gpu())) ||
            (faults[i].kind == CUDA && (wt_on_host() || wt_on_gpu()))) {
            continue; /* there is none */
        }
        begin_runtime();
        target = f.runtime;
        ck_assert_msg(refused_by(faults[i].name, faults[i].kind) ==
                          faults[i].status,
                      "%s", faults[i].name);
        end_runtime();
    }
    no_trouble();
}

enum { PARTS = 12 };

WT_LOOP_TEST(test_T2_every_call_under_every_fault, PARTS *STATES)
{
    enum state state = (enum state)(_i % STATES);

    for (int i = _i / STATES; i < CALLS; i += PARTS) {
        if (is_played(i, state)) {
            play_call(i, state);
        }
    }
    no_trouble();
}

/* Functions of cuBLAS fail as well, and there are workspaces. */
WT_LOOP_TEST(test_A8_A10_T2_every_call_with_handles_of_cublas_under_every_fault,
             wt_on_host() || wt_on_gpu() ? 0 : STATES)
{
    built_in = WARM_KIND_CUBLAS;
    for (int i = 0; i < CALLS; i++) {
        const struct call *c = &calls[i];

        if (is_played(i, (enum state)_i) &&
            (has(c, D_KIND) || has(c, D_LEASE) || has(c, D_LEASE_TAKEN))) {
            play_call(i, (enum state)_i);
        }
    }
    no_trouble();
}

WT_LOOP_TEST(test_B4_B12_C1_F2_T2_no_fault_frees_what_a_stream_reads, LIVES)
{
    play_frees(lives[_i]);
    no_trouble();
}
