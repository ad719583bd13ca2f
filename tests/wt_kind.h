/* wt_kind.h: a toy library as a user's kind, whose calls tests can count, stop
 * and make fail.
 *
 * Its handles store their device, stream and one setting, and count their
 * users, so that a handle with two users at once is detected. A thread that is
 * cancelled would end in each of them, if the library let it. A closed gate
 * stops every create inside the callback until it is opened. Counters are
 * atomic; the gate has a lock of its own. */
#ifndef WT_KIND_H
#define WT_KIND_H

#include "wt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct wt_toy {
    atomic_uint creates, destroys, binds, resets; /* calls, failed ones too */
    atomic_int alive;
    atomic_int shared;      /* times a handle had two users */
    atomic_int unreset;     /* times a handle was not reset */
    atomic_uint fail_in[4]; /* by wt_toy_call; n-th from now; 0: none */
    atomic_bool fail_on;    /* the calls after it fail too */
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool closed;                /* lock mutex: the gate */
    unsigned inside;            /* lock mutex: threads at the gate */
    struct wt_toy_handle *live; /* lock mutex: list of live handles */
} wt_toy;

enum wt_toy_call { WT_CREATE, WT_DESTROY, WT_BIND, WT_RESET };
enum { WT_TOY_CODE = 37 };

typedef struct wt_toy_handle {
    wt_toy *toy;
    struct wt_toy_handle *next, **link; /* lock mutex of toy */
    int device;
    warm_stream stream;
    atomic_int setting; /* what a user may set; 0 is the default */
    atomic_int users;
} wt_toy_handle;

static inline void wt_toy_init(wt_toy *toy)
{
    memset(toy, 0, sizeof *toy);
    pthread_mutex_init(&toy->mutex, NULL);
    pthread_cond_init(&toy->cond, NULL);
}

/* n = 1: the next call fails; on: all from then on; n = 0: none. */
static inline void wt_toy_fail(wt_toy *toy, enum wt_toy_call call, unsigned n,
                               bool on)
{
    toy->fail_on = on;
    toy->fail_in[call] = n;
}

static inline bool wt_toy_fails(wt_toy *toy, enum wt_toy_call call)
{
    unsigned left = toy->fail_in[call];

    while (left > 0) {
        unsigned next = left == 1 && toy->fail_on ? 1 : left - 1;

        if (atomic_compare_exchange_weak(&toy->fail_in[call], &left, next)) {
            return left == 1;
        }
    }
    return false;
}

static inline void wt_toy_gate(wt_toy *toy)
{
    pthread_mutex_lock(&toy->mutex);
    toy->inside++;
    pthread_cond_broadcast(&toy->cond);
    while (toy->closed) {
        pthread_cond_wait(&toy->cond, &toy->mutex);
    }
    toy->inside--;
    pthread_mutex_unlock(&toy->mutex);
}

static inline void wt_toy_close_gate(wt_toy *toy)
{
    pthread_mutex_lock(&toy->mutex);
    toy->closed = true;
    pthread_mutex_unlock(&toy->mutex);
}

static inline void wt_toy_open_gate(wt_toy *toy)
{
    pthread_mutex_lock(&toy->mutex);
    toy->closed = false;
    pthread_cond_broadcast(&toy->cond);
    pthread_mutex_unlock(&toy->mutex);
}

static inline unsigned wt_toy_inside(wt_toy *toy)
{
    unsigned inside;

    pthread_mutex_lock(&toy->mutex);
    inside = toy->inside;
    pthread_mutex_unlock(&toy->mutex);
    return inside;
}

/* Waits until count threads stand at the closed gate. */
static inline void wt_toy_await(wt_toy *toy, unsigned count)
{
    pthread_mutex_lock(&toy->mutex);
    while (toy->inside < count) {
        pthread_cond_wait(&toy->cond, &toy->mutex);
    }
    pthread_mutex_unlock(&toy->mutex);
}

static inline void wt_toy_link(wt_toy *toy, wt_toy_handle *h)
{
    pthread_mutex_lock(&toy->mutex);
    h->next = toy->live;
    h->link = &toy->live;
    if (h->next != NULL) {
        h->next->link = &h->next;
    }
    toy->live = h;
    toy->alive++;
    pthread_mutex_unlock(&toy->mutex);
}

static inline void wt_toy_unlink(wt_toy *toy, wt_toy_handle *h)
{
    pthread_mutex_lock(&toy->mutex);
    *h->link = h->next;
    if (h->next != NULL) {
        h->next->link = h->link;
    }
    toy->alive--;
    pthread_mutex_unlock(&toy->mutex);
}

/* Frees the handles that a destroyed runtime leaked, once no thread uses them.
 */
static inline void wt_toy_free_left(wt_toy *toy)
{
    while (toy->live != NULL) {
        wt_toy_handle *h = toy->live;

        wt_toy_unlink(toy, h);
        free(h);
    }
}

/* Call it after the runtime was destroyed: asserts that no handle is left, was
 * shared or was used without a reset. */
static inline void wt_toy_end(wt_toy *toy)
{
    ck_assert_int_eq(toy->alive, 0);
    ck_assert_int_eq(toy->shared, 0);
    ck_assert_int_eq(toy->unreset, 0);
}

static inline int wt_toy_create(void *context, int device, void **handle)
{
    wt_toy *toy = context;
    wt_toy_handle *made;

    pthread_testcancel();
    toy->creates++;
    wt_toy_gate(toy);
    if (wt_toy_fails(toy, WT_CREATE)) {
        return WT_TOY_CODE;
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return 1;
    }
    made->toy = toy;
    made->device = device;
    wt_toy_link(toy, made);
    *handle = made;
    return 0;
}

static inline int wt_toy_destroy(void *context, int device, void *handle)
{
    wt_toy *toy = context;
    wt_toy_handle *h = handle;

    pthread_testcancel();
    toy->destroys++;
    if (h->device != device || h->users != 0) {
        toy->shared++;
    }
    if (wt_toy_fails(toy, WT_DESTROY)) {
        return WT_TOY_CODE;
    }
    wt_toy_unlink(toy, h);
    free(h);
    return 0;
}

static inline int wt_toy_bind(void *context, int device, void *handle,
                              warm_stream stream)
{
    wt_toy *toy = context;

    pthread_testcancel();
    toy->binds++;
    if (wt_toy_fails(toy, WT_BIND)) {
        return WT_TOY_CODE;
    }
    ((wt_toy_handle *)handle)->stream = stream;
    return 0;
}

static inline int wt_toy_reset(void *context, int device, void *handle)
{
    wt_toy *toy = context;
    wt_toy_handle *h = handle;

    pthread_testcancel();
    toy->resets++;
    if (wt_toy_fails(toy, WT_RESET)) {
        return WT_TOY_CODE;
    }
    h->stream = NULL;
    h->setting = 0;
    return 0;
}

static inline const char *wt_toy_text(void *context, int code)
{
    return code == WT_TOY_CODE ? "the toy is broken" : "no memory for a toy";
}

static inline warm_kind wt_toy_register(wt_toy *toy, warm_runtime *runtime,
                                        const char *name)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = name,
                         .context = toy,
                         .create = wt_toy_create,
                         .destroy = wt_toy_destroy,
                         .bind_stream = wt_toy_bind,
                         .reset = wt_toy_reset,
                         .error_text = wt_toy_text};
    warm_kind kind = -1;

    return warm_kind_register(runtime, &ops, &kind) == WARM_OK ? kind : -1;
}

/* A thread begins to use a handle, and leaves its own setting in it. */
static inline void wt_toy_use(void *handle)
{
    wt_toy_handle *h = handle;

    if (atomic_fetch_add(&h->users, 1) != 0) {
        h->toy->shared++;
    }
    if (atomic_exchange(&h->setting, 1) != 0) {
        h->toy->unreset++;
    }
}

static inline void wt_toy_leave(void *handle)
{
    atomic_fetch_sub(&((wt_toy_handle *)handle)->users, 1);
}

/* One statistic, read by name; -1 if the call fails. */
#define wt_stat(runtime, kind, device, field)                                  \
    __extension__({                                                            \
        warm_handle_stats wt_s_ = {.size = sizeof wt_s_};                      \
        warm_handle_get_stats(runtime, kind, device, &wt_s_) == WARM_OK        \
            ? (long)wt_s_.field                                                \
            : -1L;                                                             \
    })

/* created = destroyed + idle + deferred + in_use + leased + leaked. */
static inline bool wt_balanced(warm_runtime *runtime, warm_kind kind,
                               int device)
{
    warm_handle_stats s = {.size = sizeof s};

    return warm_handle_get_stats(runtime, kind, device, &s) == WARM_OK &&
           s.created == s.destroyed + s.idle + s.deferred + s.in_use +
                            s.leased + s.leaked &&
           s.in_use_peak >= s.in_use + s.leased;
}

#endif
