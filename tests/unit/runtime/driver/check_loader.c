/* check_loader.c: libraries and their functions, found at run time (row A9). */
#include "wt.h"

#include "runtime/driver/loader.h"

#include <dlfcn.h>
#include <string.h>

static const char *const maths[] = {"libnone.so.7", "libm.so.6", NULL};
static const char *const none[] = {"libnone.so.7", "libnone.so.6", NULL};

WT_TEST(test_A9_first_soname_that_loads_is_taken)
{
    void *library = NULL;

    wt_ok(wm_library_open("maths", "", maths, &library));
    ck_assert_ptr_nonnull(library);
    wt_ok(wm_library_open("maths", NULL, maths, &library));
}

/* Of two versions the one that the program uses: a handle of the other would
 * go to functions that do not know it. */
WT_TEST(test_A9_library_of_the_program_is_preferred)
{
    static const char *const versions[] = {"libBrokenLocale.so.1", "libc.so.6",
                                           NULL};
    void *library = NULL;
    void *loaded = dlopen("libBrokenLocale.so.1", RTLD_NOW | RTLD_NOLOAD);

    ck_assert_ptr_null(loaded);
    loaded = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    ck_assert_ptr_nonnull(loaded);
    wt_ok(wm_library_open("C", "", versions, &library));
    ck_assert_ptr_null(dlopen("libBrokenLocale.so.1", RTLD_NOW | RTLD_NOLOAD));
    ck_assert_ptr_eq(library, loaded);
}

WT_TEST(test_A9_missing_library_names_all_that_was_tried)
{
    void *library = &library;

    wt_fails(WARM_UNAVAILABLE, wm_library_open("maths", "", none, &library));
    ck_assert_ptr_eq(library, &library);
    wt_says("maths", "libnone.so.7", "libnone.so.6");
}

WT_TEST(test_A9_path_wins_and_is_tried_alone)
{
    void *library = NULL;

    wt_fails(WARM_UNAVAILABLE,
             wm_library_open("maths", "/no/libm.so.6", maths, &library));
    wt_says("/no/libm.so.6");
    ck_assert_ptr_null(library);
}

WT_TEST(test_A9_missing_function_is_named_and_none_is_filled)
{
    void *library, *sine = NULL, *other = &other, *spare = &spare;
    const wm_symbol symbols[] = {{"sin", &sine, 0},
                                 {"no_such_spare", &spare, 1},
                                 {"no_such", &other, 0}};

    wt_ok(wm_library_open("maths", "", maths, &library));
    wt_fails(WARM_UNAVAILABLE,
             wm_library_symbols("maths", library, symbols, 3));
    wt_says("no_such");
    ck_assert_ptr_null(sine);
    ck_assert_ptr_null(other);
    ck_assert_ptr_null(spare);
}

WT_TEST(test_A9_optional_function_may_be_missing)
{
    void *library, *sine = NULL, *spare = &spare;
    const wm_symbol symbols[] = {{"sin", &sine, 0},
                                 {"no_such_spare", &spare, 1}};

    wt_ok(wm_library_open("maths", "", maths, &library));
    wt_ok(wm_library_symbols("maths", library, symbols, 2));
    ck_assert_ptr_nonnull(sine);
    ck_assert_ptr_null(spare);
}

/* A question leaves no reference and no mark behind. */
WT_TEST(test_A9_library_that_was_asked_about_can_be_closed)
{
    static const char name[] = "libBrokenLocale.so.1";
    void *own = dlopen(name, RTLD_NOW);

    ck_assert_ptr_nonnull(own);
    ck_assert(wm_library_is_loaded(name));
    ck_assert_int_eq(dlclose(own), 0);
    ck_assert(!wm_library_is_loaded(name));
    ck_assert_ptr_null(dlopen(name, RTLD_NOW | RTLD_NOLOAD));
}
