/* shared.c: the spaces of buffers that are private to a device or shared with
 * the host, and the records of buffers (shared.h). */
#include "alloc/kinds/shared.h"

#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "alloc/kinds/segment_list.h"
#include "alloc/space/space_int.h"
#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/os_page.h"
#include "runtime/base/resident.h"

#include <stdio.h>
#include <string.h>

/* Marks that a buffer may have before those that have passed are looked for. */
enum { MARKS = 8 };

/* ---- the traits ---------------------------------------------------------- */

static wm_shared_space *of_space(wm_space *space)
{
    return (wm_shared_space *)space;
}

static bool is_of_device(const wm_shared_space *s)
{
    return s->kind == WM_SHARED_PRIVATE || s->managed;
}

/* The space whose watermarks count the memory: the device's, or the page-locked
 * one. */
static wm_space *limiting(const wm_shared_space *s)
{
    warm_runtime *runtime = s->space.group.runtime;

    return is_of_device(s) ? runtime->device_spaces[s->device].space.limiter
                           : &runtime->pinned->space;
}

/* Near the device; if that node is full, from another one. */
static warm_status obtain_pinned(const wm_shared_space *s, size_t bytes,
                                 size_t *piece, void **base)
{
    wm_pin *pin = &s->space.group.runtime->pinned->pin;
    const wm_driver *driver = s->space.driver;
    int near = wm_driver_device_node(driver, s->device), node = near;
    warm_status status;

    do {
        status = wm_pin_obtain(pin, node, bytes, piece, base);
        node = wm_numa_next(&driver->numa, node);
    } while (status == WARM_OUT_OF_MEMORY && node != near);
    return status;
}

static warm_status obtain(wm_space *space, const wm_arena *arena, size_t bytes,
                          size_t *piece, void **base)
{
    const wm_shared_space *s = of_space(space);

    (void)arena;
    return is_of_device(s)
               ? wm_device_obtain(space, s->device, s->managed, bytes, base)
               : obtain_pinned(s, bytes, piece, base);
}

static warm_status give_back(wm_space *space, const wm_arena *arena, void *base,
                             size_t bytes, bool pieced)
{
    const wm_shared_space *s = of_space(space);

    (void)arena;
    return is_of_device(s)
               ? wm_driver_device_free(space->driver, s->device, base)
               : wm_pin_give_back(&space->group.runtime->pinned->pin, base,
                                  bytes, pieced);
}

static void describe(wm_space *space, char *text, size_t bytes)
{
    snprintf(text, bytes, " for device %d", of_space(space)->device);
}

static bool is_retained(wm_space *space, const wm_block *block);
static void retained(wm_space *space, const wm_block *block);
static size_t collect(wm_space *space);

/* Managed memory gets its pages when they are touched first. */
static size_t untouched(wm_space *space)
{
    wm_segment_list list;
    size_t bytes = 0;

    if (!of_space(space)->managed) {
        return 0;
    }
    if (!wm_segment_list_read(space, &list)) {
        return wm_growth_held(&space->growth);
    }
    for (size_t i = 0; i < list.count; i++) {
        bytes += wm_untouched_bytes((const void *)list.range[i].begin,
                                    list.range[i].end - list.range[i].begin);
    }
    wm_segment_list_end(&list);
    return bytes;
}

#define TRAITS(kind_name, touch)                                               \
    {                                                                          \
        .name = (kind_name), .obtain = obtain, .give_back = give_back,         \
        .is_retained = is_retained, .retained = retained,                      \
        .describe = describe, .collect = collect, .untouched = untouched,      \
        .nodeless = true, .uncached = true, .touchable = (touch)               \
    }

static const wm_space_traits traits[WM_SHARED_KINDS] = {
    [WM_SHARED_PRIVATE] = TRAITS("private", false),
    [WM_SHARED_BOTH] = TRAITS("shared", true),
    [WM_SHARED_SCALARS] = TRAITS("scalar", true)};

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
static void drop_node_locked(wm_buffer *buffer, wm_marked **link,
                             wm_mark **ended)
{
    wm_marked *node = *link;

    *link = node->next;
    buffer->mark_count--;
    drop_mark_locked(node->mark, ended);
    wm_meta_free(node);
}

static void drop_nodes_locked(wm_buffer *buffer, wm_mark **ended)
{
    while (buffer->marks != NULL) {
        drop_node_locked(buffer, &buffer->marks, ended);
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
    return wm_map_get(&shared->buffers, (uintptr_t)block->base);
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

static size_t collect(wm_space *space)
{
    return free_inactive(space->group.runtime->shared, of_space(space)->device,
                         false);
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
    info->requested = wm_block_asked(buffer->block);
    info->bytes = wm_block_usable(buffer->block);
    info->host = shared ? buffer->block->base : NULL;
    info->address = buffer->block->base;
    info->users = buffer->users;
}

enum wm_release wm_buffer_release(wm_shared *shared, wm_block *block,
                                  const void *pointer)
{
    enum wm_release result = WM_RELEASE_NO_BUFFER;
    wm_buffer *buffer;
    uintptr_t base;

    wm_lock_acquire(&shared->lock);
    /* Relaxed: without a user the block may be another one by now; then no
     * record is this block's and has the pointer. */
    base = (uintptr_t)atomic_load_explicit(&block->base_seen,
                                           memory_order_relaxed);
    buffer = wm_map_get(&shared->buffers, base);
    if (buffer != NULL && buffer->block == block &&
        (uintptr_t)pointer - base < buffer->bytes) {
        result = buffer->users > 0 ? WM_RELEASE_DONE : WM_RELEASE_NO_USER;
    }
    if (result == WM_RELEASE_DONE && --buffer->users == 0 && buffer->freed) {
        add_inactive_locked(shared, buffer);
    }
    wm_lock_release(&shared->lock);
    return result;
}

/* ---- marks --------------------------------------------------------------- */

static warm_status in_capture(void)
{
    return wm_fail(WARM_CAPTURE_ERROR,
                   "the stream captures, or a capture blocks it: no event can "
                   "be recorded on it");
}

static uint64_t next_ticket(wm_shared *shared)
{
    uint64_t ticket;

    wm_lock_acquire(&shared->lock);
    ticket = ++shared->last_mark;
    wm_lock_release(&shared->lock);
    return ticket;
}

/* Records the mark's event. */
static warm_status record_event(wm_shared *shared, warm_stream stream,
                                wm_mark *mark)
{
    wm_event_pool *events = &shared->runtime->pinned->events;
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status = wm_event_pool_take(events, mark->device, &mark->event);

    if (status != WARM_OK) {
        return status;
    }
    status = wm_driver_event_mark(shared->runtime->driver, mark->event, stream,
                                  &capture);
    if (status == WARM_OK && capture != WM_CAPTURE_NONE) {
        status = in_capture();
    }
    if (status != WARM_OK) {
        wm_event_pool_put(events, mark->device, mark->event);
    }
    return status;
}

warm_status wm_mark_begin(wm_shared *shared, warm_stream stream, wm_mark **mark)
{
    wm_mark *made = wm_meta_alloc(sizeof *made);
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
        *made = (wm_mark){.device = info.device,
                          .stream = info.id,
                          .references = 1,
                          .begun = next_ticket(shared)};
        status = record_event(shared, stream, made);
    }
    if (status != WARM_OK) {
        wm_meta_free(made);
        return status;
    }
    made->ended = next_ticket(shared);
    *mark = made;
    return WARM_OK;
}

static void free_nodes(wm_marked *nodes)
{
    while (nodes != NULL) {
        wm_marked *next = nodes->next;

        wm_meta_free(nodes);
        nodes = next;
    }
}

/* Nodes for `count` buffers, chained. False: no memory. */
static bool make_nodes(size_t count, wm_marked **nodes)
{
    *nodes = NULL;
    while (count-- > 0) {
        wm_marked *node = wm_meta_alloc(sizeof *node);

        if (node == NULL) {
            free_nodes(*nodes);
            *nodes = NULL;
            return false;
        }
        node->next = *nodes;
        *nodes = node;
    }
    return true;
}

/* In place of marks of the stream for which this one stands, and of those that
 * have passed. False: the buffer has it already, or a later one. */
static bool put_mark_locked(wm_buffer *buffer, wm_mark *mark, wm_marked *node,
                            wm_mark **ended)
{
    for (wm_marked **link = &buffer->marks; *link != NULL;) {
        const wm_mark *other = (*link)->mark;
        bool same = other->stream == mark->stream;

        if (other == mark || (same && other->begun > mark->ended)) {
            return false;
        }
        if (other->passed || (same && other->ended < mark->begun)) {
            drop_node_locked(buffer, link, ended);
        } else {
            link = &(*link)->next;
        }
    }
    mark->references++;
    node->mark = mark;
    node->next = buffer->marks;
    buffer->marks = node;
    buffer->mark_count++;
    return true;
}

/* ---- waiting for marks --------------------------------------------------- */

/* References to marks of one buffer. */
struct marks {
    struct {
        wm_mark *mark;
        bool passed;
    } * of;
    size_t count;
};

/* How many marks the buffer has; with many, 0 unless they are worth a look. */
static size_t count_marks(wm_shared *shared, const void *pointer, bool many)
{
    const wm_buffer *buffer;
    size_t count = 0;

    wm_lock_acquire(&shared->lock);
    buffer = wm_buffer_find_locked(shared, pointer);
    if (buffer != NULL && (!many || buffer->mark_count > buffer->mark_most)) {
        count = buffer->mark_count;
    }
    wm_lock_release(&shared->lock);
    return count;
}

/* Refers to all marks of the buffer that are not known to have passed, of one
 * moment. Returns how many marks there are, more than room: nothing was done.
 */
static size_t hold_marks(wm_shared *shared, const void *pointer, size_t room,
                         struct marks *marks)
{
    const wm_buffer *buffer;
    size_t count;

    wm_lock_acquire(&shared->lock);
    buffer = wm_buffer_find_locked(shared, pointer);
    count = buffer != NULL ? buffer->mark_count : 0;
    if (count > 0 && count <= room) {
        for (const wm_marked *m = buffer->marks; m != NULL; m = m->next) {
            if (!m->mark->passed) {
                m->mark->references++;
                marks->of[marks->count++].mark = m->mark;
            }
        }
    }
    wm_lock_release(&shared->lock);
    return count;
}

/* Drops the references, and the buffer's marks that have passed. */
static void let_go(wm_shared *shared, const void *pointer,
                   const struct marks *marks)
{
    wm_mark *ended = NULL;
    wm_buffer *buffer;

    wm_lock_acquire(&shared->lock);
    for (size_t i = 0; i < marks->count; i++) {
        marks->of[i].mark->passed |= marks->of[i].passed;
        drop_mark_locked(marks->of[i].mark, &ended);
    }
    buffer = wm_buffer_find_locked(shared, pointer);
    if (buffer != NULL) {
        for (wm_marked **link = &buffer->marks; *link != NULL;) {
            if ((*link)->mark->passed) {
                drop_node_locked(buffer, link, &ended);
            } else {
                link = &(*link)->next;
            }
        }
        buffer->mark_most = 2 * buffer->mark_count + MARKS;
    }
    wm_lock_release(&shared->lock);
    end_marks(shared, ended);
}

/* The work of a device that was reset has ended. */
static warm_status ask(wm_shared *shared, const wm_mark *mark, bool waits)
{
    wm_driver *driver = shared->runtime->driver;
    warm_status status = wm_driver_is_lost(driver, mark->device) ? WARM_OK
                         : waits ? wm_driver_event_await(driver, mark->event)
                                 : wm_driver_event_passed(driver, mark->event);

    return status != WARM_OK && wm_driver_is_lost(driver, mark->device)
               ? (warm_status)WARM_OK
               : status;
}

/* Queries the marks, or waits for them. The status is the first failure. room:
 * for how many marks, if there are no more meanwhile. */
static warm_status ask_all(wm_shared *shared, const void *pointer, size_t room,
                           bool waits, bool *any)
{
    struct marks marks = {.count = 0};
    warm_status first = WARM_OK;
    size_t there = room;

    do {
        room = there;
        wm_meta_free(marks.of);
        marks.of = wm_meta_alloc(room * sizeof *marks.of);
        if (marks.of == NULL) {
            return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a list of marks");
        }
        there = hold_marks(shared, pointer, room, &marks);
    } while (there > room);
    *any = marks.count > 0;
    for (size_t i = 0; i < marks.count; i++) {
        warm_status status = ask(shared, marks.of[i].mark, waits);

        marks.of[i].passed = status == WARM_OK;
        first = first == WARM_OK ? status : first;
    }
    let_go(shared, pointer, &marks);
    wm_meta_free(marks.of);
    return first;
}

/* Streams come and go: what has passed of many marks is dropped. */
static void prune(wm_shared *shared, const void *pointer)
{
    size_t count = count_marks(shared, pointer, true);
    bool any = false;

    WM_KEEP_ERROR();
    if (count > 0) {
        (void)ask_all(shared, pointer, count, false, &any);
    }
}

/* Buffers that another thread has freed meanwhile get none. */
warm_status wm_mark_put(wm_shared *shared, void *const *pointers, size_t count,
                        wm_mark *mark)
{
    wm_mark *ended = NULL;
    wm_marked *nodes;
    bool made = make_nodes(count, &nodes);

    wm_lock_acquire(&shared->lock);
    for (size_t i = 0; i < count && nodes != NULL; i++) {
        wm_buffer *buffer = wm_buffer_find_locked(shared, pointers[i]);
        wm_marked *next = nodes->next;

        if (buffer != NULL && !wm_buffer_is_private(buffer) &&
            put_mark_locked(buffer, mark, nodes, &ended)) {
            nodes = next;
        }
    }
    drop_mark_locked(mark, &ended);
    wm_lock_release(&shared->lock);
    end_marks(shared, ended);
    free_nodes(nodes);
    for (size_t i = 0; i < count; i++) {
        prune(shared, pointers[i]);
    }
    return made ? WARM_OK
                : wm_fail(WARM_OUT_OF_MEMORY, "no memory for a list of marks");
}

warm_status wm_buffer_await(wm_shared *shared, const void *pointer, bool *any)
{
    size_t count = count_marks(shared, pointer, false);

    return count > 0 ? ask_all(shared, pointer, count, true, any)
                     : (warm_status)WARM_OK;
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
    wm_request request = {.bytes = bytes + space->group.guard_bytes,
                          .arena = space->group.arenas};
    void *pointer = NULL;
    warm_status status = bytes > WM_REQUEST_MAX
                             ? wm_space_refuse_huge(space, &request)
                             : wm_space_alloc(space, &request, &pointer);

    if (status != WARM_OK) {
        return status;
    }
    buffer->block = wm_space_find(pointer);
    buffer->bytes = buffer->block->bytes;
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
    warm_status status = wm_driver_look(shared->runtime->driver, device);
    wm_buffer *buffer;

    if (status != WARM_OK) {
        return status;
    }
    buffer = wm_meta_alloc(sizeof *buffer);
    if (buffer == NULL) {
        return no_record();
    }
    buffer->mark_most = MARKS;
    (void)free_inactive(shared, 0, true);
    status =
        alloc_block(shared, &shared->spaces[device][kind].space, bytes, buffer);
    if (status != WARM_OK) {
        wm_meta_free(buffer);
        return status;
    }
    *pointer = buffer->block->base;
    if (wm_runtime_is_traced(shared->runtime)) {
        wm_traced_alloc(shared->runtime, *pointer, NULL);
    }
    return WARM_OK;
}

/* ---- begin and end ------------------------------------------------------- */

_Static_assert(WM_SHARED_PRIVATE == 0 && WM_SHARED_BOTH == 1 &&
                   WM_SHARED_SCALARS == 2 &&
                   (int)WM_SHARED_KINDS == (int)WM_TRACE_SORTS,
               "sorts of buffers are as in the trace");

/* Pieces elsewhere for the device than for the host would not adjoin there. */
static bool is_cut(const wm_shared_space *s)
{
    return !is_of_device(s) && s->space.driver->same_addresses &&
           wm_pin_cuts(&s->space.group.runtime->pinned->pin);
}

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
    group->place = wm_shared_place(runtime, s->device) + (uint64_t)s->kind;
    s->space.limiter = limiting(s);
    s->space.poller = &runtime->pinned->space;
    group->waker = &s->space.poller->background.waker;
    group->arenas->grain = group->shared ? wm_os_page() : WM_DEVICE_GRAIN;
    if (s->kind == WM_SHARED_SCALARS) {
        group->segment_bytes = WM_SHARED_SCALAR_SEGMENT;
        return WARM_OK;
    }
    group->segment_bytes = WM_SHARED_SMALL_SEGMENT;
    group->large_bytes = WM_SHARED_LARGE_SEGMENT;
    group->own_bytes = WM_SHARED_OWN;
    group->arenas->small_max = WM_SHARED_SMALL;
    if (is_cut(s)) {
        wm_space_cut(&s->space);
    }
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

static wm_space *space_at(wm_shared *shared, size_t i)
{
    warm_runtime *runtime = shared->runtime;
    size_t devices = (size_t)runtime->devices;

    if (i == 0) {
        return &runtime->pinned->space;
    }
    if (i <= devices) {
        return &runtime->device_spaces[i - 1].space;
    }
    if (i == 1 + devices) {
        return &runtime->pinned->combined;
    }
    i -= 2 + devices;
    return &shared->spaces[i / WM_SHARED_KINDS][i % WM_SHARED_KINDS].space;
}

/* Lists all spaces, those with one limiter next to each other, the limiter
 * first. */
static warm_status join_limits(wm_shared *shared)
{
    warm_runtime *runtime = shared->runtime;
    size_t devices = (size_t)runtime->devices;
    size_t count = 2 + devices * (1 + WM_SHARED_KINDS);
    wm_space **list = wm_meta_alloc(count * sizeof(void *));

    if (list == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    shared->fellows = list;
    runtime->pinned->space.all = list;
    runtime->pinned->space.all_count = count;
    for (size_t i = 0; i <= devices; i++) {
        wm_space *limiter = space_at(shared, i);

        limiter->fellows = list;
        for (size_t k = i; k < count; k++) {
            wm_space *space = space_at(shared, k);

            if (space->limiter == limiter) {
                *list++ = space;
            }
        }
        limiter->fellow_count = (size_t)(list - limiter->fellows);
    }
    return WARM_OK;
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
    if (status != WARM_OK || (status = join_limits(shared)) != WARM_OK) {
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
        /* Memory that was lost with its device is in the limiting space's
         * report. */
        (void)wm_space_report_used(space, report);
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
    wm_meta_free(shared->fellows);
    wm_meta_free(shared);
}
