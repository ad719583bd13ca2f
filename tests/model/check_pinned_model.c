/* check_pinned_model.c: random steps against a plain model (rows B2 to B6).
 *
 * The model knows of every stream how many marks were queued and how many the
 * stream has passed (a mark is a host function that counts). Freeing a block
 * notes the marks queued on each of its streams; memory that is handed out
 * again must not overlap any freed block whose streams have not passed them
 * all. Two streams are held for ever, so that their blocks never return while
 * those of the others do. Streams are adopted and retired at random: a block
 * that used one which was retired since waits for what was queued until then.
 * The arena's walker runs every so often.
 */
#include "wt.h"

#include <stdatomic.h>
#include <string.h>

enum {
    STREAMS = 8,
    STUCK = 2, /* streams 0 and 1 are held for ever */
    LIVE = 96,
    FREED = 512,
    STUCK_MAX = 60 /* freed blocks that the stuck streams may hold up */
};

struct range {
    char *base;
    size_t bytes;
    unsigned streams;       /* bit s: recorded on stream s */
    unsigned ended;         /* bit s: and s was retired since */
    uint64_t mark[STREAMS]; /* queued on it when the block was freed, or then */
    unsigned char stamp;
};

static struct model {
    warm_runtime *runtime;
    warm_stream stream[STREAMS];
    uint64_t queued[STREAMS];
    _Atomic uint64_t passed[STREAMS];
    bool held[STREAMS];
    struct range live[LIVE];
    struct range freed[FREED]; /* not known to have passed */
    unsigned lives, freeds, stuck;
    uint64_t random;
    unsigned long step;
    unsigned nodes;
    bool dry; /* the driver has no more memory */
    bool background;
    unsigned long pageables;
} m;

static uint64_t pick(uint64_t below)
{
    return wt_random(&m.random) % below;
}

static void pass_mark(void *argument)
{
    /* Release: what ran on the stream before is visible with the count. */
    atomic_fetch_add_explicit((_Atomic uint64_t *)argument, 1,
                              memory_order_release);
}

static uint64_t passed(unsigned s)
{
    return atomic_load_explicit(&m.passed[s], memory_order_acquire);
}

static void queue_mark(unsigned s)
{
    wt_ok(
        warm_stream_host_func(m.runtime, m.stream[s], pass_mark, &m.passed[s]));
    m.queued[s]++;
}

static bool has_passed(const struct range *r)
{
    for (unsigned s = 0; s < STREAMS; s++) {
        if (((r->streams >> s) & 1) != 0 && passed(s) < r->mark[s]) {
            return false;
        }
    }
    return true;
}

static bool overlap(const struct range *a, const struct range *b)
{
    return a->base < b->base + b->bytes && b->base < a->base + a->bytes;
}

static void check_new(const struct range *fresh)
{
    for (unsigned i = 0; i < m.lives; i++) {
        wt_require(!overlap(&m.live[i], fresh),
                   "seed %lu step %lu: two live blocks overlap",
                   (unsigned long)wt_seed(), m.step);
    }
    for (unsigned i = 0; i < m.freeds;) {
        if (has_passed(&m.freed[i])) {
            m.freed[i] = m.freed[--m.freeds];
            continue;
        }
        wt_require(!overlap(&m.freed[i], fresh),
                   "seed %lu step %lu: handed out while a stream works "
                   "on it",
                   (unsigned long)wt_seed(), m.step);
        i++;
    }
}

/* Of a node that was asked for, of the thread's own, or of any; and pageable
 * only while the driver has no more memory. */
static void *allocate(size_t bytes)
{
    int node = (int)pick(m.nodes + 1) - 1;
    unsigned flags = m.dry ? WARM_ALLOC_PAGEABLE_OK : 0;
    warm_block_info info = {.size = sizeof info};
    void *pointer = NULL;

    if (node == WARM_NODE_ANY && flags == 0) {
        wt_ok(warm_pinned_alloc(m.runtime, bytes, &pointer));
    } else {
        wt_ok(warm_pinned_alloc_on(m.runtime, bytes, node, flags, &pointer));
    }
    wt_ok(warm_block_get_info(pointer, &info));
    wt_require(m.dry || !info.pageable, "seed %lu step %lu: pageable",
               (unsigned long)wt_seed(), m.step);
    m.pageables += info.pageable != 0;
    if (info.pageable) {
        node = WARM_NODE_ANY;
    } else if (node == WARM_NODE_ANY) {
        node = info.node; /* another one's, if its own had none lately */
    }
    wt_require(info.node == node, "seed %lu step %lu: of node %d, not %d",
               (unsigned long)wt_seed(), m.step, info.node, node);
    return pointer;
}

static void step_alloc(void)
{
    size_t bytes = 1 + pick((size_t)1 << (1 + pick(21)));
    struct range fresh = {.bytes = bytes, .stamp = (unsigned char)pick(256)};

    fresh.base = allocate(bytes);
    check_new(&fresh);
    fresh.base[0] = (char)fresh.stamp;
    fresh.base[bytes - 1] = (char)fresh.stamp;
    m.live[m.lives++] = fresh;
}

static void step_record(void)
{
    struct range *r = &m.live[pick(m.lives)];
    unsigned s = (unsigned)pick(STREAMS);

    if (s < STUCK && m.stuck >= STUCK_MAX) {
        return;
    }
    wt_ok(warm_record_stream(r->base + pick(r->bytes), m.stream[s]));
    r->streams |= 1u << s;
    r->ended &= ~(1u << s);
    if (pick(2) == 0) {
        queue_mark(s);
    }
}

static void step_free(void)
{
    unsigned at = (unsigned)pick(m.lives);
    struct range r = m.live[at];

    wt_require((unsigned char)r.base[0] == r.stamp &&
                   (unsigned char)r.base[r.bytes - 1] == r.stamp,
               "seed %lu step %lu: a live block was written over",
               (unsigned long)wt_seed(), m.step);
    m.live[at] = m.live[--m.lives];
    for (unsigned s = 0; s < STREAMS; s++) {
        r.mark[s] = (r.ended >> s & 1) != 0 ? r.mark[s] : m.queued[s];
    }
    m.stuck += (r.streams & ((1u << STUCK) - 1)) != 0;
    if (r.streams != 0) {
        if (m.freeds == FREED) {
            /* Forgetting one only makes the model less strict. */
            m.freed[pick(FREED)] = r;
        } else {
            m.freed[m.freeds++] = r;
        }
    }
    wt_ok(warm_free(r.base));
}

/* A stream is held, moves on a little by hand, or runs freely again. */
static void step_stream(void)
{
    unsigned s = STUCK + (unsigned)pick(STREAMS - STUCK);

    if (!m.held[s]) {
        wt_stall(m.runtime, m.stream[s]);
        m.held[s] = true;
    } else if (pick(3) != 0) {
        wt_stall_step(m.runtime, m.stream[s], 1 + (unsigned)pick(4));
    } else {
        wt_stall_end(m.runtime, m.stream[s]);
        m.held[s] = false;
    }
}

/* A stream ends and another takes its place, perhaps at its address. Its work
 * is finished first, so that the model's marks of it are all passed. */
static void step_replace(void)
{
    unsigned s = STUCK + (unsigned)pick(STREAMS - STUCK);

    if (m.held[s]) {
        wt_stall_end(m.runtime, m.stream[s]);
        m.held[s] = false;
    }
    wt_ok(warm_stream_synchronize(m.runtime, m.stream[s]));
    wt_ok(warm_stream_destroy(m.runtime, m.stream[s]));
    wt_ok(warm_stream_create(m.runtime, 0, &m.stream[s]));
    /* Marks on the new one do not concern blocks that the old one used. */
    for (unsigned i = 0; i < m.lives; i++) {
        m.live[i].streams &= ~(1u << s);
    }
}

/* A stream is adopted, or retired and goes on: what was freed before, and what
 * is freed later, waits all the same. The stuck ones, too. */
static void step_adopt(void)
{
    unsigned s = (unsigned)pick(STREAMS);

    if (pick(2) == 0) {
        wt_ok(warm_stream_adopt(m.runtime, m.stream[s]));
        return;
    }
    wt_ok(warm_stream_retire(m.runtime, m.stream[s]));
    for (unsigned i = 0; i < m.lives; i++) {
        if ((m.live[i].ended >> s & 1) == 0) {
            m.live[i].ended |= 1u << s;
            m.live[i].mark[s] = m.queued[s];
        }
    }
}

/* The driver runs out of memory, or has some again. */
static void step_supply(void)
{
    m.dry = !m.dry;
    wt_ok(warm_testing_fail(m.runtime, "pinned_alloc", m.dry, 1));
    wt_ok(warm_testing_fail(m.runtime, "pinned_register", m.dry, 1));
}

/* One turn completes all frees, unless the background thread closes a batch at
 * that moment: it may record the event after this thread has waited for the
 * stream, and has the batch in hand while this thread polls. It closes each
 * batch once, so a few more turns suffice. */
static void settle_frees(unsigned stuck)
{
    warm_space_stats stats = {.size = sizeof stats};
    unsigned turns = m.background ? 1000 : 1;

    do {
        for (unsigned s = STUCK; s < STREAMS; s++) {
            wt_ok(warm_stream_synchronize(m.runtime, m.stream[s]));
        }
        wt_ok(warm_poll(m.runtime));
        wt_ok(warm_pinned_get_stats(m.runtime, &stats));
    } while (stats.pending.current + stats.pageable_pending.current != stuck &&
             --turns > 0);
}

/* With every stream but the stuck ones drained, only blocks of those wait. On
 * CUDA no stream is stuck. */
static void check_liveness(void)
{
    warm_space_stats stats = {.size = sizeof stats};
    unsigned stuck = wt_on_host() ? m.stuck : 0;

    for (unsigned s = 0; s < STUCK && !wt_on_host(); s++) {
        wt_ok(warm_stream_synchronize(m.runtime, m.stream[s]));
    }

    for (unsigned s = STUCK; s < STREAMS; s++) {
        if (m.held[s]) {
            wt_stall_end(m.runtime, m.stream[s]);
            m.held[s] = false;
        }
    }
    settle_frees(stuck);
    wt_ok(warm_pinned_get_stats(m.runtime, &stats));
    wt_require(stats.pending.current + stats.pageable_pending.current == stuck,
               "seed %lu step %lu: %lu pending, %u held up by stuck "
               "streams",
               (unsigned long)wt_seed(), m.step,
               (unsigned long)stats.pending.current, stuck);
    ck_assert_uint_eq(stats.live.current + stats.pageable.current, m.lives);
    ck_assert_uint_eq(stats.pageable.allocated, m.pageables);
    ck_assert_uint_eq(stats.lost, 0);
}

static void check_all(void)
{
    wt_require(warm_testing_check(m.runtime, 1) == WARM_OK,
               "seed %lu step %lu: %s", (unsigned long)wt_seed(), m.step,
               warm_last_error_message());
}

static void one_step(void)
{
    uint64_t what = pick(1000);

    if (what < 2) {
        step_replace();
    } else if (what < 4) {
        step_adopt();
    } else if (what < 40) {
        step_stream();
    } else if (what < 42 && pick(4) == 0) {
        wt_ok(warm_pinned_trim(m.runtime, pick((size_t)64 << 20), NULL));
    } else if (what < 45) {
        wt_ok(warm_poll(m.runtime));
    } else if (what < 50) {
        step_supply();
    } else if (what < 350 && m.lives > 0) {
        step_record();
    } else if (m.lives == LIVE || (m.lives > 0 && what < 675)) {
        step_free();
    } else {
        step_alloc();
    }
}

static void begin(unsigned nodes, bool background, size_t chunk)
{
    warm_options options = {.size = sizeof options,
                            .numa_nodes = nodes,
                            .background = background ? "on" : "off",
                            .pin_chunk = chunk,
                            .batch_ms = background ? 1 : 0,
                            .reserve_bytes = background ? 8 << 20 : 0};

    memset(&m, 0, sizeof m);
    m.nodes = nodes;
    m.background = background;
    m.random = wt_seed();
    m.runtime = wt_runtime(&options);
    for (unsigned s = 0; s < STREAMS; s++) {
        wt_ok(warm_stream_create(m.runtime, 0, &m.stream[s]));
    }
    for (unsigned s = 0; s < STUCK; s++) {
        wt_stall(m.runtime, m.stream[s]);
        queue_mark(s);
    }
}

static void end(void)
{
    check_liveness();
    for (unsigned s = 0; s < STUCK; s++) {
        wt_stall_end(m.runtime, m.stream[s]);
        wt_ok(warm_stream_synchronize(m.runtime, m.stream[s]));
    }
    while (m.lives > 0) {
        step_free();
    }
    for (unsigned s = 0; s < STREAMS; s++) {
        wt_ok(warm_stream_synchronize(m.runtime, m.stream[s]));
    }
    wt_ok(warm_poll(m.runtime));
    check_all();
    /* A part of the steps may do without. */
    ck_assert(m.pageables > 0 || wt_scaled(100) < 100);
    ck_assert_uint_eq(wt_pinned_stats(m.runtime).pageable_held.current, 0);
    wt_runtime_end(m.runtime);
}

static void play(unsigned nodes, bool background, size_t chunk,
                 unsigned long steps)
{
    begin(nodes, background, chunk);
    for (m.step = 0; m.step < steps; m.step++) {
        one_step();
        if (m.step % 2048 == 0) {
            check_all();
            check_liveness();
        }
    }
    end();
}

WT_TEST(test_B2_B4_B5_B6_B18_million_random_steps_agree_with_the_model)
{
    play(1, false, 0, wt_scaled(1000000));
}

WT_TEST(test_B4_B15_B18_random_steps_on_two_nodes_agree_with_the_model)
{
    play(2, false, 0, wt_scaled(300000));
}

/* A thread that polls and obtains memory beside the steps. */
WT_TEST(test_B4_B10_random_steps_beside_a_thread_agree_with_the_model)
{
    play(1, true, 0, wt_scaled(300000));
}

/* Blocks of up to sixteen pieces. */
WT_LOOP_TEST(test_B4_B19_random_steps_with_pieces_agree_with_the_model, 2)
{
    play((unsigned)_i + 1, false, 128 << 10, wt_scaled(200000));
}
