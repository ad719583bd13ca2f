/* callback.c: see callback.h. No locks. */
#include "runtime/base/callback.h"

static _Thread_local unsigned callbacks;

void wm_callback_begin(void)
{
    callbacks++;
}

void wm_callback_end(void)
{
    callbacks--;
}

bool wm_callback_inside(void)
{
    return callbacks > 0;
}
