/* frames.c: names of return addresses (frames.h). */
#include "alloc/snapshot/frames.h"

#include <dlfcn.h>
#include <inttypes.h>

bool wm_frame_get(const wm_history *history, const wm_origin *origin,
                  unsigned i, wm_frame *frame)
{
    Dl_info info;

    if (i >= wm_history_frames(history) || origin->frame[i] == 0) {
        return false;
    }
    *frame = (wm_frame){.address = origin->frame[i]};
    /* Looks up the address before the return address, which may be the first
     * byte of another function. */
    if (dladdr((void *)(uintptr_t)(frame->address - 1), &info) != 0) {
        frame->function = info.dli_sname;
        frame->object = info.dli_fname;
        frame->offset = frame->address - (uintptr_t)info.dli_fbase;
    }
    return true;
}

static void put_frame(wm_text *text, const wm_frame *frame)
{
    wm_text_put(text, "{\"address\":\"0x%" PRIx64 "\"", frame->address);
    if (frame->function != NULL) {
        wm_text_put(text, ",\"function\":");
        wm_text_put_string(text, frame->function);
    }
    if (frame->object != NULL) {
        wm_text_put(text, ",\"object\":");
        wm_text_put_string(text, frame->object);
        wm_text_put(text, ",\"offset\":\"0x%" PRIx64 "\"", frame->offset);
    }
    wm_text_put(text, "}");
}

void wm_frames_put(wm_text *text, const wm_history *history,
                   const wm_origin *origin)
{
    wm_frame frame;

    if (origin->tag[0] != '\0') {
        wm_text_put(text, ",\"tag\":");
        wm_text_put_string(text, origin->tag);
    }
    if (wm_frame_get(history, origin, 0, &frame)) {
        wm_text_put(text, ",\"frames\":[");
        for (unsigned i = 0; wm_frame_get(history, origin, i, &frame); i++) {
            wm_text_put(text, "%s", i > 0 ? "," : "");
            put_frame(text, &frame);
        }
        wm_text_put(text, "]");
    }
}
