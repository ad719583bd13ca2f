/* runtime.h: what the files beside runtime.c call of it. */
#ifndef WM_RUNTIME_H
#define WM_RUNTIME_H

#include "runtime/thread/control.h"

/* The stream, looked at as info, is about to be destroyed: bindings to it are
 * not trusted any more, its workspaces and blocks stay stream-safe. */
void wm_runtime_retire(warm_runtime *runtime, warm_stream stream,
                       const wm_stream_info *info);

#endif
