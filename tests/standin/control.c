/* control.c: counts, faults, misuse and handles of the stand-in libraries.
 * One mutex guards the lists; what is hot is atomic. */
#include "standin.h"

#include "runtime/base/process.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct record {
    const char *name; /* const */
    struct record *next;
    unsigned index;
    /* Relaxed everywhere: a test arms before its calls, reads after them. */
    _Atomic uint64_t calls;
    _Atomic int64_t fail_in;
    _Atomic int fail_on, code;
    _Atomic unsigned flags;
    _Atomic unsigned to_meet, inside; /* 0: nobody waits */
    unsigned delay_us;                /* const: of STANDIN_DELAYS */
} record;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static record *records;                /* mutex */
static unsigned record_count;          /* mutex */
static standin_handle *handles;        /* mutex; live ones and dead ones */
static uint64_t misuse_count;          /* mutex */
static char misuse_text[256] = "none"; /* mutex */

/* STANDIN_DELAYS in the environment: "function=microseconds,…", what each call
 * of it takes beside the work of the host device. */
static unsigned delay_of(const char *name)
{
    const char *at = getenv("STANDIN_DELAYS");
    size_t length = strlen(name);

    while (at != NULL && *at != '\0') {
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            return (unsigned)strtoul(at + length + 1, NULL, 10);
        }
        at = strchr(at, ',');
        at += at != NULL;
    }
    return 0;
}

static record *record_of(const char *name)
{
    record *r;

    pthread_mutex_lock(&mutex);
    for (r = records; r != NULL && strcmp(r->name, name) != 0; r = r->next) {
    }
    if (r == NULL) {
        r = calloc(1, sizeof *r);
        r->name = strdup(name);
        r->index = record_count++;
        r->flags = ~0u;
        r->delay_us = delay_of(name);
        r->next = records;
        records = r;
    }
    pthread_mutex_unlock(&mutex);
    return r;
}

void standin_flagged(const char *function, unsigned flags)
{
    record_of(function)->flags = flags;
}

unsigned standin_flags(const char *function)
{
    return record_of(function)->flags;
}

void standin_meet(const char *function, unsigned threads)
{
    record *r = record_of(function);

    r->inside = 0;
    r->to_meet = threads;
}

static void meet(record *r)
{
    unsigned threads = r->to_meet;

    if (threads > 0) {
        r->inside++;
        while (r->inside < threads) {
            sched_yield();
        }
    }
}

/* ---- The end of the process ---- */

static _Atomic(_Atomic uint64_t *) late_calls;

void standin_late_to(_Atomic uint64_t *calls)
{
    late_calls = calls;
}

static void note_late(const char *function)
{
    _Atomic uint64_t *calls = late_calls;

    if (calls != NULL) {
        atomic_fetch_add(calls, 1);
        fprintf(stderr, "stand-in: %s is called after the exit handler\n",
                function);
    }
}

/* Libraries whose handler has run: one bit each. */
static const char *const libraries[] = {"cublas", "cublaslt", "cudnn",
                                        "cusparse", "cusolver"};
enum { LIBRARIES = sizeof libraries / sizeof libraries[0] };
static _Atomic unsigned started, ended;

static unsigned bit_of(const char *library)
{
    unsigned i = 0;

    while (i < LIBRARIES && strcmp(libraries[i], library) != 0) {
        i++;
    }
    return 1u << i;
}

static void end_library(int status, void *library)
{
    ended |= bit_of(library);
}

/* As the libraries do: an exit handler comes with the first handle. */
static void start_library(const char *library)
{
    unsigned bit = bit_of(library);

    if ((atomic_fetch_or(&started, bit) & bit) == 0) {
        on_exit(end_library, (void *)(uintptr_t)library);
    }
}

static bool has_ended(const char *function, const char *library)
{
    if ((ended & bit_of(library)) != 0) {
        note_late(function);
        return true;
    }
    return false;
}

static _Thread_local const char *current_call = "no function";

const char *standin_call(void)
{
    return current_call;
}

int standin_hit(standin_point *point)
{
    record *r = atomic_load_explicit(&point->record, memory_order_acquire);
    int64_t left;

    current_call = point->name;
    if (r == NULL) {
        r = record_of(point->name);
        atomic_store_explicit(&point->record, r, memory_order_release);
    }
    atomic_fetch_add_explicit(&r->calls, 1, memory_order_relaxed);
    if (wm_process_exiting()) {
        note_late(point->name);
        return cudaErrorCudartUnloading;
    }
    meet(r);
    if (r->delay_us != 0) {
        usleep(r->delay_us);
    }
    if (atomic_load_explicit(&r->fail_in, memory_order_relaxed) <= 0) {
        return 0;
    }
    left = atomic_fetch_sub_explicit(&r->fail_in, 1, memory_order_relaxed);
    if (left != 1) {
        return 0;
    }
    if (atomic_load_explicit(&r->fail_on, memory_order_relaxed)) {
        atomic_store_explicit(&r->fail_in, 1, memory_order_relaxed);
    }
    return atomic_load_explicit(&r->code, memory_order_relaxed);
}

uint64_t standin_calls(const char *function)
{
    return atomic_load_explicit(&record_of(function)->calls,
                                memory_order_relaxed);
}

void standin_fail(const char *function, uint64_t n, int persistent, int code)
{
    record *r = record_of(function);

    atomic_store_explicit(&r->code, code, memory_order_relaxed);
    atomic_store_explicit(&r->fail_on, persistent, memory_order_relaxed);
    atomic_store_explicit(&r->fail_in, (int64_t)n, memory_order_relaxed);
}

const char *standin_function(unsigned i)
{
    const char *name = NULL;

    pthread_mutex_lock(&mutex);
    for (record *r = records; r != NULL; r = r->next) {
        if (r->index == i) {
            name = r->name;
        }
    }
    pthread_mutex_unlock(&mutex);
    return name;
}

void standin_note_misuse(const char *format, ...)
{
    va_list arguments;

    pthread_mutex_lock(&mutex);
    misuse_count++;
    va_start(arguments, format);
    vsnprintf(misuse_text, sizeof misuse_text, format, arguments);
    va_end(arguments);
    pthread_mutex_unlock(&mutex);
}

bool standin_demand(const char *function, bool met)
{
    if (!met) {
        standin_note_misuse("%s: arguments that CUDA refuses", function);
    }
    return met;
}

uint64_t standin_misuse(char *text, size_t bytes)
{
    uint64_t count;

    pthread_mutex_lock(&mutex);
    count = misuse_count;
    if (text != NULL) {
        snprintf(text, bytes, "%s", misuse_text);
    }
    pthread_mutex_unlock(&mutex);
    return count;
}

/* A handle takes some device memory of its own, as the real ones do: so a
 * creation in a capture that does not allow it fails and spoils the capture. */
enum { OWN_BYTES = 4096 };

standin_handle *standin_handle_create(const char *library, int version)
{
    wm_driver *d = standin_driver();
    standin_handle *h;
    void *own = NULL;

    if (!standin_version_works(version) || has_ended("create", library)) {
        return NULL;
    }
    start_library(library);
    standin_need_context();
    if (d == NULL || d->ops->device_alloc(d, standin_current_device(),
                                          OWN_BYTES, &own) != WARM_OK) {
        return NULL;
    }
    h = calloc(1, sizeof *h);
    h->library = library;
    h->device = standin_current_device();
    h->own = own;
    h->live = 1;
    standin_born(h);
    pthread_mutex_lock(&mutex);
    h->next = handles;
    handles = h;
    pthread_mutex_unlock(&mutex);
    return h;
}

standin_handle *standin_handle_share(const char *library, int version)
{
    static pthread_mutex_t one_creates = PTHREAD_MUTEX_INITIALIZER;
    standin_handle *h;

    pthread_mutex_lock(&one_creates);
    pthread_mutex_lock(&mutex);
    for (h = handles; h != NULL; h = h->next) {
        if (strcmp(h->library, library) == 0 && atomic_load(&h->live) > 0 &&
            h->device == standin_current_device()) {
            h->live++;
            break;
        }
    }
    pthread_mutex_unlock(&mutex);
    if (h == NULL) {
        h = standin_handle_create(library, version);
        if (h != NULL) {
            h->shared = true;
        }
    }
    pthread_mutex_unlock(&one_creates);
    return h;
}

void standin_handle_destroy(const char *function, standin_handle *h)
{
    wm_driver *d = standin_driver();
    int before;

    standin_check_stranded(function, h);
    pthread_mutex_lock(&mutex); /* none is shared while it goes */
    before = h->live > 0 ? h->live-- : 0;
    pthread_mutex_unlock(&mutex);
    if (before == 0) {
        standin_note_misuse("%s: destroyed twice", function);
    } else if (d != NULL) {
        /* It is gone either way, as with the real ones. */
        (void)standin_wait_for_device(d, h->device);
        if (before == 1) {
            (void)d->ops->device_free(d, h->device, h->own);
        }
    }
}

void standin_strand(void *stream)
{
    pthread_mutex_lock(&mutex);
    for (standin_handle *h = handles; h != NULL; h = h->next) {
        if (atomic_load(&h->live) && atomic_load(&h->stream) == stream) {
            atomic_store(&h->stranded, 1);
        }
    }
    pthread_mutex_unlock(&mutex);
}

void standin_check_stranded(const char *function, standin_handle *h)
{
    if (atomic_exchange(&h->stranded, 0) != 0) {
        standin_note_misuse("%s: the stream that the handle is bound to was "
                            "destroyed",
                            function);
    }
}

bool standin_handle_use(const char *function, const char *library,
                        standin_handle *h)
{
    if (h == NULL || strcmp(h->library, library) != 0) {
        standin_note_misuse("%s: not a handle of %s", function, library);
        return false;
    }
    if (has_ended(function, library)) {
        return false;
    }
    if (!atomic_load(&h->live)) {
        standin_note_misuse("%s: the handle was destroyed", function);
        return false;
    }
    if (!standin_used(function, h)) {
        return false;
    }
    if (h->device != standin_current_device()) {
        standin_note_misuse("%s: handle of device %d used on device %d",
                            function, h->device, standin_current_device());
    }
    if (!h->shared && atomic_exchange(&h->busy, 1) != 0) {
        standin_note_misuse("%s: handle used by two threads at once", function);
    }
    return true;
}

void standin_handle_done(standin_handle *h)
{
    atomic_store(&h->busy, 0);
}

void standin_handle_state(const void *handle, standin_state *state)
{
    const standin_handle *h = handle;

    *state =
        (standin_state){h->device, h->stream, h->workspace, h->workspace_bytes};
}

int64_t standin_handles_live(const char *library)
{
    int64_t live = 0;

    pthread_mutex_lock(&mutex);
    for (standin_handle *h = handles; h != NULL; h = h->next) {
        live += strcmp(h->library, library) == 0 ? atomic_load(&h->live) : 0;
    }
    pthread_mutex_unlock(&mutex);
    return live;
}

/* ---- Work ---- */

/* A test sets them before its threads call. */
static void (*between)(void *context);
static void *between_context;

void standin_set_between_steps(void (*function)(void *context), void *context)
{
    between = function;
    between_context = context;
}

void standin_between_steps(void)
{
    if (between != NULL) {
        between(between_context);
    }
}

typedef struct task {
    struct task *next;
    warm_host_fn function;
    bool kept;
    _Alignas(16) char argument[];
} task;

static task *kept_tasks; /* mutex: those of graphs, which live for ever */

static void run_task(void *argument)
{
    task *t = argument;

    t->function(t->argument);
    if (!t->kept) {
        free(t);
    }
}

static void keep(task *t)
{
    t->kept = true;
    pthread_mutex_lock(&mutex);
    t->next = kept_tasks;
    kept_tasks = t;
    pthread_mutex_unlock(&mutex);
}

int standin_launch(void *stream, warm_host_fn function, const void *argument,
                   size_t bytes)
{
    wm_driver *d = standin_driver();
    warm_stream s = standin_stream(stream);
    wm_capture capture = WM_CAPTURE_NONE;
    task *t;
    warm_status status;

    if (d == NULL) {
        return cudaErrorCudartUnloading;
    }
    status = d->ops->stream_capture(d, s, &capture);
    if (status != WARM_OK) {
        return standin_code(status);
    }
    t = calloc(1, sizeof *t + bytes);
    t->function = function;
    memcpy(t->argument, argument, bytes);
    if (capture == WM_CAPTURE_ACTIVE) {
        keep(t);
    }
    status = d->ops->host_func(d, s, run_task, t);
    if (status != WARM_OK && capture != WM_CAPTURE_ACTIVE) {
        free(t);
    }
    return standin_code(status);
}
