/* arena_debug.c: option debug, for blocks: guards, and memory that was written
 * after its free (runtime/base/debug.h). Takes lock arena to count a fault, and
 * logs without a lock. Works on memory that the host may touch
 * (wm_arena_group.debug). */
#include "alloc/arena/group.h"

#include "runtime/base/bytes.h"
#include "runtime/base/debug.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/text.h"

#include <inttypes.h>
#include <string.h>

/* Null if the block's memory is not checked: it is not the host's, or went with
 * the context of a device that was reset. */
static wm_debug *debug_of(const wm_block *block)
{
    const wm_arena_group *group = block->segment->arena->group;

    return group->debug != NULL &&
                   !wm_driver_is_lost(group->runtime->driver, group->device)
               ? group->debug
               : NULL;
}

/* ---- warnings ------------------------------------------------------------ */

static void log_origin(const wm_debug *debug, const void *block,
                       const wm_origin *origin, const char *what)
{
    char line[512];
    wm_text text = {line, sizeof line, 0};

    wm_text_put(&text, "the block at %p was %s by ", block, what);
    wm_history_describe(debug->history, origin, true, &text);
    wm_log(WARM_LOG_WARNING, "%s", line);
}

/* The first bytes of a change, as " 41 42". */
static const char *first_bytes(const wm_change *change, char *text,
                               size_t bytes)
{
    wm_text out = {text, bytes, 0};

    text[0] = '\0';
    for (unsigned i = 0; i < change->shown; i++) {
        wm_text_put(&out, " %02x", change->first[i]);
    }
    return text;
}

static void log_overrun(const wm_debug *debug, const wm_block *block,
                        size_t requested, const wm_change *change)
{
    char bytes[3 * WM_CHANGE_SHOWN + 1];

    WM_KEEP_ERROR(); /* the log callback may fail calls */
    wm_log(WARM_LOG_WARNING,
           "debug:guard: %s behind the end of the block at %p, of %s, were "
           "written, from its byte %" PRIu64 " on:%s; found when it was freed. "
           "Either this block was written past its end, or the block at %p "
           "before its start",
           wm_bytes(change->count).text, (const void *)block->base,
           wm_bytes(requested).text, (uint64_t)(change->at - block->base),
           first_bytes(change, bytes, sizeof bytes),
           (const void *)(block->base + block->bytes));
    log_origin(debug, block->base, block->origin, "allocated");
}

static void log_late(const wm_debug *debug, const wm_freed *note,
                     const char *found)
{
    char bytes[3 * WM_CHANGE_SHOWN + 1];

    wm_log(WARM_LOG_WARNING,
           "debug:fill: %s of the freed block at %p, of %s, were written after "
           "its free, from its byte %" PRIu64 " on:%s; found when the memory "
           "was %s",
           wm_bytes(note->change.count).text, (const void *)note->block,
           wm_bytes(note->requested).text,
           (uint64_t)(note->change.at - note->block),
           first_bytes(&note->change, bytes, sizeof bytes), found);
    log_origin(debug, note->block, wm_freed_origin(debug, note, false),
               "allocated");
    log_origin(debug, note->block, wm_freed_origin(debug, note, true), "freed");
}

static void log_all(const wm_debug *debug, wm_freed *notes, const char *found)
{
    if (notes == NULL) {
        return;
    }
    WM_KEEP_ERROR();
    while (notes != NULL) {
        wm_freed *next = notes->next;

        log_late(debug, notes, found);
        wm_meta_free(notes);
        notes = next;
    }
}

void wm_debug_log_stored(warm_runtime *runtime)
{
    log_all(runtime->debug, wm_debug_stored(runtime->debug),
            "returned to the system");
}

static void count_late(wm_arena *arena, const wm_freed *notes)
{
    for (; notes != NULL; notes = notes->next) {
        wm_arena_count(arena, WM_COUNT_LATE_WRITE);
    }
}

/* ---- the life of a block ------------------------------------------------- */

void wm_debug_alloc(wm_block *block)
{
    wm_debug *debug = debug_of(block);
    size_t requested = wm_block_asked(block);
    wm_freed *late;

    if (debug == NULL) {
        return;
    }
    late = wm_debug_take(debug, block->base, block->bytes);
    if (debug->guard) {
        size_t guard = block->bytes - requested;

        memset(block->base + requested, WM_GUARD_BYTE, guard);
        wm_checker_forbid(&debug->checker, block->base + requested, guard);
    }
    wm_checker_note_alloc(block->base, requested);
    count_late(block->segment->arena, late);
    log_all(debug, late, "allocated again");
    wm_debug_log_stored(block->segment->arena->group->runtime);
}

static void check_guard(wm_debug *debug, const wm_block *block,
                        size_t requested)
{
    const char *guard = block->base + requested;
    size_t bytes = block->bytes - requested;
    wm_change change;

    wm_checker_allow(&debug->checker, guard, bytes);
    change = wm_debug_compare(guard, bytes, WM_GUARD_BYTE);
    if (change.at != NULL) {
        wm_arena_count(block->segment->arena, WM_COUNT_OVERRUN);
        log_overrun(debug, block, requested, &change);
    }
}

void wm_debug_free(wm_block *block, const wm_origin *here)
{
    wm_debug *debug = debug_of(block);
    size_t requested = wm_block_asked(block);

    if (debug == NULL) {
        return;
    }
    wm_checker_note_free(block->base, requested);
    if (debug->guard) {
        check_guard(debug, block, requested);
    }
    if (debug->fill) {
        wm_debug_note(debug, block->base, block->bytes, requested,
                      block->origin, here);
    }
}

void wm_debug_idle(const wm_block *block)
{
    wm_debug *debug = debug_of(block);

    if (debug != NULL && debug->fill) {
        wm_debug_fill(debug, block->base);
    }
}

void wm_debug_leave(wm_arena *arena, char *base, size_t bytes)
{
    wm_debug *debug = arena->group->debug;
    wm_freed *late = wm_debug_take(debug, base, bytes);

    count_late(arena, late);
    wm_debug_store(debug, late);
}
