/* adopt_lock.c: ranges of the program's memory are claimed, kept out of forked
 * children and page-locked, piece by piece, and all of that is undone
 * (adopt.h). Takes the process lock, lock adopted, and calls the driver without
 * a lock. */
#include "alloc/kinds/adopt.h"

#include "alloc/block/page_map.h"
#include "alloc/space/space_int.h"
#include "runtime/base/bytes.h"
#include "runtime/base/hidden.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "warmpool/adopt.h"

#include <errno.h>

/* ---- ranges that are claimed --------------------------------------------- */

static wm_adopt_range *claims; /* lock wm_process_lock; of all runtimes */

/* The page map finds what begins in the range; a segment may also begin before
 * it. */
static bool is_in_segment(const char *address)
{
    const wm_block *block = wm_block_at(address);
    const wm_segment *segment = block != NULL ? block->segment : NULL;

    return segment != NULL &&
           (uintptr_t)address - (uintptr_t)wm_segment_base(segment) <
               atomic_load_explicit(&segment->bytes_seen, memory_order_relaxed);
}

static bool overlap(const wm_adopt_range *a, const wm_adopt_range *b)
{
    return a->base < b->base + b->bytes && b->base < a->base + a->bytes;
}

/* False: some of the range is claimed, or a runtime's. *left: why pieces of it
 * are locked since an earlier call failed, or OK. */
static bool claim_locked(wm_adopt_range *range, warm_status *left)
{
    const wm_adopt_range *c = claims;

    while (c != NULL && !overlap(c, range)) {
        c = c->next;
    }
    *left = c != NULL ? c->left : WARM_OK;
    if (c != NULL || is_in_segment(range->base) ||
        wm_page_map_any(range->base, range->bytes)) {
        return false;
    }
    range->next = claims;
    claims = range;
    return true;
}

static warm_status refuse_claim(const char *base, size_t bytes,
                                warm_status left)
{
    if (left == WARM_OK) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "%s at %p cannot be adopted: a runtime has some of the "
                       "memory already",
                       wm_bytes(bytes).text, (const void *)base);
    }
    return wm_fail(left,
                   "%s at %p cannot be adopted: pieces are locked since an "
                   "earlier call failed, and the driver does not unlock them "
                   "now; adopt it again later",
                   wm_bytes(bytes).text, (const void *)base);
}

warm_status wm_adopt_claim(char *base, size_t bytes, unsigned flags,
                           wm_adopt_range **out)
{
    wm_adopt_range *range = wm_meta_alloc(sizeof *range);
    warm_status left;
    bool claimed;

    if (range == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no memory for the record of adopted memory");
    }
    *range = (wm_adopt_range){.base = base, .bytes = bytes, .flags = flags};
    wm_lock_acquire(&wm_process_lock);
    claimed = claim_locked(range, &left);
    wm_lock_release(&wm_process_lock);
    if (!claimed) {
        wm_meta_free(range);
        return refuse_claim(base, bytes, left);
    }
    *out = range;
    return WARM_OK;
}

void wm_adopt_unclaim(wm_adopt_range *range)
{
    wm_adopt_range **link = &claims;

    wm_lock_acquire(&wm_process_lock);
    while (*link != range) {
        link = &(*link)->next;
    }
    *link = range->next;
    wm_lock_release(&wm_process_lock);
    wm_meta_free(range);
}

/* ---- forked children ----------------------------------------------------- */

static warm_status hide(wm_adopt_range *range)
{
    if ((range->flags & WARM_ADOPT_FORK_OK) != 0 ||
        wm_hidden_add_foreign(range->base, range->bytes)) {
        range->hidden = true;
        return WARM_OK;
    }
    return wm_fail_code(errno == ENOMEM ? WARM_OUT_OF_MEMORY : WARM_UNSUPPORTED,
                        "system", errno, NULL,
                        "the memory at %p cannot be adopted: it cannot be kept "
                        "out of forked children (errno %d); use "
                        "WARM_ADOPT_FORK_OK if it need not",
                        (void *)range->base, errno);
}

void wm_adopt_show(char *base, size_t bytes, unsigned flags)
{
    if ((flags & WARM_ADOPT_FORK_OK) == 0) {
        wm_hidden_remove(base, bytes);
    }
}

/* Relaxed: as in wm_private_tend(). */
void wm_adopt_note_later(const wm_adopted *adopted)
{
    atomic_store_explicit(&adopted->space.group.runtime->put_off, true,
                          memory_order_relaxed);
    wm_waker_note_pending(adopted->space.group.waker);
}

/* ---- page-locking -------------------------------------------------------- */

/* Says what was refused, and keeps the driver's code. */
static warm_status refuse_piece(warm_status status, const char *base,
                                size_t bytes)
{
    warm_error e = wm_error_save();

    if (status == WARM_INVALID_ARGUMENT) {
        return wm_fail_code(status, e.origin, e.code, e.code_text,
                            "%s at %p cannot be adopted: the program has "
                            "page-locked some of it already (%s)",
                            wm_bytes(bytes).text, (const void *)base,
                            e.message);
    }
    return wm_fail_code(status, e.origin, e.code, e.code_text,
                        "%s at %p cannot be adopted: %s", wm_bytes(bytes).text,
                        (const void *)base, e.message);
}

static warm_status lock_piece(wm_driver *driver, char *base, size_t bytes,
                              unsigned flags)
{
    warm_status status =
        (flags & WARM_ADOPT_READ_ONLY) != 0
            ? wm_driver_pinned_register_read(driver, base, bytes)
            : wm_driver_pinned_register(driver, base, bytes);

    return status == WARM_OK ? status : refuse_piece(status, base, bytes);
}

warm_status wm_adopt_lock(wm_adopted *adopted, wm_adopt_range *range)
{
    size_t chunk = adopted->host->chunk_bytes;
    warm_status status = hide(range);

    while (status == WARM_OK && range->locked < range->bytes) {
        size_t left = range->bytes - range->locked;
        size_t piece = left < chunk ? left : chunk;

        status = lock_piece(adopted->space.driver, range->base + range->locked,
                            piece, range->flags);
        range->locked += status == WARM_OK ? piece : 0;
    }
    return status;
}

warm_status wm_adopt_refuse(const wm_breaking *breaking)
{
    return wm_timelines_refuse(breaking, "adopted memory cannot be unlocked");
}

warm_status wm_adopt_unlock(wm_adopted *adopted, char *base, size_t bytes,
                            size_t *done)
{
    size_t chunk = adopted->host->chunk_bytes;
    warm_status status = WARM_OK;
    wm_breaking breaking;

    if (wm_space_is_lost(&adopted->space)) {
        *done = bytes; /* the context has gone, and the lock with it */
    }
    while (*done < bytes && status == WARM_OK) {
        if (!wm_space_begin_break(&adopted->space, &breaking)) {
            return wm_adopt_refuse(&breaking);
        }
        status =
            wm_driver_pinned_unregister(adopted->space.driver, base + *done);
        wm_space_end_break(&adopted->space, &breaking);
        if (status == WARM_OK) {
            *done += bytes - *done < chunk ? bytes - *done : chunk;
        }
    }
    return status;
}

/* ---- what could not be adopted ------------------------------------------- */

static warm_status undo(wm_adopted *adopted, wm_adopt_range *range)
{
    warm_status status =
        wm_adopt_unlock(adopted, range->base, range->locked, &range->unlocked);

    if (status == WARM_OK) {
        if (range->hidden) {
            wm_adopt_show(range->base, range->bytes, range->flags);
        }
        wm_space_unclaim(adopted->host, range->bytes);
        wm_adopt_unclaim(range);
    }
    return status;
}

/* Until a poll, or a call that adopts memory, unlocks the pieces. */
static void keep_left(wm_adopted *adopted, wm_adopt_range *range,
                      warm_status why)
{
    wm_lock_acquire(&wm_process_lock);
    range->left =
        why == WARM_CAPTURE_ERROR ? WARM_CAPTURE_ERROR : WARM_DRIVER_ERROR;
    wm_lock_release(&wm_process_lock);
    wm_lock_acquire(&adopted->lock);
    range->next_left = adopted->left;
    adopted->left = range;
    wm_lock_release(&adopted->lock);
    wm_adopt_note_later(adopted);
}

void wm_adopt_undo(wm_adopted *adopted, wm_adopt_range *range)
{
    warm_status status;

    WM_KEEP_ERROR();
    status = undo(adopted, range);
    if (status != WARM_OK) {
        wm_log(WARM_LOG_WARNING,
               "%s of memory that could not be adopted stay locked until a "
               "poll or the next warm_pinned_adopt() unlocks them: %s",
               wm_bytes(range->locked - range->unlocked).text,
               warm_last_error_message());
        atomic_fetch_add_explicit(&adopted->ending, 1, memory_order_relaxed);
        keep_left(adopted, range, status);
    }
}

bool wm_adopt_undo_left(wm_adopted *adopted)
{
    wm_adopt_range *range, *next;
    bool all = true;

    WM_KEEP_ERROR();
    wm_lock_acquire(&adopted->lock);
    range = adopted->left;
    adopted->left = NULL;
    wm_lock_release(&adopted->lock);
    for (; range != NULL; range = next) {
        warm_status status;

        next = range->next_left;
        status = undo(adopted, range);
        if (status == WARM_OK) {
            atomic_fetch_sub_explicit(&adopted->ending, 1,
                                      memory_order_relaxed);
        } else {
            keep_left(adopted, range, status);
            all = false;
        }
    }
    return all;
}

void wm_adopt_forget_left(wm_adopted *adopted)
{
    while (adopted->left != NULL) {
        wm_adopt_range *range = adopted->left;

        adopted->left = range->next_left;
        wm_adopt_unclaim(range);
    }
}
