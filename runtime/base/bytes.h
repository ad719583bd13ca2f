/* bytes.h: sizes in messages, for people. */
#ifndef WM_BYTES_H
#define WM_BYTES_H

#include <stdint.h>

typedef struct wm_bytes_text {
    char text[24];
} wm_bytes_text;

/* "512 B", "1.5 KiB", "20.4 GiB". */
wm_bytes_text wm_bytes(uint64_t bytes);

#endif
