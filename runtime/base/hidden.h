/* hidden.h: ranges of addresses that a forked child does not get (row B22).
 *
 *   parent   │ pinned │ heap │ pinned │      MADV_DONTFORK
 *   child    │ ────── │ heap │ ────── │      held: no memory, no access
 *
 * After fork() parent and child share pages, and the first of the two that
 * writes to a page gets a copy of it: the parent would write to the copy while
 * a device still reads and writes the page that was locked. So the child gets
 * no such page. Its own memory must not come to lie there either, since the
 * page map knows the addresses as the parent's: the child holds them, mapped
 * without access.
 *
 * One list for the process, under the process lock, which fork() takes. */
#ifndef WM_HIDDEN_H
#define WM_HIDDEN_H

#include <stdbool.h>
#include <stddef.h>

/* Adds a mapped range of whole pages, in no other range. False: the kernel
 * refuses (errno), and the range is not hidden. Without memory for the list the
 * child does not hold the addresses. No lock held, here and below. */
bool wm_hidden_add(void *base, size_t bytes);

/* The same for memory that the program has mapped, and may have marked for
 * itself in whole or in part. False also without memory (errno ENOMEM), or if
 * no file can be opened (EMFILE). */
bool wm_hidden_add_foreign(void *base, size_t bytes);

/* Removes a range, or a part of one, before it is unmapped: once it is, another
 * thread may get the addresses. A mark of the program's own stays. */
void wm_hidden_remove(void *base, size_t bytes);

/* In the child: holds the addresses of all ranges. */
void wm_hidden_forked(void);

#endif
