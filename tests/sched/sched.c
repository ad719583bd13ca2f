/* sched.c: one thread at a time, and which is next. In three parts: whose turn
 * it is; what the hooks call; the process that plays all schedules, each in a
 * child. They share struct play. */
#include "sched.h"
#include "hooks.h"
#include "wt.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <malloc.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    THREADS = 16,
    STEPS = 200000, /* of one schedule: more is a livelock */
    CHOICES = 1 << 14,
    SWITCHES = 4096,
    WORDS = 1 << 14,
    PARTS = 10000,
    SECONDS = 20 /* of one schedule */
};

/* A moment at which more than one thread could run. */
struct choice {
    uint32_t step;
    uint16_t enabled;
    uint8_t chosen, usual; /* usual: what runs if nothing is said */
    bool preempts;         /* another choice than the usual is a preemption */
};

/* A choice that is not the usual one. */
struct given {
    uint32_t step, thread;
};

/* Shared by the process that plays all schedules and its child. */
static struct play {
    struct given given[SWITCHES]; /* in */
    unsigned givens;
    uint64_t random; /* in: 0, or of a random schedule */
    uint32_t length; /* in: steps among which a random one changes its mind */
    bool everywhere; /* in: a switch is possible before any operation */
    bool tell;       /* in: prints each switch */
    struct choice choice[CHOICES]; /* out */
    unsigned choices;
    uint32_t steps; /* out */
    char what[256]; /* out: why the schedule failed */
    /* Of all schedules so far, by a word's hash: the players that used it, and
     * those that stored to it, a bit each. An operation that disturbs no other
     * player's is no place for a switch: it would be the same as one before the
     * next operation. Words that share an entry are more places. */
    struct {
        uint16_t users, writers;
    } word[WORDS];
} * play;

/* ---- whose turn it is ------------------------------------------------------
 */

/* YIELDS: until another thread has done a step. */
enum state { READY, YIELDS, WAITS, JOINS, ENDED };

struct thread {
    enum state state;
    sem_t go;               /* the thread's turn begins */
    const void *word;       /* WAITS: a futex */
    uint64_t deadline;      /* WAITS: ns; UINT64_MAX: none */
    bool late;              /* the deadline has passed */
    struct thread *awaited; /* JOINS */
    uint64_t priority;      /* of a random schedule */
    pthread_t id;
    void *(*main)(void *);
    void *argument;
};

static struct {
    struct thread thread[THREADS];
    unsigned threads;
    bool exploring; /* the players play */
    const char *file;
    int line; /* of the last operation */
    uint32_t step, total;
    uint64_t now; /* ns */
    unsigned next_given;
    uint32_t change[3]; /* steps at which a random schedule changes its mind */
    pthread_key_t end;
    sem_t over;
} s = {.now = 1000000000, .file = "the start"};

static _Thread_local struct thread *self;

static unsigned number_of(const struct thread *t)
{
    return (unsigned)(t - s.thread);
}

void wt_fail(const char *file, int line, const char *what)
{
    snprintf(play->what, sizeof play->what, "%s:%d: %s", file, line, what);
    _exit(1);
}

/* The running thread goes on, else the next one by number. */
static unsigned usual_of(unsigned enabled, unsigned current)
{
    while ((enabled >> current & 1) == 0) {
        current = (current + 1) % THREADS;
    }
    return current;
}

/* PCT: the thread of the highest priority, which falls behind all others at
 * each place of change; and behind these when it yields. */
static unsigned random_of(unsigned enabled, unsigned current)
{
    unsigned best = usual_of(enabled, current);

    for (unsigned i = 0; i < 3; i++) {
        if (s.step >= s.change[i]) {
            s.change[i] = UINT32_MAX;
            s.thread[current].priority = i + 1;
        }
    }
    for (unsigned i = 0; i < s.threads; i++) {
        if ((enabled >> i & 1) != 0 &&
            s.thread[i].priority > s.thread[best].priority) {
            best = i;
        }
    }
    return best;
}

static unsigned chosen_of(unsigned enabled, unsigned current, unsigned usual)
{
    const struct given *given;

    while (s.next_given < play->givens &&
           play->given[s.next_given].step < s.step) {
        s.next_given++;
    }
    given = &play->given[s.next_given];
    if (s.next_given < play->givens && given->step == s.step &&
        (enabled >> given->thread & 1) != 0) {
        return given->thread;
    }
    return play->random != 0 ? random_of(enabled, current) : usual;
}

/* Threads that could run; those that yield only if there is no other one. */
static unsigned enabled_now(void)
{
    unsigned enabled[2] = {0};

    for (unsigned i = 0; i < s.threads; i++) {
        struct thread *t = &s.thread[i];

        if (t->state == JOINS && t->awaited->state == ENDED) {
            t->state = READY;
        }
        if (t->state <= YIELDS) {
            enabled[t->state] |= 1u << i;
        }
    }
    return enabled[READY] != 0 ? enabled[READY] : enabled[YIELDS];
}

/* All threads wait: time passes until the first deadline. */
static void pass_time(void)
{
    struct thread *first = NULL;

    for (struct thread *t = s.thread; t < s.thread + s.threads; t++) {
        if (t->state == WAITS && t->deadline != UINT64_MAX &&
            (first == NULL || t->deadline < first->deadline)) {
            first = t;
        }
    }
    if (first != NULL) {
        s.now = first->deadline > s.now ? first->deadline : s.now;
        first->late = true;
        first->state = READY;
        return;
    }
    wt_fail(s.file, s.line, "deadlock: every thread waits");
}

static struct thread *choose(unsigned current)
{
    unsigned enabled = enabled_now(), usual, chosen;
    bool able = s.thread[current].state == READY;

    if (enabled == 0) {
        pass_time();
        enabled = enabled_now();
    }
    usual = usual_of(enabled, current);
    if (!s.exploring || (enabled & (enabled - 1)) == 0) {
        return &s.thread[usual];
    }
    chosen = chosen_of(enabled, current, usual);
    if (play->choices < CHOICES) {
        play->choice[play->choices++] = (struct choice){
            s.step, (uint16_t)enabled, (uint8_t)chosen, (uint8_t)usual, able};
    }
    return &s.thread[chosen];
}

/* The calling thread waits until it is chosen again. */
static void change_turns(void)
{
    struct thread *me = self, *next = choose(number_of(me));

    if (next == me) {
        me->state = READY;
        return;
    }
    if (play->tell && s.exploring) {
        fprintf(stderr, "%6u %s:%d: thread %u, then %u\n", s.step, s.file,
                s.line, number_of(me), number_of(next));
    }
    sem_post(&next->go);
    if (me->state != ENDED) {
        sem_wait(&me->go);
    }
}

static void step(void)
{
    for (struct thread *t = s.thread; t < s.thread + s.threads; t++) {
        if (t->state == YIELDS && t != self) {
            t->state = READY;
        }
    }
    s.step += s.exploring;
    if (++s.total > STEPS) {
        wt_fail(s.file, s.line, "livelock: the schedule does not end");
    }
}

/* The last destructor of a thread's last round: until now it had its turn. */
static void end_turn(void *rounds)
{
    if ((uintptr_t)rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(s.end, (void *)((uintptr_t)rounds + 1));
        return;
    }
    self->state = ENDED;
    if (self == s.thread) {
        sem_post(&s.over);
        return;
    }
    step();
    change_turns();
}

static void *thread_main(void *argument)
{
    self = argument;
    sem_wait(&self->go);
    pthread_setspecific(s.end, (void *)1);
    return self->main(self->argument);
}

/* ---- what the hooks call ---------------------------------------------------
 */

void wt_point(const char *file, int line, _Bool quiet, const volatile void *at,
              enum wt_access access, int order)
{
    size_t word = (uint32_t)((uintptr_t)at * 0x9E3779B1u) >> 18;
    uint16_t me, others;

    if (self == NULL) {
        return;
    }
    s.file = file;
    s.line = line;
    step();
    me = (uint16_t)(1u << number_of(self));
    /* A driver is entered by the first operation of its lock. */
    if (!s.exploring || (quiet && order != memory_order_acquire)) {
        return;
    }
    play->word[word].users |= me;
    play->word[word].writers |= access == WT_STORE ? me : 0;
    others =
        access == WT_STORE ? play->word[word].users : play->word[word].writers;
    if (play->everywhere || (others & ~me) != 0) {
        change_turns();
    }
}

void wt_here(void)
{
    step();
    change_turns();
}

int wt_yield(void)
{
    if (self != NULL) {
        self->state = YIELDS;
        self->priority = 0;
        wt_here();
    }
    return 0;
}

void wt_wait(void)
{
    (void)wt_yield();
}

int wt_create(pthread_t *id, const pthread_attr_t *attr, void *(*main)(void *),
              void *argument)
{
    struct thread *t = &s.thread[s.threads++];

    if (s.threads > THREADS) {
        wt_fail(__FILE__, __LINE__, "too many threads");
    }
    t->main = main;
    t->argument = argument;
    t->priority = play->random != 0 ? wt_random(&play->random) | 8 : 0;
    wt_must(pthread_create(&t->id, attr, thread_main, t) == 0);
    *id = t->id;
    return 0;
}

int wt_join(pthread_t id, void **result)
{
    struct thread *t = s.thread;

    (void)result;
    while (!pthread_equal(t->id, id)) {
        t++;
    }
    self->awaited = t;
    self->state = JOINS;
    wt_here();
    return 0;
}

int wt_sleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    s.now += (uint64_t)time->tv_nsec;
    return wt_yield();
}

int wt_clock(clockid_t clock, struct timespec *now)
{
    (void)clock;
    s.now += 100;
    now->tv_sec = (time_t)(s.now / 1000000000);
    now->tv_nsec = (long)(s.now % 1000000000);
    return 0;
}

/* The memory of the children of this one is that of this one. */
int wt_advise(void *at, size_t bytes, int advice)
{
    return advice == MADV_DONTFORK ? 0 : madvise(at, bytes, advice);
}

static long futex_wait(const uint32_t *word, uint32_t value,
                       const struct timespec *time)
{
    if (__atomic_load_n(word, __ATOMIC_RELAXED) != value) {
        step();
        errno = EAGAIN;
        return -1;
    }
    self->word = word;
    self->late = false;
    self->deadline = time == NULL
                         ? UINT64_MAX
                         : s.now + (uint64_t)time->tv_sec * 1000000000 +
                               (uint64_t)time->tv_nsec;
    self->state = WAITS;
    wt_here();
    errno = ETIMEDOUT;
    return self->late ? -1 : 0;
}

static long futex_wake(const uint32_t *word, int count)
{
    int woken = 0;

    for (struct thread *t = s.thread; t < s.thread + s.threads; t++) {
        if (woken < count && t->state == WAITS && t->word == word) {
            t->state = READY;
            woken++;
        }
    }
    return woken;
}

long wt_syscall(long number, ...)
{
    long a[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(list, long);
    }
    va_end(list);
    if (number == SYS_membarrier) {
        return 0; /* one thread at a time sees all in order */
    }
    if (number != SYS_futex || self == NULL) {
        return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
    return (int)a[1] == FUTEX_WAIT_PRIVATE
               ? futex_wait((const uint32_t *)a[0], (uint32_t)a[2],
                            (const struct timespec *)a[3])
               : futex_wake((const uint32_t *)a[0], (int)a[2]);
}

/* ---- the process that plays all schedules ----------------------------------
 */

static const wt_scenario *playing;
static uint32_t players, warm, done; /* all, after warm(), at the end */

static void *player_main(void *player)
{
    if (playing->warm != NULL) {
        playing->warm();
    }
    warm++;
    while (!s.exploring) {
        wt_wait();
    }
    (*(void (*const *)(void))player)();
    if (playing->warm == NULL) {
        return NULL;
    }
    if (++done < players) {
        futex_wait(&done, done, NULL);
    }
    s.exploring = false;
    futex_wake(&done, WT_PLAYERS);
    return NULL;
}

static void *scenario_main(void *argument)
{
    pthread_t player[WT_PLAYERS] = {0};

    if (playing->begin != NULL) {
        playing->begin();
    }
    while (players < WT_PLAYERS && playing->player[players] != NULL) {
        wt_create(&player[players], NULL, player_main,
                  (void *)(uintptr_t)&playing->player[players]);
        players++;
    }
    while (warm < players) {
        wt_wait();
    }
    s.exploring = true;
    for (unsigned i = 0; i < players; i++) {
        wt_join(player[i], NULL);
    }
    play->steps = s.step;
    s.exploring = false;
    if (playing->check != NULL) {
        playing->check();
    }
    return argument;
}

/* In a child: the schedule that play says. */
static _Noreturn void play_one(void)
{
    pthread_t main;

    signal(SIGALRM, SIG_DFL); /* Check has one of its own */
    alarm(SECONDS);
    pthread_key_create(&s.end, end_turn);
    for (unsigned i = 0; i < 3 && play->random != 0; i++) {
        s.change[i] = (uint32_t)(wt_random(&play->random) % (play->length + 1));
    }
    wt_create(&main, NULL, scenario_main, NULL);
    sem_post(&s.thread->go);
    sem_wait(&s.over);
    for (unsigned i = 0; i < s.threads; i++) {
        if (s.thread[i].state != ENDED) {
            wt_fail(__FILE__, __LINE__, "a thread was left");
        }
    }
    _exit(0);
}

/* False: it failed. */
static bool passes(void)
{
    int status = 0;
    pid_t child;

    play->choices = 0;
    play->what[0] = '\0';
    fflush(NULL);
    child = _Fork(); /* no handler: the runtime goes on in the child */
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        play_one();
    }
    while (waitpid(child, &status, 0) < 0) {
    }
    if (WIFSIGNALED(status)) {
        snprintf(play->what, sizeof play->what, "signal %d", WTERMSIG(status));
    } else if (status != 0 && play->what[0] == '\0') {
        snprintf(play->what, sizeof play->what, "exit %d", status);
    }
    return status == 0;
}

static void give(uint32_t step, uint32_t thread)
{
    if (play->givens < SWITCHES) {
        play->given[play->givens++] = (struct given){step, thread};
    }
}

/* Gives the last schedule's first choices. */
static void give_again(unsigned count)
{
    play->givens = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct choice *c = &play->choice[i];

        if (c->chosen != c->usual) {
            give(c->step, c->chosen);
        }
    }
}

/* Leaves switches out, many at once and then fewer, as long as the schedule
 * fails; then prints it. */
static void tell_failure(void)
{
    struct given kept[SWITCHES];
    char text[4096] = "", *end = text;
    unsigned tries = 1000;

    fprintf(stderr, "%s\n", play->what);
    give_again(play->choices);
    play->random = 0;
    for (unsigned n = play->givens; n > 0; n /= 2) {
        for (unsigned i = 0; i + n <= play->givens && tries > 0; tries--) {
            memcpy(kept, play->given, sizeof kept);
            memmove(&play->given[i], &kept[i + n],
                    (play->givens - i - n) * sizeof *kept);
            play->givens -= n;
            if (passes()) {
                memcpy(play->given, kept, sizeof kept);
                play->givens += n;
                i += n;
            }
        }
    }
    for (unsigned i = 0; i < play->givens && end < text + 4000; i++) {
        end += sprintf(end, "%s%u>%u", i > 0 ? "," : "", play->given[i].step,
                       play->given[i].thread);
    }
    play->tell = true;
    (void)passes();
    ck_abort_msg("%s\n  WT_SCHEDULE=%s", play->what, text);
}

static void play_text(const char *text)
{
    unsigned step, thread;
    int length;

    play->tell = play->everywhere = true;
    while (sscanf(text, "%u>%u%n", &step, &thread, &length) == 2) {
        give(step, thread);
        text += length + (text[length] == ',');
    }
    ck_assert_msg(*text == '\0', "no schedule: %s", text);
    ck_assert_msg(passes(), "%s", play->what);
}

static void play_random(unsigned count)
{
    uint64_t seed = wt_seed();

    play->givens = 0;
    play->everywhere = true;
    for (unsigned i = 0; i < count; i++) {
        play->random = wt_random(&seed) | 1;
        if (!passes()) {
            tell_failure();
        }
        play->length = play->steps > play->length ? play->steps : play->length;
    }
    play->everywhere = false;
    play->random = 0;
}

static bool is_preemption(const struct choice *c)
{
    return c->preempts && c->chosen != c->usual;
}

/* The next thread after the chosen one: the usual, then the others by number.
 * THREADS: there was none left. */
static uint32_t next_choice(const struct choice *c)
{
    uint32_t thread = c->chosen == c->usual ? 0 : c->chosen + 1u;

    while (thread < THREADS &&
           ((c->enabled >> thread & 1) == 0 || thread == c->usual)) {
        thread++;
    }
    return thread;
}

/* Depth first: the last choice of the last schedule that can be another one; of
 * preemptions, that part of 10,000. False: all schedules have been played. */
static bool next_schedule(unsigned bound, unsigned part, uint64_t *random)
{
    unsigned preemptions = 0;

    for (unsigned i = 0; i < play->choices; i++) {
        preemptions += is_preemption(&play->choice[i]);
    }
    for (unsigned i = play->choices; i-- > 0;) {
        const struct choice *c = &play->choice[i];
        uint32_t thread = next_choice(c);

        preemptions -= is_preemption(c);
        if (thread < THREADS && preemptions + c->preempts <= bound &&
            (!c->preempts || wt_random(random) % PARTS < part)) {
            give_again(i);
            give(c->step, thread);
            return true;
        }
    }
    return false;
}

/* Of how many preemptions in 10,000 that would make about count schedules, if
 * all plain ones together have that many places. */
static unsigned part_of(unsigned plain, unsigned places, unsigned bound,
                        unsigned count)
{
    double chosen, schedules = 0;
    unsigned part = 0;

    while (part < PARTS && schedules < count) {
        chosen = (double)places * ++part / PARTS;
        schedules = bound == 1 ? chosen : chosen * chosen / plain / 2;
    }
    return part;
}

/* Returns how many schedules it has played, at most twice count; *places: how
 * many preemptions were possible in them. */
static unsigned play_deep(unsigned bound, unsigned part, unsigned count,
                          unsigned *places)
{
    uint64_t random = wt_seed();
    unsigned played = 0;

    play->givens = 0;
    *places = 0;
    do {
        if (!passes()) {
            tell_failure();
        }
        for (unsigned i = 0; i < play->choices; i++) {
            *places += play->choice[i].preempts;
        }
        played++;
    } while (played < 2 * count && next_schedule(bound, part, &random));
    return played;
}

static void play_all(unsigned count)
{
    unsigned places, many, plain, part[2], played[2];

    play_random(count / 4);
    plain = play_deep(0, 0, count, &places);
    for (unsigned i = 0; i < 2; i++) {
        part[i] = part_of(plain, places, i + 1, count);
        played[i] = play_deep(i + 1, part[i], count, &many);
    }
    printf("# %u steps; schedules: %u random, %u plain, %u of one preemption "
           "(%u %%), %u of two (%u %%)\n",
           play->length, count / 4, plain, played[0], part[0] / 100, played[1],
           part[1] / 100);
}

void wt_play(const wt_scenario *scenario)
{
    const char *text = getenv("WT_SCHEDULE"), *count = getenv("WT_SCHEDULES");
    cpu_set_t one;

    /* One thread at a time runs: on one processor, with one heap, it is
     * quickest. */
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    mallopt(M_ARENA_MAX, 1);
    play = mmap(NULL, sizeof *play, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(play != MAP_FAILED);
    playing = scenario;
    playing->setup();
    ck_assert_uint_eq(s.threads, 0);
    if (text != NULL) {
        play_text(text);
    } else {
        play_all(count != NULL ? (unsigned)strtoul(count, NULL, 10) / 3 : 80);
    }
}
