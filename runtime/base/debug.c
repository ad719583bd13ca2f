/* debug.c: notes of freed memory (debug.h). Takes lock debug, and allocates
 * under it; memory is filled and compared without it. */
#include "runtime/base/debug.h"

#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <search.h>
#include <string.h>

/* ---- notes by address ---------------------------------------------------- */

/* Notes that overlap are equal: a search finds a note that overlaps the key. */
static int compare(const void *one, const void *other)
{
    const wm_freed *a = one, *b = other;

    if ((uintptr_t)a->base + a->bytes <= (uintptr_t)b->base) {
        return -1;
    }
    return (uintptr_t)b->base + b->bytes <= (uintptr_t)a->base;
}

/* A note that overlaps the bytes, or null. */
static wm_freed *find_locked(const wm_debug *debug, const char *base,
                             size_t bytes)
{
    wm_freed key = {.bytes = bytes};
    wm_freed *const *found;

    memcpy(&key.base, &base, sizeof base);
    found = tfind(&key, &debug->notes, compare);
    return found != NULL ? *found : NULL;
}

static size_t size_of_note(const wm_debug *debug)
{
    return sizeof(wm_freed) + 2 * wm_history_origin_bytes(debug->history);
}

static void add_locked(wm_debug *debug, wm_freed *note)
{
    wm_freed **found = tsearch(note, &debug->notes, compare);

    if (found == NULL || *found != note) {
        wm_meta_free(note);
    }
}

/* A note of the bytes of `of` from base to end, if there are any. */
static void add_rest_locked(wm_debug *debug, const wm_freed *of, char *base,
                            const char *end)
{
    wm_freed *rest;

    if (base >= end) {
        return;
    }
    rest = wm_meta_alloc(size_of_note(debug));
    if (rest != NULL) {
        memcpy(rest, of, size_of_note(debug));
        rest->base = base;
        rest->bytes = (size_t)(end - base);
        add_locked(debug, rest);
    }
}

void wm_debug_note(wm_debug *debug, char *base, size_t bytes, size_t requested,
                   const wm_origin *allocated, const wm_origin *freed)
{
    size_t origin_bytes = wm_history_origin_bytes(debug->history);
    wm_freed *note = wm_meta_alloc(size_of_note(debug));

    if (note == NULL) {
        return;
    }
    *note = (wm_freed){
        .base = base, .bytes = bytes, .block = base, .requested = requested};
    memcpy(note->origins, allocated, origin_bytes);
    memcpy(note->origins + origin_bytes, freed, origin_bytes);
    wm_lock_acquire(&debug->lock);
    add_locked(debug, note);
    wm_lock_release(&debug->lock);
}

void wm_debug_fill(wm_debug *debug, const char *base)
{
    wm_freed *note;
    bool own;

    wm_lock_acquire(&debug->lock);
    note = find_locked(debug, base, 1);
    /* A note that is filled is of an earlier free, and any thread may take it.
     */
    own = note != NULL && note->base == base && !note->filled;
    wm_lock_release(&debug->lock);
    /* Until the block is idle no other thread takes its note. */
    if (own) {
        wm_checker_allow(&debug->checker, note->base, note->bytes);
        memset(note->base, WM_FILL_BYTE, note->bytes);
        wm_checker_forbid(&debug->checker, note->base, note->bytes);
        note->filled = true;
    }
}

/* The parts of notes in the bytes, chained; what lies outside stays noted. */
static wm_freed *take_locked(wm_debug *debug, char *base, size_t bytes)
{
    wm_freed *taken = NULL, *note;

    while ((note = find_locked(debug, base, bytes)) != NULL) {
        char *end = note->base + note->bytes;

        (void)tdelete(note, &debug->notes, compare);
        add_rest_locked(debug, note, note->base, base);
        add_rest_locked(debug, note, base + bytes, end);
        note->base = note->base > base ? note->base : base;
        end = end < base + bytes ? end : base + bytes;
        note->bytes = (size_t)(end - note->base);
        note->next = taken;
        taken = note;
    }
    return taken;
}

wm_freed *wm_debug_take(wm_debug *debug, char *base, size_t bytes)
{
    wm_freed *note, *next, *changed = NULL;

    wm_lock_acquire(&debug->lock);
    note = take_locked(debug, base, bytes);
    wm_lock_release(&debug->lock);
    wm_checker_allow(&debug->checker, base, bytes);
    for (; note != NULL; note = next) {
        next = note->next;
        if (note->filled) {
            note->change =
                wm_debug_compare(note->base, note->bytes, WM_FILL_BYTE);
        }
        if (note->change.at != NULL) {
            note->next = changed;
            changed = note;
        } else {
            wm_meta_free(note);
        }
    }
    return changed;
}

/* ---- changes ------------------------------------------------------------- */

wm_change wm_debug_compare(const char *at, size_t bytes, unsigned char value)
{
    wm_change change = {.at = NULL};
    const char *end = at + bytes;

    /* The usual case at the speed of memcmp(): all bytes equal the first. */
    if (bytes == 0 ||
        ((unsigned char)at[0] == value && memcmp(at, at + 1, bytes - 1) == 0)) {
        return change;
    }
    for (; at < end; at++) {
        if ((unsigned char)*at != value) {
            change.at = change.at != NULL ? change.at : at;
            change.count++;
        }
    }
    while (change.at != NULL && change.shown < WM_CHANGE_SHOWN &&
           change.at + change.shown < end) {
        change.first[change.shown] = (unsigned char)change.at[change.shown];
        change.shown++;
    }
    return change;
}

void wm_debug_store(wm_debug *debug, wm_freed *notes)
{
    wm_lock_acquire(&debug->lock);
    while (notes != NULL) {
        wm_freed *next = notes->next;

        notes->next = debug->unlogged;
        debug->unlogged = notes;
        notes = next;
    }
    wm_lock_release(&debug->lock);
}

wm_freed *wm_debug_stored(wm_debug *debug)
{
    wm_freed *notes;

    wm_lock_acquire(&debug->lock);
    notes = debug->unlogged;
    debug->unlogged = NULL;
    wm_lock_release(&debug->lock);
    return notes;
}

/* ---- begin and end ------------------------------------------------------- */

warm_status wm_debug_open(const wm_options *options, const wm_history *history,
                          wm_debug **debug)
{
    wm_debug *made;

    *debug = NULL;
    if (!wm_options_any(options->debug)) {
        return WARM_OK;
    }
    made = wm_meta_alloc(sizeof *made);
    if (made == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for option debug");
    }
    made->guard = wm_options_has(options->debug, "guard");
    made->fill = wm_options_has(options->debug, "fill");
    made->leaks = wm_options_has(options->debug, "leaks");
    made->history = history;
    wm_checker_open(&made->checker);
    wm_lock_init(&made->lock, WM_RANK_DEBUG);
    *debug = made;
    return WARM_OK;
}

void wm_debug_close(wm_debug *debug)
{
    wm_freed *note;

    if (debug == NULL) {
        return;
    }
    while ((note = wm_debug_stored(debug)) != NULL) {
        for (wm_freed *next; note != NULL; note = next) {
            next = note->next;
            wm_meta_free(note);
        }
    }
    /* A key that overlaps every note finds one after the other. */
    while ((note = find_locked(debug, NULL, SIZE_MAX)) != NULL) {
        (void)tdelete(note, &debug->notes, compare);
        wm_checker_allow(&debug->checker, note->base, note->bytes);
        wm_meta_free(note);
    }
    wm_meta_free(debug);
}
