/* pin.c: obtains and returns regions of page-locked memory. Takes no lock. */
#include "alloc/kinds/pin.h"

#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE ((size_t)2 << 20)

/* More threads than this only wait for each other in the kernel. */
enum { MOST_THREADS = 8 };

void wm_pin_init(wm_pin *pin, wm_driver *driver, const wm_options *options)
{
    unsigned most = wm_process_cpus();

    memset(pin, 0, sizeof *pin);
    pin->driver = driver;
    pin->nodes = driver->numa.nodes > 1;
    /* cudaHostAlloc() lets the kernel choose the node. */
    pin->maps = strcmp(options->pin, "register") == 0 ||
                (pin->nodes && driver->register_locks);
    if (pin->maps && !driver->register_locks) {
        wm_log(WARM_LOG_WARNING,
               "option pin:register page-locks nothing on this machine: a "
               "device reads memory through the host's page tables, where "
               "cudaHostRegister() only touches pages; use pin:auto");
    }
    pin->huge = strcmp(options->huge_pages, "on") == 0;
    pin->threads = options->pin_threads != 0 ? (unsigned)options->pin_threads
                   : most > MOST_THREADS     ? MOST_THREADS
                                             : most;
}

/* Maps whole pages; a range large enough begins at a huge page. */
static void *map(size_t bytes, bool huge)
{
    size_t more = huge && bytes >= HUGE ? HUGE : 0;
    char *base = mmap(NULL, bytes + more, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before;

    if (base == MAP_FAILED) {
        return NULL;
    }
    if (more != 0) {
        before = (HUGE - (uintptr_t)base % HUGE) % HUGE;
        if (before != 0) {
            munmap(base, before);
        }
        munmap(base + before + bytes, more - before);
        base += before;
        /* Small pages work as well. */
        (void)madvise(base, bytes, MADV_HUGEPAGE);
    }
    return base;
}

/* The thread's last error stays what it was. */
static void forget_place(const wm_pin *pin, void *base, size_t bytes)
{
    warm_error before = {.size = sizeof before};

    warm_last_error(&before);
    if (pin->nodes &&
        wm_driver_place(pin->driver, base, bytes, WM_NODE_UNKNOWN) != WARM_OK) {
        wm_error_restore(&before);
    }
}

static void unmap(const wm_pin *pin, void *base, size_t bytes)
{
    forget_place(pin, base, bytes);
    munmap(base, bytes);
}

static warm_status no_memory(size_t bytes)
{
    return wm_fail_code(WARM_OUT_OF_MEMORY, "system", errno, NULL,
                        "%s cannot be mapped and touched (errno %d)",
                        wm_bytes(bytes).text, errno);
}

static warm_status full(int node)
{
    return wm_fail(WARM_OUT_OF_MEMORY, "node %d has no memory left", node);
}

/* A full node makes the kernel use another one silently: compare. */
static warm_status check_place(const wm_pin *pin, int node, void *base,
                               size_t bytes)
{
    int found = WM_NODE_UNKNOWN;
    warm_status status = wm_driver_node_of(pin->driver, base, bytes, &found);

    return status == WARM_OK && found != node ? full(node) : status;
}

/* Backs all pages, with memory of the node where there are several. */
static warm_status back(const wm_pin *pin, int node, void *base, size_t bytes)
{
    warm_status status = WARM_OK;

    if (pin->nodes) {
        status = wm_driver_place(pin->driver, base, bytes, node);
    }
    if (status == WARM_OK && !wm_pin_touch(base, bytes, pin->threads)) {
        status = no_memory(bytes);
    }
    if (status == WARM_OK && pin->nodes) {
        status = check_place(pin, node, base, bytes);
    }
    return status;
}

/* The range is mapped and well formed: if the driver calls it invalid, it is
 * out of some resource (as cudaHostRegister() is known to do). */
static warm_status shortage(warm_status status)
{
    warm_error e = {.size = sizeof e};

    if (status != WARM_DRIVER_ERROR) {
        return status;
    }
    warm_last_error(&e);
    return wm_fail_code(WARM_OUT_OF_MEMORY, e.origin, e.code, e.code_text, "%s",
                        e.message);
}

static warm_status map_and_register(const wm_pin *pin, int node, size_t bytes,
                                    void **base)
{
    void *mapped = map(bytes, pin->huge);
    warm_status status;

    if (mapped == NULL) {
        return no_memory(bytes);
    }
    status = back(pin, node, mapped, bytes);
    if (status == WARM_OK) {
        status =
            shortage(wm_driver_pinned_register(pin->driver, mapped, bytes));
    }
    if (status != WARM_OK) {
        unmap(pin, mapped, bytes);
        return status;
    }
    *base = mapped;
    return WARM_OK;
}

/* Memory that the driver mapped cannot be placed any more, and the kernel may
 * not report its node; the place on simulated nodes is recorded here. */
static warm_status check_preferred(const wm_pin *pin, int node, void *base,
                                   size_t bytes)
{
    int found = node;
    warm_status status = WARM_OK;

    if (pin->driver->numa.simulated) {
        status = wm_driver_place(pin->driver, base, bytes, node);
    }
    if (status == WARM_OK) {
        status = wm_driver_node_of(pin->driver, base, bytes, &found);
    }
    return status == WARM_OK && found != node && found != WM_NODE_UNKNOWN
               ? full(node)
               : status;
}

/* The place is forgotten first: once freed another thread may get the
 * addresses.
 */
static warm_status free_near(const wm_pin *pin, void *base, size_t bytes)
{
    forget_place(pin, base, bytes);
    return wm_driver_pinned_free(pin->driver, base, bytes);
}

/* Returns pages that no request has used. */
static warm_status give_up(const wm_pin *pin, void *base, size_t bytes)
{
    wm_breaking breaking;
    warm_status status;

    if (pin->begin_break == NULL) {
        return free_near(pin, base, bytes);
    }
    if (!pin->begin_break(pin->space, &breaking)) {
        return wm_fail(WARM_CAPTURE_ERROR, "a stream captures");
    }
    status = free_near(pin, base, bytes);
    pin->end_break(pin->space, &breaking);
    return status;
}

static warm_status alloc_near(const wm_pin *pin, int node, size_t bytes,
                              void **base)
{
    warm_error cause = {.size = sizeof cause};
    wm_numa_policy before;
    void *got = NULL;
    warm_status status;

    wm_numa_prefer(&pin->driver->numa, node, &before);
    status = wm_driver_pinned_alloc(pin->driver, bytes, &got);
    wm_numa_unprefer(&before);
    if (status != WARM_OK) {
        return status;
    }
    status = check_preferred(pin, node, got, bytes);
    if (status == WARM_OK) {
        *base = got;
        return WARM_OK;
    }
    warm_last_error(&cause);
    if (give_up(pin, got, bytes) != WARM_OK) {
        wm_log(WARM_LOG_WARNING, "%s of pinned memory leak: %s",
               wm_bytes(bytes).text, warm_last_error_message());
    }
    wm_error_restore(&cause);
    return status;
}

warm_status wm_pin_obtain(const wm_pin *pin, int node, size_t bytes,
                          void **base)
{
    if (pin->maps) {
        return map_and_register(pin, node, bytes, base);
    }
    return pin->nodes ? alloc_near(pin, node, bytes, base)
                      : wm_driver_pinned_alloc(pin->driver, bytes, base);
}

warm_status wm_pin_give_back(const wm_pin *pin, void *base, size_t bytes)
{
    warm_status status;

    if (!pin->maps) {
        return free_near(pin, base, bytes);
    }
    status = wm_driver_pinned_unregister(pin->driver, base);
    if (status == WARM_OK) {
        unmap(pin, base, bytes);
    }
    return status;
}
