/* warmpool/snapshot.h: what memory there is, which code allocated it, and what
 * happened to it.
 *
 * A snapshot names every segment and every block in it, of a device, of all
 * page-locked memory, or of both in the layout that PyTorch's memory visualiser
 * reads. With option history:N it also has the last N events of the runtime's
 * memory, and for every live block its origin: the thread, the tag that the
 * thread had set, and with history_frames:K the K innermost functions.
 *
 *   WARMPOOL_CONF=history:100000,history_frames:16 ./program
 *
 * A history costs 128 bytes for each event and 64 for each record of a block,
 * and 8 for each frame of either. Every allocation and free takes the slow path
 * then: some microseconds, without frames less than one. Without the option
 * nothing is recorded and no call costs more.
 *
 * Texts are JSON; bytes and needed as in warm_stats_json() (stats.h). All of a
 * device, or of a NUMA node, is of one moment, with which the events end. What
 * other threads do at that moment may be missing: a block that is just being
 * allocated or freed may be live and have no event yet.
 *
 * Any thread may call these functions at any time. The cache is locked while it
 * is copied, but not while the text is written. Calls no driver. Status of the
 * three: OUT_OF_MEMORY, INVALID_ARGUMENT, RUNTIME_GONE, FORKED, EXITING.
 */
#ifndef WARMPOOL_SNAPSHOT_H
#define WARMPOOL_SNAPSHOT_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes every segment of a device and every block in it as one object:
 *
 *   {"device":0,"ns":81234567890,"segments":[{"address":"0x…","bytes":2097152,
 *     "small":true,"age_ns":5120,"idle_ns":null,"blocks":[{"address":"0x…",
 *       "bytes":1024,"state":"live","requested":1000,"stream":7,"pool":0,
 *       "age_ns":120,"thread":4711,"tag":"weights","frames":[{"address":"0x…",
 *       "function":"load","object":"/usr/bin/train","offset":"0x…"}, …]}, …]},
 *     …],
 *    "history":{"next":3817,"dropped":0,"events":[{"number":3816,
 *      "action":"alloc","ns":81234567770,"thread":4711,"address":"0x…",
 *      "bytes":1000,"stream":7,"pool":0,"tag":"weights","frames":[…]}, …]}}
 *
 * ns: of a monotonic clock, in nanoseconds. The blocks of a segment come in the
 * order of addresses, and cover it. state: live; idle; magazine and
 * transfer_cache (idle, and cached for one thread, or for all); pending (freed,
 * waits for streams); captured (kept for a graph); lost (kept after an error of
 * the driver). requested: of live blocks. stream: the driver's id of the stream
 * in whose order a block is live, or idle; null: no particular one, or the
 * legacy stream. pool: the number of the private pool (private_pool.h), or 0.
 * idle_ns: for how long all of a segment has been idle; null: it is not, or it
 * is expandable. age_ns, thread, tag, frames: of the allocation of a live or
 * pending block; left out without a history, tag and frames also where there
 * are none. frames: innermost first; function is left out if the dynamic linker
 * does not know it: addr2line finds it by object and offset. If the library is
 * linked statically its own functions come first, and count.
 *
 * history is left out without the option. Events have rising numbers: next is
 * that of the next event; a number that is missing is of other memory, or of a
 * dropped event. dropped: how many were not stored, since a younger event had
 * their slot. action:
 *   alloc           bytes: requested
 *   free_requested  the caller freed the block
 *   free_completed  the block is idle now; tag and frames are of its alloc
 *   segment_alloc   the driver allocated memory
 *   segment_free    memory is returned to the driver; if the driver refuses it
 *                   a segment_alloc follows
 *   segment_map, segment_unmap   parts of expandable segments
 *   oom             a request failed; "free": bytes free on the device
 */
WARM_API warm_status warm_device_snapshot(warm_runtime *runtime, int device,
                                          char *text, size_t bytes,
                                          size_t *needed);

/* Writes a snapshot of page-locked memory, of all NUMA nodes, and of pageable
 * memory that replaces it:
 *
 *   {"space":"pinned","ns":…,"nodes":[{"node":0,"segments":[…]}, …],
 *    "pageable":{"segments":[…]},"history":{…}}
 *
 * An event also has "node":0, or "pageable":true. Each node is of a moment of
 * its own. */
WARM_API warm_status warm_pinned_snapshot(warm_runtime *runtime, char *text,
                                          size_t bytes, size_t *needed);

/* Writes a snapshot of all memory in the layout of
 * torch.cuda.memory._snapshot(). Page-locked memory appears as further devices:
 * after the last device each NUMA node, then pageable memory. States are
 * active_allocated, active_pending_free (pending, captured, lost) and inactive;
 * a tag is the first frame. https://pytorch.org/memory_viz reads a pickle of
 * it, which these lines of Python make:
 *
 *   import json, pickle, sys
 *   with open(sys.argv[1]) as text, open(sys.argv[2], "wb") as out:
 *       pickle.dump(json.load(text), out, protocol=4)
 */
WARM_API warm_status warm_snapshot_viz(warm_runtime *runtime, char *text,
                                       size_t bytes, size_t *needed);

#define WARM_TAG_BYTES 48

/* Sets the tag of the calling thread, which the events of its allocations and
 * frees have from now on, in every runtime with a history. Costs no more than
 * the copy, and is allowed without a history.
 * tag: copied, fewer than WARM_TAG_BYTES bytes; null or "": none.
 * Status: INVALID_ARGUMENT (longer), OUT_OF_MEMORY (the thread's first tag);
 * the old tag stays. */
WARM_API warm_status warm_memory_tag_set(const char *tag);

/* The calling thread's tag, "" if it has none. Borrowed, and changed by the
 * thread's next warm_memory_tag_set(): copy it to restore it later. */
WARM_API const char *warm_memory_tag_get(void);

#ifdef __cplusplus
}
#endif
#endif
