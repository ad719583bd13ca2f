/* wt_viz.h: checks the JSON of warm_snapshot_viz() as PyTorch's memory
 * visualiser reads it: starts with the segments and blocks of the snapshot and
 * undoes the events, the last one first. Every step must be possible. Asserts
 * nothing, so threads may call it. */
#ifndef WT_VIZ_H
#define WT_VIZ_H

#include "wt_json.h"

enum { WT_VIZ_PIECES = 8192 };

typedef struct wt_viz_piece {
    uint64_t address, bytes;
    bool freed; /* a block: its free was requested */
} wt_viz_piece;

typedef struct wt_viz_pieces {
    wt_viz_piece piece[WT_VIZ_PIECES];
    size_t count;
} wt_viz_pieces;

typedef struct wt_viz {
    wt_viz_pieces segments, blocks;
    size_t events;
    char wrong[256]; /* the first contradiction, or "" */
} wt_viz;

static inline bool wt_viz_wrong(wt_viz *viz, const char *what, const json_t *at)
{
    char *text = json_dumps(at, JSON_COMPACT);

    snprintf(viz->wrong, sizeof viz->wrong, "%s: %.160s", what,
             text != NULL ? text : "nothing");
    free(text);
    return false;
}

static inline wt_viz_piece *wt_viz_find(wt_viz_pieces *pieces, uint64_t address)
{
    for (size_t i = 0; i < pieces->count; i++) {
        if (pieces->piece[i].address == address) {
            return &pieces->piece[i];
        }
    }
    return NULL;
}

/* Adds a piece. False: it overlaps another one, or there is no room. */
static inline bool wt_viz_add(wt_viz_pieces *pieces, uint64_t address,
                              uint64_t bytes, bool freed)
{
    for (size_t i = 0; i < pieces->count; i++) {
        const wt_viz_piece *piece = &pieces->piece[i];

        if (address < piece->address + piece->bytes &&
            piece->address < address + bytes) {
            return false;
        }
    }
    if (pieces->count == WT_VIZ_PIECES) {
        return false;
    }
    pieces->piece[pieces->count++] = (wt_viz_piece){address, bytes, freed};
    return true;
}

static inline bool wt_viz_remove(wt_viz_pieces *pieces, uint64_t address)
{
    wt_viz_piece *piece = wt_viz_find(pieces, address);

    if (piece != NULL) {
        *piece = pieces->piece[--pieces->count];
    }
    return piece != NULL;
}

static inline bool wt_viz_inside(const wt_viz_pieces *segments,
                                 uint64_t address, uint64_t bytes)
{
    for (size_t i = 0; i < segments->count; i++) {
        const wt_viz_piece *s = &segments->piece[i];

        if (address >= s->address && address + bytes <= s->address + s->bytes) {
            return true;
        }
    }
    return false;
}

/* Adds a segment and its blocks. The blocks must fill the segment in order, and
 * their sums must equal the segment's figures.
 */
static inline bool wt_viz_segment(wt_viz *viz, const json_t *segment)
{
    uint64_t at = wt_json_get_number(segment, "address");
    uint64_t end = at + wt_json_get_number(segment, "total_size");
    uint64_t active = 0, allocated = 0, requested = 0;
    const json_t *b;
    size_t i;

    if (!wt_viz_add(&viz->segments, at, end - at, false)) {
        return wt_viz_wrong(viz, "segments overlap", segment);
    }
    json_array_foreach (json_object_get(segment, "blocks"), i, b) {
        uint64_t bytes = wt_json_get_number(b, "size");
        const json_t *state = json_object_get(b, "state");
        bool live = wt_json_is(state, "active_allocated");

        if (wt_json_get_number(b, "address") != at || bytes == 0 ||
            wt_json_get_number(b, "requested_size") > bytes ||
            json_object_get(b, "frames") == NULL) {
            return wt_viz_wrong(viz, "a block", b);
        }
        if (live || wt_json_is(state, "active_pending_free")) {
            (void)wt_viz_add(&viz->blocks, at, bytes, !live);
            requested += wt_json_get_number(b, "requested_size");
            active += bytes;
            allocated += live ? bytes : 0;
        } else if (!wt_json_is(state, "inactive")) {
            return wt_viz_wrong(viz, "a state", b);
        }
        at += bytes;
    }
    if (at != end || active != wt_json_get_number(segment, "active_size") ||
        allocated != wt_json_get_number(segment, "allocated_size") ||
        requested != wt_json_get_number(segment, "requested_size")) {
        return wt_viz_wrong(viz, "sums", segment);
    }
    return true;
}

static inline bool wt_viz_undo(wt_viz *viz, const json_t *event)
{
    const json_t *action = json_object_get(event, "action");
    uint64_t at = wt_json_get_number(event, "addr");
    uint64_t bytes = wt_json_get_number(event, "size");

    if (json_object_get(event, "frames") == NULL ||
        json_object_get(event, "stream") == NULL ||
        wt_json_get_number(event, "time_us") == 0) {
        return false;
    }
    if (wt_json_is(action, "oom")) {
        return json_object_get(event, "device_free") != NULL;
    }
    if (wt_json_is(action, "segment_alloc")) {
        return wt_viz_remove(&viz->segments, at);
    }
    if (wt_json_is(action, "segment_free")) {
        return wt_viz_add(&viz->segments, at, bytes, false);
    }
    if (!wt_viz_inside(&viz->segments, at, bytes)) {
        return false;
    }
    if (wt_json_is(action, "alloc")) {
        return wt_viz_remove(&viz->blocks, at);
    }
    if (wt_json_is(action, "free_requested")) {
        return wt_viz_find(&viz->blocks, at) != NULL;
    }
    return wt_json_is(action, "free_completed") &&
           wt_viz_add(&viz->blocks, at, bytes, true);
}

/* Whether the events of one device fit its blocks; else viz->wrong says why.
 * The pieces left at the end existed before the first event. */
static inline bool wt_viz_check(wt_viz *viz, const json_t *all, size_t device)
{
    const json_t *trace =
        json_array_get(json_object_get(all, "device_traces"), device);
    const json_t *s;
    size_t k;

    memset(viz, 0, sizeof *viz);
    if (trace == NULL) {
        return wt_viz_wrong(viz, "no trace", all);
    }
    json_array_foreach (json_object_get(all, "segments"), k, s) {
        if (wt_json_get_number(s, "device") == device &&
            !wt_viz_segment(viz, s)) {
            return false;
        }
    }
    viz->events = json_array_size(trace);
    for (size_t i = viz->events; i-- > 0;) {
        const json_t *event = json_array_get(trace, i);

        if (!wt_viz_undo(viz, event)) {
            return wt_viz_wrong(viz, "an event", event);
        }
    }
    for (size_t i = 0; i < viz->blocks.count; i++) {
        const wt_viz_piece *block = &viz->blocks.piece[i];

        if (!wt_viz_inside(&viz->segments, block->address, block->bytes)) {
            return wt_viz_wrong(viz, "a block in no segment", all);
        }
    }
    return true;
}

#endif
