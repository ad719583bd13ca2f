/* snapshot_text.c: snapshots as JSON (warmpool/snapshot.h). Takes no lock of
 * its own. */
#include "alloc/snapshot/frames.h"
#include "alloc/snapshot/snapshot_set.h"
#include "alloc/stream/timeline.h"
#include "alloc/snapshot/viz.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

#include <inttypes.h>

static const char *const state_names[] = {
    [WM_BLOCK_IDLE] = "idle",         [WM_BLOCK_LIVE] = "live",
    [WM_BLOCK_PENDING] = "pending",   [WM_BLOCK_LOST] = "lost",
    [WM_BLOCK_CAPTURED] = "captured", [WM_BLOCK_CACHED] = "magazine"};

/* ---- blocks and segments ------------------------------------------------- */

static void put_stream(wm_text *text, uint64_t lane_id)
{
    if (lane_id != 0) {
        wm_text_put(text, ",\"stream\":%" PRIu64,
                    wm_timeline_stream_id(lane_id));
    } else {
        wm_text_put(text, ",\"stream\":null");
    }
}

/* The clock of another thread may be slightly behind: not below 0. */
static uint64_t age(uint64_t now, uint64_t then)
{
    return now > then ? now - then : 0;
}

static void put_origin(wm_text *text, const wm_history *history,
                       const wm_origin *origin, uint64_t now)
{
    wm_text_put(text, ",\"age_ns\":%" PRIu64 ",\"thread\":%" PRIu64,
                age(now, origin->ns), origin->thread);
    wm_frames_put(text, history, origin);
}

static void put_block(wm_text *text, const wm_history *history,
                      const wm_snapshot *snapshot, size_t i)
{
    const wm_piece *piece = &snapshot->piece[i];
    const wm_origin *origin = wm_snapshot_origin(snapshot, i);

    wm_text_put(text, "{\"address\":\"%p\",\"bytes\":%zu,\"state\":\"%s\"",
                (const void *)piece->base, piece->bytes,
                piece->depot ? "depot" : state_names[piece->state]);
    if (piece->state == WM_BLOCK_LIVE) {
        wm_text_put(text, ",\"requested\":%zu", piece->requested);
    }
    put_stream(text, piece->lane_id);
    wm_text_put(text, ",\"pool\":%" PRIu64, snapshot->pool);
    if (origin != NULL) {
        put_origin(text, history, origin, snapshot->now_ns);
    }
    wm_text_put(text, "}");
}

static void put_segment(wm_text *text, const wm_piece *piece, uint64_t now)
{
    wm_text_put(text,
                "{\"address\":\"%p\",\"bytes\":%zu,\"small\":%s,"
                "\"age_ns\":%" PRIu64 ",\"idle_ns\":",
                (const void *)piece->base, piece->bytes,
                piece->small ? "true" : "false", age(now, piece->made_ns));
    if (piece->idle_since_ns != 0) {
        wm_text_put(text, "%" PRIu64, age(now, piece->idle_since_ns));
    } else {
        wm_text_put(text, "null");
    }
    wm_text_put(text, ",\"blocks\":[");
}

static void put_pieces(wm_text *text, const wm_history *history,
                       const wm_snapshot *snapshot)
{
    const char *separator = "";

    for (size_t i = 0; i < snapshot->count; i++) {
        if (wm_piece_is_segment(&snapshot->piece[i])) {
            wm_text_put(text, "%s", i > 0 ? "]}," : "");
            put_segment(text, &snapshot->piece[i], snapshot->now_ns);
            separator = "";
        } else {
            wm_text_put(text, "%s", separator);
            put_block(text, history, snapshot, i);
            separator = ",";
        }
    }
    wm_text_put(text, "]}");
}

/* The arenas of a place. */
static void put_segments(wm_text *text, const wm_history *history,
                         const wm_snapshot_set *set, uint64_t place)
{
    const char *separator = "";

    wm_text_put(text, "\"segments\":[");
    for (size_t i = 0; i < set->count; i++) {
        if (set->all[i].place == place && set->all[i].count > 0) {
            wm_text_put(text, "%s", separator);
            put_pieces(text, history, &set->all[i]);
            separator = ",";
        }
    }
    wm_text_put(text, "]");
}

/* ---- events -------------------------------------------------------------- */

static uint64_t pageable_place(const warm_runtime *runtime)
{
    return (uint64_t)runtime->devices + (uint64_t)runtime->driver->numa.nodes;
}

static void put_place(wm_text *text, const warm_runtime *runtime,
                      uint64_t place)
{
    uint64_t first = (uint64_t)runtime->devices;

    if (place == pageable_place(runtime)) {
        wm_text_put(text, ",\"pageable\":true");
    } else if (place >= first) {
        wm_text_put(text, ",\"node\":%" PRIu64, place - first);
    }
}

static void put_event(wm_text *text, const warm_runtime *runtime,
                      uint64_t number, const wm_history_event *event)
{
    wm_text_put(text,
                "{\"number\":%" PRIu64 ",\"action\":\"%s\",\"ns\":%" PRIu64
                ",\"thread\":%" PRIu64,
                number, wm_history_action(event), event->origin.ns,
                event->origin.thread);
    put_place(text, runtime, event->place);
    if (event->op == WM_HISTORY_OUT_OF_MEMORY) {
        wm_text_put(text, ",\"free\":%" PRIu64, event->address);
    } else {
        wm_text_put(text, ",\"address\":\"0x%" PRIx64 "\"", event->address);
    }
    wm_text_put(text, ",\"bytes\":%" PRIu64, event->bytes);
    put_stream(text, event->lane_id);
    wm_text_put(text, ",\"pool\":%" PRIu64, event->pool);
    wm_frames_put(text, runtime->history, &event->origin);
    wm_text_put(text, "}");
}

static void put_history(wm_text *text, const warm_runtime *runtime,
                        const wm_snapshot_set *set)
{
    if (runtime->history == NULL) {
        return;
    }
    wm_text_put(text,
                ",\"history\":{\"next\":%" PRIu64 ",\"dropped\":%" PRIu64
                ",\"events\":[",
                set->next, wm_history_dropped(runtime->history));
    for (size_t i = 0; i < set->events; i++) {
        uint64_t number = 0;
        const wm_history_event *event = wm_snapshot_set_event(set, i, &number);

        wm_text_put(text, "%s", i > 0 ? "," : "");
        put_event(text, runtime, number, event);
    }
    wm_text_put(text, "]}");
}

/* ---- all of it ------------------------------------------------------------
 */

static void put_device(wm_text *text, const warm_runtime *runtime,
                       const wm_snapshot_set *set)
{
    wm_text_put(text, "{\"device\":%" PRIu64 ",\"ns\":%" PRIu64 ",", set->from,
                set->now_ns);
    put_segments(text, runtime->history, set, set->from);
    put_history(text, runtime, set);
    wm_text_put(text, "}");
}

static void put_pinned(wm_text *text, const warm_runtime *runtime,
                       const wm_snapshot_set *set)
{
    const wm_numa *numa = &runtime->driver->numa;
    const char *separator = "";

    wm_text_put(text, "{\"space\":\"pinned\",\"ns\":%" PRIu64 ",\"nodes\":[",
                set->now_ns);
    for (int i = 0; i < numa->nodes; i++) {
        if (wm_numa_usable(numa, i)) {
            wm_text_put(text, "%s{\"node\":%d,", separator, i);
            put_segments(text, runtime->history, set, set->from + (uint64_t)i);
            wm_text_put(text, "}");
            separator = ",";
        }
    }
    wm_text_put(text, "],\"pageable\":{");
    put_segments(text, runtime->history, set, pageable_place(runtime));
    wm_text_put(text, "}");
    put_history(text, runtime, set);
    wm_text_put(text, "}");
}

/* Writes the snapshot of the places from ≤ place < to. */
static warm_status write_text(warm_runtime *runtime, uint64_t from, uint64_t to,
                              void (*put)(wm_text *text,
                                          const warm_runtime *runtime,
                                          const wm_snapshot_set *set),
                              wm_text *out, size_t *needed)
{
    wm_snapshot_set set;
    warm_status status;

    if (out->at == NULL && out->bytes > 0) {
        return wm_fail(WARM_INVALID_ARGUMENT, "text is null");
    }
    status = wm_snapshot_set_take(runtime, from, to, &set);
    if (status == WARM_OK) {
        put(out, runtime, &set);
        wm_snapshot_set_end(&set);
        if (needed != NULL) {
            *needed = out->used + 1;
        }
    }
    return status;
}

warm_status warm_device_snapshot(warm_runtime *runtime, int device, char *text,
                                 size_t bytes, size_t *needed)
{
    wm_text out = {text, bytes, 0};
    warm_status status = wm_runtime_check_device(runtime, device);
    uint64_t place = (uint64_t)device;

    return status != WARM_OK ? status
                             : write_text(runtime, place, place + 1, put_device,
                                          &out, needed);
}

warm_status warm_pinned_snapshot(warm_runtime *runtime, char *text,
                                 size_t bytes, size_t *needed)
{
    wm_text out = {text, bytes, 0};
    warm_status status = wm_runtime_check(runtime);

    return status != WARM_OK ? status
                             : write_text(runtime, (uint64_t)runtime->devices,
                                          pageable_place(runtime) + 1,
                                          put_pinned, &out, needed);
}

warm_status warm_snapshot_viz(warm_runtime *runtime, char *text, size_t bytes,
                              size_t *needed)
{
    wm_text out = {text, bytes, 0};
    warm_status status = wm_runtime_check(runtime);

    return status != WARM_OK
               ? status
               : write_text(runtime, 0, pageable_place(runtime) + 1, wm_viz_put,
                            &out, needed);
}
