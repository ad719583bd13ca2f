/* check_cuda_choice.c: which version of CUDA is used where several are, and
 * that its libraries are all of that version. Over the stand-ins, which are
 * there as version 12 and as that of the headers (row A9). backends: standin
 *
 * Each test is a process of its own (Check forks), with no library of CUDA
 * loaded but libcuda. */
#include "runtime/cuda/cuda.h"

#include "handles/kinds/kind_cuda.h"
#include "handles/kinds/builtin.h"
#include "tests/skip.h"

#if WM_HAVE_CUDA && CUDART_VERSION >= 13000 && __has_include(<cublas_v2.h>) && \
    __has_include(<cublasLt.h>) && __has_include(<cudnn.h>) && \
    __has_include(<cusparse.h>) && __has_include(<cusolverDn.h>)
#include "wt.h"

#include "runtime/base/log.h"
#include "tests/standin/standin.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

/* The kinds, and the files of their libraries below the stand-ins' folder. */
static const struct row {
    const wm_kind_ops *ops;
    const char *newer, *older;
} rows[] = {
    {&wm_kind_cublas, "libcublas.so.13", "12/libcublas.so.12"},
    {&wm_kind_cublaslt, "libcublasLt.so.13", "12/libcublasLt.so.12"},
    {&wm_kind_cudnn, "libcudnn.so.9", "12/libcudnn.so.9"},
    {&wm_kind_cusparse, "libcusparse.so.12", "12/libcusparse.so.12"},
    {&wm_kind_cusolver, "libcusolver.so.12", "12/libcusolver.so.11"},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static __typeof__(standin_driver_version) *driver_version;
static __typeof__(standin_misuse) *misuse;
static char directory[200], log_lines[4096];
static wm_options options;
static wm_driver *d;

static void keep_line(void *context, warm_log_level level, const char *line)
{
    strncat(log_lines, line, sizeof log_lines - strlen(log_lines) - 1);
}

static void setup(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    struct link_map *map = NULL;

    ck_assert_msg(cuda != NULL, "%s", dlerror());
    ck_assert_int_eq(dlinfo(cuda, RTLD_DI_LINKMAP, &map), 0);
    snprintf(directory, sizeof directory, "%s", map->l_name);
    *strrchr(directory, '/') = '\0';
    *(void **)(void *)&driver_version = dlsym(cuda, "standin_driver_version");
    *(void **)(void *)&misuse = dlsym(cuda, "standin_misuse");
    ck_assert(driver_version != NULL && misuse != NULL);
    wt_ok(wm_options_resolve(NULL, NULL, &options));
    warm_log_set(keep_line, NULL);
    wm_log_set_level(WARM_LOG_INFO);
}

static void teardown(void)
{
    char text[256];

    ck_assert_msg(misuse(text, sizeof text) == 0, "%s", text);
}

/* A file below the stand-ins' folder. */
static const char *file(const char *name)
{
    static char path[WM_OPTION_TEXT_MAX];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static bool is_mapped(const char *name)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    bool found = false;

    ck_assert_ptr_nonnull(maps);
    while (!found && fgets(line, sizeof line, maps) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        found = strstr(line, directory) != NULL &&
                strcmp(strstr(line, directory), file(name)) == 0;
    }
    fclose(maps);
    return found;
}

static void load(const char *name)
{
    ck_assert_msg(dlopen(file(name), RTLD_NOW) != NULL, "%s", dlerror());
}

static void expect_words(const char *words)
{
    ck_assert_msg(strstr(warm_last_error_message(), words) != NULL,
                  "\"%s\" is not in: %s", words, warm_last_error_message());
}

/* Makes and destroys a handle of row i. */
static warm_status try_kind(int i)
{
    wm_kind kind = {.ops = rows[i].ops, .driver = d, .options = &options};
    void *handle = NULL;
    warm_status status = kind.ops->create(&kind, 0, &handle);

    if (status == WARM_OK) {
        ck_assert_ptr_nonnull(handle);
        wt_ok(kind.ops->destroy(&kind, 0, handle));
    }
    kind.ops->close(&kind);
    return status;
}

WT_CASE("choice", .setup = setup, .teardown = teardown);

WT_TEST(test_A9_newest_runtime_and_its_libraries)
{
    wt_ok(wm_cuda_open(&options, &d));
    ck_assert(is_mapped("libcudart.so.13"));
    for (int i = 0; i < ROWS; i++) {
        wt_ok(try_kind(i));
        ck_assert_msg(is_mapped(rows[i].newer), "%s", rows[i].newer);
        ck_assert_msg(!is_mapped(rows[i].older), "%s", rows[i].older);
    }
    wt_contains(log_lines, "libcudart.so.13", "libcusparse.so.12");
    ck_assert_uint_eq(wm_driver_close(d), 0);
}

WT_TEST(test_A9_G3_older_runtime_and_its_libraries_on_an_older_driver)
{
    warm_error error = {.size = sizeof error};

    driver_version(12080);
    wt_ok(wm_cuda_open(&options, &d));
    ck_assert(is_mapped("12/libcudart.so.12"));
    for (int i = 0; i < ROWS; i++) {
        wt_ok(try_kind(i));
        ck_assert_msg(is_mapped(rows[i].older), "%s", rows[i].older);
        ck_assert_msg(!is_mapped(rows[i].newer), "%s", rows[i].newer);
    }
    /* The choice is logged, and why the newer one was not it. */
    wt_contains(log_lines, "driver version is insufficient",
                "12/libcudart.so.12");
    /* Success leaves the last error alone. */
    warm_last_error(&error);
    ck_assert_int_eq(error.status, WARM_OK);
    ck_assert_uint_eq(wm_driver_close(d), 0);
}

/* As when a second runtime is made: both are loaded by then. */
WT_TEST(test_A9_choice_is_the_same_again)
{
    driver_version(12080);
    for (int again = 0; again < 2; again++) {
        wt_ok(wm_cuda_open(&options, &d));
        wt_ok(try_kind(0));
        ck_assert_uint_eq(wm_driver_close(d), 0);
    }
    ck_assert(!is_mapped("libcublas.so.13"));
}

WT_TEST(test_A9_G3_each_runtime_that_fails_is_named_with_its_reason)
{
    warm_error error = {.size = sizeof error};

    driver_version(11080);
    wt_fails(WARM_UNAVAILABLE, wm_cuda_open(&options, &d));
    expect_words("libcudart.so.13: ");
    expect_words("libcudart.so.12: ");
    expect_words("driver version is insufficient");
    expect_words("(it is 11.8)");
    warm_last_error(&error);
    ck_assert_int_eq(error.code, cudaErrorInsufficientDriver);
    ck_assert_str_eq(error.origin, "cudart");
}

WT_TEST(test_A9_runtime_that_was_named_is_used_or_nothing)
{
    snprintf(options.libraries, sizeof options.libraries, "cudart=%s",
             file("libcudart.so.13"));
    driver_version(12080);
    wt_fails(WARM_UNAVAILABLE, wm_cuda_open(&options, &d));
    expect_words("libcudart.so.13: ");
    ck_assert(!is_mapped("12/libcudart.so.12"));
    driver_version(13000);
    snprintf(options.libraries, sizeof options.libraries, "cudart=%s",
             file("12/libcudart.so.12"));
    wt_ok(wm_cuda_open(&options, &d));
    ck_assert_uint_eq(wm_driver_close(d), 0);
}

/* With cudart inside the program, its cuBLAS says of which version it is. */
WT_TEST(test_A9_runtime_is_of_the_version_of_the_programs_cublas)
{
    load("12/libcublasLt.so.12");
    wt_ok(wm_cuda_open(&options, &d));
    wt_ok(try_kind(0));
    wt_ok(try_kind(1));
    ck_assert(is_mapped("12/libcublas.so.12"));
    ck_assert(!is_mapped("libcudart.so.13"));
    ck_assert_uint_eq(wm_driver_close(d), 0);
}

/* The program calls the functions of the one that it has loaded. */
WT_LOOP_TEST(test_A9_library_of_another_version_is_refused_if_it_is_loaded,
             ROWS)
{
    wt_ok(wm_cuda_open(&options, &d));
    load(rows[_i].older);
    wt_fails(WARM_UNAVAILABLE, try_kind(_i));
    expect_words(strrchr(rows[_i].older, '/') + 1);
    ck_assert_msg(!is_mapped(rows[_i].newer), "%s", rows[_i].newer);
    ck_assert_uint_eq(wm_driver_close(d), 0);
}

WT_LOOP_TEST(test_A9_library_of_another_version_is_refused_if_it_is_named, ROWS)
{
    wt_ok(wm_cuda_open(&options, &d));
    snprintf(options.libraries, sizeof options.libraries, "%s=%s",
             rows[_i].ops->name, file(rows[_i].older));
    wt_fails(WARM_UNAVAILABLE, try_kind(_i));
    expect_words(rows[_i].older);
    expect_words("made for CUDA 12");
    expect_words("runtime in use is version 13");
    ck_assert_uint_eq(wm_driver_close(d), 0);
}

#else
SKIP_MAIN("headers of CUDA 13 are not here")
#endif
