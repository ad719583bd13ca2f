/* viz.h: snapshots in the JSON layout of PyTorch's memory visualiser, for
 * warm_snapshot_viz().
 *
 * Our places are the visualiser's devices. It starts from the snapshot's
 * segments and blocks and undoes one event after the other, and fails at an
 * event that does not fit. So replaying the events must give exactly the
 * snapshot: arena_trace.c records them in that order. Overwritten events are
 * the oldest, and the visualiser does not need them; events older than a
 * dropped one are left out. */
#ifndef WM_VIZ_H
#define WM_VIZ_H

#include "alloc/snapshot/snapshot_set.h"
#include "runtime/base/text.h"

/* set covers all places. */
void wm_viz_put(wm_text *text, const warm_runtime *runtime,
                const wm_snapshot_set *set);

#endif
