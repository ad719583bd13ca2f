/* check_page.c: snapshots of all memory, and the page that shows them with the
 * statistics (rows C7, F6, G7). */
#include "wt_json.h"
#include "wt_kind.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
enum { ROOM = 1 << 20 };

static warm_runtime *runtime;
static void *buffers[3];
static char folder[WT_FOLDER], path[96], text[ROOM];

static void setup(void)
{
    uint32_t value = 7;

    runtime = wt_runtime(NULL);
    wt_ok(warm_shared_alloc(runtime, 0, 5000, WARM_USAGE_PRIVATE, &buffers[0]));
    wt_ok(
        warm_shared_alloc(runtime, 0, 2 * MIB, WARM_USAGE_SHARED, &buffers[1]));
    wt_ok(warm_shared_alloc_scalar(runtime, 0, &value, sizeof value,
                                   &buffers[2]));
    wt_folder(folder);
    snprintf(path, sizeof path, "%s/page.html", folder);
}

static void teardown(void)
{
    wt_free_all(buffers, 3);
    wt_runtime_end(runtime);
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* no file is left over */
}

/* ---- shared buffers ------------------------------------------------------ */

static json_t *json;

/* The text that the library wrote, which stays until the next call. */
static void read_text(const char *from)
{
    json_decref(json);
    json = wt_json_read(from);
    ck_assert_msg(json != NULL, "%.200s", from);
}

static void read_snapshot(warm_runtime *of)
{
    size_t needed = 0;

    wt_ok(warm_snapshot_viz(of, text, sizeof text, &needed));
    ck_assert_uint_eq(needed, strlen(text) + 1);
    read_text(text);
}

/* The index of a place in the snapshot. */
static size_t place_of(const char *name)
{
    const json_t *place;
    size_t i;

    json_array_foreach (wt_json_at(json, "places"), i, place) {
        if (wt_json_is(place, name)) {
            return i;
        }
    }
    ck_abort_msg("no place %s", name);
    return 0;
}

static uint64_t bytes_in_state(const char *place, const char *state)
{
    const json_t *segment, *block;
    uint64_t sum = 0;
    size_t i, k;

    json_array_foreach (wt_json_at(json, "segments"), i, segment) {
        json_array_foreach (json_object_get(segment, "blocks"), k, block) {
            if (wt_json_get_number(segment, "device") == place_of(place) &&
                wt_json_is(json_object_get(block, "exact_state"), state)) {
                sum += wt_json_get_number(block, "size");
            }
        }
    }
    return sum;
}

WT_CASE("snapshots", .setup = setup, .teardown = teardown);

WT_TEST(test_C7_F6_shared_buffers_are_in_a_snapshot)
{
    warm_space_stats own = WARM_INIT(warm_space_stats);

    read_snapshot(runtime);
    wt_ok(warm_shared_get_stats(runtime, 0, WARM_USAGE_PRIVATE, &own));
    ck_assert_uint_eq(bytes_in_state("Private buffers of device 0", "live"),
                      own.live_bytes.current);
    ck_assert_uint_eq(bytes_in_state("Shared buffers of device 0", "live"),
                      2 * MIB);
    ck_assert_uint_eq(bytes_in_state("Scalars of device 0", "live"), 512);
    /* Freed, but it has a user. */
    wt_ok(warm_shared_retain(buffers[1]));
    wt_ok(warm_free(buffers[1]));
    read_snapshot(runtime);
    ck_assert_uint_eq(bytes_in_state("Shared buffers of device 0", "pending"),
                      2 * MIB);
    wt_ok(warm_shared_release(buffers[1]));
    buffers[1] = NULL;
}

WT_TEST(test_C7_F6_events_of_shared_buffers_are_told_apart)
{
    warm_options options = {.size = sizeof options, .history = 100};
    warm_runtime *other = wt_runtime(&options);
    const json_t *events;
    void *buffer = NULL;
    size_t i;

    wt_ok(warm_shared_alloc(other, 0, 5000, WARM_USAGE_SHARED, &buffer));
    wt_ok(warm_free(buffer));
    read_snapshot(other);
    json_array_foreach (wt_json_at(json, "device_traces"), i, events) {
        ck_assert_int_eq(json_array_size(events) > 0,
                         i == place_of("Shared buffers of device 0"));
    }
    wt_runtime_end(other);
}

WT_TEST(test_C7_I6_the_text_has_a_place_for_each_device)
{
    warm_options options = {.size = sizeof options};
    warm_runtime *two = wt_two_devices(&options);

    if (two == NULL) {
        wt_skip("needs two devices");
    }
    read_snapshot(two);
    ck_assert_uint_eq(place_of("Device 1"), 1);
    ck_assert_uint_eq(place_of("Scalars of device 1"),
                      place_of("Scalars of device 0") + 3);
    wt_runtime_end(two);
}

/* ---- the page ------------------------------------------------------------ */

static const char place[] = "<script id=\"data\" type=\"application/json\">";

/* Reads the page; returns its data, which ends with NUL. */
static char *read_page(void)
{
    FILE *file = fopen(path, "r");
    size_t bytes;
    char *data, *end;

    ck_assert_ptr_nonnull(file);
    bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = '\0';
    ck_assert_uint_lt(bytes, sizeof text - 1);
    wt_contains(text, "<!DOCTYPE html>", "</html>\n");
    data = strstr(text, place);
    ck_assert_ptr_nonnull(data);
    data += sizeof place - 1;
    end = strstr(data, "</script>");
    ck_assert_ptr_nonnull(end);
    *end = '\0';
    return data;
}

WT_CASE("page", .setup = setup, .teardown = teardown);

WT_TEST(test_G7_page_has_the_figures_of_the_structs)
{
    warm_stats sum = WARM_INIT(warm_stats);
    struct stat file;

    wt_ok(warm_stats_get(runtime, &sum));
    wt_ok(warm_snapshot_write_html(runtime, path));
    ck_assert_int_eq(stat(path, &file), 0);
    ck_assert_uint_eq(file.st_mode & 0777, 0600);
    read_text(read_page());
#define EQUAL(name, unit, meaning)                                             \
    ck_assert_uint_eq(wt_json_number(wt_json_at(json, "stats.total." #name)),  \
                      sum.name);
    WARM_STATS_MAP(EQUAL)
#undef EQUAL
    ck_assert_ptr_nonnull(wt_json_at(json, "snapshot.segments.0"));
    /* Once more: it is replaced. */
    wt_ok(warm_snapshot_write_html(runtime, path));
}

WT_TEST(test_G7_no_name_ends_the_data_of_the_page)
{
    static wt_toy toy; /* outlives the test: the runtime ends later */
    void *handle = NULL;
    const char *data;

    wt_toy_init(&toy);
    wt_ok(warm_handle_reserve(
        runtime, wt_toy_register(&toy, runtime, "</script><!--<b>"), 0,
        &handle));
    wt_ok(warm_snapshot_write_html(runtime, path));
    data = read_page();
    read_text(data);
    ck_assert_ptr_null(strchr(data, '<'));
    ck_assert_uint_eq(json_array_size(wt_json_at(json, "stats.handles")), 1);
}

WT_TEST(test_G7_page_without_data_is_one_file)
{
    const char *page = warm_snapshot_page();

    wt_contains(page, "<!DOCTYPE html>", "</html>\n", place, "</script>",
                "prefers-color-scheme: dark", "fetch(path");
    ck_assert_ptr_eq(warm_snapshot_page(), page);
    /* Nothing from outside. */
    ck_assert_ptr_null(strstr(page, "https:"));
    ck_assert_ptr_null(strstr(page, "src="));
    ck_assert_ptr_null(strstr(page, "@import"));
    ck_assert_ptr_null(strstr(page, "innerHTML"));
}

WT_TEST(test_G7_page_that_cannot_be_written_changes_nothing)
{
    struct stat file;
    char nowhere[128];

    wt_ok(warm_snapshot_write_html(runtime, path));
    snprintf(nowhere, sizeof nowhere, "%s/none/page.html", folder);
    wt_invalid(warm_snapshot_write_html(runtime, nowhere));
    wt_says(nowhere, "No such file");
    wt_invalid(warm_snapshot_write_html(runtime, NULL));
    wt_invalid(warm_snapshot_write_html(NULL, path));
    /* A folder of that name stays, and so does nothing beside it. */
    snprintf(nowhere, sizeof nowhere, "%s/folder", folder);
    ck_assert_int_eq(mkdir(nowhere, 0700), 0);
    wt_invalid(warm_snapshot_write_html(runtime, nowhere));
    ck_assert_int_eq(rmdir(nowhere), 0);
    /* Nor is a device or a pipe replaced, as root could. */
    ck_assert_int_eq(mkfifo(nowhere, 0600), 0);
    wt_invalid(warm_snapshot_write_html(runtime, nowhere));
    wt_says(nowhere, "not a regular file");
    ck_assert_int_eq(stat(nowhere, &file), 0);
    ck_assert(S_ISFIFO(file.st_mode));
    ck_assert_int_eq(unlink(nowhere), 0);
    (void)read_page();
}

/* Where there is no room for it; Check's own files are not to meet the limit.
 */
WT_TEST(test_G7_page_that_is_cut_short_is_removed)
{
    struct rlimit before, limit;
    warm_status status;
    int failed;

    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 5000;
    (void)signal(SIGXFSZ, SIG_IGN);
    failed = setrlimit(RLIMIT_FSIZE, &limit);
    status = warm_snapshot_write_html(runtime, path);
    failed |= setrlimit(RLIMIT_FSIZE, &before);
    (void)signal(SIGXFSZ, SIG_DFL);
    ck_assert_int_eq(failed, 0);
    wt_invalid(status);
    wt_says(path, strerror(EFBIG));
    ck_assert_int_ne(access(path, F_OK), 0);
}

WT_TEST(test_G7_page_without_memory_for_it_fails_and_leaks_nothing)
{
    int64_t before = wt_metadata_live();

    for (uint64_t n = 1;; n++) {
        warm_status status;

        warm_testing_fail_metadata(n, 0);
        status = warm_snapshot_write_html(runtime, path);
        warm_testing_fail_metadata(0, 0);
        ck_assert_int_eq(wt_metadata_live(), before);
        if (status == WARM_OK) {
            ck_assert_uint_gt(n, 3);
            break;
        }
        ck_assert_int_eq(status, WARM_OUT_OF_MEMORY);
        ck_assert_int_ne(access(path, F_OK), 0);
    }
}
