/* hooks.h: included before every file of the library that is compiled for
 * schedules. Each atomic operation, futex call, barrier, yield, clock and start
 * or end of a thread goes through sched.c, which decides which thread runs
 * next. The build defines WT_QUIET for those files: 1 where another thread runs
 * at the first operation of a lock only. */
#ifndef WT_HOOKS_H
#define WT_HOOKS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

enum wt_access { WT_LOAD, WT_STORE };

/* Before each operation: at which word, and which memory_order. */
void wt_point(const char *file, int line, _Bool quiet, const volatile void *at,
              enum wt_access access, int order);

long wt_syscall(long number, ...);
int wt_yield(void);
int wt_advise(void *at, size_t bytes, int advice);
int wt_sleep(const struct timespec *time, struct timespec *left);
int wt_clock(clockid_t clock, struct timespec *now);
int wt_create(pthread_t *id, const pthread_attr_t *attr, void *(*main)(void *),
              void *argument);
int wt_join(pthread_t id, void **result);

#ifdef WT_QUIET
/* The operation is done on at_ with value_, which are evaluated before the
 * place at which another thread may run. */
#define WT_OP(access, object, value, order, operation)                         \
    __extension__({                                                            \
        __auto_type at_ = (object);                                            \
        __auto_type value_ = (value);                                          \
        (void)value_;                                                          \
        wt_point(__FILE__, __LINE__, WT_QUIET, at_, access, order);            \
        operation;                                                             \
    })

/* clang's builtins take what is _Atomic, gcc's do not mind. */
#ifdef __clang__
#define WT_DO(op, gcc, ...) __c11_atomic_##op(__VA_ARGS__, __ATOMIC_SEQ_CST)
#define WT_COMPARE(expected)                                                   \
    WT_DO(compare_exchange_strong, 0, at_, expected, value_, __ATOMIC_SEQ_CST)
#else
#define WT_DO(op, gcc, ...) __atomic_##gcc(__VA_ARGS__, __ATOMIC_SEQ_CST)
#define WT_COMPARE(expected)                                                   \
    WT_DO(0, compare_exchange_n, at_, expected, value_, 0, __ATOMIC_SEQ_CST)
#endif
#define WT_CHANGE(o, v, m, op, gcc)                                            \
    WT_OP(WT_STORE, o, v, m, WT_DO(op, gcc, at_, value_))

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#define atomic_load_explicit(o, m)                                             \
    WT_OP(WT_LOAD, o, 0, m, WT_DO(load, load_n, at_))
#define atomic_store_explicit(o, v, m) WT_CHANGE(o, v, m, store, store_n)
#define atomic_exchange_explicit(o, v, m)                                      \
    WT_CHANGE(o, v, m, exchange, exchange_n)
#define atomic_fetch_add_explicit(o, v, m)                                     \
    WT_CHANGE(o, v, m, fetch_add, fetch_add)
#define atomic_fetch_sub_explicit(o, v, m)                                     \
    WT_CHANGE(o, v, m, fetch_sub, fetch_sub)
#define atomic_fetch_or_explicit(o, v, m) WT_CHANGE(o, v, m, fetch_or, fetch_or)
#define atomic_fetch_and_explicit(o, v, m)                                     \
    WT_CHANGE(o, v, m, fetch_and, fetch_and)
#define atomic_compare_exchange_strong_explicit(o, expected, v, m, failed)     \
    WT_OP(WT_STORE, o, v, m, WT_COMPARE(expected))
#define atomic_compare_exchange_weak_explicit                                  \
    atomic_compare_exchange_strong_explicit

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
