/* check_lease_threads.c: threads that lease, return what others leased, make
 * handles ahead, trim and reserve, all at once (rows A2, A11, A12, A13).
 *
 * A handle seen with two users, or with the setting of its last one, is
 * counted by the toy; leases pass through slots that any thread empties. */
#include "wt.h"
#include "wt_kind.h"

#include <sched.h>

enum { THREADS = 8, SLOTS = 12, STEPS = 4000, KINDS = 2 };

static warm_runtime *runtime;
static wt_toy toy;
static warm_kind kinds[KINDS];

static void set_up(void)
{
    runtime = wt_runtime(NULL);
    wt_toy_init(&toy);
    kinds[0] = wt_toy_register(&toy, runtime, "toy");
    kinds[1] = WARM_KIND_STREAM;
}

static void tear_down(void)
{
    wt_runtime_end(runtime);
    wt_toy_end(&toy);
}

struct slot {
    warm_lease lease;
    void *handle;
    int kind; /* index into kinds */
};

struct play {
    pthread_mutex_t mutex;
    struct slot slots[SLOTS]; /* lock mutex; lease 0: empty */
    atomic_uint failures, unbalanced, leases;
    uint64_t seed;
};

/* Puts what the caller has into a slot and takes out what was there. */
static void exchange(struct play *play, unsigned at, struct slot *slot)
{
    struct slot old;

    pthread_mutex_lock(&play->mutex);
    old = play->slots[at];
    play->slots[at] = *slot;
    pthread_mutex_unlock(&play->mutex);
    *slot = old;
}

static void give_back(struct play *play, const struct slot *slot)
{
    if (slot->lease.number == 0) {
        return;
    }
    if (slot->kind == 0) {
        wt_toy_leave(slot->handle);
    }
    if (warm_handle_return(runtime, slot->lease) != WARM_OK) {
        play->failures++;
    }
    /* Again: the handle may be with another by now. */
    if (warm_handle_return(runtime, slot->lease) != WARM_INVALID_ARGUMENT) {
        play->failures++;
    }
}

static void lend(struct play *play, int kind, unsigned at)
{
    struct slot slot = {.kind = kind};

    if (warm_handle_lease(runtime, kinds[kind], 0, &slot.lease, &slot.handle) !=
        WARM_OK) {
        play->failures++;
        return;
    }
    play->leases++;
    if (kind == 0) {
        wt_toy_use(slot.handle);
    }
    exchange(play, at, &slot);
    give_back(play, &slot);
}

static void hold(struct play *play, int kind)
{
    void *handle = NULL;

    if (warm_handle_reserve(runtime, kinds[kind], 0, &handle) != WARM_OK) {
        play->failures++;
        return;
    }
    if (kind == 0) {
        wt_toy_use(handle);
        wt_toy_leave(handle);
    }
    (void)warm_thread_release(runtime);
}

static void work(void *argument, unsigned index)
{
    struct play *play = argument;
    uint64_t random = play->seed + index + 1;

    for (unsigned i = 0; i < wt_scaled(STEPS); i++) {
        uint64_t r = wt_random(&random) >> 20;
        int kind = (int)(r % KINDS);
        unsigned at = (unsigned)(r >> 8) % SLOTS;
        unsigned count = (unsigned)(r >> 16) % 4;
        struct slot none = {.lease = 0};
        warm_status status = WARM_OK;

        switch ((r >> 24) % 16) {
        case 0:
            status = warm_handle_prewarm(runtime, kinds[kind], 0, count, 0);
            break;
        case 1:
            status = warm_handle_prewarm(runtime, kinds[kind], 0, count,
                                         WARM_PREWARM_BACKGROUND);
            break;
        case 2:
            status = warm_handle_trim(runtime, kinds[kind], 0, count, 0, NULL);
            break;
        case 3:
            status = count == 0 ? warm_handle_prewarm_cancel(runtime)
                                : warm_handle_prewarm_wait(runtime);
            break;
        case 4:
        case 5:
            hold(play, kind);
            break;
        case 6:
        case 7:
            exchange(play, at, &none);
            give_back(play, &none);
            break;
        default:
            lend(play, kind, at);
            break;
        }
        play->failures += status != WARM_OK;
        play->unbalanced += !wt_balanced(runtime, kinds[kind], 0);
    }
}

WT_CASE("lease", .setup = set_up, .teardown = tear_down);

WT_TEST(test_A2_A11_A12_A13_no_handle_is_ever_with_two)
{
    struct play play = {.mutex = PTHREAD_MUTEX_INITIALIZER, .seed = wt_seed()};

    wt_threads(THREADS, work, &play);
    ck_assert_uint_gt(play.leases, 0);
    for (unsigned i = 0; i < SLOTS; i++) {
        struct slot none = {.lease = 0};

        exchange(&play, i, &none);
        give_back(&play, &none);
    }
    wt_ok(warm_handle_prewarm_wait(runtime));
    ck_assert_uint_eq(play.failures, 0);
    ck_assert_uint_eq(play.unbalanced, 0);
    for (int i = 0; i < KINDS; i++) {
        ck_assert_int_eq(wt_stat(runtime, kinds[i], 0, leased), 0);
        ck_assert_int_eq(wt_stat(runtime, kinds[i], 0, in_use), 0);
        ck_assert_int_eq(wt_stat(runtime, kinds[i], 0, leaked), 0);
        ck_assert_int_eq(wt_stat(runtime, kinds[i], 0, prewarming), 0);
        ck_assert(wt_balanced(runtime, kinds[i], 0));
    }
    ck_assert_int_eq(toy.alive, wt_stat(runtime, kinds[0], 0, idle));
}

/* The background thread makes handles while the runtime is destroyed. */
WT_TEST(test_A11_G2_destroyed_in_the_middle_of_a_prewarm)
{
    for (unsigned i = 0; i < wt_scaled(200); i++) {
        unsigned creates = toy.creates;

        wt_ok(warm_handle_prewarm(runtime, kinds[0], 0, 8,
                                  WARM_PREWARM_BACKGROUND));
        wt_ok(warm_handle_prewarm(runtime, WARM_KIND_STREAM, 0, 2,
                                  WARM_PREWARM_BACKGROUND));
        for (unsigned k = 0; k < i % 4 && toy.creates == creates; k++) {
            sched_yield();
        }
        wt_runtime_end(runtime);
        wt_toy_end(&toy);
        runtime = wt_runtime(NULL);
        kinds[0] = wt_toy_register(&toy, runtime, "toy");
    }
}
