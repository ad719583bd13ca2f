/* fuzz_options.c: the text of WARMPOOL_CONF. One that is refused has a message
 * and changes nothing; one that is taken means the same once it is printed. */
#include "fuzz/fuzz.h"

#include "runtime/base/options.h"

#include <stdio.h>
#include <string.h>

enum { ROOM = 1 << 16 };

/* As entries of WARMPOOL_CONF, without those that have no value. */
static void print(const wm_options *options, char *conf)
{
    static char text[ROOM];
    wm_text out = {text, sizeof text, 0};
    size_t used = 0;

    wm_options_put(options, &out);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (line[strlen(line) - 1] != ':') {
            used += (size_t)sprintf(conf + used, "%s%s", used ? "," : "", line);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char conf[ROOM], again[ROOM], third[ROOM];
    wm_options options, before, same = {0};

    if (bytes >= 4096 || memchr(data, '\0', bytes) != NULL) {
        return -1;
    }
    memcpy(conf, data, bytes);
    conf[bytes] = '\0';
    memset(&options, 7, sizeof options);
    before = options;
    if (wm_options_resolve(NULL, conf, &options) != WARM_OK) {
        ck_assert_mem_eq(&options, &before, sizeof options);
        ck_assert_str_ne(warm_last_error_message(), "");
        return 0;
    }
    (void)wm_options_named(conf, "segment");
    print(&options, again);
    wt_ok(wm_options_resolve(NULL, again, &same));
    print(&same, third);
    ck_assert_str_eq(again, third);
    return 0;
}
