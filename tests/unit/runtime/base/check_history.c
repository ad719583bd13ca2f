/* check_history.c: the ring of the last events (row C7, history.h). */
/* memcheck: one process */
#include "wt.h"

#include "runtime/base/history.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/text.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static wm_history *history;

static void open_ring(uint64_t events, uint64_t frames)
{
    warm_options given = {
        .size = sizeof given, .history = events, .history_frames = frames};
    wm_options options;

    wt_ok(wm_options_resolve(&given, NULL, &options));
    wt_ok(wm_history_open(&options, &history));
}

static void teardown(void)
{
    wm_history_close(history);
    ck_assert_int_eq(wm_meta_live(), 0);
}

/* Every word of it follows from one. */
static wm_history_event event_like(uint64_t n)
{
    wm_history_event event = {.op = n % 6,
                              .place = n,
                              .address = ~n,
                              .bytes = n * 3,
                              .lane_id = n << 8,
                              .pool = n ^ 0x5555};

    event.origin.ns = n + 1;
    event.origin.thread = n * 7;
    memset(event.origin.tag, (int)(n & 0x3f) + 1, sizeof event.origin.tag);
    for (uint64_t i = 0; i < WM_FRAMES_MAX; i++) {
        event.origin.frame[i] = n + i;
    }
    return event;
}

static bool is_whole(const wm_history_event *event)
{
    wm_history_event like = event_like(event->place);

    return memcmp(event, &like, wm_history_event_bytes(history)) == 0;
}

static void put(uint64_t n)
{
    wm_history_event event = event_like(n);

    wm_history_put(history, &event);
}

WT_CASE("ring", .timeout = 60, .teardown = teardown);

WT_TEST(test_C7_without_the_option_there_is_no_ring)
{
    open_ring(0, 0);
    ck_assert_ptr_null(history);
    ck_assert_uint_eq(wm_history_origin_bytes(NULL), 0);
    ck_assert_uint_eq(wm_history_event_bytes(NULL), 0);
}

WT_TEST(test_C7_ring_holds_the_last_events)
{
    wm_history_event event;

    open_ring(5, 0);
    ck_assert_uint_eq(wm_history_next(history), 0);
    ck_assert(!wm_history_read(history, 0, &event));
    for (uint64_t n = 0; n < 17; n++) {
        put(n);
        ck_assert_uint_eq(wm_history_next(history), n + 1);
    }
    ck_assert_uint_eq(wm_history_oldest(history, 17), 12);
    for (uint64_t n = 0; n < 20; n++) {
        bool there = wm_history_read(history, n, &event);

        ck_assert_int_eq(there, n >= 12 && n < 17);
        ck_assert(!there || (event.place == n && is_whole(&event)));
    }
    ck_assert_uint_eq(wm_history_oldest(history, 3), 0);
    ck_assert_uint_eq(wm_history_dropped(history), 0);
}

static uint64_t stopped_clock(void)
{
    return UINT64_C(4711) * 1000000;
}

WT_TEST(test_C7_origin_is_the_thread_and_the_time)
{
    wm_origin origin;

    open_ring(5, 4);
    wm_clock_set(stopped_clock);
    wt_ok(warm_memory_tag_set("here"));
    wm_history_here(history, &origin, true);
    wm_clock_set(NULL);
    ck_assert_uint_eq(origin.ns, stopped_clock());
    ck_assert_uint_eq(origin.thread, (uint64_t)gettid());
    ck_assert_str_eq(origin.tag, "here");
    ck_assert_uint_ne(origin.frame[0], 0);
    wm_history_here(history, &origin, false);
    ck_assert_uint_eq(origin.frame[0], 0);
    wt_ok(warm_memory_tag_set(NULL));
}

static const char *described(const wm_origin *origin, bool since)
{
    static char words[400];
    wm_text text = {words, sizeof words, 0};

    wm_clock_set(stopped_clock);
    wm_history_describe(history, origin, since, &text);
    wm_clock_set(NULL);
    return words;
}

/* Frames are addresses behind calls: of a function of the C library, and of
 * none. */
WT_TEST(test_C7_G9_origin_in_words)
{
    wm_origin origin = {.ns = 0};
    uintptr_t known = (uintptr_t)dlsym(RTLD_DEFAULT, "getpid");
    char words[400];
    Dl_info info;

    open_ring(1, 2);
    ck_assert_str_eq(described(&origin, true), "unknown thread");
    origin.ns = UINT64_C(1000000000);
    origin.thread = 7;
    ck_assert_str_eq(described(&origin, false), "thread 7");
    ck_assert_str_eq(described(&origin, true), "thread 7, 3.711 s ago");
    strcpy(origin.tag, "here");
    ck_assert_int_ne(dladdr((void *)known, &info), 0);
    origin.frame[0] = known + 1;
    origin.frame[1] = 16;
    snprintf(words, sizeof words,
             "thread 7, tag 'here': %s (%s+0x%" PRIxPTR ") < 0x10",
             info.dli_sname, strrchr(info.dli_fname, '/') + 1,
             known + 1 - (uintptr_t)info.dli_fbase);
    ck_assert_str_eq(described(&origin, false), words);
}

WT_TEST(test_C7_frames_are_kept_with_the_event)
{
    wm_history_event event = event_like(3), read;

    open_ring(2, WM_FRAMES_MAX);
    wm_history_put(history, &event);
    ck_assert(wm_history_read(history, 0, &read));
    ck_assert_mem_eq(&read, &event, sizeof event);
    ck_assert_uint_eq(wm_history_event_bytes(history), sizeof event);
    ck_assert_uint_eq(wm_history_origin_bytes(history), sizeof event.origin);
}

/* A writer that comes so late that its slot has a later event: it drops its
 * own. */
WT_TEST(test_C7_an_older_event_replaces_no_newer_one)
{
    _Atomic uint64_t *next;
    wm_history_event event;

    open_ring(2, 0);
    next = (_Atomic uint64_t *)(void *)history; /* its first field */
    for (uint64_t n = 0; n < 6; n++) {
        put(n);
    }
    atomic_store_explicit(next, 3, memory_order_relaxed);
    put(3);
    ck_assert_uint_eq(wm_history_dropped(history), 1);
    ck_assert(wm_history_read(history, 5, &event));
    ck_assert_uint_eq(event.place, 5);
}

/* An event that cannot be read at first: meanwhile others go round the ring,
 * and come by a slot that is being written. */
static wm_history_event *slow;

static void go_round(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    (void)context;
    put(1);
    put(2);
    (void)mprotect(slow, sizeof *slow, PROT_READ | PROT_WRITE);
}

WT_TEST(test_C7_a_slot_that_is_written_is_left_alone)
{
    const struct sigaction action = {.sa_sigaction = go_round,
                                     .sa_flags = SA_SIGINFO};
    struct sigaction before;
    wm_history_event event;

    open_ring(2, 0);
    slow = mmap(NULL, sizeof *slow, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(slow != MAP_FAILED);
    *slow = event_like(0);
    ck_assert_int_eq(mprotect(slow, sizeof *slow, PROT_NONE), 0);
    ck_assert_int_eq(sigaction(SIGSEGV, &action, &before), 0);
    wm_history_put(history, slow);
    ck_assert_int_eq(sigaction(SIGSEGV, &before, NULL), 0);
    ck_assert_uint_eq(wm_history_dropped(history), 1);
    ck_assert(wm_history_read(history, 1, &event) && is_whole(&event));
    ck_assert(!wm_history_read(history, 2, &event));
    munmap(slow, sizeof *slow);
}

enum { WRITERS = 3, READERS = 2 };

static struct shared {
    unsigned each;
    _Atomic unsigned writing;
    _Atomic unsigned torn;
} s;

static void write_or_read(void *argument, unsigned index)
{
    wm_history_event event;

    (void)argument;
    for (unsigned i = 0; index < WRITERS && i < s.each; i++) {
        put((uint64_t)index * s.each + i);
    }
    if (index < WRITERS) {
        atomic_fetch_sub_explicit(&s.writing, 1, memory_order_relaxed);
    }
    while (atomic_load_explicit(&s.writing, memory_order_relaxed) > 0) {
        uint64_t next = wm_history_next(history);

        for (uint64_t n = wm_history_oldest(history, next); n < next; n++) {
            if (wm_history_read(history, n, &event) && !is_whole(&event)) {
                atomic_fetch_add_explicit(&s.torn, 1, memory_order_relaxed);
            }
        }
    }
}

static const uint64_t rings[] = {1, 2, 7, 64};

WT_LOOP_TEST(test_C7_no_event_is_torn, sizeof rings / sizeof rings[0])
{
    wm_history_event event;
    uint64_t next, missing = 0;

    open_ring(rings[_i], WM_FRAMES_MAX);
    s.each = wt_scaled(50000);
    atomic_store_explicit(&s.writing, WRITERS, memory_order_relaxed);
    wt_threads(WRITERS + READERS, write_or_read, NULL);
    ck_assert_uint_eq(s.torn, 0);
    next = wm_history_next(history);
    ck_assert_uint_eq(next, (uint64_t)WRITERS * s.each);
    for (uint64_t n = wm_history_oldest(history, next); n < next; n++) {
        if (!wm_history_read(history, n, &event)) {
            missing++;
        } else {
            ck_assert(is_whole(&event));
        }
    }
    ck_assert_uint_le(missing, wm_history_dropped(history));
}
