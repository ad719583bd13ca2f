/* bytes.h: sizes and counts in messages, for people. */
#ifndef WM_BYTES_H
#define WM_BYTES_H

#include <stdint.h>

typedef struct wm_bytes_text {
    char text[24];
} wm_bytes_text;

/* "512 B", "1.5 KiB", "20.4 GiB". */
wm_bytes_text wm_bytes(uint64_t bytes);

typedef struct wm_count_text {
    char text[64];
} wm_count_text;

/* "1 block", "0 blocks", "3 blocks". noun: one whose plural ends in s. */
wm_count_text wm_counted(uint64_t count, const char *noun);

#endif
