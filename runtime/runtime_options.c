/* runtime_options.c: the options in force, as text. Takes no lock: a live
 * runtime's options are const. */
#include "warmpool/runtime.h"

#include "handles/kind_table.h"
#include "runtime/thread/text_call.h"

static warm_status put_options(warm_runtime *runtime, const void *what,
                               wm_text *text)
{
    (void)what;
    wm_options_put(&runtime->kinds->options, text);
    return WARM_OK;
}

warm_status warm_runtime_options(warm_runtime *runtime, char *text,
                                 size_t bytes, size_t *needed)
{
    return wm_text_call(runtime, put_options, NULL, text, bytes, needed);
}
