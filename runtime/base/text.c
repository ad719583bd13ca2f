/* text.c: composes texts and makes them safe to print (text.h). */
#include "runtime/base/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void wm_text_put(wm_text *text, const char *format, ...)
{
    size_t left = text->used < text->bytes ? text->bytes - text->used : 0;
    va_list list;
    int length;

    va_start(list, format);
    length =
        vsnprintf(left > 0 ? text->at + text->used : NULL, left, format, list);
    va_end(list);
    text->used += (size_t)length;
}

/* Bytes of the multi-byte UTF-8 sequence at c, or 0 if it is not valid. The
 * range of the second byte excludes overlong forms, surrogates and code points
 * beyond Unicode. */
static int sequence(const unsigned char *c)
{
    static const struct {
        unsigned char first, last, from, to;
        int bytes;
    } rows[] = {{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
                {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
                {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
                {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    size_t i = 0;

    while (i < sizeof rows / sizeof rows[0] && c[0] > rows[i].last) {
        i++;
    }
    if (i == sizeof rows / sizeof rows[0] || c[0] < rows[i].first ||
        c[1] < rows[i].from || c[1] > rows[i].to) {
        return 0;
    }
    for (int k = 2; k < rows[i].bytes; k++) {
        if (c[k] < 0x80 || c[k] > 0xbf) {
            return 0;
        }
    }
    return rows[i].bytes;
}

/* How an escaped text writes what it may not contain. */
struct escapes {
    const char *invalid; /* a byte that is not UTF-8 */
    const char *end;     /* the end of a line; null: as other controls */
    bool unicode;        /* control characters as \u001b, else as they are */
};

/* Quotes and backslashes get a backslash in every text. */
static void put_escaped(wm_text *text, const char *string,
                        const struct escapes *escapes)
{
    const unsigned char *c = (const unsigned char *)string;

    while (*c != '\0') {
        int bytes = *c < 0x80 ? 1 : sequence(c);

        if (bytes == 0) {
            wm_text_put(text, "%s", escapes->invalid);
            bytes = 1;
        } else if (*c == '"' || *c == '\\') {
            wm_text_put(text, "\\%c", *c);
        } else if (*c == '\n' && escapes->end != NULL) {
            wm_text_put(text, "%s", escapes->end);
        } else if (*c < 0x20 && escapes->unicode) {
            wm_text_put(text, "\\u%04x", *c);
        } else {
            wm_text_put(text, "%.*s", bytes, (const char *)c);
        }
        c += bytes;
    }
}

void wm_text_put_string(wm_text *text, const char *string)
{
    static const struct escapes json = {"\\ufffd", NULL, true};

    wm_text_put(text, "\"");
    put_escaped(text, string, &json);
    wm_text_put(text, "\"");
}

void wm_text_put_label(wm_text *text, const char *string)
{
    static const struct escapes label = {"\357\277\275", "\\n", false};

    wm_text_put(text, "\"");
    put_escaped(text, string, &label);
    wm_text_put(text, "\"");
}

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
    char out[1024];
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
