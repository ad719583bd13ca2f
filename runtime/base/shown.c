/* shown.c: see shown.h. */
#include "runtime/base/shown.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Whether a byte is an ASCII control character, or the second byte of one of
 * the control characters U+0080 to U+009F in UTF-8. */
static bool is_control(const char *text, size_t at)
{
    unsigned char c = (unsigned char)text[at];

    return c < 0x20 || c == 0x7f ||
           (at > 0 && (unsigned char)text[at - 1] == 0xc2 && c >= 0x80 &&
            c < 0xa0);
}

static size_t escape(unsigned char c, char *out, size_t room)
{
    const char *short_one = c == '\n' ? "\\n" : c == '\t' ? "\\t" : "";

    return (size_t)(*short_one != '\0'
                        ? snprintf(out, room, "%s", short_one)
                        : snprintf(out, room, "\\x%02x", (unsigned)c));
}

void wm_shown(char *text, size_t bytes)
{
    char out[512];
    size_t used = 0, at = 0;

    while (text[at] != '\0' && !is_control(text, at)) {
        at++;
    }
    if (text[at] == '\0') {
        return;
    }
    bytes = bytes < sizeof out ? bytes : sizeof out;
    for (at = 0; text[at] != '\0' && used + sizeof "\\x1b..." <= bytes; at++) {
        if (is_control(text, at)) {
            used +=
                escape((unsigned char)text[at], out + used, sizeof out - used);
        } else {
            out[used++] = text[at];
        }
    }
    snprintf(out + used, sizeof out - used, "%s",
             text[at] != '\0' ? "..." : "");
    memcpy(text, out, used + strlen(out + used) + 1);
}
