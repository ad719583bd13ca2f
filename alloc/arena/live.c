/* live.c: see live.h. Sequentially consistent: each store, and the load that
 * follows it: of a thread that claims and one that resets the peak at the same
 * time, at least one sees the other's store. */
#include "alloc/arena/live.h"

/* Raises the peak to the claim as it is now, without what other threads have
 * returned since the caller's own claim: callers never held both. The peak is
 * read before the claim, so that a reset in between makes the exchange fail.
 * Loads of the peak acquire: the claim that is read next is not older than what
 * the thread that reset the peak had read. It is read again relaxed, since it
 * is never older than at the first time. */
static void raise_peak(wm_claim *claim)
{
    int64_t peak = atomic_load_explicit(&claim->peak, memory_order_seq_cst);
    int64_t now = atomic_load_explicit(&claim->claimed, memory_order_seq_cst);

    while (now > peak && !atomic_compare_exchange_weak_explicit(
                             &claim->peak, &peak, now, memory_order_seq_cst,
                             memory_order_acquire)) {
        now = atomic_load_explicit(&claim->claimed, memory_order_relaxed);
    }
}

void wm_claim_add(wm_claim *claim, int64_t n)
{
    if (n != 0) {
        atomic_fetch_add_explicit(&claim->claimed, n, memory_order_seq_cst);
        raise_peak(claim);
    }
}

static void reset(wm_claim *claim)
{
    /* Relaxed: raise_peak() reads it again. */
    int64_t now = atomic_load_explicit(&claim->claimed, memory_order_relaxed);

    atomic_store_explicit(&claim->peak, now, memory_order_seq_cst);
    /* A thread that claimed between the load and the store compared with the
     * old peak. */
    raise_peak(claim);
}

void wm_live_reset(wm_live *live)
{
    reset(&live->blocks);
    reset(&live->bytes);
    reset(&live->held);
}
