/* touch.h: pages get their memory before they are page-locked, by several
 * threads, on the node of the memory (row B9). Takes no lock. */
#ifndef WM_TOUCH_H
#define WM_TOUCH_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/* Touches all pages of the range with at most so many threads. The caller is
 * one of them, unless cpus (may be null) says where they run: then it waits,
 * and touches the pages only if no thread can be started. False: a page was
 * refused, for which errno has the reason. */
bool wm_touch_pages(void *base, size_t bytes, unsigned threads,
                    const cpu_set_t *cpus);

#endif
