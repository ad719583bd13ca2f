/* runtime_options.c: the options in force, as text. Takes no lock: a live
 * runtime's options are const. */
#include "warmpool/runtime.h"

#include "handles/kind_table.h"
#include "runtime/base/status.h"
#include "runtime/thread/runtime_body.h"

warm_status warm_runtime_options(warm_runtime *runtime, char *text,
                                 size_t bytes, size_t *needed)
{
    warm_status status = wm_runtime_check(runtime);
    size_t all;

    if (status == WARM_OK && text == NULL && bytes > 0) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "text is null");
    }
    if (status != WARM_OK) {
        return status;
    }
    all = wm_options_text(&runtime->kinds->options, text, bytes);
    if (needed != NULL) {
        *needed = all;
    }
    return WARM_OK;
}
