/* pin.h: regions of page-locked memory from a driver (row B9).
 *
 * Option pin chooses one of two ways for all regions of a runtime:
 *
 *   alloc      the driver maps, touches and page-locks in one call
 *   register   mapped ─► huge pages and a node requested ─► pages touched by
 *              several threads of the node, outside of the driver ─► registered
 *
 * With several NUMA nodes, or if option huge_pages asks for more than a try,
 * all memory is registered, since cudaHostAlloc() can neither choose a node nor
 * request huge pages. But if the driver reports that registering page-locks
 * nothing (GH200, GB200), memory is registered only if the option demands it,
 * with a warning; else the calling thread's memory policy prefers the node
 * while the driver touches the pages.
 *
 * "register" has two risks. Pages are touched before the driver is called: a
 * machine that is short of memory may kill the process where the driver would
 * have refused. And if memory is fragmented and
 * /sys/kernel/mm/transparent_hugepage/defrag is madvise, huge pages can take
 * longer than small ones (option huge_pages).
 *
 * One call page-locks a whole region, so that no block lies across two
 * registrations: some calls of CUDA accept such a range for a copy and some
 * refuse it ("invalid argument"). Memory ahead of demand is obtained in regions
 * of option pin_chunk, each a segment, so that no call holds the driver's locks
 * for long. A request larger than that is a single region, but "register" has
 * touched its pages before the call.
 *
 * Either way a region is kept out of forked children (hidden.h). */
#ifndef WM_PIN_H
#define WM_PIN_H

#include "alloc/kinds/mapping.h"
#include "runtime/driver/driver.h"
#include "runtime/thread/runtime_body.h"

struct wm_space;

typedef struct wm_pin {
    wm_driver *driver; /* const */
    bool maps;         /* const: mmap() and register; else the driver maps */
    bool nodes;        /* const: there are several NUMA nodes */
    enum wm_huge huge; /* const: option huge_pages */
    const char *root;  /* const: before paths of the system's files, "" but in
                          tests */
    unsigned threads;  /* const: that touch pages, at least 1 */
    struct wm_space *space; /* const; null: no stream ever captures */
} wm_pin;

/* Status: INVALID_OPTION (huge pages are required, and the driver maps). */
warm_status wm_pin_init(wm_pin *pin, wm_driver *driver,
                        const wm_options *options);

/* Obtains a region of bytes (whole pages), on node if there are several. No
 * lock held. Status (nothing stays mapped then, except pages of another node
 * while a stream captures, which leak and are logged): OUT_OF_MEMORY (also if
 * the node is full, so that the kernel used another one, if the driver refuses
 * to register, or if huge pages are required and did not come; the message
 * names the limit, refusal.h), or another of the driver's. */
warm_status wm_pin_obtain(const wm_pin *pin, int node, size_t bytes,
                          void **base);

/* Returns a region. If that fails the region is unchanged. */
warm_status wm_pin_give_back(const wm_pin *pin, void *base, size_t bytes);

#endif
