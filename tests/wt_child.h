/* wt_child.h: for tests whose children end the process, in ways that leave
 * everything behind. A child writes what it sees into memory shared with the
 * test; the program defines struct report before. */
#ifndef WT_CHILD_H
#define WT_CHILD_H

#include "wt.h"

#include <sys/mman.h>

static struct report *report;

/* For AddressSanitizer: the memory of the test framework is left behind. */
WARM_API const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static void share_report(void)
{
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(report, MAP_FAILED);
}

static void unshare_report(void)
{
    munmap(report, sizeof *report);
}

#endif
