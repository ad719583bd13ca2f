/* thread_data.h: what a thread has of its own and seldom needs: the words of
 * its last error, and its tag. In allocated memory, which is freed when the
 * thread exits: the thread-local variables of all libraries that are loaded
 * late share one small place (static TLS, 1664 bytes in glibc), and where that
 * is used up the next one cannot be loaded. So ours are 64 bytes at most
 * (lint-tls). */
#ifndef WM_THREAD_DATA_H
#define WM_THREAD_DATA_H

#include "warmpool/base.h"
#include "warmpool/snapshot.h"

#include <stdbool.h>

typedef struct wm_thread_data {
    warm_error error; /* but for its status: status.c */
    char tag[WARM_TAG_BYTES];
} wm_thread_data;

/* The calling thread's, or null. The first does not make it; the second does
 * unless there is no memory, or the thread has been through its last
 * destructor. errno stays as it was. */
wm_thread_data *wm_thread_data_get(void);
wm_thread_data *wm_thread_data_make(void);

/* For tests: from now on there is no memory for it. */
void wm_thread_data_refuse(bool refuse);

/* What is too little for memory of its own, and must not fail: side by side,
 * since each thread-local variable alone takes 8 bytes (tests/tools/tls.sh). */
typedef struct wm_thread_marks {
    unsigned short callbacks;   /* of the program that the thread is in */
    unsigned char last_status;  /* a warm_status: the last error's */
    unsigned char rounds;       /* how often thread_data's destructor ran */
    unsigned char capture_mode; /* a CUstreamCaptureMode: see cuda_stream.c */
    unsigned char breaks;       /* see wm_driver_break_begin() */
} wm_thread_marks;
extern _Thread_local wm_thread_marks wm_thread_marks_now;

#endif
