/* frames.h: return addresses as JSON, with the names that the dynamic linker
 * knows: functions that are exported, or of a program linked with -rdynamic. */
#ifndef WM_FRAMES_H
#define WM_FRAMES_H

#include "runtime/base/history.h"
#include "runtime/base/text.h"

/* One frame, or a part of it, as a reader wants it. */
typedef struct wm_frame {
    uint64_t address;
    uint64_t offset;      /* in the object, or 0 */
    const char *function; /* or null */
    const char *object;   /* path of what it lies in, or null */
} wm_frame;

/* The i-th frame of an origin; false: it has no more. No lock held. */
bool wm_frame_get(const wm_history *history, const wm_origin *origin,
                  unsigned i, wm_frame *frame);

/* ,"tag":"…" and ,"frames":[…] as far as there are any. */
void wm_frames_put(wm_text *text, const wm_history *history,
                   const wm_origin *origin);

#endif
