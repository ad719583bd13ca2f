/* shown.h: texts from outside (options, paths, names) as a part of one line.
 *
 * Messages and log lines go through it once, where they are composed, so that
 * no text that they quote can end the line or drive a terminal. */
#ifndef WM_SHOWN_H
#define WM_SHOWN_H

#include <stddef.h>

/* Replaces control characters in text, of bytes with its terminator, by \n, \t
 * or \x1b and their like; what has no room then is cut off, and "..." stands
 * for it. */
void wm_shown(char *text, size_t bytes);

#endif
