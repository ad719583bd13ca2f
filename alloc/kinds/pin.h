/* pin.h: regions of page-locked memory from a driver (row B9).
 *
 * Two ways, the same for all of a runtime's regions (option pin):
 *
 *   alloc      the driver maps, touches and page-locks in one call
 *   register   map ─► huge pages asked for ─► a node asked for ─► pages touched
 *              by several threads, outside of the driver ─► registered
 *
 * With several NUMA nodes, which cudaHostAlloc() cannot choose, all memory is
 * registered; unless the driver reports that registering page-locks nothing
 * (GH200, GB200): then memory is registered only if the option demands it, with
 * a warning, and else the calling thread's memory policy prefers the node while
 * the driver touches the pages.
 *
 * With "register" a machine that is short of memory may kill the process where
 * the driver would have refused: pages are touched before the driver is called.
 * And where memory is fragmented and /sys/kernel/mm/transparent_hugepage/defrag
 * is madvise, huge pages can take longer than small ones (option huge_pages).
 *
 * One call page-locks a region either way, so that no block lies across two
 * registrations: some calls of CUDA accept such a range for a copy and some
 * refuse it ("invalid argument"). So memory ahead of demand comes in regions of
 * option pin_chunk, each a segment; a larger request is a single region all the
 * same, but with "register" its pages are touched before the call that holds
 * the driver's locks. */
#ifndef WM_PIN_H
#define WM_PIN_H

#include "runtime/driver/driver.h"
#include "runtime/thread/runtime_body.h"

struct wm_space;

typedef struct wm_pin {
    wm_driver *driver; /* const */
    bool maps;         /* const: memory is mapped here, the driver registers */
    bool nodes;        /* const: there are several NUMA nodes */
    bool huge;         /* const: huge pages are requested */
    unsigned threads;  /* const: that touch pages, at least 1 */
    struct wm_space *space; /* const; null: no stream ever captures */
} wm_pin;

void wm_pin_init(wm_pin *pin, wm_driver *driver, const wm_options *options);

/* Obtains a region of bytes (whole pages), on node if there are several. No
 * lock held. Status: OUT_OF_MEMORY (also if the node is full, so that pages
 * came from another, or the driver refuses to register), or another of the
 * driver's; then nothing stays mapped, except pages from another node while a
 * stream captures: those leak, which is logged. */
warm_status wm_pin_obtain(const wm_pin *pin, int node, size_t bytes,
                          void **base);

/* Returns a region. If that fails the region is unchanged. */
warm_status wm_pin_give_back(const wm_pin *pin, void *base, size_t bytes);

/* Touches all pages of the range with several threads, the caller among them.
 * False: there is not enough memory. */
bool wm_pin_touch(void *base, size_t bytes, unsigned threads);

#endif
