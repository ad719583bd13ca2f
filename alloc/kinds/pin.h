/* pin.h: regions of page-locked memory from a driver (row B9).
 *
 * Option pin chooses one of two ways for all regions of a runtime:
 *
 *   alloc      the driver maps, touches and page-locks in one call
 *   register   mapped ─► huge pages and a node requested ─► pages touched by
 *              several threads of the node, outside of the driver ─► registered
 *
 * pin:auto registers all memory with several NUMA nodes, or if option
 * huge_pages asks for more than a try, since cudaHostAlloc() can neither choose
 * a node nor request huge pages; else it allocates. Where memory is allocated
 * with several nodes, the calling thread's memory policy prefers the node while
 * the driver touches the pages, whose node is looked up afterwards.
 *
 * Two kinds of drivers cannot register. One reports that registering page-locks
 * nothing (GH200, GB200): there memory is registered only if the option demands
 * it, with a warning. The other refuses every registration, and says so by an
 * attribute of the device, or (confidential computing) only when it is called:
 * there pin:register is refused, when the runtime is created or by each
 * request, and all other memory is allocated. One line of the log tells either.
 * If the driver answers "invalid value" to the region and to a single page,
 * nobody can tell whether it always will: that region is allocated, and the
 * next one is tried again. An error of the context decides nothing, and is
 * returned.
 *
 * "register" has two risks. Pages are touched before the driver is called: a
 * machine that is short of memory may kill the process where the driver would
 * have refused. And if memory is fragmented and
 * /sys/kernel/mm/transparent_hugepage/defrag is madvise, huge pages can take
 * longer than small ones (option huge_pages).
 *
 * Pieces (row B19). No call page-locks more than option pin_chunk: kernels and
 * drivers refuse large registrations, and the driver holds a lock during the
 * call. A request that is larger gets one range of addresses, which is mapped
 * and touched whole and then registered piece by piece:
 *
 *   range   │ piece │ piece │ piece │ pi│   each a registration and a segment
 *   block   ├─────────────────────────┤     spans the segments (arena.h)
 *
 * cudaHostAlloc() cannot allocate at an address. So such a region is mapped and
 * registered also with pin:alloc; except where the driver cannot register:
 * there it is allocated by one call, and pin_chunk limits only the memory that
 * is obtained ahead of demand.
 *
 * CUDA refuses a copy whose range of host memory lies across two registrations
 * ("invalid argument"). A block that fits into a piece never does; the
 * library's own copies are split at the cuts of larger ones (api/copy.c).
 * Shared buffers (shared.c) are cut as well, unless a device sees registered
 * memory at other addresses, where pieces need not adjoin.
 *
 * Either way a region is kept out of forked children (hidden.h). */
#ifndef WM_PIN_H
#define WM_PIN_H

#include "alloc/kinds/mapping.h"
#include "runtime/driver/driver.h"
#include "runtime/thread/runtime_body.h"

#include <stdatomic.h>

struct wm_space;

/* The driver's answer to the first registrations. The first that is final
 * stays: once memory is registered, a refusal is a shortage. */
enum wm_pin_answer { WM_PIN_UNKNOWN, WM_PIN_REGISTERS, WM_PIN_REFUSES };

typedef struct wm_pin {
    wm_driver *driver; /* const */
    bool maps;         /* const: mmap() and register; else the driver maps */
    bool falls_back;   /* const: allocates where the driver refuses to register
                          any memory */
    /* Relaxed: tied to no other data; enum wm_pin_answer, REFUSES only if
     * falls_back. */
    _Atomic int answer;
    /* Relaxed: some regions were allocated while the driver refused a page. */
    _Atomic bool mixes;
    bool nodes;        /* const: there are several NUMA nodes */
    enum wm_huge huge; /* const: option huge_pages */
    const char *root;  /* const: before paths of the system's files, "" but in
                          tests */
    unsigned threads;  /* const: that touch pages, at least 1 */
    struct wm_space *space; /* const; null: no stream ever captures */
} wm_pin;

/* Status: INVALID_OPTION (huge pages are required, and the driver maps; or
 * registering is demanded, and the driver registers nothing). */
warm_status wm_pin_init(wm_pin *pin, wm_driver *driver,
                        const wm_options *options);

/* Whether regions larger than option pin_chunk are locked in pieces. */
bool wm_pin_cuts(const wm_pin *pin);

/* Obtains a region of bytes (whole pages), on node if there are several.
 * *piece: registers it in pieces of so many bytes (whole pages), the last one
 * perhaps smaller; 0: the region is not cut. Set to 0 if the driver registers
 * nothing and the region was allocated by one call. No lock held. Status
 * (nothing stays mapped then, except, while a stream captures, pages of another
 * node, or pieces that were locked before one was refused: they leak and are
 * logged): OUT_OF_MEMORY (also if the node is full, so that the kernel used
 * another one, if the driver refuses to register, or if huge pages are required
 * and did not come; the message names the limit, refusal.h), or another of the
 * driver's. */
warm_status wm_pin_obtain(wm_pin *pin, int node, size_t bytes, size_t *piece,
                          void **base);

/* Obtains a region of write-combined memory, which the driver alone can
 * allocate: not cut, on no particular node. No lock held. Status:
 * OUT_OF_MEMORY, or another of the driver's. give_back: returns it; if that
 * fails the memory is unchanged. */
warm_status wm_pin_obtain_combined(const wm_pin *pin, size_t bytes,
                                   void **base);
warm_status wm_pin_give_back_combined(const wm_pin *pin, void *base,
                                      size_t bytes);

/* Returns a region that was not cut, or (pieced) one piece of a region. If that
 * fails the memory is unchanged. */
warm_status wm_pin_give_back(const wm_pin *pin, void *base, size_t bytes,
                             bool pieced);

#endif
