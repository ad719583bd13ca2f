/* snapshot_json.c: snapshots as JSON (warmpool/snapshot.h). Takes no lock.
 *
 * Two layouts: the library's own, and that of PyTorch's memory visualiser,
 * whose devices are our places. The visualiser starts from the snapshot's
 * segments and blocks and undoes one event after the other, and fails at an
 * event that does not fit. So replaying the events must produce exactly the
 * snapshot: arena_trace.c records them in that order. Overwritten events are
 * the oldest, and the visualiser does not need them; events older than a
 * dropped one are left out. */
#include "alloc/kinds/shared.h"
#include "alloc/snapshot/snapshot.h"
#include "alloc/stream/timeline.h"

#include <inttypes.h>

typedef struct writer {
    wm_text *text;
    const warm_runtime *runtime;
    const wm_history *history; /* or null */
    const wm_snapshot_set *set;
    const struct layout *layout;
} writer;

/* Each function writes one object; begin_segment() writes the part before its
 * blocks. */
struct layout {
    void (*begin_segment)(writer *w, const wm_snapshot *snapshot, size_t i);
    void (*put_block)(writer *w, const wm_snapshot *snapshot, size_t i);
    void (*put_event)(writer *w, uint64_t number,
                      const wm_history_event *event);
};

/* ---- both layouts -------------------------------------------------------- */

/* Writes the segments of the places from ≤ place < to, in brackets. */
static void put_segments(writer *w, uint64_t from, uint64_t to)
{
    const char *end = "";       /* closes the previous segment */
    const char *separator = ""; /* between blocks */

    wm_text_put(w->text, "\"segments\":[");
    for (const wm_snapshot *s = w->set->first; s != NULL; s = s->next) {
        size_t count = s->place >= from && s->place < to ? s->count : 0;

        for (size_t i = 0; i < count; i++) {
            if (wm_piece_is_segment(&s->piece[i])) {
                wm_text_put(w->text, "%s%s", end, *end != '\0' ? "," : "");
                w->layout->begin_segment(w, s, i);
                wm_text_put(w->text, ",\"blocks\":[");
                end = "]}";
                separator = "";
            } else {
                wm_text_put(w->text, "%s", separator);
                w->layout->put_block(w, s, i);
                separator = ",";
            }
        }
    }
    wm_text_put(w->text, "%s]", end);
}

/* Writes the events of the places from ≤ place < to, in brackets. first: the
 * index of the first one. */
static void put_events(writer *w, size_t first, uint64_t from, uint64_t to)
{
    const char *separator = "";

    wm_text_put(w->text, "[");
    for (size_t i = first; i < w->set->events; i++) {
        uint64_t number = 0;
        const wm_history_event *event =
            wm_snapshot_set_event(w->set, i, &number);

        if (event->place >= from && event->place < to) {
            wm_text_put(w->text, "%s", separator);
            w->layout->put_event(w, number, event);
            separator = ",";
        }
    }
    wm_text_put(w->text, "]");
}

/* ---- the library's own layout -------------------------------------------- */

static const char *const state_names[] = {
    [WM_BLOCK_IDLE] = "idle",         [WM_BLOCK_LIVE] = "live",
    [WM_BLOCK_PENDING] = "pending",   [WM_BLOCK_LOST] = "lost",
    [WM_BLOCK_CAPTURED] = "captured", [WM_BLOCK_CACHED] = "magazine"};

static void put_stream(wm_text *text, uint64_t lane_id)
{
    if (lane_id != 0) {
        wm_text_put(text, ",\"stream\":%" PRIu64,
                    wm_timeline_stream_id(lane_id));
    } else {
        wm_text_put(text, ",\"stream\":null");
    }
}

/* Not below 0: the clock of another thread may be slightly behind. */
static uint64_t age(uint64_t now, uint64_t then)
{
    return now > then ? now - then : 0;
}

static void put_frame(wm_text *text, const wm_frame *frame)
{
    wm_text_put(text, "{\"address\":\"0x%" PRIx64 "\"", frame->address);
    if (frame->function != NULL) {
        wm_text_put(text, ",\"function\":");
        wm_text_put_string(text, frame->function);
    }
    if (frame->object != NULL) {
        wm_text_put(text, ",\"object\":");
        wm_text_put_string(text, frame->object);
        wm_text_put(text, ",\"offset\":\"0x%" PRIx64 "\"", frame->offset);
    }
    wm_text_put(text, "}");
}

/* Writes ,"tag":"…" and ,"frames":[…], each if the origin has it. */
static void put_frames(writer *w, const wm_origin *origin)
{
    wm_frame frame;
    unsigned i;

    if (origin->tag[0] != '\0') {
        wm_text_put(w->text, ",\"tag\":");
        wm_text_put_string(w->text, origin->tag);
    }
    for (i = 0; wm_history_frame(w->history, origin, i, &frame); i++) {
        wm_text_put(w->text, "%s", i > 0 ? "," : ",\"frames\":[");
        put_frame(w->text, &frame);
    }
    wm_text_put(w->text, "%s", i > 0 ? "]" : "");
}

static void begin_segment(writer *w, const wm_snapshot *snapshot, size_t i)
{
    const wm_piece *piece = &snapshot->piece[i];
    uint64_t now = snapshot->now_ns;

    wm_text_put(w->text,
                "{\"address\":\"%p\",\"bytes\":%zu,\"small\":%s,"
                "\"age_ns\":" WM_TEXT_TIME,
                (const void *)piece->base, piece->bytes,
                piece->small ? "true" : "false", age(now, piece->made_ns));
    if (piece->cuts > 0) {
        wm_text_put(w->text, ",\"pieces\":%u", piece->cuts + 1);
    }
    if (piece->idle_since_ns != 0) {
        wm_text_put(w->text, ",\"idle_ns\":" WM_TEXT_TIME,
                    age(now, piece->idle_since_ns));
    } else {
        wm_text_put(w->text, ",\"idle_ns\":null");
    }
}

static void put_block(writer *w, const wm_snapshot *snapshot, size_t i)
{
    const wm_piece *piece = &snapshot->piece[i];
    const wm_origin *origin = wm_snapshot_origin(snapshot, i);

    wm_text_put(w->text, "{\"address\":\"%p\",\"bytes\":%zu,\"state\":\"%s\"",
                (const void *)piece->base, piece->bytes,
                piece->in_transfer_cache ? "transfer_cache"
                                         : state_names[piece->state]);
    if (piece->state == WM_BLOCK_LIVE) {
        wm_text_put(w->text, ",\"requested\":%zu", piece->requested);
    }
    put_stream(w->text, piece->lane_id);
    wm_text_put(w->text, ",\"pool\":%" PRIu64, snapshot->pool);
    if (origin != NULL) {
        wm_text_put(w->text, ",\"age_ns\":" WM_TEXT_TIME ",\"thread\":%" PRIu64,
                    age(snapshot->now_ns, origin->ns), origin->thread);
        put_frames(w, origin);
    }
    wm_text_put(w->text, "}");
}

static uint64_t pageable_place(const warm_runtime *runtime)
{
    return (uint64_t)runtime->devices + (uint64_t)runtime->driver->numa.nodes;
}

static const char *const kind_names[WM_SHARED_KINDS] = {
    [WM_SHARED_PRIVATE] = "private",
    [WM_SHARED_BOTH] = "shared",
    [WM_SHARED_SCALARS] = "scalars"};

/* Writes which space an event was of, unless it was of a device's memory. */
static void put_place(writer *w, uint64_t place)
{
    uint64_t first_node = (uint64_t)w->runtime->devices;
    uint64_t first_shared = wm_shared_place(w->runtime, 0);

    if (place >= first_shared) {
        wm_text_put(w->text, ",\"device\":%" PRIu64 ",\"usage\":\"%s\"",
                    (place - first_shared) / WM_SHARED_KINDS,
                    kind_names[(place - first_shared) % WM_SHARED_KINDS]);
    } else if (place == pageable_place(w->runtime)) {
        wm_text_put(w->text, ",\"pageable\":true");
    } else if (place >= first_node) {
        wm_text_put(w->text, ",\"node\":%" PRIu64, place - first_node);
    }
}

static void put_event(writer *w, uint64_t number, const wm_history_event *event)
{

    wm_text_put(w->text,
                "{\"number\":%" PRIu64 ",\"action\":\"%s\",\"ns\":%" PRIu64
                ",\"thread\":%" PRIu64,
                number, wm_history_action(event), event->origin.ns,
                event->origin.thread);
    put_place(w, event->place);
    if (event->op == WM_HISTORY_OUT_OF_MEMORY) {
        wm_text_put(w->text, ",\"free\":%" PRIu64, event->address);
    } else {
        wm_text_put(w->text, ",\"address\":\"0x%" PRIx64 "\"", event->address);
    }
    wm_text_put(w->text, ",\"bytes\":%" PRIu64, event->bytes);
    put_stream(w->text, event->lane_id);
    wm_text_put(w->text, ",\"pool\":%" PRIu64, event->pool);
    put_frames(w, &event->origin);
    wm_text_put(w->text, "}");
}

static const struct layout own_layout = {begin_segment, put_block, put_event};

static void put_history(writer *w)
{
    if (w->history != NULL) {
        wm_text_put(w->text,
                    ",\"history\":{\"next\":%" PRIu64 ",\"dropped\":%" PRIu64
                    ",\"events\":",
                    w->set->last->next_event,
                    wm_history_dropped(w->runtime->history));
        put_events(w, 0, 0, UINT64_MAX);
        wm_text_put(w->text, "}");
    }
    wm_text_put(w->text, "}");
}

static void put_device(writer *w)
{
    wm_text_put(w->text, "{\"device\":%" PRIu64 ",\"ns\":" WM_TEXT_TIME ",",
                w->set->from, w->set->last->now_ns);
    put_segments(w, w->set->from, w->set->to);
    put_history(w);
}

static void put_pinned(writer *w)
{
    const wm_numa *numa = &w->runtime->driver->numa;
    uint64_t pageable = pageable_place(w->runtime);
    const char *separator = "";

    wm_text_put(w->text,
                "{\"space\":\"pinned\",\"ns\":" WM_TEXT_TIME ",\"nodes\":[",
                w->set->last->now_ns);
    for (int i = 0; i < numa->nodes; i++) {
        uint64_t place = w->set->from + (uint64_t)i;

        if (wm_numa_usable(numa, i)) {
            wm_text_put(w->text, "%s{\"node\":%d,", separator, i);
            put_segments(w, place, place + 1);
            wm_text_put(w->text, "}");
            separator = ",";
        }
    }
    wm_text_put(w->text, "],\"pageable\":{");
    put_segments(w, pageable, pageable + 1);
    wm_text_put(w->text, "}");
    put_history(w);
}

static void put_shared(writer *w)
{
    const char *separator = "";

    wm_text_put(w->text,
                "{\"space\":\"shared\",\"ns\":" WM_TEXT_TIME ",\"devices\":[",
                w->set->last->now_ns);
    for (int i = 0; i < w->runtime->devices; i++) {
        wm_text_put(w->text, "%s{\"device\":%d", separator, i);
        for (unsigned kind = 0; kind < WM_SHARED_KINDS; kind++) {
            uint64_t place = wm_shared_place(w->runtime, i) + kind;

            wm_text_put(w->text, ",\"%s\":{", kind_names[kind]);
            put_segments(w, place, place + 1);
            wm_text_put(w->text, "}");
        }
        wm_text_put(w->text, "}");
        separator = ",";
    }
    wm_text_put(w->text, "]");
    put_history(w);
}

/* ---- PyTorch's layout ---------------------------------------------------- */

static void put_viz_frame(wm_text *text, const char *separator,
                          const char *name, uint64_t offset, const char *file)
{
    wm_text_put(text, "%s{\"name\":", separator);
    if (name != NULL) {
        wm_text_put_string(text, name);
    } else {
        wm_text_put(text, "\"0x%" PRIx64 "\"", offset);
    }
    wm_text_put(text, ",\"filename\":");
    wm_text_put_string(text, file != NULL ? file : "??");
    wm_text_put(text, ",\"line\":0}");
}

/* origin: may be null. */
static void put_viz_frames(writer *w, const wm_origin *origin)
{
    const char *separator = "";
    wm_frame frame;

    wm_text_put(w->text, ",\"frames\":[");
    if (origin != NULL && origin->tag[0] != '\0') {
        put_viz_frame(w->text, "", origin->tag, 0, "tag");
        separator = ",";
    }
    for (unsigned i = 0;
         origin != NULL && wm_history_frame(w->history, origin, i, &frame);
         i++) {
        put_viz_frame(w->text, separator, frame.function, frame.offset,
                      frame.object);
        separator = ",";
    }
    wm_text_put(w->text, "]");
}

/* Whether the events count the block as active. A block that is being allocated
 * has no alloc event yet, and one being freed already has its free_completed:
 * both events set or clear the origin under lock arena. */
static bool is_active(const writer *w, const wm_snapshot *snapshot, size_t i)
{
    return wm_piece_is_active(&snapshot->piece[i]) &&
           (w->history == NULL || wm_snapshot_origin(snapshot, i) != NULL);
}

/* Sums over the blocks of a segment are written before them. */
static void begin_viz_segment(writer *w, const wm_snapshot *snapshot,
                              size_t segment)
{
    const wm_piece *piece = &snapshot->piece[segment];
    size_t allocated = 0, active = 0, requested = 0;
    uint64_t lane_id = 0; /* of a block with a stream */

    for (size_t i = segment + 1; i < snapshot->count; i++) {
        const wm_piece *block = &snapshot->piece[i];

        if (wm_piece_is_segment(block)) {
            break;
        }
        if (is_active(w, snapshot, i)) {
            active += block->bytes;
            requested += block->requested;
            allocated += block->state == WM_BLOCK_LIVE ? block->bytes : 0;
        }
        lane_id = block->lane_id != 0 ? block->lane_id : lane_id;
    }
    wm_text_put(w->text,
                "{\"device\":%" PRIu64 ",\"address\":%" PRIuPTR
                ",\"total_size\":%zu,\"allocated_size\":%zu"
                ",\"active_size\":%zu,\"requested_size\":%zu"
                ",\"stream\":%" PRIu64
                ",\"segment_type\":\"%s\",\"segment_pool_id\":[0,%" PRIu64
                "],\"is_expandable\":%s,\"frames\":[]",
                snapshot->place, (uintptr_t)piece->base, piece->bytes,
                allocated, active, requested, lane_id,
                piece->small ? "small" : "large", snapshot->pool,
                piece->expandable ? "true" : "false");
}

static void put_viz_block(writer *w, const wm_snapshot *snapshot, size_t i)
{
    const wm_piece *piece = &snapshot->piece[i];
    const char *state = !is_active(w, snapshot, i)      ? "inactive"
                        : piece->state == WM_BLOCK_LIVE ? "active_allocated"
                                                        : "active_pending_free";

    wm_text_put(w->text,
                "{\"address\":%" PRIuPTR
                ",\"size\":%zu,\"requested_size\":%zu,\"state\":\"%s\"",
                (uintptr_t)piece->base, piece->bytes, piece->requested, state);
    put_viz_frames(w,
                   w->history != NULL ? wm_snapshot_origin(snapshot, i) : NULL);
    wm_text_put(w->text, "}");
}

static void put_viz_event(writer *w, uint64_t number,
                          const wm_history_event *event)
{
    (void)number;
    wm_text_put(w->text,
                "{\"action\":\"%s\",\"%s\":%" PRIu64 ",\"size\":%" PRIu64
                ",\"stream\":%" PRIu64 ",\"time_us\":%" PRIu64,
                wm_history_action(event),
                event->op == WM_HISTORY_OUT_OF_MEMORY ? "device_free" : "addr",
                event->address, event->bytes, event->lane_id,
                event->origin.ns / 1000);
    put_viz_frames(w, &event->origin);
    wm_text_put(w->text, "}");
}

static const struct layout viz_layout = {begin_viz_segment, put_viz_block,
                                         put_viz_event};

static void put_viz(writer *w)
{
    wm_text_put(w->text, "{");
    put_segments(w, w->set->from, w->set->to);
    wm_text_put(w->text, ",\"device_traces\":[");
    for (uint64_t place = w->set->from; place < w->set->to; place++) {
        wm_text_put(w->text, "%s", place > w->set->from ? "," : "");
        put_events(w, w->set->whole, place, place + 1);
    }
    wm_text_put(w->text,
                "],\"allocator_settings\":{},\"external_annotations\":[]}");
}

/* ---- the calls ----------------------------------------------------------- */

/* Appends the snapshot of the places from ≤ place < to. */
static warm_status put_places(warm_runtime *runtime, uint64_t from, uint64_t to,
                              const struct layout *layout,
                              void (*put)(writer *w), wm_text *text)
{
    wm_snapshot_set set;
    writer w = {.text = text,
                .runtime = runtime,
                .history = runtime->history,
                .set = &set,
                .layout = layout};
    warm_status status = wm_snapshot_set_take(runtime, from, to, &set);

    if (status == WARM_OK) {
        put(&w);
        wm_snapshot_set_end(&set);
    }
    return status;
}

warm_status wm_snapshot_put_device(warm_runtime *runtime, const void *what,
                                   wm_text *text)
{
    int device = *(const int *)what;
    warm_status status = wm_runtime_check_device(runtime, device);
    uint64_t place = (uint64_t)device;

    return status == WARM_OK ? put_places(runtime, place, place + 1,
                                          &own_layout, put_device, text)
                             : status;
}

warm_status wm_snapshot_put_pinned(warm_runtime *runtime, const void *what,
                                   wm_text *text)
{
    (void)what;
    return put_places(runtime, (uint64_t)runtime->devices,
                      pageable_place(runtime) + 1, &own_layout, put_pinned,
                      text);
}

warm_status wm_snapshot_put_shared(warm_runtime *runtime, const void *what,
                                   wm_text *text)
{
    (void)what;
    return put_places(runtime, wm_shared_place(runtime, 0),
                      wm_shared_place(runtime, runtime->devices), &own_layout,
                      put_shared, text);
}

warm_status wm_snapshot_put_viz(warm_runtime *runtime, const void *what,
                                wm_text *text)
{
    (void)what;
    return put_places(runtime, 0, wm_shared_place(runtime, runtime->devices),
                      &viz_layout, put_viz, text);
}

warm_status warm_device_snapshot(warm_runtime *runtime, int device, char *text,
                                 size_t bytes, size_t *needed)
{
    return wm_text_call(runtime, wm_snapshot_put_device, &device, text, bytes,
                        needed);
}

warm_status warm_pinned_snapshot(warm_runtime *runtime, char *text,
                                 size_t bytes, size_t *needed)
{
    return wm_text_call(runtime, wm_snapshot_put_pinned, NULL, text, bytes,
                        needed);
}

warm_status warm_shared_snapshot(warm_runtime *runtime, char *text,
                                 size_t bytes, size_t *needed)
{
    return wm_text_call(runtime, wm_snapshot_put_shared, NULL, text, bytes,
                        needed);
}

warm_status warm_snapshot_viz(warm_runtime *runtime, char *text, size_t bytes,
                              size_t *needed)
{
    return wm_text_call(runtime, wm_snapshot_put_viz, NULL, text, bytes,
                        needed);
}
