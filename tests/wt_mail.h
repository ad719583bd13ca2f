/* wt_mail.h: shared by the worker threads of a stress test: a count of
 * failures, since workers never assert, and boxes for blocks that any worker
 * may free. Include it once in a program. */
#ifndef WT_MAIL_H
#define WT_MAIL_H

#include "wt.h"

#include <stdatomic.h>
#include <stdio.h>

enum { WT_MAIL = 8 };

static struct {
    _Atomic unsigned failures;
    char first[600]; /* the first failure; read after the threads end */
    _Atomic(void *) box[WT_MAIL];
} wt_mail;

static inline void wt_expect_(bool condition, int line, const char *what)
{
    if (!condition && atomic_fetch_add_explicit(&wt_mail.failures, 1,
                                                memory_order_relaxed) == 0) {
        snprintf(wt_mail.first, sizeof wt_mail.first, "line %d: %s", line,
                 what);
    }
}

#define wt_expect(condition) wt_expect_((condition), __LINE__, #condition)
#define wt_expect_ok(call)                                                     \
    wt_expect_((call) == WARM_OK, __LINE__, warm_last_error_message())

/* Frees the block. If box is below WT_MAIL, puts the block into that box for
 * another thread and frees the block that was there. */
static inline void wt_mail_free(void *block, uint64_t box)
{
    if (box < WT_MAIL) {
        /* Release and acquire: publishes the block's content. */
        block = atomic_exchange_explicit(&wt_mail.box[box], block,
                                         memory_order_acq_rel);
    }
    wt_expect_ok(warm_free(block));
}

/* Call it after all threads have ended. */
static inline void wt_mail_end(void)
{
    for (int i = 0; i < WT_MAIL; i++) {
        wt_ok(warm_free(atomic_exchange_explicit(&wt_mail.box[i], NULL,
                                                 memory_order_relaxed)));
    }
    ck_assert_msg(wt_mail.failures == 0, "%u failures; %s", wt_mail.failures,
                  wt_mail.first);
}

#endif
