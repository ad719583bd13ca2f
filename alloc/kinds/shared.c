/* shared.c: the spaces of buffers that are private to a device or shared with
 * the host, and the records of buffers (shared.h). */
#include "alloc/kinds/shared.h"

#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "alloc/space/space_int.h"
#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"

#include <stdio.h>
#include <string.h>

/* ---- the traits ---------------------------------------------------------- */

static wm_shared_space *of_space(wm_space *space)
{
    return (wm_shared_space *)space;
}

/* The space whose limit counts the memory: the device's, or the page-locked
 * one. */
static wm_space *limiting(const wm_shared_space *s)
{
    warm_runtime *runtime = s->space.group.runtime;

    return s->kind == WM_SHARED_PRIVATE || s->managed
               ? &runtime->device_spaces[s->device].space
               : &runtime->pinned->space;
}

static warm_status obtain(wm_space *space, int node, size_t bytes, void **base)
{
    const wm_shared_space *s = of_space(space);
    wm_space *limit = limiting(s);
    warm_status status;

    (void)node;
    if (!wm_space_claim(limit, bytes)) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "the limit of %s memory, %s, leaves no room for %s more",
                       limit->traits->name,
                       wm_bytes(wm_space_limit(limit)).text,
                       wm_bytes(bytes).text);
    }
    status =
        s->kind == WM_SHARED_PRIVATE || s->managed
            ? wm_device_obtain(space, s->device, s->managed, bytes, base)
            : wm_pin_obtain(&space->group.runtime->pinned->pin,
                            wm_driver_device_node(space->driver, s->device),
                            bytes, base);
    if (status != WARM_OK) {
        wm_space_unclaim(limit, bytes);
    }
    return status;
}

static warm_status give_back(wm_space *space, void *base, size_t bytes)
{
    const wm_shared_space *s = of_space(space);
    warm_status status =
        s->kind == WM_SHARED_PRIVATE || s->managed
            ? wm_driver_device_free(space->driver, s->device, base)
            : wm_pin_give_back(&space->group.runtime->pinned->pin, base, bytes);

    if (status == WARM_OK) {
        wm_space_unclaim(limiting(s), bytes);
    }
    return status;
}

static void describe(wm_space *space, char *text, size_t bytes)
{
    snprintf(text, bytes, " for device %d", of_space(space)->device);
}

static bool is_retained(wm_space *space, const wm_block *block);
static void retained(wm_space *space, const wm_block *block);

#define TRAITS(kind_name)                                                      \
    {                                                                          \
        .name = (kind_name), .obtain = obtain, .give_back = give_back,         \
        .is_retained = is_retained, .retained = retained,                      \
        .describe = describe, .nodeless = true, .uncached = true               \
    }

static const wm_space_traits traits[WM_SHARED_KINDS] = {
    [WM_SHARED_PRIVATE] = TRAITS("private"),
    [WM_SHARED_BOTH] = TRAITS("shared"),
    [WM_SHARED_SCALARS] = TRAITS("scalar")};

/* ---- records ------------------------------------------------------------- */

/* The last reference chains the mark to *ended, for end_marks(). */
static void drop_mark_locked(wm_mark *mark, wm_mark **ended)
{
    if (--mark->references == 0) {
        mark->next = *ended;
        *ended = mark;
    }
}

/* Removes the node at *link. */
static void drop_node_locked(wm_marked **link, wm_mark **ended)
{
    wm_marked *node = *link;

    *link = node->next;
    drop_mark_locked(node->mark, ended);
    wm_meta_free(node);
}

static void drop_nodes_locked(wm_buffer *buffer, wm_mark **ended)
{
    while (buffer->marks != NULL) {
        drop_node_locked(&buffer->marks, ended);
    }
}

/* No lock held. */
static void end_marks(wm_shared *shared, wm_mark *ended)
{
    while (ended != NULL) {
        wm_mark *next = ended->next;

        wm_event_pool_put(&shared->runtime->pinned->events, ended->device,
                          ended->event);
        wm_meta_free(ended);
        ended = next;
    }
}

/* The record is in no table. */
static void end_record(wm_shared *shared, wm_buffer *buffer, wm_mark *ended)
{
    end_marks(shared, ended);
    wm_meta_free(buffer->shape);
    wm_meta_free(buffer);
}

static wm_buffer *record_of_locked(const wm_shared *shared,
                                   const wm_block *block)
{
    wm_buffer *buffer = wm_map_get(&shared->buffers, (uintptr_t)block->base);

    return buffer != NULL && buffer->block == block ? buffer : NULL;
}

wm_buffer *wm_buffer_find_locked(const wm_shared *shared, const void *pointer)
{
    wm_block *block = wm_space_find(pointer);
    wm_buffer *buffer = block != NULL ? record_of_locked(shared, block) : NULL;

    return buffer != NULL && !buffer->freed ? buffer : NULL;
}

/* A block without users ends its record here, before it can be allocated again.
 */
static bool is_retained(wm_space *space, const wm_block *block)
{
    wm_shared *shared = space->group.runtime->shared;
    wm_mark *ended = NULL;
    wm_buffer *buffer;
    bool users;

    wm_lock_acquire(&shared->lock);
    buffer = record_of_locked(shared, block);
    users = buffer != NULL && buffer->users > 0;
    if (buffer != NULL && !users) {
        (void)wm_map_take(&shared->buffers, (uintptr_t)block->base);
        drop_nodes_locked(buffer, &ended);
    }
    wm_lock_release(&shared->lock);
    if (buffer != NULL && !users) {
        end_record(shared, buffer, ended);
    }
    return users;
}

static void add_inactive_locked(wm_shared *shared, wm_buffer *buffer)
{
    buffer->next = shared->inactive;
    shared->inactive = buffer;
}

static void retained(wm_space *space, const wm_block *block)
{
    wm_shared *shared = space->group.runtime->shared;
    wm_buffer *buffer;

    wm_lock_acquire(&shared->lock);
    buffer = record_of_locked(shared, block);
    if (buffer != NULL) { /* it has one: is_retained() found it */
        buffer->freed = true;
        if (buffer->users == 0) {
            add_inactive_locked(shared, buffer);
        }
    }
    wm_lock_release(&shared->lock);
}

/* Takes the device's inactive buffers out of the tables; all: of any device. */
static wm_buffer *take_inactive(wm_shared *shared, int device, bool all,
                                wm_mark **ended)
{
    wm_buffer *taken = NULL, **link = &shared->inactive;

    wm_lock_acquire(&shared->lock);
    while (*link != NULL) {
        wm_buffer *buffer = *link;

        if (!all && wm_shared_space_of(buffer->block)->device != device) {
            link = &buffer->next;
            continue;
        }
        *link = buffer->next;
        (void)wm_map_take(&shared->buffers, (uintptr_t)buffer->block->base);
        drop_nodes_locked(buffer, ended);
        buffer->next = taken;
        taken = buffer;
    }
    wm_lock_release(&shared->lock);
    return taken;
}

static size_t free_inactive(wm_shared *shared, int device, bool all)
{
    wm_mark *ended = NULL;
    wm_buffer *buffer = take_inactive(shared, device, all, &ended);
    size_t bytes = 0;

    end_marks(shared, ended);
    while (buffer != NULL) {
        wm_buffer *next = buffer->next;
        wm_block *block = buffer->block;

        end_record(shared, buffer, NULL);
        /* Else the block was leaked when it was freed. */
        if (wm_state_kind(atomic_load_explicit(
                &block->state, memory_order_relaxed)) == WM_BLOCK_PENDING) {
            bytes += block->bytes;
            wm_timelines_complete(&shared->runtime->pinned->timelines, block);
        }
        buffer = next;
    }
    return bytes;
}

size_t wm_buffers_free_inactive(wm_shared *shared, int device)
{
    return free_inactive(shared, device, false);
}

/* ---- users --------------------------------------------------------------- */

void wm_buffer_describe_locked(const wm_buffer *buffer, warm_shared_info *info)
{
    const wm_shared_space *s = wm_shared_space_of(buffer->block);
    bool shared = s->kind != WM_SHARED_PRIVATE;

    info->shared = shared;
    info->managed = s->managed;
    info->device = s->device;
    info->id = buffer->id;
    info->requested = wm_block_requested(buffer->block);
    info->bytes = buffer->block->bytes;
    info->host = shared ? buffer->block->base : NULL;
    info->address = buffer->block->base;
    info->users = buffer->users;
}

enum wm_release wm_buffer_release(wm_shared *shared, const wm_block *block)
{
    enum wm_release result = WM_RELEASE_NO_BUFFER;
    wm_buffer *buffer;

    wm_lock_acquire(&shared->lock);
    buffer = record_of_locked(shared, block);
    if (buffer != NULL) {
        result = buffer->users > 0 ? WM_RELEASE_DONE : WM_RELEASE_NO_USER;
    }
    if (result == WM_RELEASE_DONE && --buffer->users == 0 && buffer->freed) {
        add_inactive_locked(shared, buffer);
    }
    wm_lock_release(&shared->lock);
    return result;
}

/* ---- marks --------------------------------------------------------------- */

static void free_nodes(wm_marked *nodes)
{
    while (nodes != NULL) {
        wm_marked *next = nodes->next;

        wm_meta_free(nodes);
        nodes = next;
    }
}

/* Nodes for `count` buffers, chained; or null: no memory. */
static wm_marked *make_nodes(size_t count)
{
    wm_marked *nodes = NULL;

    while (count-- > 0) {
        wm_marked *node = wm_meta_alloc(sizeof *node);

        if (node == NULL) {
            free_nodes(nodes);
            return NULL;
        }
        node->next = nodes;
        nodes = node;
    }
    return nodes;
}

static warm_status in_capture(void)
{
    return wm_fail(WARM_CAPTURE_ERROR,
                   "the stream captures, or a capture blocks it: no event can "
                   "be recorded on it");
}

/* Records the event of a new mark, with one reference. */
static warm_status record_mark(wm_shared *shared, warm_stream stream,
                               wm_mark **mark)
{
    wm_driver *driver = shared->runtime->driver;
    wm_event_pool *events = &shared->runtime->pinned->events;
    wm_mark *made = wm_meta_alloc(sizeof *made);
    wm_capture capture = WM_CAPTURE_NONE;
    wm_stream_info info;
    warm_status status;

    if (made == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a mark");
    }
    status =
        wm_timelines_info(&shared->runtime->pinned->timelines, stream, &info);
    if (status == WARM_OK && info.capture != WM_CAPTURE_NONE) {
        status = in_capture();
    }
    if (status == WARM_OK) {
        made->device = info.device;
        made->stream = info.id;
        made->references = 1;
        status = wm_event_pool_take(events, info.device, &made->event);
    }
    if (status == WARM_OK) {
        status = wm_driver_event_mark(driver, made->event, stream, &capture);
        if (status == WARM_OK && capture != WM_CAPTURE_NONE) {
            status = in_capture();
        }
        if (status != WARM_OK) {
            wm_event_pool_put(events, info.device, made->event);
        }
    }
    if (status != WARM_OK) {
        wm_meta_free(made);
        return status;
    }
    *mark = made;
    return WARM_OK;
}

/* In place of the buffer's mark of the same stream. */
static void put_mark_locked(wm_buffer *buffer, wm_mark *mark, wm_marked *node,
                            wm_mark **ended)
{
    wm_marked **link = &buffer->marks;

    while (*link != NULL && (*link)->mark->stream != mark->stream) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        drop_node_locked(link, ended);
    }
    mark->references++;
    node->mark = mark;
    node->next = buffer->marks;
    buffer->marks = node;
}

/* Buffers that another thread has freed meanwhile get none. */
static void put_marks(wm_shared *shared, void *const *pointers, size_t count,
                      wm_mark *mark, wm_marked *nodes)
{
    wm_mark *ended = NULL;

    wm_lock_acquire(&shared->lock);
    for (size_t i = 0; i < count && nodes != NULL; i++) {
        wm_buffer *buffer = wm_buffer_find_locked(shared, pointers[i]);

        if (buffer != NULL && !wm_buffer_is_private(buffer)) {
            wm_marked *node = nodes;

            nodes = node->next;
            put_mark_locked(buffer, mark, node, &ended);
        }
    }
    drop_mark_locked(mark, &ended);
    wm_lock_release(&shared->lock);
    end_marks(shared, ended);
    free_nodes(nodes);
}

warm_status wm_buffers_mark(wm_shared *shared, void *const *pointers,
                            size_t count, size_t found, warm_stream stream)
{
    wm_marked *nodes = make_nodes(found);
    wm_mark *mark = NULL;
    warm_status status;

    if (nodes == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for marks");
    }
    status = record_mark(shared, stream, &mark);
    if (status == WARM_OK) {
        put_marks(shared, pointers, count, mark, nodes);
    } else {
        free_nodes(nodes);
    }
    return status;
}

/* Removes the buffer's nodes whose marks have passed; the next mark with a
 * reference, or null. */
static wm_mark *next_mark(wm_shared *shared, const void *pointer)
{
    wm_mark *mark = NULL, *ended = NULL;
    wm_buffer *buffer;

    wm_lock_acquire(&shared->lock);
    buffer = wm_buffer_find_locked(shared, pointer);
    while (buffer != NULL && buffer->marks != NULL &&
           buffer->marks->mark->passed) {
        drop_node_locked(&buffer->marks, &ended);
    }
    if (buffer != NULL && buffer->marks != NULL) {
        mark = buffer->marks->mark;
        mark->references++;
    }
    wm_lock_release(&shared->lock);
    end_marks(shared, ended);
    return mark;
}

warm_status wm_buffer_await(wm_shared *shared, const void *pointer, bool *any)
{
    warm_status status = WARM_OK;
    wm_mark *mark;

    while (status == WARM_OK && (mark = next_mark(shared, pointer)) != NULL) {
        wm_mark *ended = NULL;

        status = wm_driver_event_await(shared->runtime->driver, mark->event);
        wm_lock_acquire(&shared->lock);
        mark->passed = status == WARM_OK;
        drop_mark_locked(mark, &ended);
        wm_lock_release(&shared->lock);
        end_marks(shared, ended);
        *any = true;
    }
    return status;
}

/* ---- allocation ---------------------------------------------------------- */

static bool add_record(wm_shared *shared, wm_buffer *buffer)
{
    bool added;

    wm_lock_acquire(&shared->lock);
    added = wm_map_reserve(&shared->buffers, shared->buffers.count + 1);
    if (added) {
        buffer->id = ++shared->last_id;
        wm_map_put(&shared->buffers, (uintptr_t)buffer->block->base, buffer);
    }
    wm_lock_release(&shared->lock);
    return added;
}

static warm_status no_record(void)
{
    return wm_fail(WARM_OUT_OF_MEMORY, "no memory for the record of a buffer");
}

/* Allocates the block of the record, and adds the record. */
static warm_status alloc_block(wm_shared *shared, wm_space *space, size_t bytes,
                               wm_buffer *buffer)
{
    wm_request request = {.bytes = bytes, .arena = space->group.arenas};
    void *pointer = NULL;
    warm_status status = wm_space_alloc(space, &request, &pointer);

    if (status != WARM_OK) {
        return status;
    }
    buffer->block = wm_space_find(pointer);
    if (add_record(shared, buffer)) {
        return WARM_OK;
    }
    wm_block_set_state(buffer->block, WM_BLOCK_FREEING);
    wm_space_free(space, buffer->block);
    return no_record();
}

warm_status wm_buffer_alloc(wm_shared *shared, int device,
                            enum wm_shared_kind kind, size_t bytes,
                            void **pointer)
{
    wm_buffer *buffer = wm_meta_alloc(sizeof *buffer);
    warm_status status;

    if (buffer == NULL) {
        return no_record();
    }
    (void)free_inactive(shared, device, false);
    status =
        alloc_block(shared, &shared->spaces[device][kind].space, bytes, buffer);
    if (status != WARM_OK) {
        wm_meta_free(buffer);
        return status;
    }
    *pointer = buffer->block->base;
    if (wm_unlikely(shared->runtime->traced)) {
        wm_traced_alloc(shared->runtime, *pointer, bytes, NULL);
    }
    return WARM_OK;
}

/* ---- begin and end ------------------------------------------------------- */

static warm_status open_one(warm_runtime *runtime, const wm_options *options,
                            wm_shared_space *s)
{
    wm_arena_group *group = &s->space.group;
    warm_status status = wm_space_init(&s->space, &traits[s->kind], runtime,
                                       &runtime->pinned->timelines, options);

    if (status != WARM_OK) {
        return status;
    }
    group->shared = s->kind != WM_SHARED_PRIVATE;
    group->device = group->shared && !s->managed ? WM_DEVICE_HOST : s->device;
    /* Behind those of the other spaces (pinned.c), which snapshots show. */
    group->place = (uint64_t)runtime->devices +
                   (uint64_t)runtime->driver->numa.nodes + 1 +
                   (uint64_t)s->device * WM_SHARED_KINDS + (uint64_t)s->kind;
    s->space.poller = &runtime->pinned->space;
    group->waker = &s->space.poller->background.waker;
    atomic_store_explicit(&s->space.limit_bytes, 0, memory_order_relaxed);
    group->arenas->grain = group->shared ? WM_PAGE : WM_DEVICE_GRAIN;
    if (s->kind == WM_SHARED_SCALARS) {
        group->segment_bytes = WM_SHARED_SCALAR_SEGMENT;
        return WARM_OK;
    }
    group->segment_bytes = WM_SHARED_SMALL_SEGMENT;
    group->large_bytes = WM_SHARED_LARGE_SEGMENT;
    group->own_bytes = WM_SHARED_OWN;
    group->arenas->small_max = WM_SHARED_SMALL;
    wm_lives_sort(group->arenas->live);
    return WARM_OK;
}

/* Managed memory, if the option demands it and the device allows it, or if the
 * device's memory is the host's. */
static warm_status choose_managed(const warm_runtime *runtime,
                                  const wm_options *options, int device,
                                  bool *managed)
{
    wm_managed support = WM_MANAGED_NONE;
    bool demanded = strcmp(options->shared_memory, "managed") == 0;
    warm_status status =
        wm_driver_managed_support(runtime->driver, device, &support);

    *managed = support == WM_MANAGED_BETTER
                   ? strcmp(options->shared_memory, "mapped") != 0
                   : demanded && support == WM_MANAGED_WORKS;
    if (status == WARM_OK && demanded && !*managed) {
        wm_log(
            WARM_LOG_WARNING,
            "option shared_memory: host and device %d must not touch managed "
            "memory at once; its shared buffers are page-locked",
            device);
    } else if (status == WARM_OK && *managed && !demanded) {
        wm_log(WARM_LOG_INFO,
               "device %d uses the host's page tables: its shared buffers are "
               "managed memory",
               device);
    }
    return status;
}

warm_status wm_shared_open(warm_runtime *runtime, const wm_options *options)
{
    size_t devices = (size_t)runtime->devices;
    wm_shared *shared =
        wm_meta_alloc(sizeof *shared + devices * sizeof shared->spaces[0]);
    warm_status status = WARM_OK;
    bool managed = false;

    if (shared == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    wm_lock_init(&shared->lock, WM_RANK_SHARED);
    shared->runtime = runtime;
    runtime->shared = shared;
    for (int i = 0; i < runtime->devices && status == WARM_OK; i++) {
        status = choose_managed(runtime, options, i, &managed);
        for (int k = 0; k < WM_SHARED_KINDS && status == WARM_OK; k++) {
            wm_shared_space *s = &shared->spaces[i][k];

            s->kind = (enum wm_shared_kind)k;
            s->device = i;
            s->managed = managed && k != WM_SHARED_PRIVATE;
            status = open_one(runtime, options, s);
        }
    }
    if (status != WARM_OK) {
        wm_shared_close(runtime);
    }
    return status;
}

/* The marks' events go back to their pool, which ends with pinned memory. */
static void end_all_marks(wm_shared *shared)
{
    const wm_map_entry *entry = NULL;
    wm_mark *ended = NULL;

    while ((entry = wm_map_next(&shared->buffers, entry)) != NULL) {
        drop_nodes_locked(entry->value, &ended);
    }
    end_marks(shared, ended);
}

void wm_shared_stop(warm_runtime *runtime, warm_destroy_report *report)
{
    wm_shared *shared = runtime->shared;
    size_t released;

    (void)free_inactive(shared, 0, true);
    end_all_marks(shared);
    for (int i = 0; i < runtime->devices * WM_SHARED_KINDS; i++) {
        wm_space *space =
            &shared->spaces[i / WM_SHARED_KINDS][i % WM_SHARED_KINDS].space;

        (void)wm_space_trim(space, 0, &released);
        wm_pinned_report_left(space, report);
        wm_space_forget(space);
    }
}

void wm_shared_close(warm_runtime *runtime)
{
    wm_shared *shared = runtime->shared;
    const wm_map_entry *entry = NULL;

    runtime->shared = NULL;
    while ((entry = wm_map_next(&shared->buffers, entry)) != NULL) {
        wm_buffer *buffer = entry->value;

        wm_meta_free(buffer->shape);
        wm_meta_free(buffer);
    }
    wm_map_fini(&shared->buffers);
    for (int i = 0; i < runtime->devices * WM_SHARED_KINDS; i++) {
        wm_space *space =
            &shared->spaces[i / WM_SHARED_KINDS][i % WM_SHARED_KINDS].space;

        if (space->traits != NULL) { /* it was opened */
            wm_space_fini(space);
        }
    }
    wm_lock_fini(&shared->lock);
    wm_meta_free(shared);
}
