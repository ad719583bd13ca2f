/* viz.h: the layout that PyTorch's memory visualiser reads, as JSON; see
 * warm_snapshot_viz() (warmpool/snapshot.h).
 *
 * Our places are its devices. It starts at the blocks and segments of the
 * snapshot and undoes one event after the other, and fails at one that does not
 * fit. So what the events leave behind must be what the snapshot shows: see
 * arena_trace.c for the order in which they are put. Those that were
 * overwritten are the oldest ones, and are missed by nobody; what is older than
 * one that was dropped is left out. */
#ifndef WM_VIZ_H
#define WM_VIZ_H

#include "alloc/snapshot/snapshot_set.h"
#include "runtime/base/text.h"

/* set: of all places. */
void wm_viz_put(wm_text *text, const warm_runtime *runtime,
                const wm_snapshot_set *set);

#endif
