/* text.h: JSON and other text into a buffer that may be too small, and text
 * that is safe to print. */
#ifndef WM_TEXT_H
#define WM_TEXT_H

#include <stddef.h>

/* A text whose length (used) goes on counting past the end of its buffer
 * (bytes). Terminated unless bytes is 0. */
typedef struct wm_text {
    char *at;
    size_t bytes, used;
} wm_text;

void wm_text_put(wm_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends a JSON string in quotes. Bytes that are not UTF-8 become U+FFFD. */
void wm_text_put_string(wm_text *text, const char *string);
/* Appends the value of a label of Prometheus in quotes, escaped as its text
 * format wants it. */
void wm_text_put_label(wm_text *text, const char *string);

/* Makes text from outside (options, paths, names) safe to print in one line:
 * replaces each control character by an escape (\n, \t, \x1b). bytes: room of
 * text, terminator included; a text that grows beyond it is cut and ends in
 * "...". Every message and log line passes through it once, when it is
 * composed, so that no quoted text can end the line or drive a terminal. */
void wm_shown(char *text, size_t bytes);

#endif
