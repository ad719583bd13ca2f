/* check_storage_wait.c: a storage of memory that no runtime has waits for a
 * stream of the only one, which is destroyed meanwhile by who does not know of
 * that (rows D2, G2). Host device; the wait lasts as long as a test wants. */
#include "runtime/base/status.h"
#include "runtime/runtime.h"

#include "wt.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

static warm_runtime *runtime;
static warm_storage *storage;
static wm_driver_ops ops;
static const wm_driver_ops *real;
static _Atomic bool inside, closing, open, gone;
static _Atomic bool closed_inside;
static warm_status resized;

static bool flag(_Atomic bool *value)
{
    return atomic_load_explicit(value, memory_order_acquire);
}

static void set(_Atomic bool *value, bool to)
{
    atomic_store_explicit(value, to, memory_order_release);
}

static void await(_Atomic bool *value)
{
    while (!flag(value)) {
        sched_yield();
    }
}

static warm_status synchronize(wm_driver *d, warm_stream stream)
{
    warm_status status;

    set(&inside, true);
    await(&open);
    status = real->stream_synchronize(d, stream);
    set(&inside, false);
    return status;
}

static void close_driver(wm_driver *d, uint64_t *dropped)
{
    set(&closed_inside, flag(&inside));
    real->close(d, dropped);
}

static void begin(void)
{
    runtime = wt_runtime(NULL);
    real = runtime->driver->ops;
    ops = *real;
    ops.stream_synchronize = synchronize;
    ops.close = close_driver;
    runtime->driver->ops = &ops;
}

static warm_status alloc_plain(void *context, size_t bytes, warm_stream stream,
                               warm_data_pointer *data)
{
    (void)context, (void)stream;
    data->data = data->context = malloc(bytes);
    data->deleter = free;
    return WARM_OK;
}

static const warm_allocator plain = {.size = sizeof plain,
                                     .name = "plain",
                                     .memory = WARM_MEMORY_HOST,
                                     .alloc = alloc_plain};

static void take_part(void *argument, unsigned index)
{
    wt_linger linger = {0, 0};

    (void)argument;
    switch (index) {
    case 0:
        resized = warm_storage_resize(storage, 200, NULL);
        break;
    case 1:
        await(&inside);
        set(&closing, true);
        wt_ok(warm_runtime_destroy(runtime, NULL));
        set(&gone, true);
        break;
    default:
        await(&closing);
        while (!flag(&gone) && wt_lingers(&linger)) {
        }
        set(&open, true);
    }
}

START_TEST(test_D2_G2_runtime_ends_after_who_waits_for_its_stream)
{
    begin();
    wt_ok(warm_storage_create(&plain, 100, NULL, WARM_STORAGE_RESIZABLE,
                              &storage));
    wt_threads(3, take_part, NULL);
    wt_ok(resized);
    ck_assert(!flag(&closed_inside));
    /* Without a runtime there is no stream to wait for. */
    wt_ok(warm_storage_resize(storage, 300, NULL));
    wt_fails(WARM_UNSUPPORTED,
             warm_storage_resize(storage, 400, (warm_stream)&resized));
    warm_storage_release(storage);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("storage_wait");
    TCase *tcase = tcase_create("storage_wait");

    tcase_add_test(tcase,
                   test_D2_G2_runtime_ends_after_who_waits_for_its_stream);
    suite_add_tcase(suite, tcase);
    return wt_main(suite);
}
