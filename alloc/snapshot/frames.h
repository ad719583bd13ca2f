/* frames.h: return addresses as JSON, with the function names that the dynamic
 * linker knows: exported ones, and all of a program linked with -rdynamic. */
#ifndef WM_FRAMES_H
#define WM_FRAMES_H

#include "runtime/base/history.h"
#include "runtime/base/text.h"

/* A stack frame. */
typedef struct wm_frame {
    uint64_t address;
    uint64_t offset;      /* in the object, or 0 */
    const char *function; /* or null */
    const char *object;   /* path of the object file, or null */
} wm_frame;

/* Gets the i-th frame of an origin; false: it has fewer. Called with no lock
 * held. */
bool wm_frame_get(const wm_history *history, const wm_origin *origin,
                  unsigned i, wm_frame *frame);

/* Writes ,"tag":"…" and ,"frames":[…], each if the origin has it. */
void wm_frames_put(wm_text *text, const wm_history *history,
                   const wm_origin *origin);

#endif
