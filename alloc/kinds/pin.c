/* pin.c: obtains and returns regions of page-locked memory. Takes no lock. */
#include "alloc/kinds/pin.h"

#include "alloc/kinds/refusal.h"
#include "alloc/kinds/touch.h"
#include "alloc/space/space_int.h"
#include "runtime/base/bytes.h"
#include "runtime/base/hidden.h"
#include "runtime/base/log.h"
#include "runtime/base/os_page.h"
#include "runtime/base/process.h"

#include <errno.h>
#include <string.h>

/* More threads than this only wait for each other in the kernel. */
enum { MOST_THREADS = 8 };

static bool is_register(const wm_options *options)
{
    return strcmp(options->pin, "register") == 0;
}

/* cudaHostAlloc() lets the kernel choose the node, and cannot request huge
 * pages. */
static bool must_map(const wm_driver *driver, const wm_options *options,
                     enum wm_huge huge)
{
    bool asks =
        driver->numa.nodes > 1 || (huge != WM_HUGE_OFF && huge != WM_HUGE_TRY);

    return is_register(options) || (strcmp(options->pin, "auto") == 0 && asks &&
                                    driver->register_locks);
}

static void log_way(const wm_pin *pin)
{
    if (pin->maps && !pin->driver->register_locks) {
        wm_log(WARM_LOG_WARNING,
               "option pin:register page-locks nothing on this machine: a "
               "device reads memory through the host's page tables, where "
               "cudaHostRegister() only touches pages; use pin:auto");
    } else if (!pin->driver->register_locks) {
        wm_log(WARM_LOG_INFO,
               "cudaHostRegister() page-locks no memory on this machine: "
               "cudaHostAlloc() allocates all of it, blocks larger than "
               "pin_chunk by one call");
    }
}

warm_status wm_pin_init(wm_pin *pin, wm_driver *driver,
                        const wm_options *options)
{
    unsigned cpus = wm_process_cpus();
    enum wm_huge huge = wm_mapping_huge(options->huge_pages);
    bool maps = must_map(driver, options, huge);

    if (is_register(options) && !driver->registers) {
        return wm_fail(WARM_INVALID_OPTION,
                       "option pin:register: a device of this machine does not "
                       "support cudaHostRegister(); use pin:auto");
    }
    if (!maps && wm_huge_is_required(huge)) {
        return wm_fail(WARM_INVALID_OPTION,
                       "option huge_pages:%s: cudaHostAlloc() cannot request "
                       "huge pages; %s",
                       options->huge_pages,
                       driver->registers
                           ? "use it with pin:register"
                           : "a device of this machine does not support "
                             "cudaHostRegister(), which could; use "
                             "huge_pages:try");
    }
    *pin = (wm_pin){
        .driver = driver,
        .nodes = driver->numa.nodes > 1,
        .maps = maps,
        .falls_back = !is_register(options) && !wm_huge_is_required(huge),
        .huge = huge,
        .root = "",
        .threads = options->pin_threads != 0 ? (unsigned)options->pin_threads
                   : cpus > MOST_THREADS     ? MOST_THREADS
                                             : cpus};
    log_way(pin);
    return WARM_OK;
}

/* ---- registering -------------------------------------------------------- */

/* Removes the record of the range's node, before the range is freed: once it is
 * free another thread may get the addresses. Leaves the last error alone. */
static void forget_place(const wm_pin *pin, void *base, size_t bytes)
{
    WM_KEEP_ERROR();
    if (pin->nodes) {
        (void)wm_driver_place(pin->driver, base, bytes, WM_NODE_UNKNOWN);
    }
}

static void unmap(const wm_pin *pin, enum wm_huge huge, void *base,
                  size_t bytes)
{
    forget_place(pin, base, bytes);
    wm_hidden_remove(base, bytes);
    wm_mapping_end(huge, base, bytes);
}

/* Status: that of wm_refusal_explain(). */
static warm_status explain(const wm_pin *pin, enum wm_refusal_step step,
                           int node, size_t bytes, int error)
{
    return wm_refusal_explain(&(wm_refusal){
        .root = pin->root,
        .step = step,
        .bytes = bytes,
        .held = pin->space != NULL ? wm_growth_held(&pin->space->growth) : 0,
        .node = pin->nodes ? node : WM_NODE_UNKNOWN,
        .huge = pin->huge,
        .error = error});
}

/* what: "mapped" or "touched". */
static warm_status no_memory(const wm_pin *pin, int node, size_t bytes,
                             const char *what)
{
    int error = errno;
    bool mapping = what[0] == 'm';

    wm_fail_note_code(WARM_OUT_OF_MEMORY, "system", error, NULL,
                      "%s of memory to be page-locked cannot be %s (errno %d)",
                      wm_bytes(bytes).text, what, error);
    return explain(pin, mapping ? WM_REFUSAL_MAP : WM_REFUSAL_TOUCH, node,
                   bytes, error);
}

/* Checks that the pages are on the node: if the node is full, the kernel
 * silently uses another one. may_hide: an unknown node is accepted, since the
 * kernel may not report the node of memory that the driver mapped. */
static warm_status check_node(const wm_pin *pin, int node, void *base,
                              size_t bytes, bool may_hide)
{
    int found = WM_NODE_UNKNOWN;
    warm_status status = wm_driver_node_of(pin->driver, base, bytes, &found);

    if (status != WARM_OK || found == node ||
        (may_hide && found == WM_NODE_UNKNOWN)) {
        return status;
    }
    if (may_hide) {
        wm_fail_note(WARM_OUT_OF_MEMORY,
                     "node %d has no memory left, or the driver follows no "
                     "memory policy: cudaHostAlloc() used node %d",
                     node, found);
    } else {
        wm_fail_note(WARM_OUT_OF_MEMORY, "node %d has no memory left", node);
    }
    return explain(pin, WM_REFUSAL_NODE, node, bytes, 0);
}

/* Checks that transparent huge pages came where they are required. Hugetlb's
 * came with the mapping. */
static warm_status check_huge(const wm_pin *pin, void *base, size_t bytes)
{
    uint64_t huge;

    if (pin->huge != WM_HUGE_REQUIRE) {
        return WARM_OK;
    }
    if (!wm_mapping_huge_bytes(pin->root, base, bytes, &huge)) {
        return wm_fail(
            WARM_OUT_OF_MEMORY,
            "how many huge pages came is unknown (option huge_pages:require): "
            "/proc/self/smaps cannot be read; mount /proc, or use "
            "huge_pages:try");
    }
    if (huge >= wm_huge_part(bytes)) {
        return WARM_OK;
    }
    wm_fail_note(WARM_OUT_OF_MEMORY,
                 "%s of %s came as huge pages (option huge_pages:require)",
                 wm_bytes(huge).text, wm_bytes(bytes).text);
    return explain(pin, WM_REFUSAL_HUGE, WM_NODE_UNKNOWN, bytes, 0);
}

/* With several nodes by threads that run on the node, if it has CPUs. */
static bool touch(const wm_pin *pin, int node, void *base, size_t bytes)
{
    cpu_set_t cpus;
    bool near = pin->nodes && wm_numa_cpus(pin->root, node, &cpus);

    return wm_touch_pages(base, bytes, pin->threads, near ? &cpus : NULL);
}

/* Touches all pages; with several nodes, they must be on this one. */
static warm_status back(const wm_pin *pin, int node, void *base, size_t bytes)
{
    warm_status status =
        pin->nodes ? wm_driver_place(pin->driver, base, bytes, node) : WARM_OK;

    if (status != WARM_OK) {
        return status;
    }
    if (!touch(pin, node, base, bytes)) {
        return no_memory(pin, node, bytes, "touched");
    }
    status = check_huge(pin, base, bytes);
    return status == WARM_OK && pin->nodes
               ? check_node(pin, node, base, bytes, false)
               : status;
}

static warm_status unregister(const wm_pin *pin, void *base, size_t bytes,
                              bool pieced)
{
    warm_status status = wm_driver_pinned_unregister(pin->driver, base);

    if (status == WARM_OK) {
        unmap(pin, pieced ? WM_HUGE_OFF : pin->huge, base, bytes);
    }
    return status;
}

/* Memory that the driver has allocated. The mark goes first: once it is freed
 * another thread may get the addresses. */
static warm_status free_allocated(const wm_pin *pin, void *base, size_t bytes)
{
    warm_status status;

    wm_hidden_remove(base, bytes);
    status = wm_driver_pinned_free(pin->driver, base, bytes);
    if (status != WARM_OK) {
        (void)wm_hidden_add(base, bytes);
    }
    return status;
}

static warm_status free_near(const wm_pin *pin, void *base, size_t bytes)
{
    forget_place(pin, base, bytes);
    return free_allocated(pin, base, bytes);
}

static bool is_refused(const wm_pin *pin)
{
    return atomic_load_explicit(&pin->answer, memory_order_relaxed) ==
           WM_PIN_REFUSES;
}

/* Only the driver knows which way the region came. */
static warm_status give_back_either(const wm_pin *pin, void *base, size_t bytes)
{
    warm_error before = wm_error_save();
    warm_status status = unregister(pin, base, bytes, false);

    if (status == WARM_OK) {
        return status;
    }
    status = free_near(pin, base, bytes);
    if (status == WARM_OK) {
        wm_error_restore(&before);
    }
    return status;
}

warm_status wm_pin_give_back(const wm_pin *pin, void *base, size_t bytes,
                             bool pieced)
{
    if (!pieced && (!pin->maps || is_refused(pin))) {
        return free_near(pin, base, bytes);
    }
    return !pieced && atomic_load_explicit(&pin->mixes, memory_order_relaxed)
               ? give_back_either(pin, base, bytes)
               : unregister(pin, base, bytes, pieced);
}

static bool begin_break(const wm_pin *pin, wm_breaking *breaking)
{
    return pin->space == NULL || wm_space_begin_break(pin->space, breaking);
}

static void end_break(const wm_pin *pin, wm_breaking *breaking)
{
    if (pin->space != NULL) {
        wm_space_end_break(pin->space, breaking);
    }
}

/* Returns pages that no request has used, if that breaks no capture; or logs
 * that they leak. Leaves the last error alone. */
static void give_up(const wm_pin *pin, void *base, size_t bytes, bool breaks,
                    bool pieced)
{
    warm_status status;

    WM_KEEP_ERROR();
    if (breaks) {
        status = wm_pin_give_back(pin, base, bytes, pieced);
    } else {
        status = wm_fail(WARM_CAPTURE_ERROR, "a stream captures");
    }
    if (status != WARM_OK) {
        wm_log(WARM_LOG_WARNING, "leaking %s of pinned memory: %s",
               wm_bytes(bytes).text, warm_last_error_message());
    }
}

/* Leaves the last error alone. */
static void break_and_give_up(const wm_pin *pin, void *base, size_t bytes,
                              bool pieced)
{
    wm_breaking breaking;
    bool breaks = begin_break(pin, &breaking);

    give_up(pin, base, bytes, breaks, pieced);
    if (breaks) {
        end_break(pin, &breaking);
    }
}

/* ---- what the driver registers ------------------------------------------ */

/* cudaErrorInvalidValue: for a range that is mapped and aligned, some resource
 * is used up, or the driver registers nothing and does not say so. */
enum { INVALID_VALUE = 1 };

/* The last error is the driver's "unsupported". Without a code it is this
 * library's, for the thread's context. */
static bool is_unsupported(warm_status status)
{
    warm_error e = wm_error_save();

    return status == WARM_UNSUPPORTED && e.code != 0;
}

/* Other errors of the driver are of the context, and tell nothing of memory. */
static bool is_invalid(warm_status status)
{
    warm_error e = wm_error_save();

    return status == WARM_DRIVER_ERROR && e.code == INVALID_VALUE;
}

/* The driver's first answer stays. */
static void note_answer(wm_pin *pin, enum wm_pin_answer answer)
{
    int before = WM_PIN_UNKNOWN;
    bool first = atomic_compare_exchange_strong_explicit(
        &pin->answer, &before, answer, memory_order_relaxed,
        memory_order_relaxed);

    if (first && answer == WM_PIN_REFUSES) {
        wm_log(WARM_LOG_INFO,
               "%s: the driver registers no memory of the host, so "
               "cudaHostAlloc() allocates all of it from now on, blocks larger "
               "than pin_chunk by one call",
               warm_last_error_message());
    }
}

/* Makes the driver's "invalid value" its "unsupported": this region is to be
 * allocated, others perhaps not. */
static warm_status allocate_instead(wm_pin *pin)
{
    warm_error e = wm_error_save();

    if (!atomic_exchange_explicit(&pin->mixes, true, memory_order_relaxed)) {
        wm_log(WARM_LOG_INFO,
               "%s: the driver registers not even one page of the host now, so "
               "cudaHostAlloc() allocates instead, until it does",
               e.message);
    }
    return wm_fail_code(WARM_UNSUPPORTED, e.origin, e.code, e.code_text, "%s",
                        e.message);
}

/* Whether the driver refuses to register a single page as well, though memory
 * is not short. Leaves the last error alone. */
static bool refuses_a_page(wm_pin *pin)
{
    size_t bytes = wm_os_page();
    void *page;
    warm_status status;
    bool refuses;

    if (!wm_mapping_make(WM_HUGE_OFF, bytes, &page)) {
        return false;
    }
    if (!wm_hidden_add(page, bytes)) { /* before it is locked, as any other */
        wm_mapping_end(WM_HUGE_OFF, page, bytes);
        return false;
    }
    WM_KEEP_ERROR();
    status = wm_driver_pinned_register(pin->driver, page, bytes);
    refuses = is_unsupported(status) || is_invalid(status);
    if (status == WARM_OK) {
        note_answer(pin, WM_PIN_REGISTERS);
        break_and_give_up(pin, page, bytes, true);
    } else {
        wm_hidden_remove(page, bytes);
        wm_mapping_end(WM_HUGE_OFF, page, bytes);
    }
    return refuses;
}

/* Whether the driver, which has just refused a registration, refuses all. */
static bool registers_nothing(wm_pin *pin, warm_status status)
{
    return atomic_load_explicit(&pin->answer, memory_order_relaxed) !=
               WM_PIN_REGISTERS &&
           (is_unsupported(status) ||
            (is_invalid(status) && refuses_a_page(pin)));
}

/* Registers a range, which is mapped and aligned. UNSUPPORTED: the region is to
 * be allocated instead, if the driver's code is the last error, or
 * is_refused(). */
static warm_status register_range(wm_pin *pin, void *base, size_t bytes)
{
    warm_status status = wm_driver_pinned_register(pin->driver, base, bytes);
    bool none;

    if (status == WARM_OK) {
        note_answer(pin, WM_PIN_REGISTERS);
        return status;
    }
    none = registers_nothing(pin, status);
    if (none && pin->falls_back && is_unsupported(status)) {
        note_answer(pin, WM_PIN_REFUSES);
    }
    if (is_refused(pin)) {
        return WARM_UNSUPPORTED;
    }
    if (none && pin->falls_back) {
        return allocate_instead(pin);
    }
    return is_unsupported(status) || is_invalid(status) ||
                   status == WARM_OUT_OF_MEMORY
               ? explain(pin, none ? WM_REFUSAL_REGISTER : WM_REFUSAL_LOCK,
                         WM_NODE_UNKNOWN, bytes, 0)
               : status;
}

/* Makes idle memory of the pieces before one that was refused. */
static bool keep_pieces(const wm_pin *pin, int node, char *base, size_t bytes,
                        size_t piece)
{
    WM_KEEP_ERROR();
    return wm_growth_keep(pin->space, node, base, bytes, piece);
}

/* Returns them, the last one first, or keeps them while a stream captures. */
static void give_up_pieces(const wm_pin *pin, int node, char *base,
                           size_t bytes, size_t piece)
{
    wm_breaking breaking;
    bool breaks;

    if (bytes == 0) {
        return;
    }
    breaks = begin_break(pin, &breaking);
    if (breaks || !keep_pieces(pin, node, base, bytes, piece)) {
        while (bytes > 0) {
            bytes -= piece;
            give_up(pin, base + bytes, piece, breaks, true);
        }
    }
    if (breaks) {
        end_break(pin, &breaking);
    }
}

/* If a piece is refused nothing behind it stays mapped. */
static warm_status register_pieces(wm_pin *pin, int node, char *base,
                                   size_t bytes, size_t piece)
{
    warm_status status = WARM_OK;
    size_t at = 0;

    while (at < bytes && status == WARM_OK) {
        size_t left = bytes - at;

        status = register_range(pin, base + at, left < piece ? left : piece);
        at += status == WARM_OK ? piece : 0;
    }
    if (status != WARM_OK) {
        unmap(pin, WM_HUGE_OFF, base + at, bytes - at);
        give_up_pieces(pin, node, base, at, piece);
    }
    return status;
}

/* Registers a mapped region, or its pieces, which are unmapped one by one. If
 * that fails nothing stays mapped but pieces that a capture holds. */
static warm_status register_region(wm_pin *pin, enum wm_huge huge, int node,
                                   void *base, size_t bytes, size_t piece)
{
    warm_status status;

    if (piece != 0) {
        wm_mapping_cut(huge, base, bytes);
        return register_pieces(pin, node, base, bytes, piece);
    }
    status = register_range(pin, base, bytes);
    if (status != WARM_OK) {
        unmap(pin, huge, base, bytes);
    } else if (is_refused(pin)) {
        /* Another thread was refused meanwhile: what is not cut is freed as
         * what the driver allocated. */
        wm_mapping_cut(huge, base, bytes);
        break_and_give_up(pin, base, bytes, true);
        status = WARM_UNSUPPORTED;
    }
    return status;
}

/* A piece that is no whole number of huge pages cannot be unmapped alone from
 * those that the administrator set aside. */
static warm_status check_piece(const wm_pin *pin, size_t piece,
                               enum wm_huge *huge)
{
    *huge = pin->huge;
    if (piece % WM_HUGE_PAGE == 0 || *huge < WM_HUGE_TABLE_TRY) {
        return WARM_OK;
    }
    if (*huge == WM_HUGE_TABLE_REQUIRE) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "pieces of %s are no whole huge pages of 2 MiB (option "
                       "huge_pages:hugetlb_require): use such a pin_chunk, and "
                       "such rows",
                       wm_bytes(piece).text);
    }
    *huge = WM_HUGE_TRY;
    return WARM_OK;
}

static warm_status map_and_register(wm_pin *pin, int node, size_t bytes,
                                    size_t piece, void **base)
{
    void *mapped = NULL;
    enum wm_huge huge;
    warm_status status = check_piece(pin, piece, &huge);

    if (status != WARM_OK) {
        return status;
    }
    if (!wm_mapping_make(huge, bytes, &mapped)) {
        return no_memory(pin, node, bytes, "mapped");
    }
    /* Before it is locked: a child that is forked in between would share pages
     * that a device uses. */
    if (!wm_hidden_add(mapped, bytes)) {
        status = no_memory(pin, node, bytes, "marked for forked children");
        unmap(pin, huge, mapped, bytes);
        return status;
    }
    status = back(pin, node, mapped, bytes);
    if (status != WARM_OK) {
        unmap(pin, huge, mapped, bytes);
        return status;
    }
    status = register_region(pin, huge, node, mapped, bytes, piece);
    if (status == WARM_OK) {
        *base = mapped;
    }
    return status;
}

/* ---- allocated by the driver -------------------------------------------- */

static warm_status alloc_near(const wm_pin *pin, int node, size_t bytes,
                              void **base)
{
    wm_numa_policy before;
    void *got = NULL;

    wm_numa_prefer(&pin->driver->numa, node, &before);
    warm_status status = wm_driver_pinned_alloc(pin->driver, bytes, &got);
    wm_numa_unprefer(&before);
    if (status == WARM_OUT_OF_MEMORY) {
        return explain(pin, WM_REFUSAL_ALLOC, node, bytes, 0);
    }
    if (status != WARM_OK) {
        return status;
    }
    /* Memory that the driver has mapped cannot be moved to a node. On simulated
     * nodes, records the node instead. */
    if (pin->driver->numa.simulated) {
        status = wm_driver_place(pin->driver, got, bytes, node);
    }
    if (status == WARM_OK &&
        (status = check_node(pin, node, got, bytes, true)) == WARM_OK) {
        *base = got;
        return WARM_OK;
    }
    break_and_give_up(pin, got, bytes, false);
    return status;
}

bool wm_pin_cuts(const wm_pin *pin)
{
    return pin->maps || pin->driver->register_locks;
}

/* Not before it is locked: the driver maps and locks it in one call. A driver
 * may keep its mappings out of children itself, where the kernel may refuse the
 * mark. */
static void hide_allocated(void *base, size_t bytes)
{
    (void)wm_hidden_add(base, bytes);
}

static warm_status allocate(const wm_pin *pin, int node, size_t bytes,
                            void **base)
{
    warm_status status;

    if (pin->nodes) {
        status = alloc_near(pin, node, bytes, base);
    } else {
        status = wm_driver_pinned_alloc(pin->driver, bytes, base);
        status = status == WARM_OUT_OF_MEMORY
                     ? explain(pin, WM_REFUSAL_ALLOC, node, bytes, 0)
                     : status;
    }
    if (status == WARM_OK) {
        hide_allocated(*base, bytes);
    }
    return status;
}

/* Keeps it out of forked children. */
warm_status wm_pin_obtain(wm_pin *pin, int node, size_t bytes, size_t *piece,
                          void **base)
{
    warm_error before = wm_error_save();
    warm_status status;

    if ((pin->maps || *piece != 0) && !is_refused(pin)) {
        status = map_and_register(pin, node, bytes, *piece, base);
        if (status == WARM_OK || !(is_refused(pin) || is_unsupported(status))) {
            return status;
        }
        wm_error_restore(&before);
    }
    *piece = 0;
    return allocate(pin, node, bytes, base);
}

/* ---- write-combined ----------------------------------------------------- */

warm_status wm_pin_obtain_combined(const wm_pin *pin, size_t bytes, void **base)
{
    warm_status status = wm_driver_combined_alloc(pin->driver, bytes, base);

    if (status == WARM_OUT_OF_MEMORY) {
        return explain(pin, WM_REFUSAL_ALLOC, WM_NODE_UNKNOWN, bytes, 0);
    }
    if (status == WARM_OK) {
        hide_allocated(*base, bytes);
    }
    return status;
}

warm_status wm_pin_give_back_combined(const wm_pin *pin, void *base,
                                      size_t bytes)
{
    return free_allocated(pin, base, bytes);
}
