/* sched.c: one thread at a time, and which is next. In three parts: whose turn
 * it is; what the hooks call; the process that plays all schedules, each in a
 * child. They share struct play. */
#include "sched.h"
#include "weak.h"
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
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LATER = WT_THREADS, /* chosen as if a thread: the store is late */
    STEPS = 200000,     /* of one schedule: more is a livelock */
    CHOICES = 1 << 14,
    SWITCHES = 4096,
    WORDS = 1 << 14,
    PARTS = 10000,
    SECONDS = 20 /* of the processor's time, of one schedule */
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
    uint32_t steps;     /* out */
    char what[256];     /* out: why the schedule failed */
    char weak_file[64]; /* in: and line: the operation whose order is weak */
    int weak_line;
    bool met; /* out: that operation was done while players played */
    /* Of all schedules so far, by a word's hash: the players that used it, and
     * those that stored to it, a bit each. An operation that disturbs no other
     * player's is no place for a switch: it would be the same as one before the
     * next operation. Words that share an entry are more places. */
    struct {
        uint16_t users, writers;
    } word[WORDS];
} * play;

/* ---- whose turn it is ---------------------------------------------------- */

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
    struct thread thread[WT_THREADS];
    unsigned threads;
    bool exploring; /* the players play */
    const char *file;
    int line; /* of the last operation */
    uint32_t step, total;
    uint64_t now; /* ns */
    unsigned next_given;
    uint32_t change[3]; /* steps at which a random schedule changes its mind */
    uint32_t later[3];  /* from which its next store is late */
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

void wt_fail_here(const char *what)
{
    wt_fail(s.file, s.line, what);
}

int wt_running(void)
{
    return self != NULL ? (int)number_of(self) : -1;
}

/* The running thread goes on, else the next one by number. */
static unsigned usual_of(unsigned enabled, unsigned current)
{
    while ((enabled >> current & 1) == 0) {
        current = (current + 1) % WT_THREADS;
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

static unsigned later_of(unsigned current)
{
    for (unsigned i = 0; i < 3; i++) {
        if (s.step >= s.later[i]) {
            s.later[i] = UINT32_MAX;
            return LATER;
        }
    }
    return current;
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
    return play->random == 0             ? usual
           : (enabled >> LATER & 1) != 0 ? later_of(current)
                                         : random_of(enabled, current);
}

static unsigned choose_of(unsigned enabled, unsigned current, unsigned usual,
                          bool preempts)
{
    unsigned chosen = chosen_of(enabled, current, usual);

    if (play->choices < CHOICES) {
        play->choice[play->choices++] =
            (struct choice){s.step, (uint16_t)enabled, (uint8_t)chosen,
                            (uint8_t)usual, preempts};
    }
    if (play->tell && s.exploring && chosen != current) {
        fprintf(stderr, "%6u %s:%d: thread %u, ", s.step, s.file, s.line,
                current);
        fprintf(stderr, chosen == LATER ? "whose store is late\n" : "then %u\n",
                chosen);
    }
    return chosen;
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
    wt_fail_here("deadlock: every thread waits");
}

static struct thread *choose(unsigned current)
{
    unsigned enabled = enabled_now(), usual;
    bool able = s.thread[current].state == READY;

    if (enabled == 0) {
        pass_time();
        enabled = enabled_now();
    }
    usual = usual_of(enabled, current);
    if (!s.exploring || (enabled & (enabled - 1)) == 0) {
        return &s.thread[usual];
    }
    return &s.thread[choose_of(enabled, current, usual, able)];
}

/* The calling thread waits until it is chosen again. */
static void change_turns(void)
{
    struct thread *me = self, *next = choose(number_of(me));

    if (next == me) {
        me->state = READY;
        return;
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
        wt_fail_here("livelock: the schedule does not end");
    }
}

/* The last destructor of a thread's last round: until now it had its turn. */
static void end_turn(void *rounds)
{
    if ((uintptr_t)rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(s.end, (void *)((uintptr_t)rounds + 1));
        return;
    }
    wt_order_tell(number_of(self));
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

/* ---- what the hooks call ------------------------------------------------- */

/* The order of an operation: that of WT_WEAKEN is a weaker one. */
static int order_of(const char *file, int line, int order)
{
    if (line != play->weak_line || strstr(file, play->weak_file) == NULL) {
        return order;
    }
    play->met = play->met || s.exploring;
    return order == memory_order_seq_cst ? memory_order_acq_rel
                                         : memory_order_relaxed;
}

/* Before an operation: whether it disturbs another player's. */
static bool disturbs(const volatile void *at, bool stores)
{
    size_t word = (uint32_t)((uintptr_t)at * 0x9E3779B1u) >> 18;
    uint16_t me = (uint16_t)(1u << number_of(self)), others;

    play->word[word].users |= me;
    play->word[word].writers |= stores ? me : 0;
    others = stores ? play->word[word].users : play->word[word].writers;
    return (others & ~me) != 0;
}

/* A place at which another thread may run. True: a store may be late. */
static bool point(const char *file, int line, bool quiet,
                  const volatile void *at, bool stores, int order)
{
    bool shared;

    s.file = file;
    s.line = line;
    step();
    /* A driver is entered by the first operation of its lock. */
    if (!s.exploring || (quiet && order != memory_order_acquire)) {
        return false;
    }
    shared = disturbs(at, stores);
    if (shared || play->everywhere || wt_order_waits(number_of(self))) {
        change_turns();
    }
    s.step += stores && !quiet; /* the store's own choice: whether it is late */
    return (shared || play->tell) && !quiet;
}

/* A store is late, or a read-modify-write beside the order that WT_WEAKEN
 * weakens, if another thread may look at it meanwhile. */
static bool is_late(bool changes, int order)
{
    unsigned me = number_of(self);

    return (!changes ||
            (play->weak_line != 0 && order == memory_order_seq_cst)) &&
           (enabled_now() & ~(1u << me)) != 0 &&
           choose_of(1u << me | 1u << LATER, me, me, true) == LATER;
}

uint64_t wt_atomic(const char *file, int line, _Bool quiet,
                   const volatile void *at, unsigned bytes, enum wt_op op,
                   uint64_t value, int order)
{
    int weak = order;
    bool late = false;

    if (self != NULL) {
        weak = order_of(file, line, order);
        late = point(file, line, quiet, at, op != WT_LOAD, weak) &&
               op != WT_LOAD && is_late(op != WT_STORE, order);
    }
    return wt_order_do(self != NULL ? number_of(self) : 0, op, at, bytes, value,
                       weak, late);
}

_Bool wt_compare(const char *file, int line, _Bool quiet,
                 const volatile void *at, unsigned bytes, void *expected,
                 uint64_t value, int order, int failed)
{
    int weak = order;
    bool late = false;

    if (self != NULL) {
        failed = order_of(file, line, failed);
        weak = order_of(file, line, order);
        late = point(file, line, quiet, at, true, weak) && is_late(true, order);
    }
    return wt_order_compare(self != NULL ? number_of(self) : 0, at, bytes,
                            expected, value, weak, failed, late);
}

void wt_fence(int order)
{
    if (self != NULL && order != memory_order_acquire) {
        wt_order_settle(number_of(self));
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
        wt_order_settle(number_of(self));
        self->state = YIELDS;
        self->priority = 0;
        wt_here();
    }
    return 0;
}

/* Waits until the word is woken; false: the deadline has passed. */
static bool wait_for(const void *word, uint64_t deadline)
{
    self->word = word;
    self->late = false;
    self->deadline = deadline;
    self->state = WAITS;
    wt_here();
    return !self->late;
}

static long futex_wait(const uint32_t *word, uint32_t value,
                       const struct timespec *time)
{
    uint64_t deadline = UINT64_MAX;

    if (__atomic_load_n(word, __ATOMIC_RELAXED) != value) {
        step();
        errno = EAGAIN;
        return -1;
    }
    if (time != NULL) {
        deadline = s.now + (uint64_t)time->tv_sec * 1000000000 +
                   (uint64_t)time->tv_nsec;
    }
    errno = ETIMEDOUT;
    return wait_for(word, deadline) ? 0 : -1;
}

static long futex_wake(const void *word, int count)
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

void wt_tell(bool *word)
{
    wt_order_tell(number_of(self));
    *word = true;
    futex_wake(word, WT_PLAYERS);
}

void wt_await(const bool *word)
{
    if (!*word) {
        (void)wait_for(word, UINT64_MAX);
    }
    wt_order_hear(number_of(self));
}

int wt_create(pthread_t *id, const pthread_attr_t *attr, void *(*main)(void *),
              void *argument)
{
    struct thread *t = &s.thread[s.threads++];
    unsigned parent = self != NULL ? number_of(self) : 0;

    if (s.threads > WT_THREADS) {
        wt_fail(__FILE__, __LINE__, "too many threads");
    }
    wt_order_settle(parent);
    wt_order_begin(number_of(t), parent);
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
    wt_order_settle(number_of(self));
    self->awaited = t;
    self->state = JOINS;
    wt_here();
    wt_order_join(number_of(self), number_of(t));
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
        for (unsigned i = 0; i < s.threads; i++) {
            wt_order_settle(i);
        }
        return 0;
    }
    if (number != SYS_futex || self == NULL) {
        return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
    wt_order_settle(number_of(self));
    return (int)a[1] == FUTEX_WAIT_PRIVATE
               ? futex_wait((const uint32_t *)a[0], (uint32_t)a[2],
                            (const struct timespec *)a[3])
               : futex_wake((const void *)a[0], (int)a[2]);
}

/* ---- the process that plays all schedules -------------------------------- */

static const wt_scenario *playing;
static uint32_t players, warm, done; /* all, after warm(), at the end */

static void *player_main(void *player)
{
    if (playing->warm != NULL) {
        playing->warm();
    }
    wt_order_tell(number_of(self));
    warm++;
    while (!s.exploring) {
        (void)wt_yield();
    }
    wt_order_hear(number_of(self));
    (*(void (*const *)(void))player)();
    if (playing->warm == NULL) {
        return NULL;
    }
    wt_order_tell(number_of(self));
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
        (void)wt_yield();
    }
    wt_order_hear(0);
    wt_order_tell(0);
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
    const struct itimerval most = {.it_value.tv_sec = SECONDS};
    pthread_t main;

    setitimer(ITIMER_PROF, &most, NULL);
    signal(SIGALRM, SIG_DFL); /* Check has one of its own */
    alarm(6 * SECONDS);       /* of one that does nothing for ever */
    pthread_key_create(&s.end, end_turn);
    for (unsigned i = 0; i < 3 && play->random != 0; i++) {
        s.change[i] = (uint32_t)(wt_random(&play->random) % (play->length + 1));
        s.later[i] =
            (uint32_t)(wt_random(&play->random) % (2 * play->length + 1));
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
 * More than LATER: there was none left. */
static uint32_t next_choice(const struct choice *c)
{
    uint32_t thread = c->chosen == c->usual ? 0 : c->chosen + 1u;

    while (thread <= LATER &&
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
        if (thread <= LATER && preemptions + c->preempts <= bound &&
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

/* A thread that could run instead, of all with equal chance. */
static uint32_t other_choice(const struct choice *c, uint64_t *random)
{
    unsigned others = c->enabled & ~(1u << c->usual);
    unsigned skip =
        (unsigned)(wt_random(random) % (unsigned)__builtin_popcount(others));

    while (skip-- > 0) {
        others &= others - 1;
    }
    return (uint32_t)__builtin_ctz(others);
}

/* From the plain schedule of which play->choice tells: preempts at a place of
 * all, then at one of all that come after it. */
static void play_scattered(uint64_t *random)
{
    unsigned at = 0;

    for (int n = 0; n < 2 && at < play->choices; n++) {
        at += (unsigned)(wt_random(random) % (play->choices - at));
        while (at < play->choices && !play->choice[at].preempts) {
            at++;
        }
        if (at < play->choices) {
            const struct choice c = play->choice[at];

            give_again(at++);
            give(c.step, other_choice(&c, random));
            if (!passes()) {
                tell_failure();
            }
        }
    }
}

/* Depth first reached the last places only. */
static void scatter(unsigned count)
{
    static struct choice plain[CHOICES];
    uint64_t random = wt_seed();
    unsigned choices;

    play->givens = 0;
    if (!passes()) {
        tell_failure();
    }
    choices = play->choices;
    memcpy(plain, play->choice, sizeof plain);
    for (unsigned i = 0; i < count; i++) {
        memcpy(play->choice, plain, sizeof plain);
        play->choices = choices;
        play_scattered(&random);
    }
}

static void play_all(unsigned count)
{
    unsigned places, many, plain, part[2], played[2], scattered = 0;

    play_random(count / 4);
    plain = play_deep(0, 0, count, &places);
    for (unsigned i = 0; i < 2; i++) {
        part[i] = part_of(plain, places, i + 1, count);
        played[i] = play_deep(i + 1, part[i], count, &many);
        scattered = played[i] == 2 * count ? count / 2 : scattered;
    }
    if (scattered > 0) {
        scatter(scattered);
    }
    printf("# %u steps; schedules: %u random, %u plain, %u of one preemption "
           "(%u %%), %u of two (%u %%), %u of each scattered\n",
           play->length, count / 4, plain, played[0], part[0] / 100, played[1],
           part[1] / 100, scattered);
    if (play->weak_line != 0) {
        printf("# %s:%d: %s\n", play->weak_file, play->weak_line,
               play->met ? "green" : "never met");
    }
}

void wt_play(const wt_scenario *scenario)
{
    const char *text = getenv("WT_SCHEDULE"), *count = getenv("WT_SCHEDULES");
    cpu_set_t one;

    /* One thread at a time runs: on one processor, with one heap, it is
     * quickest. What is freed does not look as if it were not. */
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_PERTURB, 0xA5);
    play = mmap(NULL, sizeof *play, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(play != MAP_FAILED);
    if (getenv("WT_WEAKEN") != NULL) {
        ck_assert_int_eq(sscanf(getenv("WT_WEAKEN"), "%63[^:]:%d",
                                play->weak_file, &play->weak_line),
                         2);
    }
    playing = scenario;
    playing->setup();
    ck_assert_uint_eq(s.threads, 0);
    if (text != NULL) {
        play_text(text);
    } else {
        play_all(count != NULL ? (unsigned)strtoul(count, NULL, 10) / 3 : 60);
    }
}
