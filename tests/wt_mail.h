/* wt_mail.h: what worker threads of a stress test share: how often something
 * was wrong, for they never assert, and blocks for whoever frees them. One in a
 * program. */
#ifndef WT_MAIL_H
#define WT_MAIL_H

#include "wt.h"

#include <stdatomic.h>

enum { WT_MAIL = 8 };

static struct {
    _Atomic unsigned failures;
    _Atomic(void *) box[WT_MAIL];
} wt_mail;

static inline void wt_expect(bool condition)
{
    if (!condition) {
        atomic_fetch_add_explicit(&wt_mail.failures, 1, memory_order_relaxed);
    }
}

static inline void wt_expect_ok(warm_status status)
{
    wt_expect(status == WARM_OK);
}

/* Frees the block; or, below WT_MAIL, leaves it in that box for another thread
 * and frees what was there. */
static inline void wt_mail_free(void *block, uint64_t box)
{
    if (box < WT_MAIL) {
        /* Release and acquire: with what was written. */
        block = atomic_exchange_explicit(&wt_mail.box[box], block,
                                         memory_order_acq_rel);
    }
    wt_expect_ok(warm_free(block));
}

/* After the threads. */
static inline void wt_mail_end(void)
{
    for (int i = 0; i < WT_MAIL; i++) {
        wt_ok(warm_free(atomic_exchange_explicit(&wt_mail.box[i], NULL,
                                                 memory_order_relaxed)));
    }
    ck_assert_uint_eq(wt_mail.failures, 0);
}

#endif
