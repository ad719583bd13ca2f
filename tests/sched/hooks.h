/* hooks.h: included before every file of the library that is compiled for
 * schedules. Each atomic operation, futex call, barrier, yield, clock and start
 * or end of a thread goes through sched.c, which decides who runs next. */
#ifndef WT_HOOKS_H
#define WT_HOOKS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

/* One atomic operation in the source. A section of the program holds them all,
 * so that a site has a number. */
struct wt_site {
    const char *unit, *file; /* what is compiled, and where the line stands */
    int line;
    _Bool quiet; /* never a reason to run another thread */
} __attribute__((aligned(32)));

enum wt_access { WT_LOAD = 1, WT_STORE = 2, WT_BOTH = 3 };

/* Before each operation. */
void wt_point(struct wt_site *site, const volatile void *at,
              enum wt_access access, int order);

long wt_syscall(long number, ...);
int wt_yield(void);
int wt_advise(void *at, size_t bytes, int advice);
int wt_sleep(const struct timespec *time, struct timespec *left);
int wt_clock(clockid_t clock, struct timespec *now);
int wt_create(pthread_t *id, const pthread_attr_t *attr, void *(*main)(void *),
              void *argument);
int wt_join(pthread_t id, void **result);
int wt_key_create(pthread_key_t *key, void (*destructor)(void *));

#define WT_SITE(at, access, order)                                             \
    static struct wt_site site_ __attribute__((section("wt_sites"))) = {       \
        __BASE_FILE__, __FILE__, __LINE__, 0};                                 \
    wt_point(&site_, at, access, order)

/* clang's builtins take what is _Atomic, gcc's do not mind. */
#ifdef __clang__
#define WT_DO(op, gcc, ...) __c11_atomic_##op(__VA_ARGS__, __ATOMIC_SEQ_CST)
#define WT_COMPARE(at, expected, value)                                        \
    WT_DO(compare_exchange_strong, 0, at, expected, value, __ATOMIC_SEQ_CST)
#else
#define WT_COMPARE(at, expected, value)                                        \
    WT_DO(0, compare_exchange_n, at, expected, value, 0, __ATOMIC_SEQ_CST)
#define WT_DO(op, gcc, ...) __atomic_##gcc(__VA_ARGS__, __ATOMIC_SEQ_CST)
#endif

#undef atomic_load_explicit
#define atomic_load_explicit(object, order)                                    \
    __extension__({                                                            \
        __auto_type at_ = (object);                                            \
        WT_SITE(at_, WT_LOAD, order);                                          \
        WT_DO(load, load_n, at_);                                              \
    })

#define WT_CHANGE(op, gcc, access, object, value, order)                       \
    __extension__({                                                            \
        __auto_type at_ = (object);                                            \
        __auto_type value_ = (value);                                          \
        WT_SITE(at_, access, order);                                           \
        WT_DO(op, gcc, at_, value_);                                           \
    })
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#define atomic_store_explicit(o, v, m)                                         \
    WT_CHANGE(store, store_n, WT_STORE, o, v, m)
#define atomic_exchange_explicit(o, v, m)                                      \
    WT_CHANGE(exchange, exchange_n, WT_BOTH, o, v, m)
#define atomic_fetch_add_explicit(o, v, m)                                     \
    WT_CHANGE(fetch_add, fetch_add, WT_BOTH, o, v, m)
#define atomic_fetch_sub_explicit(o, v, m)                                     \
    WT_CHANGE(fetch_sub, fetch_sub, WT_BOTH, o, v, m)
#define atomic_fetch_or_explicit(o, v, m)                                      \
    WT_CHANGE(fetch_or, fetch_or, WT_BOTH, o, v, m)
#define atomic_fetch_and_explicit(o, v, m)                                     \
    WT_CHANGE(fetch_and, fetch_and, WT_BOTH, o, v, m)

#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#define atomic_compare_exchange_strong_explicit(object, expected, value,       \
                                                order, failed)                 \
    __extension__({                                                            \
        __auto_type at_ = (object);                                            \
        __auto_type value_ = (value);                                          \
        WT_SITE(at_, WT_BOTH, order);                                          \
        WT_COMPARE(at_, expected, value_);                                     \
    })
#define atomic_compare_exchange_weak_explicit                                  \
    atomic_compare_exchange_strong_explicit

#define syscall(...)                         wt_syscall(__VA_ARGS__)
#define sched_yield()                        wt_yield()
#define madvise(at, bytes, advice)           wt_advise(at, bytes, advice)
#define nanosleep(time, left)                wt_sleep(time, left)
#define clock_gettime(clock, now)            wt_clock(clock, now)
#define pthread_create(thread, attr, fn, of) wt_create(thread, attr, fn, of)
#define pthread_join(thread, result)         wt_join(thread, result)
#define pthread_key_create(key, destructor)  wt_key_create(key, destructor)
#define __builtin_ia32_pause()               ((void)wt_yield())

#endif
