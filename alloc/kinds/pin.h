/* pin.h: regions of page-locked memory from a driver (row B9).
 *
 * Two ways, the same for all of a runtime's regions (option pin):
 *
 *   alloc      the driver maps, touches and page-locks in one call
 *   register   map ─► huge pages asked for ─► a node asked for ─► pages touched
 *              by several threads, outside of the driver ─► registered
 *
 * With several nodes, of which cudaHostAlloc() knows nothing, all is
 * registered, unless the driver says that registering page-locks nothing
 * (GH200, GB200): then memory is registered only where the option says so,
 * aloud, and else the calling thread prefers the node while the driver touches
 * the pages.
 *
 * With "register" a machine that is short of memory may end the process where
 * the driver would have refused: pages are taken before it is asked. And where
 * memory is fragmented and /sys/kernel/mm/transparent_hugepage/defrag says
 * madvise, looking for huge pages can take longer than small ones would
 * (option huge_pages).
 *
 * A region is page-locked by one call either way, so that a block never lies
 * across two registrations: CUDA takes such a range for a copy in some calls
 * and refuses it in others ("invalid argument"), and who copies a block must
 * not need to know where it lies. So what is obtained ahead of demand comes in
 * regions of option pin_chunk, each a segment; a request larger than that is
 * one region all the same, but with "register" the call that holds the
 * driver's locks finds all pages there. */
#ifndef WM_PIN_H
#define WM_PIN_H

#include "runtime/driver/driver.h"
#include "runtime/thread/control.h"

struct wm_space;

typedef struct wm_pin {
    wm_driver *driver; /* const */
    bool maps;         /* const: we map, the driver registers */
    bool nodes;        /* const: memory has a node */
    bool huge;         /* const: huge pages are asked for */
    unsigned threads;  /* const: that touch pages, at least 1 */
    /* Around a call that breaks captures; false: not now. Const; null: nothing
     * is ever captured. */
    bool (*begin_break)(struct wm_space *space, wm_breaking *breaking);
    void (*end_break)(struct wm_space *space, wm_breaking *breaking);
    struct wm_space *space; /* const */
} wm_pin;

void wm_pin_init(wm_pin *pin, wm_driver *driver, const wm_options *options);

/* A region of bytes (whole pages), on node where there are several. No lock
 * held. Status: OUT_OF_MEMORY (also if the node is full and its pages came from
 * another, or the driver refuses to register it), or another of the driver's;
 * nothing is left behind, but pages from another node while a stream captures:
 * those leak, which is logged. */
warm_status wm_pin_obtain(const wm_pin *pin, int node, size_t bytes,
                          void **base);

/* Gives a region back. If that fails it is as it was. */
warm_status wm_pin_give_back(const wm_pin *pin, void *base, size_t bytes);

/* Has the kernel back all pages of the range now, by several threads, the
 * caller among them. False: there is not enough memory. */
bool wm_pin_touch(void *base, size_t bytes, unsigned threads);

#endif
