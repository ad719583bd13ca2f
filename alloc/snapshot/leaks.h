/* leaks.h: what is live when a runtime is destroyed (option debug:leaks). */
#ifndef WM_LEAKS_H
#define WM_LEAKS_H

#include "runtime/thread/runtime_body.h"

/* Logs the live blocks of all memory of the runtime, in groups. For
 * warm_runtime_destroy(): no other thread is inside. */
void wm_leaks_log(warm_runtime *runtime);

#endif
