/* resident.h: whether memory that is mapped has pages yet (row F12). */
#ifndef WM_RESIDENT_H
#define WM_RESIDENT_H

#include <stddef.h>

/* An estimate of how many bytes of a mapping have no pages: mincore() is asked
 * of WM_RESIDENT_SAMPLES pages at most, one in each 2 MiB or more, at even
 * distances. All of them if the kernel does not say. Takes no lock, leaves
 * errno. */
enum { WM_RESIDENT_SAMPLES = 512 };
size_t wm_untouched_bytes(const void *base, size_t bytes);

#endif
