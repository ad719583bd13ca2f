/* rebind.c: bindings that a thread remembers (row A10).
 *
 *   reserve_on ─► bound to the stream? ─► hit
 *                   │ no
 *                   ▼
 *                 remembered, and valid? ─► the library's calls alone
 *                   │ no
 *                   ▼
 *                 stream and workspace looked up, library ─► remembered
 *
 * A binding is remembered if its stream is adopted and no capture is known:
 * what was looked up then holds until the runtime's stream_epoch changes. The
 * device's context is checked again each time.
 *
 * The workspace of a remembered binding is cached for its handle
 * (workspace.h). A thread that releases cached workspaces of handles which
 * others hold (they are trimmed, or memory is short) visits all windows first,
 * with the lock of the workspaces: the records then show the latest bindings,
 * and no window remembers a workspace to which its handle is not bound. A
 * thread that looks up a binding may release workspaces of its own handle, and
 * forgets them then.
 *
 * Lock order: workspaces, then the window's biased lock. */
#include "handles/handle.h"

#include "runtime/base/clock.h"
#include "runtime/base/meta.h"

/* ---- with the biased lock ------------------------------------------------ */

/* Relaxed, like all accesses of held, number and bindings_used: the biased lock
 * orders them, and a thread that reads them without it wants figures. */
static uint64_t *get_held(const wm_binding *b)
{
    return atomic_load_explicit(&b->held, memory_order_relaxed);
}

static void set_held(wm_binding *b, uint64_t *held)
{
    atomic_store_explicit(&b->held, held, memory_order_relaxed);
}

static uint64_t get_number(const wm_binding *b)
{
    return atomic_load_explicit(&b->number, memory_order_relaxed);
}

static void set_number(wm_binding *b, uint64_t number)
{
    atomic_store_explicit(&b->number, number, memory_order_relaxed);
}

/* The i-th binding of a window that has some. */
static wm_binding *at(const wm_window *window, unsigned i)
{
    /* Acquire: pairs with the release in make_room(), for a thread that reads
     * figures without the biased lock. */
    return atomic_load_explicit(&window->binding, memory_order_acquire) + i;
}

static wm_binding *find(wm_window *window, const uint64_t *held,
                        warm_stream stream)
{
    for (unsigned i = 0; i < WM_BINDINGS; i++) {
        wm_binding *b = at(window, i);

        if (get_held(b) == held && b->again.stream == stream) {
            return b;
        }
    }
    return NULL;
}

static wm_workspace_key key_of(const wm_binding *b)
{
    return (wm_workspace_key){b->again.handle, b->again.stream, b->stream_id};
}

static void forget(wm_window *window, wm_binding *b)
{
    set_held(b, NULL);
    atomic_fetch_sub_explicit(&window->bindings_used, 1, memory_order_relaxed);
}

/* The handle's binding that was used first of those not written back. */
static wm_binding *first_used(wm_window *window, const uint64_t *held)
{
    wm_binding *first = NULL;

    for (unsigned i = 0; i < WM_BINDINGS; i++) {
        wm_binding *b = at(window, i);

        if (get_held(b) == held && get_number(b) != 0 &&
            (first == NULL || get_number(b) < get_number(first))) {
            first = b;
        }
    }
    return first;
}

/* Brings the records of the handle's workspaces, and the pool's count, up to
 * date. workspaces: null if the kind has none. */
static void write_back(wm_workspaces *workspaces, wm_window *window,
                       const uint64_t *held)
{
    uint64_t binds = 0;
    wm_kind *kind = NULL;
    int device = 0;
    wm_binding *b;

    while ((b = first_used(window, held)) != NULL) {
        wm_workspace_key key = key_of(b);

        kind = b->again.kind;
        device = b->again.device;
        binds = get_number(b);
        set_number(b, 0);
        if (b->again.workspace != NULL) {
            wm_workspaces_used_locked(workspaces, &key, b->again.workspace,
                                      b->left_ns);
        }
    }
    if (binds != 0) {
        wm_pool_count_binds(
            wm_kind_table_pool(window->owner->kinds, kind->index, device),
            binds);
    }
}

/* Forgets bindings whose workspace is not the handle's any more, or, with
 * latest, is not the one that the handle is bound to. */
static void forget_released(wm_workspaces *workspaces, wm_window *window,
                            const uint64_t *held, bool latest)
{
    for (unsigned i = 0; i < WM_BINDINGS; i++) {
        wm_binding *b = at(window, i);

        if (get_held(b) == held && b->again.workspace != NULL) {
            wm_workspace_key key = key_of(b);

            if (!wm_workspaces_serves_locked(workspaces, &key,
                                             b->again.workspace, latest)) {
                forget(window, b);
            }
        }
    }
}

/* ---- both locks ---------------------------------------------------------- */

/* Returns the workspaces; null: the kind has none. */
static wm_workspaces *lock(warm_runtime *runtime, wm_window *window,
                           warm_kind kind, int device)
{
    wm_workspaces *workspaces =
        wm_kind_table_kind(runtime->kinds, kind)->ops->workspace_bytes != NULL
            ? wm_kind_table_workspaces(runtime->kinds, device)
            : NULL;

    if (workspaces != NULL) {
        wm_lock_acquire(&workspaces->lock);
    }
    wm_biased_acquire(&window->biased);
    return workspaces;
}

static void unlock(wm_workspaces *workspaces, wm_window *window)
{
    wm_biased_release(&window->biased);
    if (workspaces != NULL) {
        wm_lock_release(&workspaces->lock);
    }
}

static bool is_visited(const wm_window *window, void *context)
{
    (void)context;
    return wm_handle_has_bindings(window);
}

static void visit(wm_window *window, void *context)
{
    wm_workspaces *workspaces = context;

    for (warm_kind kind = 0; kind < WARM_KIND_MAX; kind++) {
        const uint64_t *held =
            wm_window_words(window, kind, workspaces->device);

        write_back(workspaces, window, held);
        forget_released(workspaces, window, held, true);
    }
}

bool wm_bindings_collect(warm_runtime *runtime, wm_workspaces *workspaces)
{
    const wm_visit all = {
        .wanted = is_visited, .visit = visit, .context = workspaces};

    return wm_window_visit(runtime, &all);
}

void wm_binding_lookup_begin(warm_runtime *runtime, wm_window *window,
                             const wm_window_call *call)
{
    wm_workspaces *workspaces;

    if (wm_handle_has_bindings(window)) {
        workspaces = lock(runtime, window, call->kind, call->device);
        write_back(workspaces, window,
                   wm_window_words(window, call->kind, call->device));
        unlock(workspaces, window);
    }
}

void wm_bindings_forget_slow(warm_runtime *runtime, wm_window *window,
                             warm_kind kind, int device)
{
    const uint64_t *held = wm_window_words(window, kind, device);
    wm_workspaces *workspaces = lock(runtime, window, kind, device);
    bool any = false;

    write_back(workspaces, window, held);
    for (unsigned i = 0; i < WM_BINDINGS; i++) {
        if (get_held(at(window, i)) == held) {
            forget(window, at(window, i));
            any = true;
        }
    }
    unlock(workspaces, window);
    if (any && held[WM_ROW_BOUND + WM_ROW_SECOND] != 0) {
        wm_pool_note_bound(wm_kind_table_pool(runtime->kinds, kind, device),
                           (void *)(uintptr_t)held[WM_ROW_SECOND],
                           (warm_stream)held[WM_ROW_BOUND]);
    }
}

/* ---- remembering --------------------------------------------------------- */

/* A legacy stream is that of the current device: with one device the handle's.
 */
static bool may_remember(warm_runtime *runtime, const wm_window_call *call,
                         const wm_binding_request *want)
{
    const wm_stream_hooks *hooks = &runtime->kinds->hooks.streams;

    return want->info.capture == WM_CAPTURE_NONE &&
           want->info.device == call->device &&
           (runtime->devices == 1 || !wm_stream_is_default(want->stream)) &&
           hooks->is_known != NULL && hooks->is_known(runtime, want->stream);
}

/* If all are used: forgets the bindings of one handle after the other. False:
 * no memory. */
static bool make_room(warm_runtime *runtime, wm_window *window)
{
    wm_binding *all =
        atomic_load_explicit(&window->binding, memory_order_relaxed);

    if (all == NULL) {
        all = wm_meta_alloc(WM_BINDINGS * sizeof *all);
        atomic_store_explicit(&window->binding, all, memory_order_release);
        return all != NULL;
    }
    /* Relaxed: only the owner thread adds bindings. */
    if (atomic_load_explicit(&window->bindings_used, memory_order_relaxed) ==
        WM_BINDINGS) {
        const wm_rebind *oldest = &at(window, window->binding_next)->again;

        window->binding_next = (window->binding_next + 1) % WM_BINDINGS;
        wm_bindings_forget_slow(runtime, window, oldest->kind->index,
                                oldest->device);
    }
    return true;
}

static void remember(warm_runtime *runtime, wm_window *window,
                     const wm_window_call *call, const wm_binding_request *want,
                     const wm_binding_made *made)
{
    uint64_t *held = wm_window_words(window, call->kind, call->device);
    wm_binding *b = find(window, held, want->stream);

    if (b == NULL) {
        b = at(window, 0);
        while (get_held(b) != NULL) { /* one is unused: make_room() */
            b++;
        }
        atomic_fetch_add_explicit(&window->bindings_used, 1,
                                  memory_order_relaxed);
    }
    b->again =
        (wm_rebind){.kind = wm_kind_table_kind(runtime->kinds, call->kind),
                    .handle = (void *)(uintptr_t)held[WM_ROW_SECOND],
                    .stream = want->stream,
                    .workspace = made->workspace,
                    .bytes = made->bytes,
                    .device = call->device};
    set_held(b, held);
    b->epoch = want->epoch;
    b->stream_id = want->info.id;
    b->left_ns = 0;
    set_number(b, 0);
    window->binding_last = b;
}

void wm_binding_lookup_end(warm_runtime *runtime, wm_window *window,
                           const wm_window_call *call,
                           const wm_binding_request *want,
                           const wm_binding_made *made)
{
    bool keep = made != NULL && may_remember(runtime, call, want) &&
                make_room(runtime, window);
    wm_workspaces *workspaces;

    if (!keep && !wm_handle_has_bindings(window)) {
        return;
    }
    workspaces = lock(runtime, window, call->kind, call->device);
    forget_released(workspaces, window,
                    wm_window_words(window, call->kind, call->device), false);
    if (keep) {
        remember(runtime, window, call, want, made);
    }
    unlock(workspaces, window);
}

/* ---- binding again ------------------------------------------------------- */

/* In a hit: the handle, bound to `before`, is bound to the stream from now on.
 * Null: no valid binding to the stream is remembered, or the present one is
 * not. */
static inline wm_binding *use(wm_window *window, const uint64_t *held,
                              warm_stream before, warm_stream stream,
                              uint64_t epoch)
{
    wm_binding *present = window->binding_last;
    wm_binding *b = present->then;

    if (wm_unlikely(b == NULL || b->again.stream != stream ||
                    get_held(b) != held || present->again.stream != before ||
                    get_held(present) != held)) {
        b = find(window, held, stream);
        present = find(window, held, before);
    }
    if (wm_unlikely(b == NULL || present == NULL || b->epoch != epoch)) {
        return NULL;
    }
    if (present->again.workspace != NULL) {
        present->left_ns = wm_clock_rough_ns();
    }
    /* The present one was used last, or looked up since. */
    set_number(b, get_number(present) + 1);
    present->then = b;
    window->binding_last = b;
    return b;
}

/* Calls a callback of the program. */
static warm_status bind_by_callback(wm_window *window, const wm_rebind *to)
    __attribute__((noinline));
static warm_status bind_by_callback(wm_window *window, const wm_rebind *to)
{
    wm_window_call call = {window->call, to->kind->index, to->device};
    int cancel = wm_cancel_off();
    warm_status status;

    window->call = &call;
    status = to->kind->ops->bind(to->kind, to->device, to->handle, to->stream,
                                 to->workspace, to->bytes);
    window->call = call.outer;
    wm_cancel_restore(cancel);
    return status;
}

static warm_status failed(warm_runtime *runtime, const wm_rebind *to,
                          warm_status status) __attribute__((noinline, cold));
static warm_status failed(warm_runtime *runtime, const wm_rebind *to,
                          warm_status status)
{
    wm_pool_note_bound(
        wm_kind_table_pool(runtime->kinds, to->kind->index, to->device),
        to->handle, to->before);
    return status;
}

warm_status wm_binding_again(wm_window *window, uint64_t *held, int device,
                             warm_stream stream, void **handle)
{
    warm_runtime *runtime = window->owner;
    /* Relaxed: as in a hit. */
    uint64_t epoch =
        atomic_load_explicit(&runtime->stream_epoch, memory_order_relaxed);
    uint64_t *bound = held + WM_ROW_BOUND, *with = held + WM_ROW_WITH;
    wm_unchanged unchanged = wm_driver_is_unchanged(runtime->driver, device);
    wm_binding *b;
    warm_status status;

    if (unchanged == WM_UNCHANGED_UNKNOWN || handle == NULL ||
        bound[WM_ROW_SECOND] == 0 || !wm_biased_enter(&window->biased)) {
        return WARM_NOT_FOUND;
    }
    b = use(window, held, (warm_stream)bound[0], stream, epoch);
    wm_biased_leave(&window->biased);
    if (b == NULL) {
        return WARM_NOT_FOUND;
    }
    b->again.before = (warm_stream)bound[0];
    b->again.is_current = unchanged == WM_UNCHANGED_CURRENT;
    /* Unbound until the library's calls succeed. */
    bound[WM_ROW_SECOND] = 0;
    status = wm_likely(b->again.kind->ops->rebind != NULL)
                 ? b->again.kind->ops->rebind(&b->again)
                 : bind_by_callback(window, &b->again);
    if (wm_unlikely(status != WARM_OK)) {
        return failed(runtime, &b->again, status);
    }
    bound[0] = (uintptr_t)stream;
    bound[WM_ROW_SECOND] = epoch;
    with[0] = b->stream_id;
    with[WM_ROW_SECOND] = (uintptr_t)b->again.workspace;
    *handle = b->again.handle;
    return WARM_OK;
}

/* ---- figures ------------------------------------------------------------- */

struct uncounted {
    warm_kind kind;
    int device;
    uint64_t binds;
};

/* Reads atomics only, and lets no window be visited. */
static bool add_uncounted(const wm_window *window, void *context)
{
    struct uncounted *sum = context;
    const uint64_t *held =
        wm_window_words((wm_window *)(uintptr_t)window, sum->kind, sum->device);
    uint64_t most = 0;

    if (at(window, 0) == NULL) {
        return false;
    }
    for (unsigned i = 0; i < WM_BINDINGS; i++) {
        const wm_binding *b = at(window, i);

        if (get_held(b) == held && get_number(b) > most) {
            most = get_number(b);
        }
    }
    sum->binds += most;
    return false;
}

uint64_t wm_bindings_uncounted(warm_runtime *runtime, warm_kind kind,
                               int device)
{
    struct uncounted sum = {.kind = kind, .device = device};
    const wm_visit all = {.wanted = add_uncounted, .context = &sum};

    (void)wm_window_visit(runtime, &all);
    return sum.binds;
}
