/* warmpool/adopt.h: memory that the program has mapped itself.
 *
 * Weights in a file, memory that several processes share, memory of another
 * allocator or of a CXL device need not be copied before a device can read
 * them. warm_pinned_adopt() page-locks such memory where it is, in pieces of at
 * most option pin_chunk, and the runtime knows it from then on:
 *
 *   as it is   warm_record_stream() and warm_copy_async() work on any part of
 *              it (a copy is split where it passes from one piece to the next),
 *              and warm_block_get_info() describes it as one block
 *   served     with WARM_ADOPT_SERVE it becomes segments of the pinned memory:
 *              warm_pinned_alloc() allocates from it before the runtime obtains
 *              more, and blocks are freed as any others
 *
 * No trim, decay or watermark unlocks it: the program gives it up with
 * warm_pinned_adopt_end(), and must keep it mapped until it is unlocked.
 *
 * All of its bytes count toward the watermarks of host memory (pressure.h) from
 * the start; idle memory is returned to make room for them. Statistics count it
 * apart (adopted… in stats.h). Segment callbacks (memory.h) are called for it:
 * with WARM_ADOPT_SERVE each piece is a segment, else all of it is one. Blocks
 * of served memory are not cached by threads: each allocation and free takes a
 * lock. No block lies across two pieces, so a request larger than a piece is
 * not served from it; private pools do not use it. The program chooses the NUMA
 * node when it touches its memory; the node of warm_block_info is that node if
 * all pages are on one, else -1. Of option debug only leaks includes it.
 *
 * Forked children do not get the memory, like all that is page-locked: else the
 * first write after a fork would move a page away from under a device. It is
 * marked for that by madvise(MADV_DONTFORK) before it is locked, and unmarked
 * when it is given up. What the program had marked itself before stays marked,
 * unless it is a mapping of a single page.
 *
 * Any thread may call. Common status: INVALID_ARGUMENT, RUNTIME_GONE, FORKED,
 * EXITING.
 */
#ifndef WARMPOOL_ADOPT_H
#define WARMPOOL_ADOPT_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The memory serves requests for pinned memory. */
#define WARM_ADOPT_SERVE 1u

/* Devices only read the memory, which may be mapped read-only, as a file of
 * weights is. warm_copy_async() refuses to copy to it (INVALID_ARGUMENT). Not
 * with WARM_ADOPT_SERVE. */
#define WARM_ADOPT_READ_ONLY 2u

/* The memory is not marked for forked children: for memory that no write can
 * move (mapped MAP_SHARED, or read-only), or that the program has marked by
 * madvise() itself. */
#define WARM_ADOPT_FORK_OK 4u

/* Adopts bytes of memory at pointer.
 * pointer, bytes: whole pages (the last page of a file that is mapped counts as
 * whole). Borrowed until the memory has been given up.
 * flags: 0, or some of the above joined by |.
 * Blocking: page-locks all of the memory.
 * Status (nothing has changed then; but if a stream captures when a piece is
 * refused, or the driver does not unlock those before it, they stay locked,
 * which is logged, until warm_poll(), the next warm_pinned_adopt() or
 * warm_runtime_destroy() unlocks them: keep them mapped until the memory can be
 * adopted): INVALID_ARGUMENT
 * (not whole pages; not mapped, or not readable; mapped read-only without
 * WARM_ADOPT_READ_ONLY; some of it belongs to a runtime, or to an adoption that
 * is under way; the program has registered it with CUDA already; in a memory
 * callback), UNSUPPORTED (the driver registers no memory, as with confidential
 * computing; a device cannot read memory that is registered read-only; the
 * kernel does not keep the pages out of forked children), OUT_OF_MEMORY (a
 * watermark, the driver, the kernel's mappings, or memory for records),
 * CAPTURE_ERROR and DRIVER_ERROR (also: pieces stay locked since an earlier
 * call failed, as above). */
WARM_API warm_status warm_pinned_adopt(warm_runtime *runtime, void *pointer,
                                       size_t bytes, unsigned flags);

/* Gives adopted memory up: it is unlocked, and is the program's alone again.
 * From the call on no request is served from it. Graphs that use it must not be
 * launched any more.
 * pointer: that of warm_pinned_adopt().
 * done null: waits for the work of the streams that were recorded on the
 * memory. If blocks of served memory are live: NOT_READY, and nothing has
 * changed. If an earlier call has begun to give the memory up, the call waits
 * until that is over.
 * done not null: waits for no stream that uses the memory. If the driver then
 * cannot report that the work of one has ended, the call below that unlocks the
 * memory waits for all devices first. done(context) is
 * called once the last block of the memory has been freed, the streams have
 * completed and all is unlocked: before this call returns, or in a call of
 * warm_poll(), in the thread of option background, or at the end of a capture,
 * with no lock held. It may unmap the memory. As in every callback of the
 * library, calls that wait for the runtime's own work are refused in it.
 * CUDA may wait for the whole device in the call that unlocks memory.
 * While a stream captures the memory stays locked, and done is called later.
 * warm_runtime_destroy() gives up what no live block and no work uses (and
 * calls done, if it was given); the rest stays locked, and is reported.
 * Status: INVALID_POINTER (not adopted by this runtime, or given up; with done
 * not null, also: an earlier call has begun to give it up). With done null also
 * NOT_READY (blocks are live), INVALID_ARGUMENT (in a callback of the library,
 * which could wait for itself), CAPTURE_ERROR (a stream captures, and nothing
 * has changed; or a graph may use a freed block of the memory), DRIVER_ERROR
 * (the driver does not unlock the memory, or cannot report whether it is in
 * use or whether a stream captures). With the last two, unless nothing has
 * changed, the memory stays locked and serves no request any more. A later call
 * with done null tries again, and warm_poll() does not. If the driver cannot
 * report the end of a stream's work, that call waits for all devices. */
WARM_API warm_status warm_pinned_adopt_end(warm_runtime *runtime, void *pointer,
                                           void (*done)(void *context),
                                           void *context);

#ifdef __cplusplus
}
#endif
#endif
