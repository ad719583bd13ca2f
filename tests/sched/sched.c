/* sched.c: one thread at a time, and who is next. In three parts: the process
 * of one schedule; what the hooks call there; the process that plays all
 * schedules. They share struct play. */
#include "hooks.h"

#undef syscall
#undef sched_yield
#undef nanosleep
#undef madvise
#undef clock_gettime
#undef pthread_create
#undef pthread_join
#undef pthread_key_create

#include "sched.h"
#include "wt.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <linux/futex.h>
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
    SITES = 1 << 13,
    SWITCHES = 4096, /* of a schedule that is given */
    SECONDS = 20     /* of one schedule */
};

/* A moment at which more than one thread could run. */
struct choice {
    uint32_t step;
    uint16_t enabled;
    uint8_t chosen, usual; /* usual: what runs if nothing is said */
    bool preempts;         /* another choice than the usual is a preemption */
};

struct given {
    uint32_t step, thread;
};

/* Shared by the two processes. */
static struct play {
    struct given given[SWITCHES]; /* in: where another than the usual runs */
    unsigned givens;
    uint64_t random; /* in: 0, or of a random schedule */
    uint32_t length; /* in: steps among which a random one changes its mind */
    bool learn, tell;
    struct choice choice[CHOICES]; /* out */
    unsigned choices;
    uint32_t steps;
    bool shared[SITES]; /* by site: another thread uses the same word, too */
    char what[256];     /* why the schedule failed */
} * play;

/* Of the linker: the section's bounds. */
extern struct wt_site __start_wt_sites[], __stop_wt_sites[];

static size_t site_number(const struct wt_site *site)
{
    return ((uintptr_t)site - (uintptr_t)__start_wt_sites) / sizeof *site;
}

/* ---- the process of one schedule ------------------------------------------
 */

enum state { READY, WAITS, JOINS, ENDED };

struct thread {
    enum state state;
    bool yields;           /* until another thread has done a step */
    bool timed, timed_out; /* WAITS: until the deadline */
    uint64_t deadline;
    const void *word;      /* WAITS: a futex */
    struct thread *joined; /* JOINS */
    uint32_t go;           /* futex: the thread has its turn */
    uint64_t priority;
    pthread_t id;
    void *(*main)(void *);
    void *argument;
};

static struct {
    struct thread thread[THREADS];
    unsigned threads;
    struct thread *running;
    const struct wt_site *at;
    bool exploring; /* the players play */
    uint32_t step, total;
    uint64_t now, waits; /* ns; waiting threads so far, for their order */
    unsigned next_given;
    uint32_t change[3];
    uint32_t over; /* futex: the scenario's main thread has ended */
} s = {.now = 1000000000, .at = &(const struct wt_site){.file = "the start"}};

/* Also of the library's constructors, before there is a schedule. */
enum { KEYS = 16 };
static struct {
    pthread_key_t key[KEYS];
    void (*destructor[KEYS])(void *);
    unsigned count;
} keys;

static _Thread_local struct thread *self;

static unsigned number_of(const struct thread *t)
{
    return (unsigned)(t - s.thread);
}

static void futex(uint32_t *word, int op, uint32_t value)
{
    syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static void hand(uint32_t *word)
{
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    futex(word, FUTEX_WAKE, 1);
}

static void await(uint32_t *word)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) {
        futex(word, FUTEX_WAIT, 0);
    }
    __atomic_store_n(word, 0, __ATOMIC_RELAXED);
}

void wt_fail(const char *file, int line, const char *what)
{
    snprintf(play->what, sizeof play->what, "%s:%d: %s", file, line, what);
    play->steps = s.step;
    _exit(1);
}

static uint64_t draw(void)
{
    return wt_random(&play->random);
}

/* The thread that runs if nothing is said: the one that runs, else one after
 * the other. */
static unsigned usual_of(unsigned enabled, unsigned current)
{
    if ((enabled >> current & 1) != 0) {
        return current;
    }
    do {
        current = (current + 1) % THREADS;
    } while ((enabled >> current & 1) == 0);
    return current;
}

/* PCT: the thread of the highest priority, which falls behind all others at
 * each place of change. */
static unsigned random_of(unsigned enabled, unsigned current)
{
    unsigned best = usual_of(enabled, current);

    for (unsigned i = 0; i < 3; i++) {
        if (s.step >= s.change[i]) {
            s.change[i] = UINT32_MAX;
            s.thread[current].priority = i;
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

static unsigned chosen_of(unsigned enabled, unsigned current, bool able)
{
    unsigned usual = usual_of(enabled, current), chosen = usual;
    const struct given *given = &play->given[s.next_given];

    if (!s.exploring || (enabled & (enabled - 1)) == 0) {
        return usual;
    }
    while (s.next_given < play->givens && given->step < s.step) {
        given = &play->given[++s.next_given];
    }
    if (s.next_given < play->givens && given->step == s.step) {
        s.next_given++;
        if ((enabled >> given->thread & 1) == 0) {
            wt_fail("WT_SCHEDULE", (int)s.step, "that thread cannot run");
        }
        chosen = given->thread;
    } else if (play->random != 0) {
        chosen = random_of(enabled, current);
    }
    if (play->choices < CHOICES) {
        play->choice[play->choices++] = (struct choice){
            s.step, (uint16_t)enabled, (uint8_t)chosen, (uint8_t)usual, able};
    }
    return chosen;
}

/* All threads wait: time passes until one need not. */
static void pass_time(void)
{
    struct thread *first = NULL;

    for (struct thread *t = s.thread; t < s.thread + s.threads; t++) {
        if (t->state == WAITS && t->timed &&
            (first == NULL || t->deadline < first->deadline)) {
            first = t;
        }
    }
    if (first != NULL) {
        s.now = first->deadline > s.now ? first->deadline : s.now;
        first->timed_out = true;
        first->state = READY;
        return;
    }
    wt_fail(s.at->file, s.at->line, "deadlock: every thread waits");
}

static unsigned enabled_now(void)
{
    unsigned enabled = 0, yielding = 0;

    for (unsigned i = 0; i < s.threads; i++) {
        struct thread *t = &s.thread[i];

        if (t->state == JOINS && t->joined->state == ENDED) {
            t->state = READY;
        }
        if (t->state == READY) {
            *(t->yields ? &yielding : &enabled) |= 1u << i;
        }
    }
    return enabled != 0 ? enabled : yielding;
}

/* Chooses who runs next, the calling thread among them if it is READY. */
static struct thread *choose(struct thread *current)
{
    unsigned enabled = enabled_now(), mine = number_of(current);

    if (enabled == 0) {
        pass_time();
        enabled = enabled_now();
    }
    return &s.thread[chosen_of(enabled, mine,
                               current->state == READY && !current->yields)];
}

static void run(struct thread *next)
{
    if (play->tell && s.exploring && next != s.running) {
        fprintf(stderr, "%6u %s:%d: thread %u, then %u\n", s.step, s.at->file,
                s.at->line, number_of(s.running), number_of(next));
    }
    for (unsigned i = 0; i < s.threads && next != s.running; i++) {
        s.thread[i].yields = s.thread[i].yields && &s.thread[i] == s.running;
    }
    next->yields = false;
    s.running = next;
}

static void step(void)
{
    s.step += s.exploring;
    if (++s.total > STEPS) {
        wt_fail(s.at->file, s.at->line, "livelock: the schedule does not end");
    }
}

static void reschedule(void)
{
    struct thread *me = self, *next = choose(me);

    if (next != me) {
        run(next);
        hand(&next->go);
        await(&me->go);
    } else {
        me->yields = false;
    }
}

/* As the C library runs them, but while the thread has its turn. */
static void run_destructors(void)
{
    for (unsigned round = 0; round < PTHREAD_DESTRUCTOR_ITERATIONS; round++) {
        for (unsigned i = 0; i < keys.count; i++) {
            void *value = pthread_getspecific(keys.key[i]);

            if (value != NULL) {
                pthread_setspecific(keys.key[i], NULL);
                keys.destructor[i](value);
            }
        }
    }
}

static void *trampoline(void *argument)
{
    struct thread *next;

    self = argument;
    await(&self->go);
    (void)self->main(self->argument);
    run_destructors();
    self->state = ENDED;
    if (self == s.thread) {
        hand(&s.over);
        return NULL;
    }
    step();
    next = choose(self);
    run(next);
    hand(&next->go);
    return NULL;
}

int wt_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    int error = pthread_key_create(key, NULL);

    if (error == 0) {
        ck_assert_uint_lt(keys.count, KEYS);
        keys.key[keys.count] = *key;
        keys.destructor[keys.count++] = destructor;
    }
    return error;
}

int wt_create(pthread_t *id, const pthread_attr_t *attr, void *(*main)(void *),
              void *argument)
{
    struct thread *t = &s.thread[s.threads];
    int error;

    if (s.threads == THREADS) {
        wt_fail(__FILE__, __LINE__, "too many threads");
    }
    *t = (struct thread){.main = main, .argument = argument};
    t->priority = play->random != 0 ? draw() | 8 : 0;
    error = pthread_create(&t->id, attr, trampoline, t);
    *id = t->id;
    s.threads += error == 0;
    return error;
}

int wt_join(pthread_t id, void **result)
{
    struct thread *t = s.thread;

    (void)result;
    while (!pthread_equal(t->id, id)) {
        t++;
    }
    if (self == NULL) {
        return pthread_join(id, result);
    }
    step();
    self->joined = t;
    self->state = JOINS;
    reschedule();
    return 0;
}

/* ---- what the hooks call --------------------------------------------------
 */

/* Sites whose words one thread alone uses, or none changes, are no places for
 * a preemption: it would be the same as one at the next other site. A few words
 * share an entry, and then seem to be of more threads. */
enum { USES = 1 << 16, WORDS = 1 << 16 };
static struct {
    uint16_t site[USES], word[USES];
    unsigned uses;
    uint16_t threads[WORDS];
    bool stored[WORDS];
} seen;

static void note_use(size_t site, const volatile void *at, unsigned access)
{
    size_t word = (uintptr_t)at / 4 * 0x9E3779B1u / 65536 % WORDS;

    seen.threads[word] |= (uint16_t)(1u << number_of(self));
    seen.stored[word] |= (access & WT_STORE) != 0;
    if (seen.uses < USES) {
        seen.site[seen.uses] = (uint16_t)site;
        seen.word[seen.uses++] = (uint16_t)word;
    }
}

static void learn_uses(void)
{
    for (unsigned i = 0; i < seen.uses; i++) {
        unsigned threads = seen.threads[seen.word[i]];

        play->shared[seen.site[i]] |=
            seen.stored[seen.word[i]] && (threads & (threads - 1)) != 0;
    }
}

void wt_point(struct wt_site *site, const volatile void *at,
              enum wt_access access, int order)
{
    size_t number = site_number(site);

    if (self == NULL) {
        return;
    }
    s.at = site;
    step();
    /* A driver is entered by the first operation of its lock. */
    if (!s.exploring || (site->quiet && order != memory_order_acquire)) {
        return;
    }
    if (play->learn) {
        note_use(number, at, access);
    }
    if (play->shared[number] || play->learn) {
        reschedule();
    }
}

void wt_here(void)
{
    if (self != NULL) {
        step();
        reschedule();
    }
}

int wt_advise(void *at, size_t bytes, int advice)
{
    return advice == MADV_DONTFORK ? 0 : madvise(at, bytes, advice);
}

int wt_yield(void)
{
    if (self != NULL) {
        step();
        self->yields = true;
        reschedule();
    }
    return 0;
}

void wt_wait(void)
{
    (void)wt_yield();
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

static long futex_wait(const uint32_t *word, uint32_t value,
                       const struct timespec *timeout)
{
    step();
    if (__atomic_load_n(word, __ATOMIC_RELAXED) != value) {
        errno = EAGAIN;
        return -1;
    }
    self->word = word;
    self->timed = timeout != NULL;
    self->timed_out = false;
    self->deadline = s.now;
    if (timeout != NULL) {
        self->deadline +=
            (uint64_t)timeout->tv_sec * 1000000000 + (uint64_t)timeout->tv_nsec;
    }
    self->state = WAITS;
    reschedule();
    errno = ETIMEDOUT;
    return self->timed_out ? -1 : 0;
}

static long futex_wake(const uint32_t *word, int count)
{
    long woken = 0;

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

/* ---- the process that plays all schedules ---------------------------------
 */

static void *player_main(void *argument)
{
    (*(void (*const *)(void))argument)();
    return NULL;
}

static void *scenario_main(void *argument)
{
    const wt_scenario *scenario = argument;
    pthread_t player[WT_PLAYERS];
    unsigned players = 0;

    if (scenario->begin != NULL) {
        scenario->begin();
    }
    while (players < WT_PLAYERS && scenario->player[players] != NULL) {
        wt_create(&player[players], NULL, player_main,
                  (void *)(uintptr_t)&scenario->player[players]);
        players++;
    }
    s.exploring = true;
    for (unsigned i = 0; i < players; i++) {
        wt_join(player[i], NULL);
    }
    s.exploring = false;
    scenario->check();
    return NULL;
}

/* In a process of its own: the schedule that play says. */
static void play_one(const wt_scenario *scenario)
{
    pthread_t main;

    signal(SIGALRM, SIG_DFL); /* Check has one of its own */
    alarm(SECONDS);
    for (unsigned i = 0; i < 3 && play->random != 0; i++) {
        s.change[i] = (uint32_t)(draw() % (play->length + 1));
    }
    wt_create(&main, NULL, scenario_main, (void *)(uintptr_t)scenario);
    s.running = s.thread;
    hand(&s.thread->go);
    await(&s.over);
    for (unsigned i = 0; i < s.threads; i++) {
        if (s.thread[i].state != ENDED) {
            wt_fail(__FILE__, __LINE__, "a thread was left");
        }
    }
    play->steps = s.step;
    if (play->learn) {
        learn_uses();
    }
    _exit(0);
}

/* False: it failed. */
static bool passes(const wt_scenario *scenario)
{
    int status = 0;
    pid_t child;

    play->choices = 0;
    play->steps = 0;
    play->what[0] = '\0';
    fflush(NULL);
    child = _Fork(); /* no handler: the runtime goes on in the child */
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        play_one(scenario);
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

/* The choices of the last schedule that were not the usual ones. */
static void give_choices(unsigned count)
{
    play->givens = 0;
    for (unsigned i = 0; i < count && play->givens < SWITCHES - 1; i++) {
        const struct choice *c = &play->choice[i];

        if (c->chosen != c->usual) {
            play->given[play->givens++] = (struct given){c->step, c->chosen};
        }
    }
}

static bool is_preemption(const struct choice *c)
{
    return c->preempts && c->chosen != c->usual;
}

/* The next thread after the chosen one: the usual, then the others by number.
 * False: there was none left. */
static bool next_choice(const struct choice *c, uint32_t *thread)
{
    *thread = c->chosen == c->usual ? 0 : c->chosen + 1u;
    while (*thread < THREADS &&
           ((c->enabled >> *thread & 1) == 0 || *thread == c->usual)) {
        (*thread)++;
    }
    return *thread < THREADS;
}

/* Depth first: the last choice of the last schedule that can be another one.
 * False: all schedules have been played. */
static bool next_schedule(unsigned bound)
{
    unsigned preemptions = 0;
    uint32_t thread = 0;

    for (unsigned i = 0; i < play->choices; i++) {
        preemptions += is_preemption(&play->choice[i]);
    }
    for (unsigned i = play->choices; i-- > 0;) {
        const struct choice *c = &play->choice[i];

        preemptions -= is_preemption(c);
        if (next_choice(c, &thread) && preemptions + c->preempts <= bound) {
            struct given last = {c->step, thread};

            give_choices(i);
            play->given[play->givens++] = last;
            return true;
        }
    }
    return false;
}

/* Leaves switches out as long as the schedule fails, then prints it. */
static void tell_failure(const wt_scenario *scenario)
{
    char text[4096] = "";
    struct given kept[SWITCHES];
    unsigned count;

    if (play->givens == 0 || play->random != 0) {
        give_choices(play->choices);
    }
    play->random = 0;
    for (unsigned i = play->givens; i-- > 0;) {
        count = play->givens;
        memcpy(kept, play->given, sizeof kept);
        memmove(&play->given[i], &play->given[i + 1],
                (count - i - 1) * sizeof *kept);
        play->givens--;
        if (passes(scenario)) {
            memcpy(play->given, kept, sizeof kept);
            play->givens = count;
        }
    }
    play->tell = true;
    (void)passes(scenario);
    for (unsigned i = 0; i < play->givens; i++) {
        size_t at = strlen(text);

        snprintf(text + at, sizeof text - at, "%s%u>%u", i > 0 ? "," : "",
                 play->given[i].step, play->given[i].thread);
    }
    ck_abort_msg("%s\n  WT_SCHEDULE=%s", play->what, text);
}

static void play_given(const wt_scenario *scenario, const char *text)
{
    char *end = NULL;

    play->tell = true;
    memset(play->shared, true, sizeof play->shared); /* a switch at any site */
    while (*text != '\0' && play->givens < SWITCHES - 1) {
        struct given *g = &play->given[play->givens++];

        g->step = (uint32_t)strtoul(text, &end, 10);
        ck_assert(*end == '>');
        g->thread = (uint32_t)strtoul(end + 1, &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
    if (!passes(scenario)) {
        ck_abort_msg("%s", play->what);
    }
}

static void set_quiet(void)
{
    static const char *const quiet[] = {
        "runtime/host/", "runtime/driver/driver", "runtime/base/meta",
        "runtime/base/log", "runtime/base/clock"};

    size_t sites = site_number(__stop_wt_sites);

    ck_assert_uint_lt(sites, SITES);
    for (size_t i = 0; i < sites * (sizeof quiet / sizeof *quiet); i++) {
        struct wt_site *site = &__start_wt_sites[i % sites];
        const char *unit = quiet[i / sites];

        site->quiet |= strncmp(site->unit, unit, strlen(unit)) == 0;
    }
}

/* Random schedules, for learning or for their own sake. */
static void play_random(const wt_scenario *scenario, unsigned count, bool learn)
{
    uint64_t seed = wt_seed();

    play->learn = learn;
    for (unsigned i = 0; i < count; i++) {
        play->givens = 0;
        play->random = wt_random(&seed) | 1;
        if (!passes(scenario)) {
            play->learn = false;
            tell_failure(scenario);
        }
        play->length = play->steps > play->length ? play->steps : play->length;
    }
    play->learn = false;
    play->random = 0;
}

/* Returns how many schedules of count it has played; *all: every one. */
static unsigned play_deep(const wt_scenario *scenario, unsigned bound,
                          unsigned count, bool *all)
{
    unsigned played = 0;

    play->givens = 0;
    *all = false;
    while (played < count && !*all) {
        if (!passes(scenario)) {
            tell_failure(scenario);
        }
        played++;
        *all = !next_schedule(bound);
    }
    return played;
}

void wt_play(const wt_scenario *scenario)
{
    const char *given = getenv("WT_SCHEDULE"), *budget = getenv("WT_SCHEDULES");
    unsigned count =
        budget != NULL ? (unsigned)strtoul(budget, NULL, 10) : wt_scaled(320);
    unsigned learn = 50, played[3] = {0};
    size_t cpu = 0;
    cpu_set_t one;
    bool all[3] = {false};

    /* One thread at a time runs: on one processor, a turn costs less. */
    sched_getaffinity(0, sizeof one, &one);
    while (CPU_COUNT(&one) > 1) {
        CPU_CLR(cpu++, &one);
    }
    sched_setaffinity(0, sizeof one, &one);
    play = mmap(NULL, sizeof *play, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(play != MAP_FAILED);
    set_quiet();
    scenario->setup();
    ck_assert_uint_eq(s.threads, 0);
    if (given != NULL) {
        play_given(scenario, given);
        return;
    }
    play_random(scenario, learn, true);
    for (unsigned bound = 0; bound < 3; bound++) {
        played[bound] = play_deep(scenario, bound, count / 2, &all[bound]);
    }
    play_random(scenario, count / 2, false);
    printf("# %u steps; schedules: %u%s, %u%s, %u%s of no, one, two "
           "preemptions, %u random\n",
           play->length, played[0], all[0] ? "" : "+", played[1],
           all[1] ? "" : "+", played[2], all[2] ? "" : "+", count / 2);
}
