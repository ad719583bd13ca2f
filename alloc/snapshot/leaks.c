/* leaks.c: see leaks.h. Blocks of one memory, tag and call stack, or without
 * call stacks of one size, are one line of the log, the most bytes first. Takes
 * no lock. */
#include "alloc/snapshot/leaks.h"

#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "alloc/kinds/shared.h"
#include "runtime/base/bytes.h"
#include "runtime/base/debug.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_LOGGED = 32 };

typedef struct leak {
    wm_block *block;
} leak;

typedef struct list {
    const warm_runtime *runtime;
    leak *leaks; /* null: they are only counted */
    size_t count, room;
} list;

/* Adjacent blocks of a sorted list. */
typedef struct group {
    const leak *first;
    size_t count, bytes;
} group;

/* ---- what is live -------------------------------------------------------- */

static void add(void *context, wm_block *block)
{
    list *live = context;

    if (live->leaks == NULL) {
        live->count++;
    } else if (live->count <
               live->room) { /* else it is younger than the list */
        live->leaks[live->count++].block = block;
    }
}

static void add_space(list *live, wm_space *space)
{
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        if (!a->lent) { /* the program's own memory is no leak */
            wm_arena_each_live(a, add, live);
        }
    }
}

static void add_all(list *live)
{
    const warm_runtime *runtime = live->runtime;

    live->count = 0;
    add_space(live, &runtime->pinned->space);
    add_space(live, &runtime->pinned->pageable);
    add_space(live, &runtime->pinned->combined);
    add_space(live, &runtime->pinned->adopted.space);
    for (int i = 0; i < runtime->devices; i++) {
        add_space(live, &runtime->device_spaces[i].space);
        for (int kind = 0; kind < WM_SHARED_KINDS; kind++) {
            add_space(live, &runtime->shared->spaces[i][kind].space);
        }
    }
}

/* ---- groups -------------------------------------------------------------- */

static int compare_numbers(uintptr_t one, uintptr_t other)
{
    return (one > other) - (one < other);
}

/* By memory, tag and call stack; without call stacks by size. */
static int compare_blocks(const wm_history *history, const wm_block *one,
                          const wm_block *other)
{
    size_t frames = wm_history_frames(history) * sizeof(uint64_t);
    int order = compare_numbers((uintptr_t)one->segment->arena->group,
                                (uintptr_t)other->segment->arena->group);

    if (order == 0) {
        order = strcmp(one->origin->tag, other->origin->tag);
    }
    if (order == 0 && frames > 0) {
        order = memcmp(one->origin->frame, other->origin->frame, frames);
    } else if (order == 0) {
        order = compare_numbers(wm_block_asked(one), wm_block_asked(other));
    }
    return order;
}

static int by_group(const void *one, const void *other, void *history)
{
    return compare_blocks(history, ((const leak *)one)->block,
                          ((const leak *)other)->block);
}

static int by_bytes(const void *one, const void *other)
{
    return compare_numbers(((const group *)other)->bytes,
                           ((const group *)one)->bytes);
}

/* Sorts the list and cuts it into groups, of which there is room for as many as
 * blocks. Returns how many there are. */
static size_t cut(list *live, group *groups)
{
    wm_history *history = live->runtime->history;
    size_t count = 0;

    qsort_r(live->leaks, live->count, sizeof *live->leaks, by_group, history);
    for (size_t i = 0; i < live->count; i++) {
        wm_block *block = live->leaks[i].block;

        if (i == 0 ||
            compare_blocks(history, live->leaks[i - 1].block, block) != 0) {
            groups[count++] = (group){.first = &live->leaks[i]};
        }
        groups[count - 1].count++;
        groups[count - 1].bytes += wm_block_asked(block);
    }
    qsort(groups, count, sizeof *groups, by_bytes);
    return count;
}

/* ---- the log ------------------------------------------------------------- */

static void log_group(const wm_history *history, const group *g)
{
    wm_block *block = g->first->block;
    const wm_space *space = wm_space_of(block);
    char line[512], device[32] = "";
    wm_text text = {line, sizeof line, 0};

    if (wm_device_of_block(block) >= 0) {
        snprintf(device, sizeof device, " of device %d",
                 wm_device_of_block(block));
    }
    wm_text_put(&text,
                "debug:leaks: %s, %s of %s memory%s, as at %p, allocated by ",
                wm_counted(g->count, "block").text, wm_bytes(g->bytes).text,
                space->traits->name, device, (void *)block->base);
    wm_history_describe(history, block->origin, false, &text);
    wm_log(WARM_LOG_WARNING, "%s", line);
}

static void log_groups(const list *live, const group *groups, size_t count)
{
    size_t shown = count < GROUPS_LOGGED ? count : GROUPS_LOGGED;
    group rest = {.count = 0};

    for (size_t i = 0; i < shown; i++) {
        log_group(live->runtime->history, &groups[i]);
    }
    for (size_t i = shown; i < count; i++) {
        rest.count += groups[i].count;
        rest.bytes += groups[i].bytes;
    }
    if (rest.count > 0) {
        wm_log(WARM_LOG_WARNING, "debug:leaks: and %s, %s, in %s",
               wm_counted(rest.count, "block").text, wm_bytes(rest.bytes).text,
               wm_counted(count - shown, "smaller group").text);
    }
}

void wm_leaks_log(warm_runtime *runtime)
{
    list live = {.runtime = runtime};
    group *groups;

    if (runtime->debug == NULL || !runtime->debug->leaks) {
        return;
    }
    add_all(&live); /* counts */
    if (live.count == 0) {
        return;
    }
    live.room = live.count;
    live.leaks = wm_meta_alloc(live.count * sizeof *live.leaks);
    groups = wm_meta_alloc(live.count * sizeof *groups);
    if (live.leaks != NULL && groups != NULL) {
        add_all(&live);
        log_groups(&live, groups, cut(&live, groups));
    } else {
        wm_log(WARM_LOG_WARNING, "debug:leaks: %s, and no memory to say which",
               wm_counted(live.count, "live block").text);
    }
    wm_meta_free(groups);
    wm_meta_free(live.leaks);
}
