/* watermark.c: what counts toward a high watermark.
 *
 *   a space ──► its limiter, perhaps itself ──► all memory of the runtime
 *               lock growth                     an atomic count
 *
 * What a limiter holds, is obtaining, and has claimed for others counts. Memory
 * of a space with another limiter is claimed there before the driver is called,
 * and the claim ends when the driver has freed the memory. */
#include "alloc/space/space_int.h"

#include "runtime/base/bytes.h"

/* Bytes below a high watermark beside what is taken. */
static size_t room(const wm_watermarks *marks, size_t taken)
{
    size_t high = wm_high_bytes(marks);

    if (high == 0) {
        return SIZE_MAX;
    }
    return taken < high ? high - taken : 0;
}

size_t wm_room_below_locked(const wm_space *space)
{
    return room(&space->marks, wm_taken_locked(space));
}

/* ---- all memory ---------------------------------------------------------- */

size_t wm_whole_left(const wm_space *space)
{
    const wm_whole *whole = &space->poller->whole;

    return space->limiter == space ? room(&whole->marks, wm_whole_taken(whole))
                                   : SIZE_MAX;
}

void wm_whole_add(wm_space *space, size_t bytes)
{
    /* Relaxed, here and below: a count. */
    if (space->limiter == space) {
        atomic_fetch_add_explicit(&space->poller->whole.taken, bytes,
                                  memory_order_relaxed);
    }
}

bool wm_whole_claim(wm_space *space, size_t bytes)
{
    wm_whole *whole = &space->poller->whole;
    size_t taken = wm_whole_taken(whole);

    if (space->limiter != space) {
        return true;
    }
    do {
        if (bytes > room(&whole->marks, taken)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &whole->taken, &taken, taken + bytes, memory_order_relaxed,
        memory_order_relaxed));
    return true;
}

void wm_whole_unclaim(wm_space *space, size_t bytes)
{
    if (space->limiter == space) {
        atomic_fetch_sub_explicit(&space->poller->whole.taken, bytes,
                                  memory_order_relaxed);
    }
}

/* ---- one space ----------------------------------------------------------- */

bool wm_space_claim_own(wm_space *space, size_t bytes)
{
    bool fits;

    wm_lock_acquire(&space->growth.lock);
    fits = bytes <= wm_room_below_locked(space) && wm_whole_claim(space, bytes);
    space->beside_bytes += fits ? bytes : 0;
    wm_lock_release(&space->growth.lock);
    return fits;
}

void wm_space_unclaim_own(wm_space *space, size_t bytes)
{
    wm_lock_acquire(&space->growth.lock);
    space->beside_bytes -= bytes;
    wm_whole_unclaim(space, bytes);
    space->growth.vacated++; /* a request that the limit refused may retry */
    wm_cond_broadcast(&space->growth.over);
    wm_lock_release(&space->growth.lock);
}

/* Without a trim, which may log: a growth is in flight. */
warm_status wm_space_claim_below(const wm_space *space, size_t bytes)
{
    wm_space *limiter = space->limiter;

    if (limiter == space || wm_space_claim_own(limiter, bytes)) {
        return WARM_OK;
    }
    return wm_fail(WARM_OUT_OF_MEMORY,
                   "the limit of %s memory, %s, leaves no room for %s more",
                   limiter->traits->name,
                   wm_bytes(wm_high_bytes(&limiter->marks)).text,
                   wm_bytes(bytes).text);
}

void wm_space_unclaim_below(const wm_space *space, size_t bytes)
{
    if (space->limiter != space) {
        wm_space_unclaim_own(space->limiter, bytes);
    }
}
