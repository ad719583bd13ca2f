/* check_marks.c: which events a wait for a buffer is for, whatever the order in
 * which threads come by after they recorded them (row F6). */
/* memcheck: one process */
#include "wt.h"

#include "alloc/kinds/shared.h"

static warm_runtime *runtime;
static warm_stream stream;
static void *buffer;

static void setup(void)
{
    runtime = wt_runtime(NULL);
    stream = wt_stream(runtime, 0);
    wt_ok(warm_shared_alloc(runtime, 0, 5000, WARM_USAGE_SHARED, &buffer));
}

static void teardown(void)
{
    wt_ok(warm_free(buffer));
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}

static wm_mark *begin(void)
{
    wm_mark *mark = NULL;

    wt_ok(wm_mark_begin(runtime->shared, stream, &mark));
    return mark;
}

static void put(wm_mark *mark)
{
    wt_ok(wm_mark_put(runtime->shared, &buffer, 1, mark));
}

/* How many marks the buffer has; *has: wanted is one of them. */
static size_t marks(const wm_mark *wanted, bool *has)
{
    wm_shared *shared = runtime->shared;
    const wm_buffer *b;
    size_t count = 0;

    *has = false;
    wm_lock_acquire(&shared->lock);
    b = wm_buffer_find_locked(shared, buffer);
    for (const wm_marked *m = b->marks; m != NULL; m = m->next) {
        *has |= m->mark == wanted;
        count++;
    }
    ck_assert_uint_eq(count, b->mark_count);
    wm_lock_release(&shared->lock);
    return count;
}

WT_CASE("order", .setup = setup, .teardown = teardown);

WT_TEST(test_F6_a_later_mark_of_a_stream_stands_for_an_earlier_one)
{
    wm_mark *first = begin(), *second = begin();
    bool has;

    put(first);
    ck_assert_uint_eq(marks(first, &has), 1);
    put(second);
    ck_assert_uint_eq(marks(second, &has), 1);
    ck_assert(has);
}

/* The thread that recorded first comes by last. */
WT_TEST(test_F6_an_earlier_mark_never_takes_the_place_of_a_later_one)
{
    wm_mark *first = begin(), *second = begin();
    bool has;

    put(second);
    put(first);
    ck_assert_uint_eq(marks(second, &has), 1);
    ck_assert(has);
}

/* Which one stands for the other is unknown. */
WT_TEST(test_F6_marks_that_were_recorded_at_once_both_stay)
{
    wm_mark *first = begin(), *second = begin();
    bool has;

    second->begun = first->begun;
    first->ended = second->ended;
    put(second);
    put(first);
    ck_assert_uint_eq(marks(second, &has), 2);
    ck_assert(has);
}

WT_TEST(test_F6_a_mark_for_no_buffer_gives_its_event_back)
{
    uint64_t events = wt_calls(runtime, "event_create");

    for (int i = 0; i < 20; i++) {
        wt_ok(wm_mark_put(runtime->shared, NULL, 0, begin()));
    }
    ck_assert_uint_eq(wt_calls(runtime, "event_create") - events, 1);
}
