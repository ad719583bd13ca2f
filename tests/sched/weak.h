/* weak.h: which thread sees what, by C11's memory model: weak.c. */
#ifndef WT_WEAK_H
#define WT_WEAK_H

#include "hooks.h"

#include <stdbool.h>

enum { WT_THREADS = 15 };

/* The thread that runs; -1: none of a scenario. */
int wt_running(void);
/* Ends the schedule as a failed one, at the last operation. */
_Noreturn void wt_fail_here(const char *what);

/* An operation of a thread; late: what it stores is. */
uint64_t wt_order_do(unsigned thread, enum wt_op op, const volatile void *at,
                     unsigned bytes, uint64_t value, int mode, bool late);
bool wt_order_compare(unsigned thread, const volatile void *at, unsigned bytes,
                      void *expected, uint64_t value, int mode, int failed,
                      bool late);

/* Whether stores of the thread are late: then other threads may see of its next
 * operation that they are no more, whichever word it is at. */
bool wt_order_waits(unsigned thread);
/* All that the thread has stored goes to memory. */
void wt_order_settle(unsigned thread);
/* What a thread that starts or joins has seen. */
void wt_order_begin(unsigned child, unsigned parent);
void wt_order_join(unsigned by, unsigned ended);
/* Who hears has seen all that was told before. */
void wt_order_tell(unsigned thread);
void wt_order_hear(unsigned thread);

#endif
