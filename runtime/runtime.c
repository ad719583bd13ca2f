/* runtime.c: makes and destroys runtimes; it connects all modules.
 *
 * A runtime is made from the driver up, and destroyed from the caches down:
 * buffers, handles (libraries before streams), workspaces, driver. Takes the
 * process lock for the default runtime. */
#include "runtime/runtime.h"

#include "alloc/storage/allocators.h"
#include "alloc/api/pause.h"
#include "alloc/kinds/device_space.h"
#include "alloc/snapshot/leaks.h"
#include "runtime/base/debug.h"
#include "runtime/base/hidden.h"
#include "runtime/base/history.h"
#include "alloc/cache/magazine.h"
#include "alloc/kinds/pinned.h"
#include "alloc/kinds/recommended.h"
#include "alloc/kinds/shared.h"
#include "alloc/private_pool/private_pool.h"
#include "handles/kinds/builtin.h"
#include "handles/kind_table.h"
#include "handles/handle.h"
#include "runtime/base/callback.h"
#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/probe.h"
#include "runtime/base/process.h"
#include "runtime/base/sized.h"
#include "runtime/base/bytes.h"
#include "runtime/base/status.h"
#include "runtime/base/trace.h"
#include "runtime/snapshot_signal.h"
#include "runtime/stats_file.h"
#include "runtime/thread/window.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Relaxed: a number, tied to no other data. */
static _Atomic unsigned last_runtime;

/* Result of the exit handler, over all runtimes. */
struct leave {
    uint64_t leaked;
    char torn[512]; /* why the first incomplete trace is incomplete; or "" */
};

static void leave_to_system(warm_runtime *runtime, void *argument)
{
    struct leave *all = argument;

    wm_window_close_all(runtime);
    all->leaked += wm_kind_table_leak(runtime->kinds);
    if (runtime->trace != NULL) {
        bool first = all->torn[0] == '\0';
        char other[sizeof all->torn];

        (void)wm_trace_exit(runtime->trace, first ? all->torn : other,
                            sizeof other);
    }
}

/* While statistics can still be read. */
static void before_exit_of_process(void)
{
    warm_runtime *runtime = wm_runtime_next(NULL);

    while (runtime != NULL) {
        wm_stats_file_write(runtime->stats_file, runtime);
        wm_runtime_unpin(runtime);
        runtime = wm_runtime_next(runtime);
    }
}

/* From here on nothing is destroyed and no driver is called. */
static void on_exit_of_process(void)
{
    struct leave all = {0};

    wm_runtime_each(leave_to_system, &all);
    if (all.leaked > 0) {
        wm_log(WARM_LOG_INFO,
               "the process exits with %s left to the system on purpose",
               wm_counted(all.leaked, "handle").text);
    }
    if (all.torn[0] != '\0') {
        wm_log(WARM_LOG_WARNING, "the process exits, and %s", all.torn);
    }
}

static void leave_to_parent(warm_runtime *runtime, void *argument)
{
    (void)argument;
    if (runtime->trace != NULL) {
        wm_trace_forked(runtime->trace);
    }
    wm_stats_file_forked(runtime->stats_file);
    wm_turn_forked(&runtime->turn);
}

void wm_runtime_forked(void)
{
    wm_hidden_forked();
    wm_runtime_each_inherited(leave_to_parent, NULL);
    wm_snapshot_watch_forked();
    wm_window_forked();
}

static void log_level_from(const wm_options *options)
{
    static const char *const names[] = {"none", "warning", "info", "debug"};

    for (int i = 0; i <= WARM_LOG_DEBUG; i++) {
        if (strcmp(options->log, names[i]) == 0) {
            wm_log_set_level(i);
        }
    }
}

static unsigned log_memory_words(const wm_options *options)
{
    static const struct {
        const char *word;
        enum wm_log_memory bit;
    } words[] = {{"profile", WM_LOG_PROFILE}, {"alloc", WM_LOG_ALLOC},
                 {"recycle", WM_LOG_RECYCLE}, {"free", WM_LOG_FREE},
                 {"release", WM_LOG_RELEASE}, {"large", WM_LOG_LARGE}};
    unsigned bits = 0;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (wm_options_has(options->log_memory, words[i].word)) {
            bits |= (unsigned)words[i].bit;
        }
    }
    return bits;
}

/* Only the environment makes the library print. conf: of WARMPOOL_CONF. */
static warm_status set_log(const wm_options *options, const char *conf)
{
    warm_status status = WARM_OK;

    if (options->log_file[0] != '\0') {
        status = wm_log_open(options->log_file);
    }
    if (status == WARM_OK) {
        log_level_from(options);
        wm_log_set_printing(wm_options_named(conf, "log") ||
                            wm_options_named(conf, "log_memory"));
    }
    return status;
}

/* A fallback from CUDA to the host device is never silent. */
static warm_status open_driver(const wm_options *options, wm_driver **driver)
{
    warm_error before;
    warm_status status;

    if (strcmp(options->device, "host") == 0) {
        return wm_host_open(options, driver);
    }
    before = wm_error_save();
    status = wm_cuda_open(options, driver);
    if (status == WARM_OK || status == WARM_EXITING ||
        strcmp(options->device, "cuda") == 0) {
        return status;
    }
    wm_log_notice("CUDA is not used, the runtime uses the host device: %s; "
                  "option device:host silences this warning, device:cuda makes "
                  "it an error",
                  warm_last_error_message());
    wm_error_restore(&before);
    return wm_host_open(options, driver);
}

/* Without timelines the runtime is being made, or is being destroyed and
 * would_break_capture() has checked already. */
static bool begin_break(warm_runtime *runtime, wm_breaking *breaking,
                        int device, warm_stream but)
{
    if (runtime->pinned == NULL) {
        wm_driver_break_begin();
        return true;
    }
    return wm_timelines_begin_break(&runtime->pinned->timelines, breaking,
                                    device, but, true);
}

static void end_break(warm_runtime *runtime, wm_breaking *breaking)
{
    if (runtime->pinned == NULL) {
        wm_driver_break_end();
    } else {
        wm_timelines_end_break(&runtime->pinned->timelines, breaking);
    }
}

static void note_put_off(warm_runtime *runtime)
{
    atomic_store_explicit(&runtime->put_off, true, memory_order_relaxed);
}

/* What a NIC has registered of lost memory must not outlive it. A runtime that
 * is being made has no callbacks. */
static void tell_lost(warm_runtime *runtime)
{
    if (runtime->pinned != NULL) {
        wm_space_tell_lost(&runtime->pinned->space);
        wm_space_tell_lost(&runtime->pinned->combined);
        wm_space_tell_lost(&runtime->pinned->adopted.space);
    }
    for (int i = 0; runtime->device_spaces != NULL && i < runtime->devices;
         i++) {
        wm_space_tell_lost(&runtime->device_spaces[i].space);
    }
    for (int i = 0;
         runtime->shared != NULL && i < runtime->devices * WM_SHARED_KINDS;
         i++) {
        wm_space_tell_lost(
            &runtime->shared->spaces[i / WM_SHARED_KINDS][i % WM_SHARED_KINDS]
                 .space);
    }
}

/* A device was reset: invalidates the streams that threads cache, so that
 * bindings and lanes of the device are looked up again, and refused. */
static void on_lost(void *context, int device)
{
    warm_runtime *runtime = context;

    (void)device;
    /* Relaxed: as in wm_runtime_retire(). */
    atomic_fetch_add_explicit(&runtime->stream_epoch, 1, memory_order_relaxed);
    /* Acquire: once it is LIVE all spaces are there. */
    if (atomic_load_explicit(&runtime->state, memory_order_acquire) ==
        WM_RUNTIME_LIVE) {
        tell_lost(runtime);
    }
}

/* Memory of a private pool is freed: handles must not stay bound with the
 * pool's workspaces. */
static void pool_over(warm_runtime *runtime, uint64_t pool, bool later)
{
    /* Before the workspaces are freed: bindings made later use none of the
     * pool's. Relaxed: see warm_handle_reserve_on(). */
    atomic_fetch_add_explicit(&runtime->stream_epoch, 1, memory_order_relaxed);
    for (int i = 0; i < runtime->devices; i++) {
        wm_workspaces_end_private_pool(
            wm_kind_table_workspaces(runtime->kinds, i), pool, later);
    }
}

static void captures_over(warm_runtime *runtime)
{
    bool done = true;

    pool_over(runtime, 0, false);
    wm_kind_table_destroy_deferred(runtime->kinds);
    done &= wm_adopted_tend(&runtime->pinned->adopted);
    for (int i = 0; i < runtime->devices; i++) {
        done &= wm_imports_captures_over(&runtime->device_spaces[i].imports);
    }
    if (!done) {
        note_put_off(runtime);
    }
}

static size_t trim_workspaces(warm_runtime *runtime, int device)
{
    int first = device < 0 ? 0 : device;
    int last = device < 0 ? runtime->devices - 1 : device;
    size_t bytes = 0;

    for (int i = first; i <= last; i++) {
        bytes +=
            wm_workspaces_trim(wm_kind_table_workspaces(runtime->kinds, i), 0);
    }
    return bytes;
}

static void count_workspaces(warm_runtime *runtime, int device, size_t *held,
                             size_t *idle)
{
    wm_workspace_stats stats;

    wm_workspaces_get_stats(wm_kind_table_workspaces(runtime->kinds, device),
                            &stats);
    *held = (size_t)stats.bytes;
    *idle = (size_t)stats.idle_bytes;
}

static warm_status open_caches(warm_runtime *runtime, const wm_options *options)
{
    const wm_kind_hooks hooks = {
        .streams = {wm_runtime_adopt, wm_runtime_retire_stream, runtime,
                    wm_runtime_knows_stream},
        .captures = {begin_break, end_break, note_put_off, runtime, false},
        .workspaces = {wm_private_pool_of, wm_device_space_claim,
                       wm_device_space_unclaim, runtime},
    };
    warm_destroy_report unused = {.size = sizeof unused};
    uint64_t in_use;
    warm_status status = wm_kind_table_open(
        runtime->driver, options, wm_kinds_builtin, &hooks, &runtime->kinds);

    if (status != WARM_OK) {
        return status;
    }
    status = wm_private_open(runtime);
    if (status != WARM_OK) {
        goto fail;
    }
    status = wm_pinned_open(runtime, options, &runtime->pinned);
    if (status != WARM_OK) {
        goto fail_pinned;
    }
    status = wm_device_spaces_open(runtime, options);
    if (status != WARM_OK) {
        goto fail_devices;
    }
    status = wm_shared_open(runtime, options);
    if (status != WARM_OK) {
        goto fail_shared;
    }
    status = wm_allocators_open(runtime);
    if (status != WARM_OK) {
        goto fail_allocators;
    }
    status = wm_watermarks_begin(runtime, options);
    if (status == WARM_OK) {
        /* Last: the thread works on all spaces. */
        status = wm_pinned_begin(runtime);
    }
    if (status == WARM_OK) {
        return status;
    }
    wm_pinned_stop(runtime->pinned);
    wm_allocators_close(runtime);

fail_allocators:
    wm_shared_close(runtime);

fail_shared:
    wm_device_spaces_close(runtime);

fail_devices:
    wm_pinned_stop(runtime->pinned);
    wm_pinned_close(runtime->pinned, &unused);

fail_pinned:
    wm_private_fini(runtime);

fail:
    wm_kind_table_close(runtime->kinds, &in_use);
    return status;
}

static bool thread_leaves(warm_runtime *runtime, bool exits)
{
    return wm_timelines_leave_thread(&runtime->pinned->timelines, exits);
}

/* Allocates the body of a runtime, which is never freed once it has lived. */
static warm_runtime *new_runtime(wm_driver *driver, struct wm_trace *trace,
                                 const wm_options *options)
{
    size_t own = 1 + 2 * (size_t)driver->devices;
    bool traced;
    warm_runtime *runtime =
        wm_meta_alloc(sizeof *runtime + own * sizeof runtime->own[0]);

    if (runtime == NULL) {
        return NULL;
    }
    runtime->driver = driver;
    driver->guarded = true;
    runtime->devices = driver->devices;
    runtime->trace = trace;
    runtime->generation = wm_process_generation();
    runtime->window_release = wm_handles_release;
    runtime->window_empty = wm_cache_end;
    runtime->window_may_wait = wm_cache_may_wait;
    runtime->thread_leaves = thread_leaves;
    runtime->pool_over = pool_over;
    runtime->tend_pools = wm_private_tend;
    runtime->captures_over = captures_over;
    runtime->trim_workspaces = trim_workspaces;
    runtime->count_workspaces = count_workspaces;
    /* Traced calls (option debug implies a history) must not be hits, which
     * would leave no record: biased locks are revoked from birth. */
    runtime->log_memory = log_memory_words(options);
    traced = trace != NULL || options->history > 0 ||
             (runtime->log_memory &
              (WM_LOG_ALLOC | WM_LOG_RECYCLE | WM_LOG_FREE)) != 0;
    /* Relaxed: state publishes it later. */
    atomic_store_explicit(&runtime->traced, traced, memory_order_relaxed);
    runtime->window_revoked =
        wm_biased_birth() | (traced ? WM_REVOKED_SLOW : 0);
    wm_lock_init(&runtime->windows_lock, WM_RANK_WINDOWS);
    wm_listeners_init(&runtime->listeners);
    wm_segment_ids_init(&runtime->segment_ids);
    /* Relaxed: state publishes it later. 0 means not bound in a window. */
    atomic_store_explicit(&runtime->stream_epoch, 1, memory_order_relaxed);
    return runtime;
}

static warm_status make_on(wm_driver *driver, struct wm_trace *trace,
                           const wm_options *options, warm_runtime **out)
{
    warm_runtime *runtime = new_runtime(driver, trace, options);
    warm_status status;

    if (runtime == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    status = wm_stats_file_open(options, &runtime->stats_file);
    if (status == WARM_OK &&
        (status = wm_snapshot_watch_start(runtime, options, &runtime->watch)) ==
            WARM_OK &&
        (status = wm_history_open(options, &runtime->history)) == WARM_OK &&
        (status = wm_debug_open(options, runtime->history, &runtime->debug)) ==
            WARM_OK) {
        driver->on_lost_context = runtime;
        driver->on_lost = on_lost;
        status = open_caches(runtime, options);
    }
    if (status != WARM_OK) {
        driver->on_lost = NULL;
        wm_snapshot_watch_stop(runtime->watch);
        wm_stats_file_close(runtime->stats_file);
        wm_debug_close(runtime->debug);
        wm_history_close(runtime->history);
        wm_listeners_fini(&runtime->listeners);
        wm_segment_ids_fini(&runtime->segment_ids);
        wm_meta_free(runtime);
        return status;
    }
    wm_trace_begin(trace);
    /* Release, partner of the acquire in wm_runtime_check_read(). */
    atomic_store_explicit(&runtime->state, WM_RUNTIME_LIVE,
                          memory_order_release);
    wm_runtime_enlist(runtime);
    wm_log(WARM_LOG_INFO, "runtime made: driver %s, devices %d",
           runtime->driver->name, runtime->devices);
    *out = runtime;
    return WARM_OK;
}

/* given: the driver to use, or null to open one as the options say. */
static warm_status make(wm_driver *given, const wm_options *options,
                        warm_runtime **out)
{
    struct wm_trace *trace = NULL;
    wm_driver *driver = given;
    /* First: a trace file that cannot be opened fails before any side effect.
     */
    warm_status status = wm_trace_open(options, &trace);

    if (status == WARM_OK && given == NULL) {
        status = open_driver(options, &driver);
    }
    if (status == WARM_OK) {
        status = make_on(driver, trace, options, out);
        if (status != WARM_OK && given == NULL) {
            (void)wm_driver_close(driver);
        }
    }
    if (status != WARM_OK) {
        wm_trace_close(trace);
    }
    return status;
}

/* Events of memory that option debug stores, unless option history says how
 * many. */
enum { DEBUG_EVENTS = 1024 };

static void prepare_debug(wm_options *options)
{
    if (wm_options_any(options->debug)) {
        options->history =
            options->history > 0 ? options->history : DEBUG_EVENTS;
        wm_log_print_all();
    }
}

warm_status wm_runtime_create_on(wm_driver *driver, const warm_options *given,
                                 warm_runtime **runtime)
{
    const char *conf = secure_getenv("WARMPOOL_CONF");
    warm_error before = wm_error_save();
    wm_options options;
    warm_status status;

    if (runtime == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "runtime is null");
    }
    wm_process_init();
    wm_process_on_fork(wm_runtime_forked);
    wm_probe_open();
    wm_process_before_exit(before_exit_of_process);
    wm_process_on_exit(on_exit_of_process);
    if (wm_process_exiting()) {
        return wm_fail(WARM_EXITING, "the process is exiting");
    }
    if (wm_options_named(conf, "help")) {
        wm_log_help();
    }
    if ((status = wm_window_init()) != WARM_OK ||
        (status = wm_options_resolve(given, conf, &options)) != WARM_OK ||
        (status = set_log(&options, conf)) != WARM_OK) {
        return status;
    }
    prepare_debug(&options);
    options.number =
        atomic_fetch_add_explicit(&last_runtime, 1, memory_order_relaxed) + 1;
    status = make(driver, &options, runtime);
    if (status == WARM_OK) { /* a driver that opens may have tried in vain */
        wm_error_restore(&before);
    }
    return status;
}

warm_status warm_runtime_create(const warm_options *options,
                                warm_runtime **runtime)
{
    WM_CANCEL_OFF();
    return wm_runtime_create_on(NULL, options, runtime);
}

static warm_status check_destroy(warm_runtime *runtime,
                                 const warm_destroy_report *report)
{
    warm_status status = wm_runtime_check(runtime);

    if (report != NULL) {
        status =
            wm_check_out(status, report, sizeof *report, "warm_destroy_report");
    }
    /* Destroy waits for threads, which may wait for this callback. */
    if (status == WARM_OK && wm_callback_inside()) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "a callback cannot destroy a runtime");
    }
    return status;
}

/* Whether destroying the runtime would break a capture that is under way. */
static bool would_break_capture(warm_runtime *runtime)
{
    bool breaks = wm_timelines_ask(&runtime->pinned->timelines,
                                   WM_DEVICE_UNKNOWN, NULL, NULL);

    if (breaks) {
        wm_log(WARM_LOG_WARNING,
               "a runtime is destroyed while a stream captures: its idle "
               "memory and handles are leaked, since freeing them would break "
               "the capture; end captures before warm_runtime_destroy()");
    }
    return breaks;
}

static void end(warm_runtime *runtime, warm_destroy_report *report)
{
    struct wm_trace *trace;
    struct wm_stats_file *stats_file = runtime->stats_file;

    wm_snapshot_watch_stop(runtime->watch);
    runtime->stats_file = NULL; /* before the close: as trace below */
    wm_stats_file_close(stats_file);
    if (would_break_capture(runtime)) {
        runtime->kinds->hooks.captures.leave_idle = true;
    }
    wm_prewarm_stop(&runtime->kinds->prewarm);
    wm_pinned_stop(runtime->pinned);
    wm_pause_close(runtime);
    wm_window_cut_all(runtime);
    trace = runtime->trace;
    runtime->trace = NULL; /* before the close: a forked child reads it */
    wm_trace_close(trace);
    wm_leaks_log(runtime);
    wm_allocators_close(runtime);
    report->pools = wm_private_close(runtime);
    wm_device_spaces_drain(runtime);
    wm_shared_stop(runtime, report);
    wm_device_spaces_stop(runtime, report);
    wm_pinned_close(runtime->pinned, report);
    runtime->pinned = NULL;
    wm_shared_close(runtime);
    wm_device_spaces_close(runtime);
    wm_listeners_fini(&runtime->listeners);
    wm_segment_ids_fini(&runtime->segment_ids);
    wm_debug_close(runtime->debug);
    runtime->debug = NULL;
    wm_history_close(runtime->history);
    runtime->history = NULL;
    wm_private_fini(runtime);
    report->lost_handles = wm_kind_table_lost(runtime->kinds);
    wm_kind_table_report_graphs(runtime->kinds, report);
    wm_driver_break_begin(); /* would_break_capture() has checked */
    wm_kind_table_close(runtime->kinds, &report->handles);
    wm_driver_break_end();
    runtime->kinds = NULL;
    report->host_streams = wm_driver_close(runtime->driver);
    /* If the process exits, the driver stays open. */
    if (!wm_process_exiting()) {
        runtime->driver = NULL;
    }
    wm_runtime_end_close(runtime);
    if (report->lost_handles > 0 || report->lost_bytes > 0) {
        wm_log(WARM_LOG_WARNING,
               "a runtime was destroyed after a device was reset: %s and %s of "
               "memory are lost",
               wm_counted(report->lost_handles, "handle").text,
               wm_bytes(report->lost_bytes).text);
    }
    if (report->pools > 0) {
        wm_log(WARM_LOG_WARNING,
               "a runtime was destroyed before its private pools were released "
               "(pools: %" PRIu64 "): their memory of %s stays for graphs and "
               "is leaked; call warm_private_pool_release() before "
               "warm_runtime_destroy()",
               report->pools, wm_bytes(report->pool_bytes).text);
    }
    if (report->handles > 0 || report->live > 0) {
        wm_log(WARM_LOG_WARNING,
               "a runtime was destroyed with %s and %s (%s) in use, which stay "
               "usable and are leaked: return and free them before "
               "warm_runtime_destroy()",
               wm_counted(report->handles, "handle").text,
               wm_counted(report->live, "block").text,
               wm_bytes(report->live_bytes).text);
    }
}

static warm_status destroy(warm_runtime *runtime, warm_destroy_report *report)
{
    warm_destroy_report all = {.size = sizeof all};
    warm_status status = check_destroy(runtime, report);

    if (status != WARM_OK) {
        return status;
    }
    wm_driver_notice_reset(runtime->driver, WM_DEVICE_UNKNOWN);
    /* The caller uses no handle of the runtime any more. */
    status = wm_window_drop(runtime);
    if (status != WARM_OK) {
        return status;
    }
    if (wm_runtime_pin(runtime)) {
        wm_stats_file_write(runtime->stats_file, runtime);
        wm_runtime_unpin(runtime);
    }
    if (!wm_runtime_begin_close(runtime)) {
        return wm_fail(WARM_RUNTIME_GONE,
                       "another thread is destroying the runtime");
    }
    /* The call succeeds whatever fails in it: the last error stays. */
    WM_KEEP_ERROR();
    end(runtime, &all);
    if (report != NULL) {
        wm_sized_out(report, &all, sizeof all);
    }
    return WARM_OK;
}

warm_status warm_runtime_destroy(warm_runtime *runtime,
                                 warm_destroy_report *report)
{
    WM_CANCEL_OFF();
    return runtime == NULL ? WARM_OK : destroy(runtime, report);
}

const char *warm_runtime_driver(const warm_runtime *runtime)
{
    /* Acquire: if the state is LIVE, driver is set. */
    if (runtime == NULL ||
        atomic_load_explicit(&runtime->state, memory_order_acquire) !=
            WM_RUNTIME_LIVE) {
        return "gone";
    }
    return runtime->driver->name;
}

/* ---- the default runtime ------------------------------------------------- */

/* The default runtime, or null; busy while a thread makes it. */
static struct {
    warm_runtime *runtime; /* lock wm_process_lock */
    bool busy;             /* lock wm_process_lock */
    unsigned generation;   /* lock wm_process_lock: the process of both */
    wm_cond made;
} standard;

/* In the child of a fork the runtime belongs to the parent, and a thread that
 * was making it does not exist. */
static void reset_if_forked_locked(void)
{
    if (standard.generation != wm_process_generation()) {
        standard.generation = wm_process_generation();
        standard.runtime = NULL;
        standard.busy = false;
    }
}

/* True if the caller must make the default runtime; else *runtime is set.
 */
static bool claim_default(warm_runtime **runtime)
{
    bool claimed;

    wm_lock_acquire(&wm_process_lock);
    reset_if_forked_locked();
    while (standard.busy) {
        wm_cond_wait(&standard.made, &wm_process_lock);
    }
    /* Acquire: one that was destroyed is replaced. */
    claimed = standard.runtime == NULL ||
              atomic_load_explicit(&standard.runtime->state,
                                   memory_order_acquire) != WM_RUNTIME_LIVE;
    standard.busy = claimed;
    if (!claimed) {
        *runtime = standard.runtime;
    }
    wm_lock_release(&wm_process_lock);
    return claimed;
}

/* Ends the claim of claim_default(); runtime: null if none could be made. */
static void publish_default(warm_runtime *runtime)
{
    wm_lock_acquire(&wm_process_lock);
    standard.busy = false;
    if (runtime != NULL) {
        standard.runtime = runtime;
    }
    wm_cond_broadcast(&standard.made);
    wm_lock_release(&wm_process_lock);
}

warm_status warm_runtime_default(warm_runtime **runtime)
{
    warm_runtime *made = NULL;
    warm_status status = WARM_OK;

    if (runtime == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "runtime is null");
    }
    WM_CANCEL_OFF();
    /* Before the first use of the lock that the fork handlers take. */
    wm_process_init();
    wm_process_on_fork(wm_runtime_forked);
    if (claim_default(&made)) {
        status = wm_runtime_create_on(NULL, NULL, &made);
        publish_default(made);
    }
    if (status == WARM_OK) {
        *runtime = made;
    }
    return status;
}
