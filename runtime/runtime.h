/* runtime.h: functions that the files of this folder share. */
#ifndef WM_RUNTIME_H
#define WM_RUNTIME_H

#include "runtime/thread/runtime_body.h"

/* warm_runtime_create() with cancellation off, on a driver that the caller has
 * opened (null: the options choose one). driver: taken on success; on failure
 * it stays the caller's. The bench and some tests bring their own driver. */
warm_status wm_runtime_create_on(wm_driver *driver, const warm_options *given,
                                 warm_runtime **runtime);

/* The only handler of forks; runs in the child. */
void wm_runtime_forked(void);

/* warm_stream_retire() for a live runtime. */
warm_status wm_runtime_retire_stream(warm_runtime *runtime, warm_stream stream);

/* The stream is about to be destroyed: invalidates bindings to it; its
 * workspaces and blocks stay stream-safe. info: as the driver describes it. */
void wm_runtime_retire(warm_runtime *runtime, warm_stream stream,
                       const wm_stream_info *info);

/* Adopts a stream that was just created and lives until it is retired. If that
 * fails the caller destroys the stream: frees that wait for all adopted streams
 * would not wait for this one. Status: OUT_OF_MEMORY, DRIVER_ERROR. */
warm_status wm_runtime_adopt(warm_runtime *runtime, warm_stream stream);

/* wm_timelines_knows() of a live runtime. */
bool wm_runtime_knows_stream(warm_runtime *runtime, warm_stream stream);

#endif
