/* text_call.c: see text_call.h. Takes no lock. */
#include "runtime/thread/text_call.h"

#include "runtime/base/bytes.h"
#include "runtime/base/meta.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"

warm_status wm_text_call(warm_runtime *runtime, wm_text_writer *write,
                         const void *what, char *text, size_t bytes,
                         size_t *needed)
{
    wm_text out = {text, bytes, 0};
    warm_status status = wm_runtime_check(runtime);

    if (bytes > 0) {
        status = wm_check_given(status, text, "text");
    }
    if (status != WARM_OK || (status = write(runtime, what, &out)) != WARM_OK) {
        return status;
    }
    if (needed != NULL) {
        *needed = out.used + 1;
    }
    if (bytes > 0 && out.used >= bytes) {
        return wm_fail(WARM_TRUNCATED,
                       "the text is longer than %s and was cut; needed is its "
                       "whole size",
                       wm_bytes(bytes).text);
    }
    return WARM_OK;
}

warm_status wm_text_call_whole(warm_runtime *runtime, wm_text_writer *write,
                               const void *what, char **text)
{
    wm_text out = {NULL, 0, 0};
    warm_status status = wm_runtime_check(runtime);

    *text = NULL;
    if (status == WARM_OK) {
        status = write(runtime, what, &out);
    }
    while (status == WARM_OK && out.used >= out.bytes) {
        size_t bytes = out.used + out.used / 4 + 1;

        wm_meta_free(*text);
        *text = wm_meta_alloc(bytes);
        if (*text == NULL) {
            return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a text of %s",
                           wm_bytes(bytes).text);
        }
        out = (wm_text){*text, bytes, 0};
        status = write(runtime, what, &out);
    }
    if (status != WARM_OK) {
        wm_meta_free(*text);
        *text = NULL;
    }
    return status;
}
