/* viz.c: PyTorch's layout (viz.h). Takes no lock. */
#include "alloc/snapshot/viz.h"

#include "alloc/snapshot/frames.h"

#include <inttypes.h>

/* ---- frames---------------------------------------------------------------
 */

static void put_frame(wm_text *text, const char *separator, const char *name,
                      uint64_t offset, const char *file)
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

static void put_frames(wm_text *text, const wm_history *history,
                       const wm_origin *origin)
{
    const char *separator = "";
    wm_frame frame;

    wm_text_put(text, ",\"frames\":[");
    if (origin != NULL && origin->tag[0] != '\0') {
        put_frame(text, "", origin->tag, 0, "tag");
        separator = ",";
    }
    for (unsigned i = 0;
         origin != NULL && wm_frame_get(history, origin, i, &frame); i++) {
        put_frame(text, separator, frame.function, frame.offset, frame.object);
        separator = ",";
    }
    wm_text_put(text, "]");
}

/* ---- segments and
 * blocks------------------------------------------------------
 */

/* Whether the events count the block as active. A block that is being allocated
 * has no alloc event yet, and one being freed already has its free_completed:
 * both events set or clear the origin under lock arena. */
static bool is_active(const wm_history *history, const wm_snapshot *snapshot,
                      size_t i)
{
    return wm_piece_is_active(&snapshot->piece[i]) &&
           (history == NULL || wm_snapshot_origin(snapshot, i) != NULL);
}

static const char *state_of(const wm_history *history,
                            const wm_snapshot *snapshot, size_t i)
{
    if (!is_active(history, snapshot, i)) {
        return "inactive";
    }
    return snapshot->piece[i].state == WM_BLOCK_LIVE ? "active_allocated"
                                                     : "active_pending_free";
}

/* Sums over the blocks of a segment, written before them. */
struct sums {
    size_t allocated, active, requested;
    uint64_t lane_id; /* of a block with a stream */
};

static struct sums sum_up(const wm_history *history,
                          const wm_snapshot *snapshot, size_t segment)
{
    struct sums sums = {0, 0, 0, 0};

    for (size_t i = segment + 1; i < snapshot->count; i++) {
        const wm_piece *piece = &snapshot->piece[i];

        if (wm_piece_is_segment(piece)) {
            break;
        }
        if (is_active(history, snapshot, i)) {
            sums.active += piece->bytes;
            sums.requested += piece->requested;
            sums.allocated += piece->state == WM_BLOCK_LIVE ? piece->bytes : 0;
        }
        sums.lane_id = piece->lane_id != 0 ? piece->lane_id : sums.lane_id;
    }
    return sums;
}

static void put_segment(wm_text *text, const wm_history *history,
                        const wm_snapshot *snapshot, size_t i)
{
    const wm_piece *piece = &snapshot->piece[i];
    struct sums sums = sum_up(history, snapshot, i);

    wm_text_put(text,
                "{\"device\":%" PRIu64 ",\"address\":%" PRIuPTR
                ",\"total_size\":%zu,\"allocated_size\":%zu"
                ",\"active_size\":%zu,\"requested_size\":%zu"
                ",\"stream\":%" PRIu64
                ",\"segment_type\":\"%s\",\"segment_pool_id\":[0,%" PRIu64
                "],\"is_expandable\":%s,\"frames\":[],\"blocks\":[",
                snapshot->place, (uintptr_t)piece->base, piece->bytes,
                sums.allocated, sums.active, sums.requested, sums.lane_id,
                piece->small ? "small" : "large", snapshot->pool,
                piece->expandable ? "true" : "false");
}

static void put_block(wm_text *text, const wm_history *history,
                      const wm_snapshot *snapshot, size_t i)
{
    const wm_piece *piece = &snapshot->piece[i];

    wm_text_put(text,
                "{\"address\":%" PRIuPTR
                ",\"size\":%zu,\"requested_size\":%zu,\"state\":\"%s\"",
                (uintptr_t)piece->base, piece->bytes, piece->requested,
                state_of(history, snapshot, i));
    put_frames(text, history,
               history != NULL ? wm_snapshot_origin(snapshot, i) : NULL);
    wm_text_put(text, "}");
}

static void put_pieces(wm_text *text, const wm_history *history,
                       const wm_snapshot *snapshot, const char **between)
{
    const char *separator = "";

    for (size_t i = 0; i < snapshot->count; i++) {
        if (wm_piece_is_segment(&snapshot->piece[i])) {
            wm_text_put(text, "%s", i > 0 ? "]}," : *between);
            put_segment(text, history, snapshot, i);
            separator = "";
        } else {
            wm_text_put(text, "%s", separator);
            put_block(text, history, snapshot, i);
            separator = ",";
        }
    }
    if (snapshot->count > 0) {
        wm_text_put(text, "]}");
        *between = ",";
    }
}

/* ---- events------------------------------------------------------
 */

static void put_event(wm_text *text, const wm_history *history,
                      const wm_history_event *event)
{
    wm_text_put(text,
                "{\"action\":\"%s\",\"%s\":%" PRIu64 ",\"size\":%" PRIu64
                ",\"stream\":%" PRIu64 ",\"time_us\":%" PRIu64,
                wm_history_action(event),
                event->op == WM_HISTORY_OUT_OF_MEMORY ? "device_free" : "addr",
                event->address, event->bytes, event->lane_id,
                event->origin.ns / 1000);
    put_frames(text, history, &event->origin);
    wm_text_put(text, "}");
}

static void put_trace(wm_text *text, const wm_history *history,
                      const wm_snapshot_set *set, uint64_t place)
{
    const char *separator = "";

    wm_text_put(text, "[");
    for (size_t i = set->whole; i < set->events; i++) {
        uint64_t number = 0;
        const wm_history_event *event = wm_snapshot_set_event(set, i, &number);

        if (event->place == place) {
            wm_text_put(text, "%s", separator);
            put_event(text, history, event);
            separator = ",";
        }
    }
    wm_text_put(text, "]");
}

void wm_viz_put(wm_text *text, const warm_runtime *runtime,
                const wm_snapshot_set *set)
{
    const char *separator = "";

    wm_text_put(text, "{\"segments\":[");
    for (size_t i = 0; i < set->count; i++) {
        put_pieces(text, runtime->history, &set->all[i], &separator);
    }
    wm_text_put(text, "],\"device_traces\":[");
    for (uint64_t place = set->from; place < set->to; place++) {
        wm_text_put(text, "%s", place > set->from ? "," : "");
        put_trace(text, runtime->history, set, place);
    }
    wm_text_put(text,
                "],\"allocator_settings\":{},\"external_annotations\":[]}");
}
