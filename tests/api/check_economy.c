/* check_economy.c: how much memory is held beside what is needed (row B25), for
 * page-locked memory and for a device's: idle memory serves requests of other
 * sizes and of other threads before more is obtained than the bound allows;
 * what threads cache; options slack and keep. */
#include "wt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB   ((size_t)1 << 10)
#define MIB   ((size_t)1 << 20)
#define FLOOR (16 * MIB)

/* Bytes that a test needs at once, in at most MOST blocks: two segments, but
 * for gaps between blocks of several sizes. */
#define NEEDED (56 * MIB)
enum { MOST = 1 << 14, THREADS = 8, MANY = 32, SLACK = 15 };

enum { PINNED, DEVICE, SPACES };

static warm_runtime *runtime;
static int space; /* PINNED or DEVICE */

/* Segments so large that each growth beyond what is needed passes the bound,
 * unless the test has others. */
static void begin(warm_options options)
{
    options.size = sizeof options;
    options.segment = options.segment > 0 ? options.segment : 32 * MIB;
    options.slack = options.slack > 0 ? options.slack : SLACK;
    runtime = wt_runtime(&options);
}

static void end(void)
{
    wt_ok(warm_testing_check(runtime, space == PINNED ? -1 : 0));
    wt_runtime_end(runtime);
}

static warm_status take(warm_stream stream, size_t bytes, void **block)
{
    return space == PINNED
               ? warm_pinned_alloc(runtime, bytes, block)
               : warm_device_alloc(runtime, 0, stream, bytes, block);
}

static warm_status take_all(warm_stream stream, size_t bytes, size_t all,
                            void **block)
{
    warm_status status = WARM_OK;

    for (size_t i = 0; i < all / bytes && status == WARM_OK; i++) {
        status = take(stream, bytes, &block[i]);
    }
    return status;
}

static warm_status give_all(void **block, size_t count)
{
    warm_status status = WARM_OK;

    for (size_t i = 0; i < count; i++) {
        warm_status one = warm_free(block[i]);

        status = status == WARM_OK ? one : status;
        block[i] = NULL;
    }
    return status;
}

static size_t held(void)
{
    return space == PINNED ? wt_pinned_stats(runtime).held_bytes.current
                           : wt_device_stats(runtime).all.held_bytes.current;
}

static size_t bound(size_t needed, size_t slack)
{
    return needed + needed * slack / 100 + FLOOR;
}

/* Sizes that lie in the same segments: a device has others for requests up to
 * 512 KiB. */
static const struct {
    size_t first, then;
    bool device;
} sizes[] = {{64 * KIB, MIB, false},      {MIB, 64 * KIB, false},
             {4 * KIB, MIB / 2, true},    {MIB / 2, 4 * KIB, true},
             {96 * KIB, 128 * KIB, true}, {4 * MIB, 640 * KIB, true},
             {640 * KIB, 4 * MIB, true},  {16 * MIB, MIB, true},
             {1536 * KIB, 2 * MIB, true}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static bool skips(int row)
{
    return space == DEVICE && !sizes[row].device;
}

/* ---- one thread ---------------------------------------------------------- */

/* Again and again: what one size left serves the other. */
WT_LOOP_TEST(test_B25_idle_memory_serves_other_sizes, SPACES *SIZES)
{
    static void *block[MOST];
    warm_stream stream;

    space = _i % SPACES;
    if (skips(_i / SPACES)) {
        return;
    }
    begin((warm_options){0});
    stream = wt_stream(runtime, 0);
    for (int turn = 0; turn < 6; turn++) {
        size_t bytes =
            turn % 2 == 0 ? sizes[_i / SPACES].first : sizes[_i / SPACES].then;

        wt_ok(take_all(stream, bytes, NEEDED, block));
        wt_require(held() <= bound(NEEDED, SLACK),
                   "turn %d, blocks of %zu: %zu bytes are held", turn, bytes,
                   held());
        wt_ok(give_all(block, NEEDED / bytes));
    }
    wt_stream_end(runtime, stream);
    end();
}

/* ---- many threads -------------------------------------------------------- */

/* Threads that allocate all at once, free, and wait. */
static struct {
    pthread_barrier_t step;
    warm_stream stream; /* of all threads; null: each has its own */
    size_t bytes, each;
    unsigned threads;
    warm_status status[MANY];
} crowd;

static void fill_and_wait(void *argument, unsigned index)
{
    void **block = calloc(crowd.each / crowd.bytes, sizeof *block);
    warm_status *status = &crowd.status[index];
    warm_stream stream = crowd.stream;

    (void)argument;
    *status = block != NULL ? WARM_OK : WARM_OUT_OF_MEMORY;
    if (*status == WARM_OK && stream == NULL) {
        *status = warm_stream_reserve(runtime, 0, &stream);
    }
    if (*status == WARM_OK) {
        *status = take_all(stream, crowd.bytes, crowd.each, block);
    }
    pthread_barrier_wait(&crowd.step); /* all of them have their blocks */
    if (*status == WARM_OK) {
        *status = give_all(block, crowd.each / crowd.bytes);
    }
    pthread_barrier_wait(&crowd.step); /* and have freed them */
    pthread_barrier_wait(&crowd.step); /* the test has looked */
    free(block);
}

static void *run_crowd(void *nothing)
{
    wt_threads(crowd.threads, fill_and_wait, NULL);
    return nothing;
}

static pthread_t crowd_begin(unsigned threads, size_t bytes)
{
    pthread_t thread;

    crowd.threads = threads;
    crowd.bytes = bytes;
    crowd.each = NEEDED / threads;
    pthread_barrier_init(&crowd.step, NULL, threads + 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, run_crowd, NULL), 0);
    pthread_barrier_wait(&crowd.step);
    pthread_barrier_wait(&crowd.step);
    for (unsigned i = 0; i < threads; i++) {
        wt_ok(crowd.status[i]);
    }
    return thread;
}

static void crowd_end(pthread_t thread)
{
    pthread_barrier_wait(&crowd.step);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&crowd.step);
    if (crowd.stream != NULL) {
        wt_stream_end(runtime, crowd.stream);
        crowd.stream = NULL;
    }
}

/* How many blocks of so many bytes fit into what is idle; SIZE_MAX if threads
 * cache any. */
static size_t count_fits(size_t bytes)
{
    static char text[1 << 23];
    size_t count = 0, needed = 0;

    wt_ok(warm_snapshot_viz(runtime, text, sizeof text, &needed));
    ck_assert_uint_le(needed, sizeof text);
    if (strstr(text, "\"exact_state\":\"magazine\"") != NULL) {
        return SIZE_MAX;
    }
    for (const char *at = text;
         (at = strstr(at, "\"exact_state\":\"idle\"")) != NULL; at++) {
        const char *field = at;

        while (strncmp(field, "\"size\":", 7) != 0) {
            field--;
        }
        count += strtoull(field + 7, NULL, 10) / bytes;
    }
    return count;
}

/* What threads cache that do nothing any more serves one that needs all of it.
 * Large blocks that are allocated between small ones that are still cached
 * leave gaps; more is obtained above the bound only if nothing that is idle
 * serves. Several streams' memory is free one stream at a time, so these
 * threads have one stream. */
WT_LOOP_TEST(test_B25_caches_of_idle_threads_are_taken_back, SPACES *SIZES)
{
    static void *block[MOST];
    size_t bytes = sizes[_i / SPACES].then;
    warm_stream stream;
    pthread_t thread;

    space = _i % SPACES;
    if (skips(_i / SPACES) || sizes[_i / SPACES].first > NEEDED / THREADS) {
        return;
    }
    begin((warm_options){0});
    stream = wt_stream(runtime, 0);
    if (bytes > sizes[_i / SPACES].first) {
        crowd.stream = wt_stream(runtime, 0);
    }
    thread = crowd_begin(THREADS, sizes[_i / SPACES].first);
    for (size_t i = 0, before = held(); i < NEEDED / bytes; i++) {
        wt_ok(take(stream, bytes, &block[i]));
        if (held() > before && held() > bound(NEEDED, SLACK)) {
            wt_require(count_fits(bytes) <= (held() - before) / bytes - 1,
                       "%zu more bytes, beside idle memory for %zu of %zu",
                       held() - before, count_fits(bytes), bytes);
        }
        before = held();
    }
    crowd_end(thread);
    wt_ok(give_all(block, NEEDED / bytes));
    wt_stream_end(runtime, stream);
    end();
}

/* All together, and however many they are. */
WT_LOOP_TEST(test_B25_what_threads_cache_lies_inside_the_slack, 3)
{
    static const unsigned threads[] = {1, THREADS, MANY};
    pthread_t thread;

    space = PINNED;
    begin((warm_options){0});
    thread = crowd_begin(threads[_i], 64 * KIB);
    ck_assert_uint_le(wt_pinned_stats(runtime).cached_bytes,
                      bound(NEEDED, SLACK) - NEEDED);
    ck_assert_uint_gt(wt_pinned_stats(runtime).cached_bytes, 0);
    crowd_end(thread);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, 0);
    end();
}

/* ---- figures ------------------------------------------------------------- */

static uint64_t above_bound(void)
{
    return space == PINNED ? wt_pinned_stats(runtime).above_bound
                           : wt_device_stats(runtime).above_bound;
}

/* Nothing while what is needed grows, however fast. Then half of it is idle in
 * gaps that are too small for a large request. */
WT_LOOP_TEST(test_B25_what_is_obtained_above_the_bound_is_counted, SPACES)
{
    enum { ALL = 128, LARGE = 40, SEGMENT = 4 };
    static void *block[ALL];
    static char text[1 << 16];
    char field[64];
    warm_stream stream;
    uint64_t above;
    void *large;

    space = _i;
    begin((warm_options){.segment = SEGMENT * MIB, .slack = 1, .keep = 1});
    stream = wt_stream(runtime, 0);
    wt_ok(take_all(stream, MIB, ALL * MIB, block));
    ck_assert_uint_eq(held(), ALL * MIB);
    ck_assert_uint_eq(above_bound(), 0);
    for (int i = 0; i < ALL; i += 2) {
        wt_ok(warm_free(block[i]));
        block[i] = NULL;
    }
    wt_ok(take(stream, LARGE * MIB, &large));
    above = above_bound();
    ck_assert_uint_eq(held(), (ALL + LARGE) * MIB);
    ck_assert_uint_ge(above, held() - bound(ALL * MIB, 1));
    ck_assert_uint_le(above, LARGE * MIB);
    wt_ok(warm_stats_json(runtime, text, sizeof text, NULL));
    snprintf(field, sizeof field, "\"above_bound\":%lu", (unsigned long)above);
    wt_contains(text, field);
    wt_ok(space == PINNED ? warm_pinned_reset_totals(runtime)
                          : warm_device_reset_totals(runtime, 0));
    ck_assert_uint_eq(above_bound(), 0);
    wt_ok(warm_free(large));
    wt_ok(give_all(block, ALL));
    wt_stream_end(runtime, stream);
    end();
}

/* A phase of small blocks, of which a few stay, and one of large blocks, again
 * and again: wholly idle segments of either go back as the other's are
 * obtained. */
WT_LOOP_TEST(test_B25_idle_segments_go_back_as_others_are_obtained, SPACES)
{
    enum { ALL = 128, STAYS = 16, LARGE = 3, SEGMENT = 4, PHASES = 4 };
    static void *block[ALL], *large[LARGE];
    size_t most = bound(ALL * MIB, SLACK);
    warm_stream stream;

    space = _i;
    begin((warm_options){.segment = SEGMENT * MIB});
    stream = wt_stream(runtime, 0);
    for (int phase = 0; phase < PHASES; phase++) {
        for (int i = 0; i < ALL; i++) {
            wt_ok(take(stream, MIB, &block[i]));
        }
        ck_assert_uint_le(held(), most);
        for (int i = 0; i < ALL; i++) {
            if (i % STAYS != 0) {
                wt_ok(warm_free(block[i]));
            }
        }
        wt_ok(take_all(stream, 40 * MIB, (size_t)LARGE * 40 * MIB, large));
        wt_require(held() <= most, "phase %d: %zu bytes are held", phase,
                   held());
        wt_ok(give_all(large, LARGE));
        for (int i = 0; i < ALL; i += STAYS) {
            wt_ok(warm_free(block[i]));
        }
    }
    wt_stream_end(runtime, stream);
    end();
}

/* Idle large segments serve no small blocks as long as growth is free; above
 * the bound, growth returns them. */
WT_LOOP_TEST(test_B25_small_blocks_do_not_hold_a_large_segment, SPACES)
{
    enum { BURST = 3, SEGMENT = 4 };
    void *large[BURST], *block;
    warm_stream stream;

    space = _i;
    begin((warm_options){.segment = SEGMENT * MIB});
    stream = wt_stream(runtime, 0);
    wt_ok(take_all(stream, 50 * MIB, (size_t)BURST * 50 * MIB, large));
    wt_ok(give_all(large, BURST));
    wt_ok(take(stream, 10000, &block));
    wt_ok(space == PINNED ? warm_pinned_trim(runtime, 0, NULL)
                          : warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_le(held(), SEGMENT * MIB);
    wt_ok(warm_free(block));
    wt_stream_end(runtime, stream);
    end();
}

/* What was prewarmed and not used, and the reserve, stay: whatever larger they
 * are than other idle segments. */
WT_TEST(test_B25_B10_prewarmed_segments_do_not_go_back)
{
    enum { ALL = 128, REGION = 32, LARGE = 72 };
    static void *block[ALL];
    void *large[2], *whole;

    space = PINNED;
    begin((warm_options){
        .segment = 4 * MIB, .slack = 1, .pin_chunk = REGION * MIB});
    wt_ok(take_all(NULL, MIB, ALL * MIB, block));
    wt_ok(warm_pinned_prewarm(runtime, REGION * MIB, WARM_NODE_ANY, 0));
    wt_ok(give_all(block, ALL));
    for (int i = 0; i < 2; i++) {
        wt_ok(take(NULL, LARGE * MIB, &large[i]));
    }
    ck_assert_uint_lt(held(), (ALL + REGION + LARGE) * MIB);
    wt_ok(take(NULL, REGION * MIB, &whole));
    ck_assert_uint_lt(held(), (ALL + REGION + LARGE) * MIB);
    wt_ok(warm_free(whole));
    wt_ok(give_all(large, 2));
    end();
}

/* What was obtained ahead of demand is needed as long as it is not used: growth
 * for a request that does not fit there is free. (The regions may adjoin.) */
WT_TEST(test_B25_prewarmed_memory_is_not_above_the_bound)
{
    enum { REGION = 32, REGIONS = 2, LARGE = 72 };
    void *large;

    space = PINNED;
    begin((warm_options){
        .segment = 8 * MIB, .slack = 1, .pin_chunk = REGION * MIB});
    wt_ok(
        warm_pinned_prewarm(runtime, REGIONS * REGION * MIB, WARM_NODE_ANY, 0));
    wt_ok(take(NULL, LARGE * MIB, &large));
    ck_assert_uint_eq(held(), (REGIONS * REGION + LARGE) * MIB);
    ck_assert_uint_eq(above_bound(), 0);
    wt_ok(warm_free(large));
    end();
}

/* ---- options ------------------------------------------------------------- */

/* A segment that was obtained for a large request serves others as well, when
 * growth would pass the bound. */
WT_LOOP_TEST(test_B25_segment_of_a_large_request_serves_others, SPACES)
{
    enum { LARGE = 96 << 20 };
    static void *block[MOST];
    warm_stream stream;

    space = _i;
    begin((warm_options){.slack = 1});
    stream = wt_stream(runtime, 0);
    wt_ok(take(stream, LARGE, block));
    wt_ok(warm_free(block[0]));
    wt_ok(take_all(stream, MIB, LARGE, block));
    wt_require(held() <= bound(LARGE, 1), "%zu bytes are held", held());
    wt_ok(give_all(block, LARGE / MIB));
    wt_stream_end(runtime, stream);
    end();
}

/* With more slack less is taken back, and more is held. */
WT_TEST(test_B25_slack_says_how_much_may_be_held)
{
    enum { ALL = 64 << 20 }; /* two segments */
    static void *block[MOST];
    size_t most[2];

    space = PINNED;
    for (int i = 0; i < 2; i++) {
        size_t slack = i == 0 ? 1 : 1000;
        pthread_t thread;

        begin((warm_options){.slack = slack});
        thread = crowd_begin(THREADS, 64 * KIB);
        wt_ok(take_all(NULL, 64 * KIB, ALL, block));
        most[i] = held();
        ck_assert_uint_le(most[i], bound(ALL, slack));
        wt_ok(give_all(block, ALL / (64 * KIB)));
        crowd_end(thread);
        end();
    }
    ck_assert_uint_lt(most[0], most[1]);
}

/* What threads may cache together is a part of the peak, and a little. */
WT_TEST(test_B25_keep_says_how_much_threads_may_cache)
{
    enum { LITTLE = 8 << 20 };
    size_t most[2];

    space = PINNED;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;

        begin((warm_options){.keep = i == 0 ? 1 : 1000});
        thread = crowd_begin(1, MIB);
        wt_ok(warm_poll(runtime));
        crowd_end(thread);
        thread = crowd_begin(1, MIB); /* after the peak */
        most[i] = wt_pinned_stats(runtime).cached_bytes;
        crowd_end(thread);
        end();
    }
    ck_assert_uint_le(most[0], LITTLE);
    ck_assert_uint_lt(most[0], most[1]);
}

static const struct {
    const char *text; /* of WARMPOOL_CONF */
    uint64_t slack, keep;
    warm_status status;
} options[] = {
    {"slack:1,keep:1", 0, 0, WARM_OK},
    {"slack:1000,keep:1000", 0, 0, WARM_OK},
    {"slack:0", 0, 0, WARM_INVALID_OPTION},
    {"slack:1001", 0, 0, WARM_INVALID_OPTION},
    {"slack:a little", 0, 0, WARM_INVALID_OPTION},
    {"keep:0", 0, 0, WARM_INVALID_OPTION},
    {"keep:1001", 0, 0, WARM_INVALID_OPTION},
    {"keep:-1", 0, 0, WARM_INVALID_OPTION},
    {"", 1000, 1000, WARM_OK},
    {"", 1001, 0, WARM_INVALID_OPTION},
    {"", 0, 1001, WARM_INVALID_OPTION},
};

WT_LOOP_TEST(test_B25_G4_slack_and_keep_are_checked,
             sizeof options / sizeof *options)
{
    const warm_options given = {.size = sizeof given,
                                .device = "host",
                                .slack = options[_i].slack,
                                .keep = options[_i].keep};
    warm_runtime *created = NULL;

    setenv("WARMPOOL_CONF", options[_i].text, 1);
    wt_fails(options[_i].status, warm_runtime_create(&given, &created));
    unsetenv("WARMPOOL_CONF");
    if (created != NULL) {
        wt_ok(warm_runtime_destroy(created, NULL));
    } else {
        wt_says(options[_i].keep > 0 || options[_i].text[0] == 'k' ? "keep"
                                                                   : "slack");
    }
}
