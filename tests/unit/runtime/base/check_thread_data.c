/* check_thread_data.c: the words of a thread's last error and its tag, which
 * are in allocated memory (row G6): without memory, and while a thread
 * ends. */
#include "wt.h"
#include "wt_kind.h"

#include "runtime/base/status.h"
#include "runtime/base/thread_data.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void in_thread(void *(*run)(void *argument), void *argument)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, run, argument), 0);
    pthread_join(thread, NULL);
}

/* ---- without memory ---------------------------------------------------- */

struct seen {
    warm_error error, later, afterwards;
    warm_status tagged, tagged_later;
    char message[128], tag[WARM_TAG_BYTES];
    bool none_before, kept_errno, restored, same_words;
};

static void *fail_without_memory(void *argument)
{
    struct seen *seen = argument;
    warm_error none = {.size = sizeof none};

    wm_thread_data_refuse(true);
    warm_last_error(&none);
    seen->none_before =
        none.status == WARM_OK && warm_last_error_message()[0] == '\0';
    errno = EAGAIN;
    (void)wm_fail_code(WARM_NOT_FOUND, "cuda", 7, "seven", "words %d", 1);
    seen->kept_errno = errno == EAGAIN;
    seen->error.size = seen->later.size = sizeof seen->error;
    seen->afterwards.size = sizeof seen->error;
    warm_last_error(&seen->error);
    snprintf(seen->message, sizeof seen->message, "%s",
             warm_last_error_message());
    wm_error_restore(&none);
    seen->restored = warm_last_error_message()[0] == '\0';
    seen->tagged = warm_memory_tag_set("load");
    snprintf(seen->tag, sizeof seen->tag, "%s", warm_memory_tag_get());
    (void)wm_fail(WARM_NOT_FOUND, "words %d", 3);
    wm_thread_data_refuse(false);
    /* There is a place for words now, made for others. */
    seen->tagged_later = warm_memory_tag_set("load");
    warm_last_error(&seen->afterwards);
    seen->same_words = strcmp(seen->afterwards.message, seen->message) == 0 &&
                       strcmp(warm_last_error_message(), seen->message) == 0;
    (void)wm_fail(WARM_NOT_READY, "words %d", 2);
    warm_last_error(&seen->later);
    return NULL;
}

WT_TEST(test_G6_an_error_without_memory_has_its_status_and_a_text)
{
    struct seen seen;

    memset(&seen, 0, sizeof seen);
    in_thread(fail_without_memory, &seen);
    ck_assert(seen.none_before);
    ck_assert(seen.kept_errno);
    ck_assert_int_eq(seen.error.status, WARM_NOT_FOUND);
    ck_assert_int_eq(seen.error.code, 0);
    ck_assert_str_eq(seen.error.origin, "warmpool");
    ck_assert_ptr_nonnull(strstr(seen.error.message, "no memory"));
    ck_assert_str_eq(seen.message, seen.error.message);
    ck_assert(seen.restored);
    ck_assert_int_eq(seen.tagged, WARM_OUT_OF_MEMORY);
    ck_assert_str_eq(seen.tag, "");
    ck_assert_int_eq(seen.tagged_later, WARM_OK);
    ck_assert_int_eq(seen.afterwards.status, WARM_NOT_FOUND);
    ck_assert(seen.same_words);
    ck_assert_int_eq(seen.later.status, WARM_NOT_READY);
    ck_assert_str_eq(seen.later.message, "words 2");
}

/* Asked by itself, as the first thing after the failure. */
static void *ask_with_memory(void *argument)
{
    char *message = argument;

    wm_thread_data_refuse(true);
    (void)wm_fail(WARM_NOT_FOUND, "words");
    wm_thread_data_refuse(false);
    snprintf(message, 128, "%s", warm_last_error_message());
    return NULL;
}

WT_TEST(test_G6_words_that_were_lost_stay_lost_in_words)
{
    char message[128] = "";

    in_thread(ask_with_memory, message);
    ck_assert_ptr_nonnull(strstr(message, "no memory"));
}

/* ---- work that recovers ------------------------------------------------ */

struct quiet_seen {
    warm_status none, some, kept;
    char no_words[32], words[32], hushed[32], kept_words[32];
};

static void copy_words(char *words)
{
    snprintf(words, 32, "%s", warm_last_error_message());
}

static warm_status status_now(void)
{
    warm_error error = {.size = sizeof error};

    warm_last_error(&error);
    return error.status;
}

/* Fails inside two nested works, and between their ends. */
static void fail_quietly(void)
{
    warm_error inner;

    WM_KEEP_ERROR();
    inner = wm_error_save();
    (void)wm_fail(WARM_NOT_READY, "in the inner work");
    wm_error_restore(&inner);
    (void)wm_fail(WARM_NOT_READY, "in the outer work");
}

static void *recover(void *argument)
{
    struct quiet_seen *seen = argument;
    warm_status hushed;
    warm_error kept;

    fail_quietly();
    seen->none = status_now();
    copy_words(seen->no_words);
    (void)wm_fail(WARM_NOT_FOUND, "before");
    fail_quietly();
    seen->some = status_now();
    copy_words(seen->words);
    hushed = wm_error_hush();
    fail_quietly();
    (void)wm_error_heard(hushed);
    copy_words(seen->hushed);
    (void)wm_fail(WARM_NOT_READY, "kept");
    kept = wm_error_save();
    (void)wm_fail(WARM_NOT_READY, "not kept");
    wm_error_restore(&kept);
    seen->kept = status_now();
    copy_words(seen->kept_words);
    return NULL;
}

WT_TEST(test_G6_work_that_recovers_leaves_the_last_error)
{
    struct quiet_seen seen = {.none = WARM_NOT_FOUND};

    in_thread(recover, &seen);
    ck_assert_int_eq(seen.none, WARM_OK);
    ck_assert_str_eq(seen.no_words, "");
    ck_assert_int_eq(seen.some, WARM_NOT_FOUND);
    ck_assert_str_eq(seen.words, "before");
    ck_assert_str_eq(seen.hushed, "before");
    ck_assert_int_eq(seen.kept, WARM_NOT_READY);
    ck_assert_str_eq(seen.kept_words, "kept");
}

/* ---- as a thread ends -------------------------------------------------- */

enum { ROUNDS = PTHREAD_DESTRUCTOR_ITERATIONS };

static pthread_key_t early, late;

struct end {
    unsigned rounds, words, statuses;
};

/* Fails in every round that there is. */
static void fail_in_destructor(pthread_key_t key, struct end *end)
{
    warm_error error = {.size = sizeof error};
    char text[32];

    end->rounds++;
    snprintf(text, sizeof text, "round %u", end->rounds);
    (void)wm_fail(WARM_NOT_FOUND, "%s", text);
    warm_last_error(&error);
    end->statuses += error.status == WARM_NOT_FOUND;
    end->words += strcmp(error.message, text) == 0 &&
                  strcmp(warm_last_error_message(), text) == 0;
    if (end->rounds < ROUNDS) {
        (void)pthread_setspecific(key, end);
    }
}

static void end_early(void *value)
{
    fail_in_destructor(early, value);
}

static void end_late(void *value)
{
    fail_in_destructor(late, value);
}

static struct end ends[2];

static void *fail_and_end(void *argument)
{
    bool fails_before = *(bool *)argument;

    (void)pthread_setspecific(early, &ends[0]);
    (void)pthread_setspecific(late, &ends[1]);
    if (fails_before) {
        (void)wm_fail(WARM_NOT_FOUND, "before");
    }
    return NULL;
}

/* glibc runs destructors in the order of the keys, up to four rounds: in the
 * last one that comes after ours has a status, and the text without words.
 * ThreadSanitizer does not see what the last round does: neither this test nor
 * the next one runs under it. */
WT_LOOP_TEST(test_G6_destructors_of_a_thread_have_words_for_their_errors,
             WT_TSAN ? 0 : 2)
{
    bool fails_before = _i == 1;

    ck_assert_int_eq(pthread_key_create(&early, end_early), 0);
    (void)wm_fail(WARM_NOT_FOUND, "makes the key");
    ck_assert_int_eq(pthread_key_create(&late, end_late), 0);
    in_thread(fail_and_end, &fails_before);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(ends[i].rounds, ROUNDS);
        ck_assert_uint_eq(ends[i].statuses, ROUNDS);
    }
    ck_assert_uint_eq(ends[0].words, ROUNDS);
    ck_assert_uint_eq(ends[1].words, ROUNDS - 1);
    ck_assert_str_eq(warm_last_error_message(), "makes the key");
}

static char message_at_end[128];

static void ask_late(void *value)
{
    (void)value;
    snprintf(message_at_end, sizeof message_at_end, "%s",
             warm_last_error_message());
}

static void *fail_and_ask_late(void *argument)
{
    (void)pthread_setspecific(late, argument);
    (void)wm_fail(WARM_NOT_FOUND, "before");
    return NULL;
}

/* Its words went with the round before, its status did not. */
WT_LOOP_TEST(test_G6_message_in_a_late_destructor_is_not_empty, !WT_TSAN)
{
    (void)wm_fail(WARM_NOT_FOUND, "makes the key");
    ck_assert_int_eq(pthread_key_create(&late, ask_late), 0);
    in_thread(fail_and_ask_late, &late);
    ck_assert_ptr_nonnull(strstr(message_at_end, "about to end"));
}

static void *fail_once(void *argument)
{
    (void)argument;
    (void)wm_fail(WARM_NOT_FOUND, "once");
    (void)warm_memory_tag_set("tag");
    return NULL;
}

/* Sanitizers, which count differently, find what would be lost. */
WT_TEST(test_G6_threads_that_end_leave_no_words_behind)
{
    struct mallinfo2 before, after;

    in_thread(fail_once, NULL);
    before = mallinfo2();
    for (int i = 0; i < 200; i++) {
        in_thread(fail_once, NULL);
    }
    after = mallinfo2();
    ck_assert_uint_lt(after.uordblks,
                      before.uordblks + 50 * sizeof(wm_thread_data));
}
