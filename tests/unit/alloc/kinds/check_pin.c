/* check_pin.c: regions that are mapped, touched and registered (parts of row
 * B9). Host device; its registering looks at what it gets, and fails where a
 * test wants that. */
#include "skip.h"
#include "wt_host.h"

#include "alloc/kinds/pin.h"
#include "alloc/kinds/touch.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static struct {
    wm_driver *d;
    wm_driver_ops ops;
    const wm_driver_ops *real;
    char *base; /* of the last region to be registered */
    size_t bytes;
    size_t resident; /* pages of it that were there by then */
    size_t most;     /* bytes of the largest registration */
    uint64_t count;  /* registrations */
    uint64_t refuse; /* the number of the one that is refused; 0: none is */
    bool refuses;
    warm_status status; /* of a refusal, and the driver's code */
    int code;
    size_t refuse_above; /* larger registrations are refused */
    unsigned unmarked;   /* registrations that a forked child would share */
    wm_pin *other; /* another thread finds that nothing can be registered */
} driver;

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Pages that have memory behind them; none where nothing is mapped. */
static size_t resident(char *base, size_t bytes)
{
    static unsigned char there[(size_t)1 << 16];
    size_t pages = bytes / page(), count = 0;

    wt_require(pages <= sizeof there, "too many pages to look at");
    if (mincore(base, bytes, there) != 0) {
        return 0;
    }
    for (size_t i = 0; i < pages; i++) {
        count += there[i] & 1;
    }
    return count;
}

static bool is_mapped(char *base)
{
    unsigned char there;

    return mincore(base, page(), &there) == 0 || errno != ENOMEM;
}

/* The last range that was kept out of forked children: see madvise(). */
static char *marked;
static size_t marked_bytes;

static warm_status look_at(wm_driver *d, void *pointer, size_t bytes)
{
    driver.unmarked += (size_t)((char *)pointer - marked) >= marked_bytes;
    driver.base = pointer;
    driver.bytes = bytes;
    driver.resident = resident(pointer, bytes);
    driver.most = bytes > driver.most ? bytes : driver.most;
    if (driver.refuses || ++driver.count == driver.refuse ||
        bytes > driver.refuse_above) {
        return wm_fail_code(driver.status, "cudart", driver.code,
                            "cudaErrorInvalidValue", "invalid argument");
    }
    if (driver.other != NULL) {
        driver.other->answer = WM_PIN_REFUSES;
    }
    return driver.real->pinned_register(d, pointer, bytes);
}

/* register_locks: whether the driver says that registering page-locks. */
static wm_pin begin_on(const char *conf, bool register_locks)
{
    wm_options o;
    wm_pin pin;

    driver.base = NULL; /* tests may share one process */
    driver.most = 0;
    driver.unmarked = 0;
    driver.refuses = false;
    driver.count = driver.refuse = 0;
    driver.status = WARM_DRIVER_ERROR;
    driver.code = 1;
    driver.refuse_above = SIZE_MAX;
    wt_ok(wm_options_resolve(NULL, conf, &o));
    wt_ok(wm_host_open(&o, &driver.d));
    driver.real = driver.d->ops;
    driver.ops = *driver.real;
    driver.ops.pinned_register = look_at;
    driver.d->ops = &driver.ops;
    driver.d->register_locks = register_locks;
    wt_ok(wm_pin_init(&pin, driver.d, &o));
    return pin;
}

static wm_pin begin(const char *conf)
{
    return begin_on(conf, true);
}

static void end(void)
{
    wt_host_close(driver.d, 0);
}

static char warned[256];
static unsigned warnings;

static void keep_warning(void *context, warm_log_level level, const char *line)
{
    (void)context;
    if (level == WARM_LOG_WARNING) {
        snprintf(warned, sizeof warned, "%s", line);
        warnings++;
    }
}

/* locks: whether registering page-locks; it does not on GH200 and GB200, where
 * the option is obeyed all the same, with a warning. */
static const struct {
    const char *conf;
    bool locks, maps;
} ways[] = {
    {"device:host", true, false},
    {"device:host,pin:alloc", true, false},
    {"device:host,pin:register", true, true},
    {"device:host,test:numa_nodes=2", true, true},
    {"device:host,test:numa_nodes=2,pin:alloc", true, false},
    {"device:host,test:numa_nodes=2", false, false},
    {"device:host,test:numa_nodes=2,pin:alloc", false, false},
    {"device:host,pin:auto", false, false},
    {"device:host,pin:register", false, true},
    {"device:host,test:numa_nodes=2,pin:register", false, true},
    {"device:host,huge_pages:off", true, false},
    {"device:host,huge_pages:try", true, false},
    {"device:host,huge_pages:hugetlb_try", true, true},
    {"device:host,huge_pages:hugetlb_try", false, false},
    {"device:host,huge_pages:hugetlb_try,pin:alloc", true, false},
};

WT_LOOP_TEST(test_B9_B15_option_pin_and_the_driver_decide_who_maps,
             sizeof ways / sizeof ways[0])
{
    wm_pin pin;
    void *base = NULL;
    int node = WM_NODE_UNKNOWN;

    warm_log_set(keep_warning, NULL);
    pin = begin_on(ways[_i].conf, ways[_i].locks);
    warm_log_set(NULL, NULL);
    ck_assert_int_eq(pin.maps, ways[_i].maps);
    ck_assert_int_eq(strstr(warned, "page-locks nothing") != NULL,
                     ways[_i].maps && !ways[_i].locks);
    for (int wanted = driver.d->numa.nodes - 1; wanted >= 0; wanted--) {
        wt_ok(wm_pin_obtain(&pin, wanted, 2 * MIB, &(size_t){0}, &base));
        memset(base, 1, 2 * MIB);
        ck_assert_int_eq(driver.base != NULL, ways[_i].maps);
        if (driver.d->numa.simulated) {
            wt_ok(wm_driver_node_of(driver.d, base, 2 * MIB, &node));
            ck_assert_int_eq(node, wanted);
        }
        wt_ok(wm_pin_give_back(&pin, base, 2 * MIB, false));
        if (driver.d->numa.simulated) {
            wt_ok(wm_driver_node_of(driver.d, base, 2 * MIB, &node));
            ck_assert_int_eq(node, WM_NODE_UNKNOWN);
        }
    }
    end();
}

/* Memory of another node than the one that was asked for goes back. */
WT_TEST(test_B15_memory_of_another_node_is_not_taken)
{
    wm_pin pin = begin_on("device:host,test:numa_nodes=2", false);
    void *base = NULL;

    wm_numa_set_room(&driver.d->numa, 1, MIB);
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 1, 2 * MIB, &(size_t){0}, &base));
    ck_assert_ptr_null(base);
    wt_says("node 1 has no");
    ck_assert_uint_eq(wm_counter_read(&driver.d->calls[WM_CALL_pinned_free]),
                      1);
    wt_ok(wm_pin_obtain(&pin, 1, MIB, &(size_t){0}, &base));
    wt_ok(wm_pin_give_back(&pin, base, MIB, false));
    end();
}

/* More and fewer pieces than threads, and odd ends. */
static const size_t sizes[] = {4096, 2 * MIB, 2 * MIB + 4096, 100 * MIB,
                               MIB * 130 + 12288};
static const char *const confs[] = {
    "device:host,pin:register,test:pin_threads=1",
    "device:host,pin:register,test:pin_threads=3",
    "device:host,pin:register,test:pin_threads=64",
    "device:host,pin:register,huge_pages:off",
    "device:host,pin:register,huge_pages:hugetlb_try",
};

WT_LOOP_TEST(test_all_pages_are_touched_before_one_registration,
             sizeof confs / sizeof confs[0])
{
    wm_pin pin = begin(confs[_i]);

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *base = NULL;

        wt_ok(wm_pin_obtain(&pin, 0, sizes[i], &(size_t){0}, &base));
        ck_assert_ptr_eq(driver.base, base);
        ck_assert_uint_eq(driver.bytes, sizes[i]);
        ck_assert_uint_eq(driver.resident, sizes[i] / page());
        wt_ok(wm_pin_give_back(&pin, base, sizes[i], false));
        ck_assert(!is_mapped(base));
    }
    ck_assert_uint_eq(
        wm_counter_read(&driver.d->calls[WM_CALL_pinned_register]),
        sizeof sizes / sizeof sizes[0]);
    end();
}

WT_TEST(test_large_region_begins_where_a_huge_page_can)
{
    wm_pin pin = begin("device:host,pin:register");
    void *base = NULL;

    wt_ok(wm_pin_obtain(&pin, 0, 5 * MIB, &(size_t){0}, &base));
    ck_assert_uint_eq((uintptr_t)base % (2 * MIB), 0);
    ck_assert(!is_mapped((char *)base + 5 * MIB) ||
              resident((char *)base + 5 * MIB, page()) <= 1);
    wt_ok(wm_pin_give_back(&pin, base, 5 * MIB, false));
    end();
}

WT_TEST(test_refused_registration_leaves_nothing_and_is_a_shortage)
{
    wm_pin pin = begin("device:host,pin:register");
    warm_error error = {.size = sizeof error};
    void *base = &pin;

    driver.refuses = true;
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 0, 3 * MIB, &(size_t){0}, &base));
    ck_assert_ptr_eq(base, &pin);
    ck_assert(!is_mapped(driver.base));
    warm_last_error(&error);
    ck_assert_str_eq(error.origin, "cudart");
    ck_assert_int_eq(error.code, 1);
    ck_assert_ptr_nonnull(strstr(error.message, "invalid argument"));
    end();
}

/* Memory that the driver does not let go of stays usable. */
WT_TEST(test_refused_unregistering_leaves_the_region_as_it_was)
{
    wm_pin pin = begin("device:host,pin:register");
    void *base = NULL;

    wt_ok(wm_pin_obtain(&pin, 0, 3 * MIB, &(size_t){0}, &base));
    wm_driver_fail(driver.d, WM_CALL_pinned_unregister, 1, false);
    wt_fails(WARM_DRIVER_ERROR, wm_pin_give_back(&pin, base, 3 * MIB, false));
    memset(base, 1, 3 * MIB);
    wt_ok(wm_pin_give_back(&pin, base, 3 * MIB, false));
    end();
}

WT_TEST(test_region_too_large_to_map_is_a_shortage)
{
    wm_pin pin = begin("device:host,pin:register");
    void *base = NULL;

    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 0, (size_t)1 << 60, &(size_t){0}, &base));
    ck_assert_ptr_null(base);
    end();
}

WT_TEST(test_B15_a_region_that_cannot_be_placed_is_refused)
{
    wm_pin pin = begin("device:host,test:numa_nodes=2");
    void *base = NULL;

    wm_driver_fail(driver.d, WM_CALL_place, 1, false);
    wt_fails(WARM_DRIVER_ERROR,
             wm_pin_obtain(&pin, 0, 2 * MIB, &(size_t){0}, &base));
    /* A node that is full: the kernel would take pages of another one. */
    wm_numa_set_room(&driver.d->numa, 1, MIB);
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 1, 2 * MIB, &(size_t){0}, &base));
    ck_assert_ptr_nonnull(driver.d->numa.ranges == NULL ? &pin : NULL);
    end();
}

WT_TEST(test_touching_says_what_cannot_be_touched)
{
    char *base = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(base, MAP_FAILED);
    ck_assert(wm_touch_pages(base, 64 * MIB, 3, NULL));
    ck_assert_uint_eq(resident(base, 64 * MIB), 64 * MIB / page());
    /* A hole. */
    munmap(base + 40 * MIB, MIB);
    for (int i = 0; i < 20; i++) {
        /* The same reason, whichever thread came to the hole. */
        errno = 0;
        ck_assert(!wm_touch_pages(base, 64 * MIB, 3, NULL));
        ck_assert_int_eq(errno, ENOMEM);
    }
    munmap(base, 64 * MIB);
}

/* What is mapped to find a place for huge pages goes at once. */
WT_TEST(test_aligned_region_leaves_no_address_space_behind)
{
    enum { TIMES = 100 };
    wm_pin pin = begin("device:host,pin:register,test:pin_threads=1");
    void *base[TIMES];
    long before = wt_address_space();

    for (int i = 0; i < TIMES; i++) {
        wt_ok(wm_pin_obtain(&pin, 0, 2 * MIB + page(), &(size_t){0}, &base[i]));
    }
    /* Mapped whole, a region would take twice as much. */
    ck_assert_int_lt(wt_address_space() - before,
                     (long)(TIMES * 3 * MIB / page()));
    for (int i = 0; i < TIMES; i++) {
        wt_ok(wm_pin_give_back(&pin, base[i], 2 * MIB + page(), false));
    }
    ck_assert_int_lt(wt_address_space() - before, (long)(TIMES * MIB / page()));
    end();
}

/* Nor that its place could not be forgotten. */
WT_TEST(test_G6_reason_of_a_refusal_outlives_the_tidying)
{
    wm_pin pin = begin("device:host,test:numa_nodes=2,pin:register");
    void *base = NULL;

    driver.refuses = true;
    wm_driver_fail(driver.d, WM_CALL_place, 2, false);
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 1, 2 * MIB, &(size_t){0}, &base));
    wt_says("invalid argument");
    ck_assert_uint_eq(wm_counter_read(&driver.d->calls[WM_CALL_place]), 2);
    end();
}

/* A driver that leaves its mappings to forked children. */
static warm_status alloc_unmarked(wm_driver *d, size_t bytes, void **pointer)
{
    warm_status status = driver.real->pinned_alloc(d, bytes, pointer);

    marked = NULL;
    marked_bytes = 0;
    return status;
}

WT_LOOP_TEST(test_B22_what_the_driver_allocates_is_kept_out_of_children, 2)
{
    wm_pin pin = begin("device:host,pin:alloc");
    void *base = NULL;

    driver.ops.pinned_alloc = driver.ops.combined_alloc = alloc_unmarked;
    if (_i == 0) {
        wt_ok(wm_pin_obtain(&pin, 0, 5 * MIB, &(size_t){0}, &base));
    } else {
        wt_ok(wm_pin_obtain_combined(&pin, 5 * MIB, &base));
    }
    ck_assert_ptr_eq(marked, base);
    ck_assert_uint_eq(marked_bytes, 5 * MIB);
    wt_ok(wm_pin_give_back(&pin, base, 5 * MIB, false));
    end();
}

/* In front of the C library's. */
static _Atomic unsigned created;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                   void *(*run)(void *), void *argument)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    *(void **)(void *)&next = dlsym(RTLD_NEXT, "pthread_create");
    created++;
    return next(thread, attr, run, argument);
}

/* The caller is one of them; none is for less than 16 MiB. */
WT_TEST(test_B9_as_many_threads_touch_pages_as_the_option_says)
{
    void *base = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(base, MAP_FAILED);
    for (unsigned threads = 1; threads < 8; threads++) {
        created = 0;
        ck_assert(wm_touch_pages(base, 64 * MIB, threads, NULL));
        ck_assert_uint_eq(created, (threads < 4 ? threads : 4) - 1);
    }
    ck_assert_int_eq(munmap(base, 64 * MIB), 0);
}

/* Where there can be no helpers the caller does it all. */
WT_TEST(test_B9_pages_are_touched_without_threads_too)
{
    wm_pin pin = begin("device:host,pin:register,test:pin_threads=8");
    void *base = NULL;

    wt_refuse_threads(true);
    wt_ok(wm_pin_obtain(&pin, 0, 100 * MIB, &(size_t){0}, &base));
    wt_refuse_threads(false);
    ck_assert_uint_eq(driver.resident, 100 * MIB / page());
    wt_ok(wm_pin_give_back(&pin, base, 100 * MIB, false));
    end();
}

/* Also where the driver allocates regions that are not cut. */
static const char *const either[] = {
    "device:host,test:pin_threads=1,pin:register",
    "device:host,test:pin_threads=1,pin:alloc"};

WT_LOOP_TEST(test_B19_no_registration_is_larger_than_a_piece, 2)
{
    static const size_t whole[] = {8 * MIB, 8 * MIB + 4096, 12 * MIB - 4096,
                                   5 * MIB};
    wm_pin pin = begin(either[_i]);

    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        uint64_t before = driver.count;
        uint64_t pieces = (whole[i] + 4 * MIB - 1) / (4 * MIB);
        void *base = NULL;
        char *at;

        wt_ok(wm_pin_obtain(&pin, 0, whole[i], &(size_t){4 * MIB}, &base));
        memset(base, 1, whole[i]);
        ck_assert_uint_eq(driver.count - before, pieces);
        ck_assert_uint_eq(driver.most, 4 * MIB);
        /* In any order, one by one. */
        at = base;
        for (uint64_t n = pieces; n-- > 0;) {
            size_t bytes = n + 1 < pieces ? 4 * MIB : whole[i] - n * 4 * MIB;

            wt_ok(wm_pin_give_back(&pin, at + n * 4 * MIB, bytes, true));
            ck_assert(!is_mapped(at + n * 4 * MIB));
            ck_assert(n == 0 || is_mapped(at + n * 4 * MIB - 4096));
        }
    }
    ck_assert(wm_pin_cuts(&pin));
    end();
}

WT_LOOP_TEST(test_B19_the_nth_piece_refused_takes_all_back, 5)
{
    wm_pin pin = begin(either[_i % 2]);
    long before = wt_address_space();
    uint64_t tried = _i == 0; /* whether a page is registered */
    void *base = &pin;

    driver.refuse = (uint64_t)_i + 1;
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 0, 18 * MIB, &(size_t){4 * MIB}, &base));
    wt_says("invalid argument");
    ck_assert_ptr_eq(base, &pin);
    ck_assert_uint_eq(driver.count, driver.refuse + tried);
    ck_assert_uint_eq(
        wm_counter_read(&driver.d->calls[WM_CALL_pinned_unregister]),
        driver.refuse - 1 + tried);
    ck_assert(!is_mapped(driver.base));
    ck_assert(_i == 0 || !is_mapped(driver.base - 4096));
    ck_assert_int_lt(wt_address_space() - before, (long)(MIB / page()));
    end();
}

/* What the driver then does not let go of leaks, and only that. */
WT_TEST(test_B19_a_piece_that_cannot_go_back_leaks_alone)
{
    wm_pin pin = begin("device:host,pin:register");
    void *base = NULL;
    char *first;

    warm_log_set(keep_warning, NULL);
    warnings = 0;
    driver.refuse = 4;
    wm_driver_fail(driver.d, WM_CALL_pinned_unregister, 2, false);
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 0, 16 * MIB, &(size_t){4 * MIB}, &base));
    warm_log_set(NULL, NULL);
    wt_says("invalid argument"); /* the reason, not what followed */
    wt_contains(warned, "leaking 4.0 MiB");
    ck_assert_uint_eq(warnings, 1);
    first = driver.base - 12 * MIB;
    ck_assert(!is_mapped(first) && is_mapped(first + 4 * MIB) &&
              !is_mapped(first + 8 * MIB) && !is_mapped(first + 12 * MIB));
    wt_ok(wm_pin_give_back(&pin, first + 4 * MIB, 4 * MIB, true));
    end();
}

/* There only the first way is left, and it cannot cut. */
WT_TEST(test_B19_nothing_is_cut_where_registering_locks_nothing)
{
    wm_pin pin = begin_on("device:host,pin:alloc", false);

    ck_assert(!wm_pin_cuts(&pin));
    end();
    warm_log_set(keep_warning, NULL);
    pin = begin_on("device:host,pin:register", false);
    warm_log_set(NULL, NULL);
    ck_assert(wm_pin_cuts(&pin));
    end();
}

/* ---- a driver that registers nothing ------------------------------------ */

static char told[512];
static unsigned lines;

static void keep_line(void *context, warm_log_level level, const char *line)
{
    (void)context;
    (void)level;
    if (strstr(line, "registers no") != NULL) {
        snprintf(told, sizeof told, "%s", line);
        lines++;
    }
}

/* As under confidential computing, and as other drivers do. */
static const struct {
    warm_status status;
    int code;
} nothing[] = {{WARM_UNSUPPORTED, 801}, {WARM_DRIVER_ERROR, 1}};

static const struct {
    const char *conf;
    size_t piece;
} falls[] = {{"device:host,test:numa_nodes=2", 0},
             {"device:host,test:numa_nodes=2", MIB},
             {"device:host", MIB},
             {"device:host,pin:alloc", MIB},
             {"device:host,huge_pages:hugetlb_try", 0}};

WT_LOOP_TEST(test_B19_what_the_driver_never_registers_is_allocated, 10)
{
    wm_pin pin = begin(falls[_i / 2].conf);
    int node = driver.d->numa.nodes - 1, found = WM_NODE_UNKNOWN;
    long before = wt_address_space();
    warm_error error = {.size = sizeof error};

    driver.refuses = true;
    driver.status = nothing[_i % 2].status;
    driver.code = nothing[_i % 2].code;
    warm_log_set(keep_line, NULL);
    wm_log_set_level(WARM_LOG_INFO);
    (void)wm_fail(WARM_NOT_FOUND, "the program's error");
    for (int i = 0; i < 3; i++) {
        size_t piece = falls[_i / 2].piece;
        void *base = NULL;

        driver.base = NULL;
        wt_ok(wm_pin_obtain(&pin, node, 4 * MIB, &piece, &base));
        ck_assert_uint_eq(piece, 0);
        memset(base, 1, 4 * MIB);
        /* "Unsupported" is asked once, "invalid value" each time. */
        ck_assert_int_eq(driver.base != NULL, i == 0 || driver.code == 1);
        if (driver.d->numa.simulated) {
            wt_ok(wm_driver_node_of(driver.d, base, 4 * MIB, &found));
            ck_assert_int_eq(found, node);
        }
        wt_ok(wm_pin_give_back(&pin, base, 4 * MIB, false));
    }
    warm_log_set(NULL, NULL);
    ck_assert_uint_eq(lines, 1);
    ck_assert_uint_eq(driver.unmarked, 0);
    wt_contains(told, "invalid argument");
    warm_last_error(&error);
    ck_assert_str_eq(error.message, "the program's error");
    ck_assert_int_lt(wt_address_space() - before, (long)(MIB / page()));
    ck_assert_uint_eq(wm_counter_read(&driver.d->calls[WM_CALL_pinned_alloc]),
                      3);
    end();
}

/* "Invalid value" for a single page, too, may mean that a resource is used up:
 * the request is served, and the next one registers again. */
WT_TEST(test_B19_what_may_be_for_now_is_tried_again)
{
    wm_pin pin = begin("device:host,test:numa_nodes=2");
    void *first = NULL, *next = NULL;

    driver.refuses = true;
    wt_ok(wm_pin_obtain(&pin, 0, 4 * MIB, &(size_t){0}, &first));
    driver.refuses = false;
    wt_ok(wm_pin_obtain(&pin, 0, 4 * MIB, &(size_t){0}, &next));
    ck_assert_ptr_eq(next, driver.base);
    (void)wm_fail(WARM_NOT_FOUND, "the program's error");
    wt_ok(wm_pin_give_back(&pin, first, 4 * MIB, false));
    wt_ok(wm_pin_give_back(&pin, next, 4 * MIB, false));
    wt_says("the program's error");
    ck_assert_uint_eq(wm_counter_read(&driver.d->calls[WM_CALL_pinned_free]),
                      1);
    end();
}

/* Nor do errors of the context: 201 and 709 are CUDA's, 0 is of a device that
 * was reset. */
static const int of_context[] = {201, 709, 0};

WT_LOOP_TEST(test_B19_an_error_of_the_context_is_no_refusal, 3)
{
    wm_pin pin = begin("device:host,test:numa_nodes=2");
    void *base = NULL;

    driver.refuses = true;
    driver.code = of_context[_i];
    wt_fails(WARM_DRIVER_ERROR,
             wm_pin_obtain(&pin, 0, 4 * MIB, &(size_t){0}, &base));
    driver.refuses = false;
    wt_ok(wm_pin_obtain(&pin, 0, 4 * MIB, &(size_t){0}, &base));
    ck_assert_ptr_eq(base, driver.base);
    wt_ok(wm_pin_give_back(&pin, base, 4 * MIB, false));
    end();
}

/* The option is obeyed, and the advice is not to request less at once. */
static const char *const demands[] = {
    "device:host,pin:register",
    "device:host,test:numa_nodes=2,huge_pages:require"};

WT_LOOP_TEST(test_B20_a_demand_to_register_is_refused_by_its_name, 2)
{
    wm_pin pin = begin(demands[_i]);
    void *base = NULL;

    driver.refuses = true;
    driver.status = WARM_UNSUPPORTED;
    driver.code = 801;
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 0, 4 * MIB, &(size_t){0}, &base));
    if (strstr(warm_last_error_message(), "came as huge pages") == NULL) {
        wt_says(_i == 0 ? "use pin:auto" : "use huge_pages:try and pin:auto");
        ck_assert_ptr_null(strstr(warm_last_error_message(), "at once"));
    }
    ck_assert_uint_eq(wm_counter_read(&driver.d->calls[WM_CALL_pinned_alloc]),
                      0);
    driver.refuses = false;
    end();
}

/* Nor is a shortage, or a bound of one registration, an answer for good. */
WT_TEST(test_B19_a_refused_size_is_no_refusal_of_every_one)
{
    wm_pin pin = begin("device:host,test:numa_nodes=2");
    void *base = NULL;

    driver.refuse_above = 2 * MIB;
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 0, 4 * MIB, &(size_t){0}, &base));
    wt_says("pin_chunk");
    wt_ok(wm_pin_obtain(&pin, 0, 4 * MIB, &(size_t){2 * MIB}, &base));
    wt_ok(wm_pin_give_back(&pin, base, 2 * MIB, true));
    wt_ok(wm_pin_give_back(&pin, (char *)base + 2 * MIB, 2 * MIB, true));
    wt_ok(wm_pin_obtain(&pin, 0, 2 * MIB, &(size_t){0}, &base));
    driver.refuses = true;
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 0, MIB, &(size_t){0}, &base));
    wt_ok(wm_pin_give_back(&pin, base, 2 * MIB, false));
    ck_assert_uint_eq(
        wm_counter_read(&driver.d->calls[WM_CALL_pinned_register]),
        wm_counter_read(&driver.d->calls[WM_CALL_pinned_unregister]) + 2);
    end();
}

/* A region that is registered just then is not freed as an allocated one. */
WT_TEST(test_B19_the_first_answer_holds_for_all_threads)
{
    wm_pin pin = begin("device:host,test:numa_nodes=2");
    void *base = NULL;

    driver.other = &pin;
    wt_ok(wm_pin_obtain(&pin, 1, 4 * MIB, &(size_t){0}, &base));
    driver.other = NULL;
    ck_assert_ptr_ne(base, driver.base);
    ck_assert_uint_eq(
        wm_counter_read(&driver.d->calls[WM_CALL_pinned_unregister]), 1);
    wt_ok(wm_pin_give_back(&pin, base, 4 * MIB, false));
    ck_assert_uint_eq(wm_counter_read(&driver.d->calls[WM_CALL_pinned_free]),
                      1);
    end();
}

/* ---- near the node ------------------------------------------------------- */

static cpu_set_t touchers; /* CPUs on which those may run that touched pages */
static unsigned touched;   /* ranges */

/* Instead of libc's. */
int madvise(void *addr, size_t len, int advice)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    cpu_set_t own;

    if (advice == 23 /* MADV_POPULATE_WRITE */ &&
        sched_getaffinity(0, sizeof own, &own) == 0) {
        pthread_mutex_lock(&mutex);
        CPU_OR(&touchers, &touchers, &own);
        touched++;
        pthread_mutex_unlock(&mutex);
    }
    if (advice == MADV_DONTFORK) {
        marked = addr;
        marked_bytes = len;
    }
    return (int)syscall(SYS_madvise, addr, len, advice);
}

static size_t last_cpu(const cpu_set_t *cpus)
{
    size_t cpu = CPU_SETSIZE - 1;

    while (cpu > 0 && !CPU_ISSET(cpu, cpus)) {
        cpu--;
    }
    return cpu;
}

static void put_cpus(const char *root, int node, size_t cpu)
{
    static const char *const folders[] = {"", "/devices", "/devices/system",
                                          "/devices/system/node"};
    char path[256];
    FILE *file;

    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(path, sizeof path, "%s/sys%s", root, folders[i]);
        (void)mkdir(path, 0700);
    }
    snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d", root,
             node);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/cpulist",
             root, node);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "%zu,1000-1001\n", cpu);
    fclose(file);
}

/* refuse: no thread can be started. */
WT_LOOP_TEST(test_B9_threads_of_the_right_node_touch_pages, 2)
{
    char root[WT_FOLDER];
    wm_pin pin = begin("device:host,test:numa_nodes=2:pin_threads=4");
    cpu_set_t own;
    void *base = NULL;
    size_t cpu;

    wt_folder(root);
    pin.root = root;
    ck_assert_int_eq(sched_getaffinity(0, sizeof own, &own), 0);
    cpu = last_cpu(&own);
    put_cpus(root, 1, cpu);
    CPU_ZERO(&touchers);
    touched = 0;
    wt_refuse_threads(_i == 1);
    wt_ok(wm_pin_obtain(&pin, 1, 40 * MIB, &(size_t){0}, &base));
    wt_refuse_threads(false);
    ck_assert_uint_eq(touched, 3);
    ck_assert(CPU_ISSET(cpu, &touchers));
    ck_assert_int_eq(CPU_COUNT(&touchers), _i == 1 ? CPU_COUNT(&own) : 1);
    ck_assert_uint_eq(driver.resident, 40 * MIB / page());
    wt_ok(wm_pin_give_back(&pin, base, 40 * MIB, false));
    /* A node without CPUs: threads of any. */
    CPU_ZERO(&touchers);
    wt_ok(wm_pin_obtain(&pin, 0, 40 * MIB, &(size_t){0}, &base));
    ck_assert(CPU_EQUAL(&touchers, &own));
    wt_ok(wm_pin_give_back(&pin, base, 40 * MIB, false));
    wt_folder_end(root);
    end();
}

SKIP_MAIN_IF(wt_emulated(), WT_EMULATED)
