/* pause.h: what the end of a runtime does with memory that is paused. */
#ifndef WM_PAUSE_H
#define WM_PAUSE_H

#include "warmpool/pause.h"

/* Frees the saved contents of all paused pools, and ends their idle
 * segments. No other thread is inside the runtime. */
void wm_pause_close(warm_runtime *runtime);

#endif
