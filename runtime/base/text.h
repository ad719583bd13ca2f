/* text.h: JSON and other text into a buffer that may be too small. */
#ifndef WM_TEXT_H
#define WM_TEXT_H

#include <stddef.h>

/* Text that is counted on past the end of its buffer, and always terminated if
 * there is room for that. */
typedef struct wm_text {
    char *at;
    size_t bytes, used;
} wm_text;

void wm_text_put(wm_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A JSON string: what users give may have any name. What is not UTF-8 in it
 * becomes the replacement character. */
void wm_text_put_string(wm_text *text, const char *string);

#endif
