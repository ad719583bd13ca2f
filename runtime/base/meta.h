/* meta.h: memory for the library's own records, never for users.
 *
 * Any thread. Tests can make the n-th allocation fail, once or from then on,
 * and read how many are live. */
#ifndef WM_META_H
#define WM_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed memory aligned to 64 bytes, or null. */
void *wm_meta_alloc(size_t bytes);
/* As wm_meta_alloc(); the first `used` bytes are those of the old allocation,
 * which is freed. Null: no memory, and the old one stays. old: may be null. */
void *wm_meta_grow(void *old, size_t used, size_t bytes);
/* Null is ignored. */
void wm_meta_free(void *pointer);

/* For tests: the n-th allocation from now fails; 0 for none. */
void wm_meta_fail(uint64_t n, bool persistent);
/* For tests: allocations so far, failed ones included. */
uint64_t wm_meta_calls(void);
/* For tests: allocations not freed, and their bytes. */
int64_t wm_meta_live(void);
int64_t wm_meta_live_bytes(void);

#endif
