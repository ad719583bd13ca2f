/* runtime.h: what the files beside runtime.c call of it. */
#ifndef WM_RUNTIME_H
#define WM_RUNTIME_H

#include "runtime/thread/control.h"

/* warm_runtime_create() with cancellation off, on a driver that the caller
 * has opened (null: options say which). driver: taken on success; on failure
 * still the caller's. For the bench and for tests that bring a driver. */
warm_status wm_runtime_create_on(wm_driver *driver, const warm_options *given,
                                 warm_runtime **runtime);

/* The only handler of forks; runs in the child. */
void wm_runtime_forked(void);

/* warm_stream_retire() of a runtime that lives. */
warm_status wm_runtime_retire_stream(warm_runtime *runtime, warm_stream stream);

/* The stream, looked at as info, is about to be destroyed: bindings to it are
 * not trusted any more, its workspaces and blocks stay stream-safe. */
void wm_runtime_retire(warm_runtime *runtime, warm_stream stream,
                       const wm_stream_info *info);

/* A stream that was just created lives until it is retired. What fails leaves
 * it as the streams of the program are: dearer, and no less safe. */
void wm_runtime_adopt(warm_runtime *runtime, warm_stream stream);

#endif
