/* obtain_piece.c: memory for a part of an expandable segment, piece by piece
 * (expand.h). The driver is called with no lock held: the part is
 * claimed, so no other thread uses it meanwhile (expand.h). */
#include "alloc/space/grow_int.h"

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

static warm_status commit_one(wm_space *space, const wm_expansion *stretch,
                              size_t done, size_t bytes, bool *torn)
{
    wm_segment *segment = stretch->segment;
    char *at = stretch->part->base + done;
    uint64_t start = wm_clock_ns();
    warm_status status = space->traits->ranges->commit(
        space, segment->base, (size_t)(at - segment->base), bytes, torn);

    wm_arena_count_driver(segment->arena, false, wm_clock_ns() - start);
    if (status == WARM_OK) {
        wm_piece_come(segment, at, bytes);
    }
    return status;
}

/* A growth smaller than a step comes in pieces of this part of what is held: a
 * live block keeps no more than its piece from being returned. With the whole
 * growth as one piece device-tmix holds 6 % more, device-tsrv with streams that
 * lag 9 %; with a 64th 3 %; with a 128th as with single units (means of eight
 * seeds). */
enum { PIECE_PARTS = 128 };

/* Bytes of the next piece, if missing bytes remain. most: of a step. */
static size_t piece_of(size_t missing, size_t most, size_t part)
{
    if (missing >= most) {
        return most;
    }
    return missing < part ? missing : part;
}

static size_t whole_units(size_t bytes, size_t unit)
{
    return bytes > unit ? bytes / unit * unit : unit;
}

/* Commits what the request needs first, so that its pieces hold no other block.
 * If the driver refuses, half as much is requested; a refusal of a single unit
 * ends it. *done: bytes committed. */
static warm_status commit_all(wm_space *space, const wm_expansion *stretch,
                              size_t *done, bool *torn)
{
    size_t unit = stretch->segment->unit;
    size_t most = whole_units(WM_PIECE_MAX, unit);
    size_t held = wm_growth_held_beside(stretch->segment->arena);
    size_t part = whole_units((held + stretch->bytes) / PIECE_PARTS, unit);
    warm_status status = WARM_OK;

    *done = 0;
    while (*done < stretch->bytes) {
        size_t end = *done < stretch->first ? stretch->first : stretch->bytes;
        size_t bytes = piece_of(end - *done, most, part);

        status = commit_one(space, stretch, *done, bytes, torn);
        if (status == WARM_OK) {
            *done += bytes;
        } else if (status == WARM_OUT_OF_MEMORY && !*torn && bytes > unit) {
            most = whole_units(bytes / 2, unit);
        } else {
            break;
        }
    }
    return status;
}

bool wm_growth_uncommit(wm_space *space, const wm_expansion *stretch,
                        size_t bytes)
{
    wm_segment *segment = stretch->segment;
    char *at = stretch->part->base, *end = at + bytes;
    wm_breaking breaking;

    if (bytes == 0 || !wm_space_begin_break(space, &breaking)) {
        return bytes == 0;
    }
    while (at < end) {
        size_t piece = wm_piece_from(segment, at);

        if (wm_growth_driver_free(space, segment->arena, segment, at, piece) !=
            WARM_OK) {
            break;
        }
        wm_piece_go(segment, at, piece);
        at += piece;
    }
    wm_space_end_break(space, &breaking);
    return at == end;
}

warm_status wm_growth_commit(wm_space *space, const wm_expansion *stretch,
                             bool *torn)
{
    warm_error cause = {.size = sizeof cause};
    size_t done;
    warm_status status = commit_all(space, stretch, &done, torn);

    if (status != WARM_OK) {
        warm_last_error(&cause);
        *torn |= !wm_growth_uncommit(space, stretch, done);
        wm_error_restore(&cause);
    }
    return status;
}
