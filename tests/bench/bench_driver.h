/* bench_driver.h: a driver that does nothing, at a set price.
 *
 * Pinned memory is address space that nobody touches; streams have no work;
 * events are those of event.h. So what the library costs is what is left. */
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include "runtime/driver/driver.h"

/* devices, named "bench"; null if there is no memory. Owned by the runtime
 * that is made on it. */
wm_driver *bench_driver_open(int devices);

/* A use of a stream of it, or of a default one; see event.h. */
void bench_driver_use(wm_driver *driver, warm_stream stream);

/* Pieces of work that streams waited for: of the other stream, when they were
 * told to wait. */
uint64_t bench_driver_delayed(wm_driver *driver);

/* Bytes of memory obtained at the peak, of whatever sort. */
uint64_t bench_driver_peak(wm_driver *driver);

/* fn is called at each new peak, in the thread that allocates. */
void bench_driver_watch(void (*fn)(void));

#endif
