/* wt_short.h: memory callbacks that hear of FAILED alone, named after their
 * function and context. */
#ifndef WT_SHORT_H
#define WT_SHORT_H

#include "warmpool/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns whether it freed memory. */
typedef int (*wt_short_fn)(void *context, size_t bytes);

struct wt_short {
    wt_short_fn function;
    void *context;
};

static inline int wt_short_call(void *context, warm_memory_event event,
                                void *buffer, size_t bytes)
{
    struct wt_short *one = context;

    if (event != WARM_MEMORY_FAILED || buffer != NULL) {
        abort();
    }
    return one->function(one->context, bytes);
}

static inline void wt_short_name(char name[WARM_CALLBACK_NAME],
                                 wt_short_fn function, const void *context)
{
    snprintf(name, WARM_CALLBACK_NAME, "%" PRIxPTR " %" PRIxPTR,
             (uintptr_t)function, (uintptr_t)context);
}

static inline warm_status wt_short_add(warm_runtime *of, wt_short_fn function,
                                       void *context)
{
    struct wt_short *one = malloc(sizeof *one);
    char name[WARM_CALLBACK_NAME];
    warm_memory_callback callback = {.size = sizeof callback,
                                     .name = name,
                                     .function = wt_short_call,
                                     .context = one,
                                     .done = free,
                                     .events = WARM_MEMORY_FAILED};
    warm_status status;

    if (one == NULL) {
        return WARM_OUT_OF_MEMORY;
    }
    *one = (struct wt_short){function, context};
    wt_short_name(name, function, context);
    status = warm_memory_callback_add(of, &callback);
    if (status != WARM_OK) {
        free(one);
    }
    return status;
}

static inline warm_status
wt_short_remove(warm_runtime *of, wt_short_fn function, const void *context)
{
    char name[WARM_CALLBACK_NAME];

    wt_short_name(name, function, context);
    return warm_memory_callback_remove(of, name);
}

#endif
