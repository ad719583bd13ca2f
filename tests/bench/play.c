/* play.c: see play.h.
 *
 * One thread at a time has the turn: it plays its steps up to the next one of
 * another thread, and hands over. A thread begins with its first step and ends
 * at its LEAVE; whoever has the turn after it waits until it is gone, with all
 * that its end gives back. */
#include "tests/bench/play.h"

#include "runtime/base/clock.h"
#include "tests/bench/event.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct player {
    struct game *game;
    pthread_t thread;
    sem_t turn;
    uint32_t worker;
    bool begun, gone; /* joined */
} player;

/* Of the thread whose turn it is. */
typedef struct game {
    const bench_play *play;
    size_t at;
    void **buffer;
    player *player;
    player *left; /* has ended, and is to be joined */
    sem_t over;
} game;

/* Relaxed: a time, tied to nothing else; read by any thread. */
static _Atomic uint64_t now_ns;

uint64_t bench_play_clock(void)
{
    return 1000000000 + atomic_load_explicit(&now_ns, memory_order_relaxed);
}

static void *place(const game *g, const bench_step *s)
{
    const bench_subject *subject = g->play->subject;
    bench_where place = {.sort = bench_place_sort(s->place),
                         .device = bench_place_device(s->place),
                         .pageable = s->place == WM_TRACE_PAGEABLE,
                         .stream = s->stream + 1, /* BENCH_NO_STREAM: 0 */
                         .pool = s->pool,
                         .user = s->user != 0};

    return subject->place != NULL ? subject->place(&place, s->value)
                                  : subject->alloc(s->value);
}

static void step(game *g, const bench_step *s)
{
    const bench_subject *subject = g->play->subject;
    unsigned stream = g->play->own ? 0 : (unsigned)s->value + 1;

    atomic_store_explicit(&now_ns, s->ns, memory_order_relaxed);
    switch (s->op) {
    case WM_TRACE_ALLOC:
        g->buffer[s->buffer] = subject->alloc(s->value);
        break;
    case WM_TRACE_PLACED:
        g->buffer[s->buffer] = place(g, s);
        break;
    case WM_TRACE_FREE:
        subject->free(g->buffer[s->buffer], g->play->trace->bytes[s->buffer]);
        break;
    case WM_TRACE_USE:
    case WM_TRACE_COPY:
        if (subject->record != NULL) {
            subject->record(g->buffer[s->buffer], stream);
        }
        break;
    case WM_TRACE_ADOPT:
    case WM_TRACE_RETIRE:
        if (subject->stream != NULL && !g->play->own) {
            subject->stream(stream, s->op == WM_TRACE_ADOPT);
        }
        break;
    case WM_TRACE_POOL:
        if (subject->pool_end != NULL) {
            subject->pool_end((unsigned)s->value + 1);
        }
        break;
    case WM_TRACE_LEAVE:
    case WM_TRACE_OPS:
        break;
    }
}

static void *play(void *argument);

static void begin(player *p)
{
    pthread_attr_t attr;

    p->begun = true;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 << 10);
    if (pthread_create(&p->thread, &attr, play, p) != 0) {
        fprintf(stderr, "bench: no thread for number %u\n", p->worker);
        exit(1);
    }
    pthread_attr_destroy(&attr);
}

static uint32_t worker_at(const game *g, size_t at)
{
    return g->play->alone ? 0 : g->play->trace->step[at].worker;
}

/* The thread that has the next step gets the turn; at the end the caller. */
static void hand_over(game *g)
{
    player *next;

    if (g->at == g->play->steps) {
        sem_post(&g->over);
        return;
    }
    next = &g->player[worker_at(g, g->at)];
    if (!next->begun) {
        begin(next);
    }
    sem_post(&next->turn);
}

static void join_left(game *g)
{
    if (g->left != NULL) {
        pthread_join(g->left->thread, NULL);
        g->left->gone = true;
        g->left = NULL;
    }
}

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) {
    }
}

/* Its steps up to another's; false when it has left. */
static bool play_turn(game *g, const player *me)
{
    while (g->at < g->play->steps && worker_at(g, g->at) == me->worker) {
        const bench_step *s = &g->play->trace->step[g->at++];

        step(g, s);
        if (s->op == WM_TRACE_LEAVE && !g->play->alone) {
            return false;
        }
    }
    return true;
}

static void *play(void *argument)
{
    player *me = argument;
    game *g = me->game;
    bool stays = true;

    if (g->play->subject->enter != NULL) {
        g->play->subject->enter();
    }
    while (stays) {
        await(&me->turn);
        join_left(g);
        if (g->at == g->play->steps) {
            return NULL; /* woken by end() */
        }
        stays = play_turn(g, me);
        if (!stays) {
            g->left = me;
        }
        hand_over(g);
    }
    return NULL;
}

/* Ends the threads that have not left, one after the other. */
static void end(game *g, uint32_t workers)
{
    join_left(g);
    for (uint32_t i = 0; i < workers; i++) {
        player *p = &g->player[i];

        if (p->begun && !p->gone) {
            sem_post(&p->turn);
            pthread_join(p->thread, NULL);
        }
        sem_destroy(&p->turn);
    }
}

static void run(game *g)
{
    uint32_t workers = g->play->trace->workers;

    for (uint32_t i = 0; i < workers; i++) {
        g->player[i].game = g;
        g->player[i].worker = i;
        sem_init(&g->player[i].turn, 0, 0);
    }
    sem_init(&g->over, 0, 0);
    hand_over(g);
    await(&g->over);
    end(g, workers);
    sem_destroy(&g->over);
}

/* Bytes requested at the peak of what was played, and the frees in it. */
static uint64_t peak_live(const bench_play *p, size_t *frees)
{
    uint64_t live = 0, peak = 0;

    *frees = 0;
    for (size_t i = 0; i < p->steps; i++) {
        const bench_step *s = &p->trace->step[i];

        if (bench_step_allocates(s)) {
            live += s->value;
        } else if (s->op == WM_TRACE_FREE) {
            live -= p->trace->bytes[s->buffer];
            ++*frees;
        }
        peak = live > peak ? live : peak;
    }
    return peak;
}

static void count(const bench_play *p, uint64_t ns, bench_result *result)
{
    bench_counts counts = {0};
    size_t frees = 0;
    bench_waits waits = bench_stream_waits();
    double per;

    result->live = (double)peak_live(p, &frees);
    per = frees > 0 ? (double)frees : 1;
    result->ns = result->min = result->max =
        (double)ns / (p->trace->buffers > 0 ? p->trace->buffers : 1);
    if (p->subject->counts != NULL) {
        p->subject->counts(&counts);
        result->peak = (double)counts.peak;
        result->records = (double)counts.records / per;
        result->queries = (double)counts.queries / per;
        result->others = (double)counts.others / per;
        result->obtains = (double)counts.obtains;
        result->waits = (double)counts.waits / per;
        result->delay = 100 * (double)counts.delayed / per;
    }
    if (waits.ticks > 0 && p->trace->buffers > 0) {
        result->waits = (double)waits.waits / p->trace->buffers;
        result->later =
            (double)waits.delayed / (double)waits.ticks / (double)waits.streams;
    }
}

bool bench_play_all(const bench_play *play, bench_result *result)
{
    game g = {.play = play};
    uint64_t start;

    g.buffer = calloc(play->trace->buffers + 1, sizeof *g.buffer);
    g.player = calloc(play->trace->workers + 1, sizeof *g.player);
    if (g.buffer != NULL && g.player != NULL) {
        wm_clock_set(bench_play_clock);
        start = bench_now_ns();
        run(&g);
        count(play, bench_now_ns() - start, result);
    } else {
        fprintf(stderr, "bench: no memory\n");
    }
    wm_clock_set(NULL);
    free(g.player);
    free(g.buffer);
    return result->ns >= 0;
}
