/* check_ipc_fault.c: every driver call fails in turn, and every allocation of
 * a record, at its n-th call, once and from then on, while memory of another
 * process is opened and closed, and memory of this one exported (row C9).
 *
 * As check_device_fault.c: one flow is played for n = 1, 2, … until it passes
 * without meeting the fault. What must hold each time: a refused call changed
 * nothing; once the fault is gone all can be closed, and nothing stays mapped.
 */
#include "wt_peer.h"

#include <stdio.h>
#include <string.h>

enum { HANDLES = 3, OPENS = 5, N_MAX = 200 };

static wt_peer *peer;
static warm_ipc_handle handle[HANDLES]; /* of two segments */

static struct flow {
    warm_runtime *runtime;
    void *block;
    void *open[OPENS];
} f;

static warm_ipc_stats stats_now(void)
{
    warm_ipc_stats stats = {.size = sizeof stats};

    wt_ok(warm_ipc_get_stats(f.runtime, &stats));
    return stats;
}

static void open_one(int i)
{
    warm_ipc_stats before = stats_now();
    void *pointer = NULL;
    warm_status status =
        warm_ipc_open(f.runtime, &handle[i % HANDLES], &pointer);
    warm_ipc_stats after = stats_now();

    if (status == WARM_OK) {
        wt_require(after.opened == before.opened + 1, "not counted");
        f.open[i] = pointer;
        return;
    }
    wt_require(pointer == NULL && memcmp(&before, &after, sizeof after) == 0,
               "a refused opening changed something");
}

static void close_one(int i)
{
    warm_ipc_stats before = stats_now(), after;
    warm_status status;

    if (f.open[i] == NULL) {
        return;
    }
    status = warm_ipc_close(f.runtime, f.open[i]);
    after = stats_now();
    if (status == WARM_OK) {
        wt_require(after.opened == before.opened - 1, "not counted");
        f.open[i] = NULL;
        return;
    }
    wt_require(memcmp(&before, &after, sizeof after) == 0,
               "a refused closing changed something");
    wt_fails(WARM_INVALID_POINTER, warm_free(f.open[i]));
    wt_require(strstr(warm_last_error_message(), "warm_ipc_close") != NULL,
               "it is not known to be open any more");
}

static void export_one(void)
{
    warm_ipc_handle made = {.size = sizeof made}, before = made;

    if (warm_ipc_export(f.block, &made) != WARM_OK) {
        wt_require(memcmp(&before, &made, sizeof made) == 0,
                   "a refused export wrote something");
    } else {
        wt_require(made.check != 0, "an export wrote nothing");
    }
}

static void play(void)
{
    export_one();
    for (int i = 0; i < OPENS; i++) {
        open_one(i);
    }
    for (int i = 0; i < OPENS; i += 2) {
        close_one(i);
    }
    export_one();
    for (int i = 0; i < OPENS; i++) {
        close_one(i);
    }
    open_one(0);
    close_one(0);
}

/* Segments of others that this process maps. */
static unsigned mapped_now(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned count = 0;

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        count += strstr(line, "memfd:warmpool device") != NULL;
    }
    fclose(maps);
    return count;
}

static void begin(void)
{
    f = (struct flow){.runtime = wt_runtime(NULL)};
    f.block = wt_device(f.runtime, NULL, 5000);
}

static void end(void)
{
    for (int i = 0; i < OPENS; i++) {
        close_one(i);
        wt_require(f.open[i] == NULL, "it cannot be closed");
    }
    wt_require(stats_now().segments == 0, "a segment stays mapped");
    for (int i = 0; i < HANDLES; i++) {
        open_one(i);
        wt_require(f.open[i] != NULL, "it cannot be opened");
        wt_require(wt_device_read(f.runtime, f.open[i], 4096) ==
                       (uint32_t)i + 1,
                   "it is not what was exported");
        close_one(i);
    }
    wt_ok(warm_free(f.block));
    wt_runtime_end(f.runtime);
    wt_require(mapped_now() == 0, "something stays mapped");
}

static void setup(void)
{
    peer = wt_peer_start(1);
    for (int i = 0; i < HANDLES; i++) {
        handle[i] = wt_peer_export(peer, i, 0, i == 1 ? 3 << 20 : 4096,
                                   (uint32_t)i + 1);
    }
}

static void teardown(void)
{
    for (int i = 0; i < HANDLES; i++) {
        wt_peer_free(peer, i);
    }
    wt_peer_end(peer);
}

static void fail_every_call(const char *call, int persistent)
{
    uint64_t before = 0, calls = 0;

    for (uint64_t n = 1; n < N_MAX; n++) {
        begin();
        before = wt_calls(f.runtime, call);
        wt_ok(warm_testing_fail(f.runtime, call, n, persistent));
        play();
        wt_ok(warm_testing_fail(f.runtime, call, 0, 0));
        calls = wt_calls(f.runtime, call);
        end();
        if (n > calls - before) {
            return;
        }
    }
    ck_abort_msg("%s is called more than %d times", call, N_MAX);
}

static const char *const calls[] = {"device_id", "ipc_export", "ipc_open",
                                    "ipc_close", "capture_mode"};
enum { CALLS = sizeof calls / sizeof calls[0] };

WT_CASE("ipc_fault", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_C9_every_driver_call_may_fail, 2 * CALLS)
{
    fail_every_call(calls[_i / 2], _i % 2);
}

WT_LOOP_TEST(test_C9_every_record_may_fail, 2)
{
    uint64_t before, count;

    begin();
    before = wt_metadata_calls();
    play();
    count = wt_metadata_calls() - before;
    end();
    ck_assert_uint_gt(count, 5);
    for (uint64_t n = 1; n <= count; n++) {
        begin();
        warm_testing_fail_metadata(n, _i != 0);
        play();
        warm_testing_fail_metadata(0, 0);
        end();
    }
}

/* What does not go back at the end of a runtime is said, and crashes nothing.
 */
static unsigned said;

static void listen(void *context, warm_log_level level, const char *line)
{
    said += level == WARM_LOG_WARNING && strstr(line, "stays mapped") != NULL;
}

WT_TEST(test_C9_G2_end_that_cannot_unmap_says_so)
{
    warm_destroy_report report = {.size = sizeof report};

    begin();
    wt_ok(warm_free(f.block));
    open_one(0);
    open_one(1);
    warm_log_set(listen, NULL);
    wt_ok(warm_testing_fail(f.runtime, "ipc_close", 1, 0));
    wt_ok(warm_runtime_destroy(f.runtime, &report));
    warm_log_set(NULL, NULL);
    ck_assert_uint_eq(report.imports, 2);
    ck_assert_uint_eq(said, 1);
    ck_assert_uint_eq(mapped_now(), 1);
}
