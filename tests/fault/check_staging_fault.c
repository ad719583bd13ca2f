/* check_staging_fault.c: every driver call, and every allocation of a record,
 * fails at its n-th call under a staging ring, once and from then on (row B26).
 *
 * What must hold each time: copies that succeeded arrive, in either direction,
 * unless the finish says that it failed; the ring can be destroyed, and nothing
 * is left of it that the driver says is over. */
/* memcheck: one process */
#include "wt_fault.h"

#include <string.h>

enum { SLICE = 4 << 10, BYTES = 64 << 10, COPIES = 24 };

static struct flow {
    warm_runtime *runtime;
    warm_stream stream;
    warm_staging *ring;
    char *device;
    bool put[COPIES]; /* the copy to the device succeeded */
    bool finished;    /* and so did the finish after all of them */
    bool fetched;     /* the same of the copies to the host */
    warm_status ended;
} f;

static char source[BYTES], target[BYTES];

static size_t at(int i)
{
    return (size_t)i * (BYTES / COPIES);
}

static size_t bytes_of(int i)
{
    return i % 3 == 0 ? BYTES / COPIES : 700;
}

static warm_status put(int i)
{
    return warm_staging_copy(f.ring, f.device + at(i), source + at(i),
                             bytes_of(i), WARM_COPY_TO_DEVICE,
                             i % 8 == 7 ? NULL : f.stream,
                             i % 2 == 0 ? WARM_STAGING_MORE : 0);
}

static void play(void)
{
    warm_staging_options options = {.size = sizeof options,
                                    .slice_bytes = SLICE,
                                    .slices = 2,
                                    .wait_ms = 10000};
    warm_staging *second = NULL;
    bool good = true;

    if (warm_staging_create(f.runtime, 0, &options, &second) == WARM_OK) {
        (void)warm_staging_destroy(second);
    }
    if (warm_staging_create(f.runtime, 0, &options, &f.ring) != WARM_OK) {
        wt_require(f.ring == NULL, "a ring in spite of the failure");
        return;
    }
    for (int i = 0; i < COPIES; i++) {
        f.put[i] = put(i) == WARM_OK;
    }
    f.finished = warm_staging_finish(f.ring) == WARM_OK;
    for (int i = 0; i < COPIES; i++) {
        good &= warm_staging_copy(f.ring, target + at(i), f.device + at(i),
                                  bytes_of(i), WARM_COPY_TO_HOST, f.stream,
                                  WARM_STAGING_MORE) == WARM_OK;
    }
    f.fetched = warm_staging_finish(f.ring) == WARM_OK && good;
    f.ended = warm_staging_destroy(f.ring);
}

static void begin(uint64_t n)
{
    memset(&f, 0, sizeof f);
    memset(target, 0, sizeof target);
    for (size_t i = 0; i < sizeof source; i++) {
        source[i] = (char)(i * 13 + i / 200 + n);
    }
    f.runtime = wt_runtime(NULL);
    f.stream = wt_stream(f.runtime, 0);
    f.device = wt_device(f.runtime, f.stream, BYTES);
    wt_ok(warm_testing_copy(f.runtime, f.device, target, BYTES, f.stream));
    wt_ok(warm_stream_synchronize(f.runtime, f.stream));
}

static void end(void)
{
    static char seen[BYTES];
    warm_destroy_report report = WARM_INIT(warm_destroy_report);

    wt_require(f.ended != WARM_NOT_READY && f.ended != WARM_CAPTURE_ERROR,
               "the ring was not destroyed");
    wt_ok(warm_stream_synchronize(f.runtime, f.stream));
    wt_ok(warm_stream_synchronize(f.runtime, NULL));
    wt_ok(warm_testing_copy(f.runtime, seen, f.device, BYTES, f.stream));
    wt_ok(warm_stream_synchronize(f.runtime, f.stream));
    for (int i = 0; i < COPIES; i++) {
        wt_require(!f.put[i] || !f.finished ||
                       memcmp(seen + at(i), source + at(i), bytes_of(i)) == 0,
                   "copy %d did not arrive", i);
        wt_require(!f.fetched ||
                       memcmp(target + at(i), seen + at(i), bytes_of(i)) == 0,
                   "copy %d did not come back", i);
    }
    wt_ok(warm_free(f.device));
    wt_ok(warm_stream_synchronize(f.runtime, f.stream));
    wt_ok(warm_stream_destroy(f.runtime, f.stream));
    wt_ok(warm_testing_check(f.runtime, 0));
    wt_ok(warm_runtime_destroy(f.runtime, &report));
    wt_require(report.live == 0 || f.ended != WARM_OK,
               "%lu blocks are left of a ring that ended well",
               (unsigned long)report.live);
}

static const wt_flow flow = {begin, play, end, &f.runtime, 400, 1};

WT_LOOP_TEST(test_B26_every_driver_call_may_fail, 2 * wt_driver_calls())
{
    wt_fail_every_call(&flow, warm_testing_call_name(_i / 2), _i % 2);
}

WT_LOOP_TEST(test_B26_every_record_may_fail, 2)
{
    wt_fail_every_record(&flow, _i != 0);
}
