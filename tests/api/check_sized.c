/* check_sized.c: structs that begin with their size (rows G2, G4, G6): the
 * smaller ones of an older program are served, wrong sizes are refused. */
/* memcheck: one process */
#include "wt.h"
#include "wt_kind.h"

#include <string.h>

enum { ROOM = 4096, FILL = 0x5a };

/* Big enough for any of them, and for one of a newer release. */
union any {
    size_t size;
    unsigned char bytes[ROOM];
    max_align_t align;
};

static warm_runtime *runtime;
static void *block;
static wt_toy toy;

static warm_status device_info(void *s)
{
    return warm_device_get_info(runtime, 0, s);
}

static warm_status handle_stats(void *s)
{
    return warm_handle_get_stats(runtime, WARM_KIND_STREAM, 0, s);
}

static warm_status space_stats(void *s)
{
    return warm_pinned_get_stats(runtime, s);
}

static warm_status class_stats(void *s)
{
    return warm_pinned_get_class_stats(runtime, 0, s);
}

static warm_status block_info(void *s)
{
    return warm_block_get_info(block, s);
}

static warm_status stats(void *s)
{
    return warm_stats_get(runtime, s);
}

/* Each needs a runtime of its own, which is ended if the struct is good. */
static warm_status destroy_report(void *s)
{
    warm_runtime *mine = wt_runtime(NULL);
    warm_status status = warm_runtime_destroy(mine, s);

    if (status != WARM_OK) {
        wt_runtime_end(mine);
    }
    return status;
}

static const struct {
    const char *name;
    size_t size;
    warm_status (*call)(void *s);
} outputs[] = {
    {"warm_device_info", sizeof(warm_device_info), device_info},
    {"warm_handle_stats", sizeof(warm_handle_stats), handle_stats},
    {"warm_space_stats", sizeof(warm_space_stats), space_stats},
    {"warm_class_stats", sizeof(warm_class_stats), class_stats},
    {"warm_block_info", sizeof(warm_block_info), block_info},
    {"warm_stats", sizeof(warm_stats), stats},
    {"warm_destroy_report", sizeof(warm_destroy_report), destroy_report},
};
enum { OUTPUTS = sizeof outputs / sizeof outputs[0] };

static void set_up(void)
{
    runtime = wt_runtime(NULL);
    block = wt_pinned(runtime, 1000);
    wt_toy_init(&toy);
}

static void tear_down(void)
{
    wt_ok(warm_free(block));
    wt_runtime_end(runtime);
}

static union any with_size(size_t size)
{
    union any s;

    memset(&s, FILL, sizeof s);
    s.size = size;
    return s;
}

static bool untouched_from(const union any *s, size_t from)
{
    for (size_t i = from; i < sizeof s->bytes; i++) {
        if (s->bytes[i] != FILL) {
            return false;
        }
    }
    return true;
}

WT_CASE("structs", .setup = set_up, .teardown = tear_down);

WT_LOOP_TEST(test_G4_G6_every_older_struct_is_filled_as_far_as_it_goes, OUTPUTS)
{
    union any full = with_size(outputs[_i].size);

    wt_ok(outputs[_i].call(&full));
    ck_assert_uint_eq(full.size, outputs[_i].size);
    ck_assert(untouched_from(&full, outputs[_i].size));
    for (size_t size = 2 * sizeof(size_t); size < outputs[_i].size;
         size += sizeof(size_t)) {
        union any s = with_size(size);

        wt_ok(outputs[_i].call(&s));
        ck_assert_uint_eq(s.size, size);
        ck_assert(untouched_from(&s, size));
    }
}

WT_LOOP_TEST(test_G6_no_structs_size_is_refused_and_named, OUTPUTS)
{
    const size_t bad[] = {0,
                          1,
                          sizeof(size_t),
                          outputs[_i].size - 1,
                          outputs[_i].size + sizeof(size_t),
                          ROOM,
                          SIZE_MAX};

    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        union any s = with_size(bad[i]);

        wt_invalid(outputs[_i].call(&s));
        ck_assert_uint_eq(s.size, bad[i]);
        ck_assert(untouched_from(&s, sizeof s.size));
        wt_says(outputs[_i].name);
    }
}

/* The fields past the size belong to somebody else, and are never read. */
WT_TEST(test_G4_older_options_have_defaults_for_the_rest)
{
    union any s = with_size(offsetof(warm_options, segment));
    warm_options *options = (warm_options *)(void *)&s;
    warm_runtime *made = NULL;
    int count = 0;

    options->device = wt_on_host() ? "host" : "cuda";
    options->host_devices = 0;
    options->host_memory = 0;
    wt_ok(warm_runtime_create(options, &made));
    wt_ok(warm_device_count(made, &count));
    ck_assert_int_ge(count, 1);
    wt_runtime_end(made);
    made = NULL;
    options->size = sizeof *options + sizeof(size_t);
    wt_invalid(warm_runtime_create(options, &made));
    wt_says("warm_options");
    options->size = sizeof(size_t);
    wt_invalid(warm_runtime_create(options, &made));
    ck_assert_ptr_null(made);
}

WT_TEST(test_A9_an_older_kind_lacks_the_later_callbacks)
{
    union any s = with_size(offsetof(warm_kind_ops, bind_stream));
    warm_kind_ops *ops = (warm_kind_ops *)(void *)&s;
    warm_kind kind = -1;
    void *handle = NULL;

    ops->name = "older";
    ops->context = &toy;
    ops->create = wt_toy_create;
    ops->destroy = wt_toy_destroy;
    ops->size = sizeof *ops + sizeof(size_t);
    wt_invalid(warm_kind_register(runtime, ops, &kind));
    wt_says("warm_kind_ops");
    ops->size = offsetof(warm_kind_ops, destroy);
    wt_invalid(warm_kind_register(runtime, ops, &kind));
    ck_assert_int_eq(kind, -1);
    ops->size = offsetof(warm_kind_ops, bind_stream);
    wt_ok(warm_kind_register(runtime, ops, &kind));
    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    wt_fails(WARM_UNSUPPORTED,
             warm_handle_reserve_on(runtime, kind, 0, NULL, &handle));
    wt_ok(warm_thread_release(runtime)); /* there is no reset to call */
    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
}

WT_TEST(test_G6_last_error_serves_older_and_newer_structs)
{
    union any s = with_size(offsetof(warm_error, message));
    warm_error *error = (warm_error *)(void *)&s;

    wt_invalid(warm_device_count(runtime, NULL));
    warm_last_error(error);
    ck_assert_int_eq(error->status, WARM_INVALID_ARGUMENT);
    ck_assert(untouched_from(&s, offsetof(warm_error, message)));
    s = with_size(ROOM);
    warm_last_error(error);
    ck_assert_str_eq(error->message, warm_last_error_message());
    ck_assert_uint_eq(s.size, ROOM);
    ck_assert(untouched_from(&s, sizeof *error));
    s = with_size(0);
    warm_last_error(error);
    ck_assert(untouched_from(&s, sizeof s.size));
}
