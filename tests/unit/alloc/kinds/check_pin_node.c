/* check_pin_node.c: where pages lie is read back by move_pages() once they have
 * been touched (row B15).
 *
 * The system calls of this program are answered here, as by a machine with two
 * nodes: mbind() and move_pages(); all others are the kernel's. */
#include "skip.h"
#include "wt_host.h"

#include "alloc/kinds/pin.h"
#include "runtime/base/options.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

enum { PAGE = 4096 };

static struct machine {
    unsigned placed, asked; /* calls */
    int node;               /* of all pages */
    const char *other;      /* of these, and all behind, the other node */
    int error;              /* of move_pages */
    bool untouched;         /* a page was looked at that is not there */
} machine;

static long move_pages(unsigned long count, void **pages, int *status)
{
    machine.asked++;
    if (machine.error != 0) {
        errno = machine.error;
        return -1;
    }
    for (unsigned long i = 0; i < count; i++) {
        const char *page = pages[i];
        unsigned char resident = 0;

        machine.untouched |=
            mincore(pages[i], PAGE, &resident) != 0 || (resident & 1) == 0;
        status[i] = machine.other != NULL && page >= machine.other
                        ? 1 - machine.node
                        : machine.node;
    }
    return 0;
}

/* In place of the C library's, which it calls. */
WARM_API long syscall(long sysno, ...)
{
    long (*next)(long, ...);
    unsigned long a[6];
    va_list list;

    va_start(list, sysno);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(list, unsigned long);
    }
    va_end(list);
    if (sysno == SYS_mbind) {
        machine.placed++;
        return 0;
    }
    if (sysno == SYS_move_pages) {
        return move_pages(a[1], (void **)a[2], (int *)a[4]);
    }
    *(void **)(void *)&next = dlsym(RTLD_NEXT, "syscall");
    return next(sysno, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static wm_driver *driver;
static wm_pin pin;

static void setup(void)
{
    wm_options options;

    machine = (struct machine){.node = 1};
    wt_ok(wm_options_resolve(NULL, "device:host,test:numa_nodes=2", &options));
    wt_ok(wm_host_open(&options, &driver));
    driver->numa.simulated = false; /* the calls are */
    wm_pin_init(&pin, driver, &options);
}

static void teardown(void)
{
    (void)wm_driver_close(driver);
}

static uint64_t mapped(void)
{
    return wm_counter_read(&driver->calls[WM_CALL_pinned_register]) -
           wm_counter_read(&driver->calls[WM_CALL_pinned_unregister]);
}

WT_CASE("pin node", .setup = setup, .teardown = teardown);

WT_TEST(test_B15_placement_is_read_back_by_move_pages)
{
    void *base = NULL;

    wt_ok(wm_pin_obtain(&pin, 1, 4 * MIB, &(size_t){0}, &base));
    ck_assert_uint_ge(machine.placed, 1);
    ck_assert_uint_ge(machine.asked, 1);
    ck_assert(!machine.untouched);
    ck_assert_uint_eq(mapped(), 1);
    wt_ok(wm_pin_give_back(&pin, base, 4 * MIB, false));
}

/* The kernel uses the other node without a word: from the first page on, or
 * from the last. */
WT_LOOP_TEST(test_B15_pages_of_another_node_are_not_taken, 2)
{
    void *base = NULL;

    if (_i == 0) {
        machine.node = 0;
    } else { /* the last page of the region, wherever it is mapped */
        char *place;

        wt_ok(wm_pin_obtain(&pin, 1, 4 * MIB, &(size_t){0}, &base));
        place = base;
        wt_ok(wm_pin_give_back(&pin, base, 4 * MIB, false));
        base = NULL;
        machine.other = place + 4 * MIB - PAGE;
    }
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 1, 4 * MIB, &(size_t){0}, &base));
    wt_says("node 1 has no memory left");
    ck_assert_ptr_null(base);
    ck_assert_uint_eq(mapped(), 0);
}

/* A kernel that does not say has not placed anything that we know of. */
WT_TEST(test_B15_a_place_that_cannot_be_read_is_not_taken)
{
    void *base = NULL;

    machine.error = EPERM;
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 1, 4 * MIB, &(size_t){0}, &base));
    ck_assert_uint_eq(mapped(), 0);
}

SKIP_MAIN_IF(wt_emulated(), WT_EMULATED)
