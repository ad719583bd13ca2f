/* snapshot_signal.h: options snapshot_signal and snapshot_file: a signal writes
 * a snapshot of all memory into a file.
 *
 *   signal ──► handler ──► semaphore of each watch ──► its thread ──► file
 *
 * The handler does what a handler may: it walks a list that only grows, and
 * posts semaphores. Watches are therefore never freed (some 8 KiB for each
 * runtime with the option). Takes the process lock. */
#ifndef WM_SNAPSHOT_SIGNAL_H
#define WM_SNAPSHOT_SIGNAL_H

#include "runtime/base/options.h"

struct wm_snapshot_watch;

/* Installs the handler and starts the thread; *watch is null without the
 * option. Snapshots fail until the runtime is live. Status: INVALID_OPTION (the
 * file cannot be written, or the program has a handler for the signal),
 * OUT_OF_MEMORY. */
warm_status wm_snapshot_watch_start(warm_runtime *runtime,
                                    const wm_options *options,
                                    struct wm_snapshot_watch **watch);

/* Waits for the snapshot under way, ends the thread, and restores the signal
 * with the last watch. Null is ignored. Call without a lock. */
void wm_snapshot_watch_stop(struct wm_snapshot_watch *watch);

/* In the child of a fork, which has no thread: restores the signals. */
void wm_snapshot_watch_forked(void);

#endif
