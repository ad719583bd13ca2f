/* hooks.h: included before every file of the library that is compiled for
 * schedules. Each atomic operation, futex call, barrier, yield, clock and start
 * or end of a thread goes through sched.c, which decides which thread runs
 * next. Accesses to plain memory are told by the compiler, as it does for
 * ThreadSanitizer: weak.c. The build defines WT_QUIET for those files: 1 where
 * another thread runs at the first operation of a lock only. */
#ifndef WT_HOOKS_H
#define WT_HOOKS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

enum wt_op { WT_LOAD, WT_STORE, WT_SWAP, WT_ADD, WT_SUB, WT_OR, WT_AND };

/* An operation on a word of so many bytes: returns what was there. */
uint64_t wt_atomic(const char *file, int line, _Bool quiet,
                   const volatile void *at, unsigned bytes, enum wt_op op,
                   uint64_t value, int order);
_Bool wt_compare(const char *file, int line, _Bool quiet,
                 const volatile void *at, unsigned bytes, void *expected,
                 uint64_t value, int order, int failed);
void wt_fence(int order);

long wt_syscall(long number, ...);
int wt_yield(void);
int wt_advise(void *at, size_t bytes, int advice);
int wt_sleep(const struct timespec *time, struct timespec *left);
int wt_clock(clockid_t clock, struct timespec *now);
int wt_create(pthread_t *id, const pthread_attr_t *attr, void *(*main)(void *),
              void *argument);
int wt_join(pthread_t id, void **result);

#ifdef WT_QUIET
#define WT_AT(at) __FILE__, __LINE__, WT_QUIET, at, sizeof *(at)
#define WT_DO(op, object, value, order)                                        \
    __extension__({                                                            \
        __auto_type at_ = (object);                                            \
        (__typeof__((void)0, *at_))wt_atomic(WT_AT(at_), op,                   \
                                             (uint64_t)(value), order);        \
    })

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_thread_fence
#define atomic_load_explicit(o, m)         WT_DO(WT_LOAD, o, 0, m)
#define atomic_store_explicit(o, v, m)     ((void)WT_DO(WT_STORE, o, v, m))
#define atomic_exchange_explicit(o, v, m)  WT_DO(WT_SWAP, o, v, m)
#define atomic_fetch_add_explicit(o, v, m) WT_DO(WT_ADD, o, v, m)
#define atomic_fetch_sub_explicit(o, v, m) WT_DO(WT_SUB, o, v, m)
#define atomic_fetch_or_explicit(o, v, m)  WT_DO(WT_OR, o, v, m)
#define atomic_fetch_and_explicit(o, v, m) WT_DO(WT_AND, o, v, m)
#define atomic_compare_exchange_strong_explicit(o, expected, v, m, failed)     \
    __extension__({                                                            \
        __auto_type at_ = (o);                                                 \
        wt_compare(WT_AT(at_), expected, (uint64_t)(v), m, failed);            \
    })
#define atomic_compare_exchange_weak_explicit                                  \
    atomic_compare_exchange_strong_explicit
#define atomic_thread_fence(order) wt_fence(order)

#define syscall(...)                         wt_syscall(__VA_ARGS__)
#define sched_yield()                        wt_yield()
#define madvise(at, bytes, advice)           wt_advise(at, bytes, advice)
#define nanosleep(time, left)                wt_sleep(time, left)
#define clock_gettime(clock, now)            wt_clock(clock, now)
#define pthread_create(thread, attr, fn, of) wt_create(thread, attr, fn, of)
#define pthread_join(thread, result)         wt_join(thread, result)
#define __builtin_ia32_pause()               ((void)wt_yield())
#endif

#endif
