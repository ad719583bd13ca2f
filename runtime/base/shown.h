/* shown.h: makes text from outside (options, paths, names) safe to print in one
 * line.
 *
 * Every message and log line passes through wm_shown() once, when it is
 * composed, so that no quoted text can end the line or drive a terminal. */
#ifndef WM_SHOWN_H
#define WM_SHOWN_H

#include <stddef.h>

/* Replaces each control character in text by an escape (\n, \t, \x1b). bytes:
 * room of text, terminator included; a text that grows beyond it is cut and
 * ends in "...". */
void wm_shown(char *text, size_t bytes);

#endif
