/* check_misuse.c: every public function, called with each wrong argument and
 * at each wrong time (row T7).
 *
 * misuse.h lists the functions. Each argument is of a domain: how a right value
 * is made and ended, and which values are wrong. A cell is a call with one
 * wrong value; it must answer with a status that suits the value, say why,
 * write no output and change no figure; what was right before must work after
 * it. Each call also meets a second call with the same objects, and objects of
 * another runtime. Wrong times: after destroy, in a forked child, once exit()
 * has begun, in callbacks, in and beside a capture, in a thread that has
 * nothing.
 */
#include "wt_calls.h"

#include <sys/wait.h>
#include <unistd.h>

static char foreign[8192] __attribute__((aligned(4096)));
static bool again = true; /* a refused call is made twice */

/* Blanks the figure that counts refused requests. */
static void blank(char *json, const char *key)
{
    for (char *at = json; (at = strstr(at, key)) != NULL;) {
        at += strlen(key);
        memmove(at, at + strspn(at, "0123456789"),
                strlen(at + strspn(at, "0123456789")) + 1);
    }
}

/* All figures that no refused call changes; "" if they cannot be read. */
static char *digest(char *json, size_t bytes)
{
    size_t at = 0;

    json[0] = '\0';
    if (warm_stats_json(f.runtime, json, bytes, NULL) != WARM_OK) {
        return json;
    }
    at = strlen(json);
    if (warm_stats_json(f.other, json + at, bytes - at, NULL) != WARM_OK) {
        fault("the figures of the other runtime cannot be read");
    }
    blank(json, "\"failures\":");
    blank(json, "\"retries\":");
    at = strlen(json);
    snprintf(json + at, bytes - at, " tag %s", warm_memory_tag_get());
    return json;
}

/* All calls of the driver but two that only describe what is there. */
static uint64_t driver_calls(void)
{
    uint64_t all = 0, count = 0;
    const char *name;

    for (int i = 0; (name = warm_testing_call_name(i)) != NULL; i++) {
        if (strcmp(name, "stream_info") != 0 &&
            strcmp(name, "device_info") != 0) {
            (void)warm_testing_calls(f.runtime, name, &count);
            all += count;
        }
    }
    return all;
}

static void compare(const char *cell, const char *before, const char *after)
{
    size_t same = 0;

    while (before[same] != '\0' && before[same] == after[same]) {
        same++;
    }
    if (before[same] != after[same]) {
        same = same > 60 ? same - 60 : 0;
        fault("%s: refused, and changed ...%.90s... to ...%.90s...", cell,
              before + same, after + same);
    }
}

/* The status, after all that must hold of any call was checked. */
static unsigned attempt(int which, const value v[8], unsigned mask,
                        const char *cell)
{
    static char before[1 << 19], after[1 << 19];
    static unsigned char outputs[8][2048];
    static const char mark[] = "0123456789012345678901234567890123456789"
                               "01234567890123456789";
    const struct call *c = &calls[which];
    warm_error error = WARM_INIT(warm_error);
    char marked[sizeof error.message];
    uint64_t before_calls = driver_calls();
    unsigned status;
    int64_t records;

    cells++;
    digest(before, sizeof before);
    for (int i = 0; i < c->count; i++) {
        memcpy(outputs[i], area[c->domain[i]], sizeof outputs[i]);
    }
    (void)warm_memory_tag_set(mark); /* too long: the last error is known */
    snprintf(marked, sizeof marked, "%s", warm_last_error_message());
    status = invoke(which, v);
    warm_last_error(&error);
    if ((mask >> status & 1) == 0) {
        fault("%s: %s: %s", cell,
              status == NONE ? "no answer" : warm_status_name(status),
              warm_last_error_message());
    }
    if (status == WARM_OK) {
        return status;
    }
    if (c->status && (error.status != status || error.message[0] == '\0' ||
                      (strcmp(error.message, marked) == 0 && !has(c, D_TAG)))) {
        fault("%s: %s, but the last error is %s: %s", cell,
              warm_status_name(status), warm_status_name(error.status),
              error.message);
    }
    for (int i = 0; i < c->count && status != WARM_TRUNCATED; i++) {
        if (memcmp(outputs[i], area[c->domain[i]], sizeof outputs[i]) != 0) {
            fault("%s: failed, and wrote argument %d", cell, i);
        }
    }
    if ((M_REFUSED >> status & 1) != 0 && driver_calls() != before_calls) {
        fault("%s: refused, after the driver was called", cell);
    }
    compare(cell, before, digest(after, sizeof after));
    records = wt_metadata_live();
    if (again &&
        (invoke(which, v) != status || wt_metadata_live() != records)) {
        fault("%s: another time it ends otherwise, or leaves %ld records", cell,
              (long)(wt_metadata_live() - records));
    }
    return status;
}

static bool in_list(const struct call *c, const enum domain *list)
{
    for (; *list != DOMAIN_COUNT; list++) {
        if (has(c, *list)) {
            return true;
        }
    }
    return false;
}

/* Statuses of cells that the values alone do not tell. */
static unsigned other_mask(const char *call, const char *argument,
                           const char *name, unsigned mask)
{
    static const struct {
        const char *call, *argument, *bad; /* null: any */
        unsigned mask;
    } except[] = {
        /* handles of a program's kind come from no library */
        {"warm_kind_library", NULL, "right", M(NOT_FOUND)},
        {"warm_kind_library", "TEXT_BYTES", NULL, M(NOT_FOUND)},
    };

    if (!wt_on_host() && mask != M(RUNTIME_GONE) && mask != INV &&
        (strncmp(call, "warm_testing_hold", 17) == 0 ||
         strncmp(call, "warm_testing_step", 17) == 0 ||
         strncmp(call, "warm_testing_resume", 19) == 0)) {
        return M(UNSUPPORTED);
    }
    for (size_t i = 0; i < sizeof except / sizeof except[0]; i++) {
        if (strncmp(call, except[i].call, strlen(except[i].call)) == 0 &&
            (except[i].argument == NULL ||
             strcmp(argument, except[i].argument) == 0) &&
            (except[i].bad == NULL || strcmp(name, except[i].bad) == 0)) {
            return except[i].mask;
        }
    }
    return mask;
}

/* Puts the wrong value in place; false: there is none here. */
static bool spoil(const bad *b, value *v)
{
    static char longest[64] = "a tag that is longer than it may be: 48 bytes "
                              "are the most";
    static char path[] = "/nonexistent/folder/file";
    static _Alignas(64) unsigned char scratch[2048];
    value made = {0};

    switch (b->how) {
    case SET:
        v->p = (void *)(uintptr_t)b->n;
        v->n = (uint64_t)b->n;
        break;
    case ADD:
        v->p = (char *)v->p + b->n;
        break;
    case SIZE:
        memcpy(v->p, &b->n, sizeof b->n);
        break;
    case FIELD:
        memset((char *)v->p + b->n, 0, sizeof(void *));
        break;
    case RATE:
        v->d = b->n == 99 ? NAN : (double)b->n;
        break;
    case DEAD: /* one that was ended */
        made.p = scratch;
        domains[b->n].make(&made);
        domains[b->n].drop(&made, false);
        v->p = made.p;
        v->n = made.n;
        break;
    case OF_FIXTURE:
    default:
        v->p = b->n == -1   ? foreign
               : b->n == -2 ? path
               : b->n == -3 ? longest
                            : *(void **)(void *)((char *)&f + b->n);
        return v->p != NULL;
    }
    return true;
}

/* ---- each wrong argument ------------------------------------------------- */

/* A success ends the object, or makes what exists once: a second call with the
 * same arguments is an error. */
static const enum domain once_only[] = {
    D_BLOCK,         D_DEVICE_BLOCK, D_BUFFER_TAKEN, D_LEASE_TAKEN,
    D_STREAM_TAKEN,  D_EVENT_TAKEN,  D_GRAPH_TAKEN,  D_POOL_TAKEN,
    D_UNCACHED,      D_OWN_RUNTIME,  D_IMPORT,       D_ADOPTED,
    D_CALLBACK_NAME, D_REGISTERED,   D_RECORDING,    D_PAUSED,
    D_TO_PAUSE,      D_CAPTURING,    D_ANNOUNCED,    D_USED,
    D_CALLBACK,      D_KIND_OPS,     D_MAPPED,       D_TO_BEGIN,
    D_NEW_ALLOCATOR, D_TO_CAPTURE,   DOMAIN_COUNT};

/* Objects of one runtime; on the host device also those of its driver. */
static const enum domain of_one_runtime[] = {
    D_KIND,     D_LEASE_TAKEN, D_LEASE,     D_POOL,      D_POOL_TAKEN,
    D_TO_PAUSE, D_PAUSED,      D_RECORDING, D_TO_RETAIN, D_CALLBACK_NAME,
    D_ADOPTED,  D_REGISTERED,  D_IMPORT,    D_BUFFERS,   DOMAIN_COUNT};
static const enum domain of_one_driver[] = {
    D_ANY_STREAM, D_STREAM_TAKEN, D_EVENT,     D_EVENT_TAKEN, D_GRAPH,
    D_CAPTURING,  D_GRAPH_TAKEN,  D_ANNOUNCED, D_HELD,        DOMAIN_COUNT};
static const enum domain of_one_device[] = {D_DEVICE, D_LEASE, D_RING,
                                            DOMAIN_COUNT};

/* Plays a cell; b null: every argument is right. */
static void play(int which, int argument, const bad *b, unsigned mask)
{
    const struct call *c = &calls[which];
    const char *name = b != NULL ? b->name : "right";
    const char *domain = b != NULL ? domains[c->domain[argument]].name : "";
    unsigned status = NONE;
    char cell[200];
    value v[8];

    snprintf(cell, sizeof cell, "%s(%s %s)", c->name, name, domain);
    make_arguments(c, v);
    if (b == NULL || spoil(b, &v[argument])) {
        status =
            attempt(which, v, other_mask(c->name, domain, name, mask), cell);
    }
    if (b == NULL && status == WARM_OK && in_list(c, once_only)) {
        snprintf(cell, sizeof cell, "%s() twice", c->name);
        attempt(which, v, ~OK, cell);
    }
    drop_arguments(c, status == WARM_OK && (b == NULL || c->status));
}

static unsigned mask_of(const struct call *c, int i, const bad *b)
{
    if (b->mask == (INV | OK) && in_list(c, of_one_device)) {
        return b->mask & ~OK;
    }
    return c->status ? b->mask : b->mask | OK | 1u << NONE;
}

static void play_arguments(int which)
{
    static const bad others = {
        "of the other runtime", OF_FIXTURE, offsetof(struct fixture, other),
        INV | M(NOT_FOUND) | M(INVALID_POINTER) | M(INVALID_STREAM)};
    const struct call *c = &calls[which];

    play(which, 0, NULL, c->status ? OK : OK | 1u << NONE);
    for (int i = 0; i < c->count; i++) {
        const bad *b = domains[c->domain[i]].bads;

        for (; b != NULL && b->name != NULL; b++) {
            play(which, i, b, mask_of(c, i, b));
        }
    }
    if (c->domain[0] == D_RUNTIME &&
        (in_list(c, of_one_runtime) ||
         (wt_on_host() && in_list(c, of_one_driver)))) {
        play(which, 0, &others, c->status ? others.mask : 1u << NONE);
    }
    play(which, 0, NULL, c->status ? OK : OK | 1u << NONE);
}

/* ---- a runtime with two devices, one that is gone, and another ----------- */

static warm_runtime *new_runtime(wt_toy *toy)
{
    warm_options options = {.size = sizeof options, .limit_wait_ms = 1};
    warm_runtime *runtime = wt_two_devices(&options);

    wt_toy_init(toy);
    return runtime;
}

static void make_gone(void)
{
    const warm_staging_options *ring = &small_ring;

    f.gone = wt_runtime(NULL);
    f.gone_block = wt_pinned(f.gone, BLOCK_BYTES);
    f.gone_device_block = wt_device(f.gone, NULL, BLOCK_BYTES);
    wt_ok(warm_allocator_get(f.gone, WARM_MEMORY_PINNED, WARM_NO_DEVICE,
                             &f.gone_allocator));
    wt_ok(warm_staging_create(f.gone, 0, ring, &f.gone_ring));
    wt_ok(warm_runtime_destroy(f.gone, NULL));
}

static void make_fixture(void)
{
    memset(&f, 0, sizeof f);
    troubles = cells = calls_made = 0;
    f.runtime = new_runtime(&f.toy);
    f.other = wt_runtime(NULL);
    make_gone();
    f.kind = wt_toy_register(&f.toy, f.runtime, "toy");
    f.stream = wt_stream(f.runtime, 0);
    f.far = wt_stream(f.runtime, 1);
    wt_ok(warm_allocator_get(f.runtime, WARM_MEMORY_DEVICE, 0, &f.allocator));
    wt_ok(warm_memory_tag_set("misuse"));
    wt_ok(warm_thread_set_stream(f.runtime, NULL));
    wt_folder(f.folder);
    snprintf(f.html, sizeof f.html, "%s/page", f.folder);
}

static void set_up(void)
{
    wt_peer *peer = wt_peer_start(2);
    value v = {0};

    make_fixture();
    f.peer = peer;
    f.handle = wt_peer_export(peer, 0, 0, BLOCK_BYTES, 7);
    f.page_block = wt_pinned(f.runtime, 65536);
    make_adopted(&v);
    f.adopted_page = v.p;
}

static void tear_down(void)
{
    wt_ok(warm_testing_check(f.runtime, 1));
    wt_ok(warm_pinned_adopt_end(f.runtime, f.adopted_page, NULL, NULL));
    munmap(f.adopted_page, 65536);
    wt_free(f.page_block);
    wt_ok(warm_stream_destroy(f.runtime, f.stream));
    wt_ok(warm_stream_destroy(f.runtime, f.far));
    wt_runtime_end(f.runtime);
    wt_runtime_end(f.other);
    wt_toy_end(&f.toy);
    wt_fails(WARM_RUNTIME_GONE, warm_staging_destroy(f.gone_ring));
    wt_peer_free(f.peer, 0);
    wt_peer_end(f.peer);
    wt_folder_end(f.folder);
}

WT_CASE("arguments", .setup = set_up, .teardown = tear_down, .timeout = 240);

WT_TEST(test_T7_every_wrong_argument_is_refused)
{
    for (int i = 0; i < CALLS; i++) {
        play_arguments(i);
    }
    no_trouble();
    ck_assert_uint_gt(calls_made, cells);
    ck_assert_uint_gt(cells, 2000);
}

/* ---- wrong times --------------------------------------------------------- */

static void make_all(void)
{
    for (int d = 0; d < DOMAIN_COUNT; d++) {
        make((enum domain)d);
    }
}

static void drop_all(void)
{
    for (int d = DOMAIN_COUNT - 1; d >= 0; d--) {
        domains[d].drop(&one[d], false);
    }
}

/* Makes each call once, with what make_all() has made. named: statuses of calls
 * that name the runtime or its memory; others: of all others, of which some end
 * what a later one would use. */
static void play_all(const char *when, unsigned named, unsigned others)
{
    static const enum domain owned[] = {
        D_RUNTIME, D_ALLOCATOR, D_RING,         D_RING_TAKEN, D_BLOCK,
        D_INTO,    D_USED,      D_DEVICE_BLOCK, D_BUFFER,     D_BUFFER_TAKEN,
        D_TO_USE,  D_SHAPED,    D_INTO_DEVICE,  DOMAIN_COUNT};
    char cell[200];
    value v[8];

    again = false;
    for (int which = 0; which < CALLS; which++) {
        const struct call *c = &calls[which];

        for (int i = 0; i < c->count; i++) {
            v[i] = one[c->domain[i]];
        }
        snprintf(cell, sizeof cell, "%s %s", c->name, when);
        attempt(which, v,
                !c->status          ? OK | 1u << NONE
                : in_list(c, owned) ? named
                                    : others,
                cell);
    }
}

WT_CASE("gone", .setup = set_up, .timeout = 60);

WT_TEST(test_T7_every_call_on_a_destroyed_runtime_says_so)
{
    make_all();
    wt_ok(warm_runtime_destroy(f.runtime, NULL));
    play_all("after destroy", M(RUNTIME_GONE), OK | M(RUNTIME_GONE) | INV);
    wt_peer_die(f.peer);
    wt_folder_end(f.folder);
    no_trouble();
}

WT_CASE("child", .setup = set_up, .teardown = tear_down, .timeout = 60);

WT_TEST(test_T7_every_call_in_a_child_says_so_and_changes_nothing)
{
    static char before[1 << 19], after[1 << 19];
    int status = 0;
    pid_t pid;

    make_all();
    no_trouble();
    digest(before, sizeof before);
    pid = fork();
    if (pid == 0) {
        /* a new runtime: the stand-in says in a child that CUDA shuts down */
        play_all("in a child", M(FORKED),
                 OK | M(FORKED) | INV | (wt_on_host() ? 0 : M(EXITING)));
        _exit(troubles != 0);
    }
    wt_require(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "died");
    compare("a child", before, digest(after, sizeof after));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    drop_all();
    no_trouble();
}

WT_CASE("exit", .timeout = 60);

static void play_exiting(void)
{
    play_all("at exit", OK | M(EXITING), OK | M(EXITING) | INV);
    wt_peer_die(f.peer);
    _exit(troubles != 0);
}

WT_TEST(test_T7_every_call_after_exit_has_begun_is_harmless)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        atexit(play_exiting); /* before the library's: runs after it */
        set_up();
        make_all();
        exit(0);
    }
    wt_require(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "died");
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

/* ---- while a thread captures -------------------------------------------- */

static struct {
    pthread_barrier_t barrier;
    warm_stream stream;
    warm_status began, ended;
} capture;

static void finish_capture(void)
{
    warm_graph graph = NULL;

    capture.ended = warm_capture_end(f.runtime, capture.stream, &graph);
    (void)warm_graph_destroy(f.runtime, graph);
}

static void *capture_beside(void *argument)
{
    capture.began = warm_capture_begin(f.runtime, capture.stream);
    pthread_barrier_wait(&capture.barrier);
    pthread_barrier_wait(&capture.barrier);
    finish_capture();
    return NULL;
}

/* What CUDA forbids a thread that captures, in its thread-local mode. */
static bool breaks_own_capture(const char *call)
{
    static const char *const names[] = {
        "warm_stream_synchronize", "warm_stream_query", "warm_event_query",
        "warm_event_synchronize", "warm_device_alloc_uncached"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strncmp(call, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* own: the thread that captures makes the call. Waits for what the table's
 * calls may have left to the end of a capture. */
static void play_with_capture(int which, bool own)
{
    const struct call *c = &calls[which];
    unsigned status;
    pthread_t thread;
    char cell[200];
    value v[8];

    snprintf(cell, sizeof cell, "%s %s a capture", c->name,
             own ? "in" : "beside");
    make_arguments(c, v);
    if (own) {
        capture.began = warm_capture_begin(f.runtime, capture.stream);
    } else {
        pthread_create(&thread, NULL, capture_beside, NULL);
        pthread_barrier_wait(&capture.barrier);
    }
    status = attempt(which, v,
                     c->status ? other_mask(c->name, "", "right", OK) |
                                     M(CAPTURE_ERROR)
                               : OK | 1u << NONE,
                     cell);
    if (own) {
        finish_capture();
    } else {
        pthread_barrier_wait(&capture.barrier);
        pthread_join(thread, NULL);
    }
    if (capture.began != WARM_OK ||
        (capture.ended != WARM_OK && !(own && breaks_own_capture(c->name)))) {
        fault("%s: the capture began with %s, ended with %s", cell,
              warm_status_name(capture.began), warm_status_name(capture.ended));
    }
    drop_arguments(c, status == WARM_OK);
}

WT_CASE("capture", .setup = set_up, .teardown = tear_down, .timeout = 60);

WT_LOOP_TEST(test_B7_T7_no_call_breaks_a_capture, 2)
{
    again = false;
    pthread_barrier_init(&capture.barrier, NULL, 2);
    capture.stream = new_stream();
    for (int i = 0; i < CALLS; i++) {
        play_with_capture(i, _i == 1);
    }
    end_stream(capture.stream);
    no_trouble();
}

/* ---- in a thread that has nothing ---------------------------------------- */

/* The call that the next callback, or the thread, makes; which -1: none. */
static struct {
    int which;
    unsigned status, also; /* also: statuses beside those of success */
    bool ended;
    value v[8];
    char cell[200];
} inside = {.which = -1};

/* Calls may be refused in a callback, as those that would wait for it. */
static void play_inside(void)
{
    int which = inside.which;

    if (which >= 0) {
        inside.which = -1;
        inside.status = attempt(
            which, inside.v,
            calls[which].status
                ? other_mask(calls[which].name, "", "right", OK) | inside.also
                : OK | 1u << NONE,
            inside.cell);
    }
}

/* The thread is cancelled already: any point of cancellation ends it. */
static void *play_inside_thread(void *argument)
{
    pthread_cancel(pthread_self());
    play_inside();
    inside.ended = true;
    pthread_testcancel();
    return NULL;
}

WT_CASE("thread", .setup = set_up, .teardown = tear_down, .timeout = 60);

WT_TEST(test_A4_G6_T3_T7_every_call_works_in_a_new_thread_that_is_cancelled)
{
    again = false;
    for (int i = 0; i < CALLS; i++) {
        pthread_t thread;

        if (has(&calls[i], D_TO_CAPTURE) || has(&calls[i], D_TO_TEST_CAPTURE)) {
            continue; /* the capture must end in its thread */
        }
        make_arguments(&calls[i], inside.v);
        snprintf(inside.cell, sizeof inside.cell, "%s in a thread",
                 calls[i].name);
        inside.which = i;
        inside.also = M(CAPTURE_ERROR); /* it ends in the thread of its begin */
        inside.ended = false;
        pthread_create(&thread, NULL, play_inside_thread, NULL);
        pthread_join(thread, NULL);
        if (!inside.ended) {
            fault("%s: cancelled inside", inside.cell);
        }
        drop_arguments(&calls[i], inside.status == WARM_OK);
    }
    no_trouble();
}

/* ---- in callbacks -------------------------------------------------------- */

static void hear(void)
{
    pthread_testcancel();
    play_inside();
}

static int hear_shortage(void *context, warm_memory_event event, void *buffer,
                         size_t bytes)
{
    hear();
    return 0;
}

static void with_shortage(void)
{
    warm_memory_callback callback = {.size = sizeof callback,
                                     .name = "inside",
                                     .function = hear_shortage,
                                     .events = WARM_MEMORY_FAILED};
    void *block = NULL;

    need(warm_memory_callback_add(f.runtime, &callback));
    (void)warm_pinned_alloc(f.runtime, SIZE_MAX, &block);
    need(warm_memory_callback_remove(f.runtime, "inside"));
}

static int create_inside(void *context, int device, void **handle)
{
    hear();
    return WT_TOY_CODE;
}

static int create_any(void *context, int device, void **handle)
{
    *handle = foreign;
    return 0;
}

static int destroy_none(void *context, int device, void *handle)
{
    return 0;
}

static int destroy_inside(void *context, int device, void *handle)
{
    hear();
    return 0;
}

static int bind_inside(void *context, int device, void *handle,
                       warm_stream stream)
{
    hear();
    return 0;
}

/* The second one's create hears nothing. */
static warm_kind inside_kind, bound_kind;

static void with_create(void)
{
    void *handle = NULL;

    (void)warm_handle_reserve(f.runtime, inside_kind, 0, &handle);
}

static void with_bind(void)
{
    warm_lease lease = {0};
    void *handle = NULL;

    need(warm_handle_lease_on(f.runtime, bound_kind, 0, f.stream, &lease,
                              &handle));
    need(warm_handle_return(f.runtime, lease));
}

static void with_destroy(void)
{
    need(warm_handle_prewarm(f.runtime, bound_kind, 0, 1, 0));
    need(warm_handle_trim(f.runtime, bound_kind, 0, 0, 0, NULL));
}

static void hear_segment(void *context, warm_memory_event event,
                         const warm_segment *segment)
{
    hear();
}

static void with_segment(unsigned event)
{
    warm_memory_callback callback = {.size = sizeof callback,
                                     .name = "segment",
                                     .segment = hear_segment,
                                     .events = event};
    void *block = NULL;

    need(warm_device_trim(f.runtime, 0, 0, NULL));
    need(warm_memory_callback_add(f.runtime, &callback));
    need(warm_device_alloc(f.runtime, 0, f.stream, 40 << 20, &block));
    need(warm_free(block));
    need(warm_device_trim(f.runtime, 0, 0, NULL));
    need(warm_memory_callback_remove(f.runtime, "segment"));
}

static void with_obtained(void)
{
    with_segment(WARM_MEMORY_OBTAINED);
}

static void with_returning(void)
{
    with_segment(WARM_MEMORY_RETURNING);
}

static void log_inside(void *context, warm_log_level level, const char *line)
{
    hear();
}

static void with_log(void)
{
    warm_options options = {
        .size = sizeof options, .device = "host", .log = "info"};
    warm_runtime *made = NULL;

    warm_log_set(log_inside, NULL);
    need(warm_runtime_create(&options, &made));
    warm_log_set(NULL, NULL);
    need(warm_runtime_destroy(made, NULL));
}

static int report_progress(void *context, size_t ready, size_t total)
{
    hear();
    return 0;
}

static void with_prewarm(void)
{
    warm_prewarm_options options = {.size = sizeof options,
                                    .progress = report_progress};

    (void)warm_pinned_trim(f.runtime, 0, NULL);
    need(warm_pinned_prewarm_with(f.runtime, 8 << 20, 0, 0, &options));
}

static void end_inside(void *context)
{
    hear();
}

static void with_end_of_adoption(void)
{
    value v = {0};

    make_adopted(&v);
    need(warm_pinned_adopt_end(f.runtime, v.p, end_inside, NULL));
    munmap(v.extra, 65536);
}

static void with_deleter(void)
{
    warm_data_pointer data = {.size = sizeof data,
                              .data = foreign,
                              .context = foreign,
                              .deleter = end_inside};

    warm_data_pointer_free(&data);
}

static warm_status alloc_inside(void *context, size_t bytes, warm_stream stream,
                                warm_data_pointer *data)
{
    hear();
    return WARM_UNAVAILABLE;
}

static void with_allocator(void)
{
    warm_allocator own = {.size = sizeof own,
                          .name = "inside",
                          .memory = WARM_MEMORY_HOST,
                          .device = WARM_NO_DEVICE,
                          .alloc = alloc_inside};
    warm_data_pointer data = WARM_INIT(warm_data_pointer);

    (void)warm_data_pointer_alloc(&own, 8, NULL, &data);
}

/* A pool's filter and a host function may make no calls. */
static const struct {
    const char *name;
    void (*with)(void);
    bool late; /* not while a stream captures, or a pool records */
} callbacks[] = {{"a memory callback", with_shortage, false},
                 {"a segment's callback", with_obtained, true},
                 {"the callback of its return", with_returning, true},
                 {"a create", with_create, false},
                 {"a bind", with_bind, false},
                 {"a destroy", with_destroy, true},
                 {"the log", with_log, false},
                 {"a progress", with_prewarm, false},
                 {"the end of an adoption", with_end_of_adoption, true},
                 {"a deleter", with_deleter, false},
                 {"an allocator", with_allocator, false}};

static void *call_back_cancelled(void *number)
{
    pthread_cancel(pthread_self());
    callbacks[*(int *)number].with();
    inside.ended = true;
    pthread_testcancel();
    return NULL;
}

WT_CASE("callbacks", .setup = set_up, .teardown = tear_down, .timeout = 120);

WT_LOOP_TEST(test_T3_T7_every_call_in_a_callback_is_harmless,
             sizeof callbacks / sizeof callbacks[0])
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "inside",
                         .create = create_inside,
                         .destroy = destroy_none};
    warm_kind_ops bound = {.size = sizeof bound,
                           .name = "bound",
                           .create = create_any,
                           .destroy = destroy_inside,
                           .bind_stream = bind_inside};
    static const enum domain capturing[] = {
        D_CAPTURING, D_ANNOUNCED, D_TEST_CAPTURING, D_RECORDING, DOMAIN_COUNT};
    int number = _i;
    pthread_t thread;

    again = false;
    wt_ok(warm_kind_register(f.runtime, &ops, &inside_kind));
    wt_ok(warm_kind_register(f.runtime, &bound, &bound_kind));
    for (int i = 0; i < CALLS; i++) {
        if (callbacks[_i].late && in_list(&calls[i], capturing)) {
            continue;
        }
        make_arguments(&calls[i], inside.v);
        snprintf(inside.cell, sizeof inside.cell, "%s in %s", calls[i].name,
                 callbacks[_i].name);
        inside.status = NONE;
        inside.also = INV;
        inside.which = i;
        callbacks[_i].with();
        if (inside.which >= 0) {
            fault("%s: the callback was not called", inside.cell);
        }
        drop_arguments(&calls[i], inside.status == WARM_OK);
    }
    inside.ended = false;
    pthread_create(&thread, NULL, call_back_cancelled, &number);
    pthread_join(thread, NULL);
    ck_assert(inside.ended);
    no_trouble();
}
