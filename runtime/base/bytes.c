/* bytes.c: sizes and counts in messages, for people. */
#include "runtime/base/bytes.h"

#include <inttypes.h>
#include <stdio.h>

wm_bytes_text wm_bytes(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    wm_bytes_text out;
    double value = (double)bytes / 1024;
    unsigned unit = 0;

    if (bytes < 1024) {
        snprintf(out.text, sizeof out.text, "%" PRIu64 " B", bytes);
        return out;
    }
    while (value >= 1024 && unit < 3) {
        value /= 1024;
        unit++;
    }
    snprintf(out.text, sizeof out.text, "%.1f %s", value, units[unit]);
    return out;
}

wm_count_text wm_counted(uint64_t count, const char *noun)
{
    wm_count_text out;

    snprintf(out.text, sizeof out.text, "%" PRIu64 " %s%s", count, noun,
             count == 1 ? "" : "s");
    return out;
}
