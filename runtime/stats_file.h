/* stats_file.h: option stats_at_exit: a file that gets the statistics of a
 * runtime when it ends. Take no lock of their own. */
#ifndef WM_STATS_FILE_H
#define WM_STATS_FILE_H

#include "runtime/base/options.h"

struct wm_stats_file;

/* Opens the file without changing its content; *file is null without the
 * option. Status: INVALID_OPTION, OUT_OF_MEMORY. */
warm_status wm_stats_file_open(const wm_options *options,
                               struct wm_stats_file **file);
/* Null is ignored. */
void wm_stats_file_close(struct wm_stats_file *file);
/* In the child of a fork: the file belongs to the parent. */
void wm_stats_file_forked(struct wm_stats_file *file);

/* Replaces the file's content by the statistics of a live runtime, which the
 * caller keeps from being destroyed. A failure is logged. Null is ignored. Call
 * without a lock; calls no driver. */
void wm_stats_file_write(struct wm_stats_file *file, warm_runtime *runtime);

#endif
