/* wt_one_kind.h: a runtime and a user's kind, `toy`, for each test of a
 * program. Include it once in a program. */
#ifndef WT_ONE_KIND_H
#define WT_ONE_KIND_H

#include "wt_kind.h"

static warm_runtime *runtime;
static wt_toy toy;
static warm_kind kind;

static inline void set_up(void)
{
    runtime = wt_runtime(NULL);
    wt_toy_init(&toy);
    kind = wt_toy_register(&toy, runtime, "toy");
    ck_assert_int_ge(kind, WARM_KIND_BUILTIN);
}

static inline void tear_down(void)
{
    wt_runtime_end(runtime);
    wt_toy_end(&toy);
}

#endif
