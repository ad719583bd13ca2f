/* model_work.c: what streams and graphs do to ranges. */
#include "model/memory_model.h"

#include <pthread.h>
#include <string.h>

/* Words at either end of a range, for work on memory that only copies reach. */
enum { ENDS = 8, STAGED = 4096 };

struct staged {
    uint64_t word[2 * ENDS];
    struct staged *next; /* of those that are free */
};

/* Page-locked, by a runtime of its own: copies of other memory would wait. Who
 * runs on a stream calls nothing of CUDA: the list is ours. */
static struct {
    warm_runtime *runtime;
    struct staged *all, *free; /* free: lock mutex */
    pthread_mutex_t mutex;
} stage = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void model_begin_work(void)
{
    void *all = NULL;

    if (wt_on_host()) {
        return;
    }
    stage.runtime = wt_runtime(NULL);
    wt_ok(warm_pinned_alloc(stage.runtime, STAGED * sizeof *stage.all, &all));
    stage.all = all;
    stage.free = NULL;
    for (unsigned i = 0; i < STAGED; i++) {
        stage.all[i].next = stage.free;
        stage.free = &stage.all[i];
    }
}

void model_end_work(void)
{
    if (!wt_on_host()) {
        wt_ok(warm_free(stage.all));
        wt_runtime_end(stage.runtime);
    }
}

static struct staged *take_free(void)
{
    struct staged *s;

    pthread_mutex_lock(&stage.mutex);
    s = stage.free;
    stage.free = s != NULL ? s->next : NULL;
    pthread_mutex_unlock(&stage.mutex);
    return s;
}

static struct staged *take_staged(void)
{
    struct staged *s = take_free();

    while (s == NULL) {
        sched_yield(); /* streams are late at most: some work will be done */
        s = take_free();
    }
    return s;
}

void model_drop_work(struct work *w)
{
    if (w->staged != NULL) {
        pthread_mutex_lock(&stage.mutex);
        w->staged->next = stage.free;
        stage.free = w->staged;
        pthread_mutex_unlock(&stage.mutex);
    }
    free(w);
}

static size_t words_staged(const struct work *w)
{
    size_t words = w->bytes / sizeof(uint64_t);

    return words < ENDS ? words : ENDS;
}

static bool is_staged_good(const struct work *w)
{
    for (size_t i = 0; i < 2 * words_staged(w); i++) {
        if (w->looks && w->staged->word[i] != w->pattern) {
            return false;
        }
    }
    return true;
}

static uint64_t *word_at(const struct work *w, size_t i)
{
    size_t words = w->bytes / sizeof(uint64_t);

    return (uint64_t *)(void *)w->base + i * (words - 1) / (MODEL_TOUCHES - 1);
}

bool model_touch(const struct work *w)
{
    bool good = true;

    if (w->staged != NULL) {
        return is_staged_good(w);
    }
    for (size_t i = 0; i < MODEL_TOUCHES && w->bytes >= sizeof(uint64_t); i++) {
        if (!w->looks) {
            *word_at(w, i) = w->pattern;
        }
        good = good && *word_at(w, i) == w->pattern;
    }
    return good;
}

static void run(void *argument)
{
    struct work *w = argument;
    unsigned long none = 0;

    if (!model_touch(w)) {
        (void)atomic_compare_exchange_strong_explicit(
            &model_wrong, &none, w->step + 1, memory_order_relaxed,
            memory_order_relaxed);
    }
    if (w->stream != NULL) {
        /* Release: see model_passed(). */
        atomic_fetch_add_explicit(&w->stream->passed, 1, memory_order_release);
        model_drop_work(w);
    }
}

static void copy_end(warm_runtime *runtime, const struct stream *s,
                     const struct work *w, char *far, uint64_t *near)
{
    size_t bytes = words_staged(w) * sizeof *near;

    wt_ok(warm_testing_copy(runtime, w->looks ? (void *)near : far,
                            w->looks ? far : (void *)near, bytes, s->name));
}

static void stage_copies(warm_runtime *runtime, const struct stream *s,
                         struct work *w)
{
    size_t words = words_staged(w);
    size_t all = w->bytes / sizeof(uint64_t) * sizeof(uint64_t);

    w->staged = take_staged();
    for (size_t i = 0; i < 2 * words; i++) {
        w->staged->word[i] = w->looks ? 0 : w->pattern;
    }
    copy_end(runtime, s, w, w->base, w->staged->word);
    copy_end(runtime, s, w, w->base + all - words * sizeof(uint64_t),
             w->staged->word + words);
}

static struct work *queue(warm_runtime *runtime, const struct stream *s,
                          struct work like)
{
    struct work *w = malloc(sizeof *w);

    ck_assert_ptr_nonnull(w);
    *w = like;
    if (w->far && !wt_on_host()) {
        stage_copies(runtime, s, w);
    }
    wt_ok(warm_stream_host_func(runtime, s->name, run, w));
    return w;
}

void model_queue(warm_runtime *runtime, struct stream *s, struct work like)
{
    like.stream = s;
    (void)queue(runtime, s, like);
    s->queued++;
}

struct work *model_capture(warm_runtime *runtime, const struct stream *s,
                           struct work like)
{
    like.stream = NULL;
    return queue(runtime, s, like);
}
