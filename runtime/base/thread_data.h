/* thread_data.h: data of one thread that is seldom needed: the message of its
 * last error, and its memory tag.
 *
 * It is allocated at first use and freed when the thread exits, because
 * thread-local variables are scarce: all libraries loaded by dlopen() share
 * glibc's static TLS reserve (1664 bytes), and when that is used up the next
 * library cannot be loaded. Ours take at most 64 bytes (lint-tls). */
#ifndef WM_THREAD_DATA_H
#define WM_THREAD_DATA_H

#include "warmpool/base.h"
#include "warmpool/snapshot.h"

#include <stdbool.h>

typedef struct wm_thread_data {
    warm_error error; /* all but its status, which is in wm_thread_marks */
    char tag[WARM_TAG_BYTES];
} wm_thread_data;

/* The calling thread's data, or null. wm_thread_data_make() allocates it if
 * needed; it returns null without memory or after the thread's last round of
 * destructors. errno is preserved. */
wm_thread_data *wm_thread_data_get(void);
wm_thread_data *wm_thread_data_make(void);

/* For tests: while refuse is true wm_thread_data_make() allocates nothing. */
void wm_thread_data_refuse(bool refuse);

/* Small marks of a thread that must never fail to exist. One struct, because
 * each thread-local variable takes at least 8 bytes (tests/tools/tls.sh). */
typedef struct wm_thread_marks {
    unsigned short callbacks;   /* nested callbacks that the thread is in */
    unsigned char last_status;  /* warm_status of the last error */
    unsigned char rounds;       /* how often thread_data's destructor ran */
    unsigned char capture_mode; /* CUstreamCaptureMode: see cuda_stream.c */
    unsigned char breaks;       /* nesting of wm_driver_break_begin() */
    unsigned char turns;        /* first creations that the thread makes */
    unsigned char cancel;       /* cancellation state before the callbacks */
} wm_thread_marks;
extern _Thread_local wm_thread_marks wm_thread_marks_now;

#endif
