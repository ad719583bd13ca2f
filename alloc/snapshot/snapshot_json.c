/* snapshot_json.c: a snapshot of all memory as JSON (warmpool/snapshot.h).
 * Takes no lock.
 *
 * The layout is that of PyTorch's memory visualiser, whose devices are our
 * places, with members that it does not read. The visualiser starts from the
 * snapshot's segments and blocks and undoes one event after the other, and
 * fails at an event that does not fit. So replaying the events must produce
 * exactly the snapshot: arena_trace.c records them in that order. Overwritten
 * events are the oldest, and the visualiser does not need them; events older
 * than a dropped one are left out. */
#include "alloc/kinds/shared.h"
#include "alloc/snapshot/snapshot.h"
#include "alloc/stream/timeline.h"

#include <inttypes.h>

typedef struct writer {
    wm_text *text;
    const warm_runtime *runtime;
    const wm_history *history; /* or null */
    const wm_snapshot_set *set;
} writer;

static const char *const state_names[] = {
    [WM_BLOCK_IDLE] = "idle",         [WM_BLOCK_LIVE] = "live",
    [WM_BLOCK_PENDING] = "pending",   [WM_BLOCK_LOST] = "lost",
    [WM_BLOCK_CAPTURED] = "captured", [WM_BLOCK_CACHED] = "magazine"};

/* The driver's id of a stream; 0: none in particular, or the legacy stream. */
static uint64_t stream_of(uint64_t lane_id)
{
    return lane_id != 0 ? wm_timeline_stream_id(lane_id) : 0;
}

/* Not below 0: the clock of another thread may be slightly behind. */
static uint64_t age(uint64_t now, uint64_t then)
{
    return now > then ? now - then : 0;
}

/* ---- frames -------------------------------------------------------------- */

static void put_frame(writer *w, const wm_frame *frame)
{
    wm_text_put(w->text, "{\"name\":");
    if (frame->function != NULL) {
        wm_text_put_string(w->text, frame->function);
    } else {
        wm_text_put(w->text, "\"0x%" PRIx64 "\"", frame->offset);
    }
    wm_text_put(w->text, ",\"filename\":");
    wm_text_put_string(w->text, frame->object != NULL ? frame->object : "??");
    wm_text_put(w->text, ",\"line\":0,\"offset\":\"0x%" PRIx64 "\"}",
                frame->offset);
}

/* The tag comes first. origin: may be null. */
static void put_frames(writer *w, const wm_origin *origin)
{
    const char *separator = "";
    wm_frame frame;

    wm_text_put(w->text, ",\"frames\":[");
    if (origin != NULL && origin->tag[0] != '\0') {
        wm_text_put(w->text, "{\"name\":");
        wm_text_put_string(w->text, origin->tag);
        wm_text_put(w->text, ",\"filename\":\"tag\",\"line\":0}");
        separator = ",";
    }
    for (unsigned i = 0;
         origin != NULL && wm_history_frame(w->history, origin, i, &frame);
         i++) {
        wm_text_put(w->text, "%s", separator);
        put_frame(w, &frame);
        separator = ",";
    }
    wm_text_put(w->text, "]");
}

/* ---- segments and blocks ------------------------------------------------- */

/* Whether the events count the block as active. A block that is being allocated
 * has no alloc event yet, and one being freed already has its free_completed:
 * both events set or clear the origin under lock arena. */
static bool is_active(const writer *w, const wm_snapshot *snapshot, size_t i)
{
    return wm_piece_is_active(&snapshot->piece[i]) &&
           (w->history == NULL || wm_snapshot_origin(snapshot, i) != NULL);
}

static void put_age(writer *w, const wm_snapshot *snapshot, size_t segment)
{
    const wm_piece *piece = &snapshot->piece[segment];

    wm_text_put(w->text, ",\"age_ns\":" WM_TEXT_TIME,
                age(snapshot->now_ns, piece->made_ns));
    if (piece->idle_since_ns != 0) {
        wm_text_put(w->text, ",\"idle_ns\":" WM_TEXT_TIME,
                    age(snapshot->now_ns, piece->idle_since_ns));
    } else {
        wm_text_put(w->text, ",\"idle_ns\":null");
    }
    if (piece->cuts > 0) {
        wm_text_put(w->text, ",\"pieces\":%u", piece->cuts + 1);
    }
}

/* The part before the blocks; their sums are written before them. */
static void begin_segment(writer *w, const wm_snapshot *snapshot,
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
                "],\"is_expandable\":false,\"frames\":[]",
                snapshot->place, (uintptr_t)piece->base, piece->bytes,
                allocated, active, requested, stream_of(lane_id),
                piece->small ? "small" : "large", snapshot->pool);
    put_age(w, snapshot, segment);
}

static void put_block(writer *w, const wm_snapshot *snapshot, size_t i)
{
    const wm_piece *piece = &snapshot->piece[i];
    const wm_origin *origin = wm_snapshot_origin(snapshot, i);
    const char *state = !is_active(w, snapshot, i)      ? "inactive"
                        : piece->state == WM_BLOCK_LIVE ? "active_allocated"
                                                        : "active_pending_free";

    wm_text_put(w->text,
                "{\"address\":%" PRIuPTR
                ",\"size\":%zu,\"requested_size\":%zu,\"state\":\"%s\""
                ",\"exact_state\":\"%s\",\"stream\":%" PRIu64,
                (uintptr_t)piece->base, piece->bytes, piece->requested, state,
                piece->in_transfer_cache ? "transfer_cache"
                                         : state_names[piece->state],
                stream_of(piece->lane_id));
    if (origin != NULL) {
        wm_text_put(w->text, ",\"age_ns\":" WM_TEXT_TIME ",\"thread\":%" PRIu64,
                    age(snapshot->now_ns, origin->ns), origin->thread);
    }
    put_frames(w, origin);
    wm_text_put(w->text, "}");
}

static void put_segments(writer *w)
{
    const char *end = "";       /* closes the previous segment */
    const char *separator = ""; /* between blocks */

    wm_text_put(w->text, "\"segments\":[");
    for (const wm_snapshot *s = w->set->first; s != NULL; s = s->next) {
        for (size_t i = 0; i < s->count; i++) {
            if (wm_piece_is_segment(&s->piece[i])) {
                wm_text_put(w->text, "%s%s", end, *end != '\0' ? "," : "");
                begin_segment(w, s, i);
                wm_text_put(w->text, ",\"blocks\":[");
                end = "]}";
                separator = "";
            } else {
                wm_text_put(w->text, "%s", separator);
                put_block(w, s, i);
                separator = ",";
            }
        }
    }
    wm_text_put(w->text, "%s]", end);
}

/* ---- events -------------------------------------------------------------- */

static void put_event(writer *w, uint64_t number, const wm_history_event *event)
{
    wm_text_put(
        w->text,
        "{\"action\":\"%s\",\"%s\":%" PRIu64 ",\"size\":%" PRIu64
        ",\"stream\":%" PRIu64 ",\"time_us\":%" PRIu64 ",\"number\":%" PRIu64
        ",\"thread\":%" PRIu64 ",\"pool\":%" PRIu64,
        wm_history_action(event),
        event->op == WM_HISTORY_OUT_OF_MEMORY ? "device_free" : "addr",
        event->address, event->bytes, stream_of(event->lane_id),
        event->origin.ns / 1000, number, event->origin.thread, event->pool);
    put_frames(w, &event->origin);
    wm_text_put(w->text, "}");
}

static void put_events(writer *w, uint64_t place)
{
    const char *separator = "";

    wm_text_put(w->text, "[");
    for (size_t i = w->set->whole; i < w->set->events; i++) {
        uint64_t number = 0;
        const wm_history_event *event =
            wm_snapshot_set_event(w->set, i, &number);

        if (event->place == place) {
            wm_text_put(w->text, "%s", separator);
            put_event(w, number, event);
            separator = ",";
        }
    }
    wm_text_put(w->text, "]");
}

/* ---- all ----------------------------------------------------------------- */

static void put_places(writer *w)
{
    static const char *const kind_names[WM_SHARED_KINDS] = {
        [WM_SHARED_PRIVATE] = "Private buffers",
        [WM_SHARED_BOTH] = "Shared buffers",
        [WM_SHARED_SCALARS] = "Scalars"};
    int devices = w->runtime->devices;

    wm_text_put(w->text, ",\"places\":[");
    for (int i = 0; i < devices; i++) {
        wm_text_put(w->text, "\"Device %d\",", i);
    }
    for (int i = 0; i < w->runtime->driver->numa.nodes; i++) {
        wm_text_put(w->text, "\"Pinned, node %d\",", i);
    }
    wm_text_put(w->text, "\"Pageable\"");
    for (int i = 0; i < devices * WM_SHARED_KINDS; i++) {
        wm_text_put(w->text, ",\"%s of device %d\"",
                    kind_names[i % WM_SHARED_KINDS], i / WM_SHARED_KINDS);
    }
    wm_text_put(w->text, "]");
}

static void put_all(writer *w)
{
    uint64_t places = wm_shared_place(w->runtime, w->runtime->devices);

    wm_text_put(w->text, "{");
    put_segments(w);
    wm_text_put(w->text, ",\"device_traces\":[");
    for (uint64_t place = 0; place < places; place++) {
        wm_text_put(w->text, "%s", place > 0 ? "," : "");
        put_events(w, place);
    }
    wm_text_put(w->text,
                "],\"allocator_settings\":{},\"external_annotations\":[]"
                ",\"ns\":" WM_TEXT_TIME,
                w->set->last->now_ns);
    put_places(w);
    if (w->history != NULL) {
        wm_text_put(
            w->text,
            ",\"history\":{\"next\":%" PRIu64 ",\"dropped\":%" PRIu64 "}",
            w->set->last->next_event, wm_history_dropped(w->runtime->history));
    }
    wm_text_put(w->text, "}");
}

warm_status wm_snapshot_put(warm_runtime *runtime, const void *what,
                            wm_text *text)
{
    wm_snapshot_set set;
    writer w = {.text = text,
                .runtime = runtime,
                .history = runtime->history,
                .set = &set};
    warm_status status = wm_snapshot_set_take(runtime, &set);

    (void)what;
    if (status == WARM_OK) {
        put_all(&w);
        wm_snapshot_set_end(&set);
    }
    return status;
}

warm_status warm_snapshot_viz(warm_runtime *runtime, char *text, size_t bytes,
                              size_t *needed)
{
    return wm_text_call(runtime, wm_snapshot_put, NULL, text, bytes, needed);
}
