/* warmpool/snapshot.h: which memory exists, which code allocated it, and the
 * last events.
 *
 * A snapshot names every segment and every block in it, of all memory, in the
 * layout that PyTorch's memory visualiser reads. With option history:N it also
 * has the last N events of the runtime's memory, and for every live block its
 * origin: the thread, the tag that the thread had set, and with
 * history_frames:K the K innermost functions.
 *
 *   WARMPOOL_CONF=history:100000,history_frames:16 ./program
 *
 * A history costs 128 bytes for each event and 64 for each record of a block,
 * and 8 for each frame of either. Every allocation and free then takes the slow
 * path: some microseconds with frames, less than one without. Without the
 * option nothing is recorded and no call costs more.
 *
 * The text is JSON; bytes, needed and TRUNCATED are as in warm_stats_json()
 * (stats.h). The state of a device, or of a NUMA node, is of one moment, and
 * its events end at that moment. A call of another thread that is under way
 * then may be incomplete: a block that is being allocated or freed may be live
 * and have no event yet.
 *
 * Any thread may call these functions at any time. The cache is locked while it
 * is copied, but not while the text is written. Calls no driver.
 */
#ifndef WARMPOOL_SNAPSHOT_H
#define WARMPOOL_SNAPSHOT_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a snapshot of all memory in the layout of
 * torch.cuda.memory._snapshot(), as one object:
 *
 *   {"segments":[{"device":0,"address":140187732541440,"total_size":2097152,
 *     "allocated_size":1024,"active_size":1024,"requested_size":1000,
 *     "stream":7,"segment_type":"small","segment_pool_id":[0,0],
 *     "is_expandable":false,"frames":[],"age_ns":5120,"idle_ns":null,
 *     "blocks":[{"address":140187732541440,"size":1024,"requested_size":1000,
 *       "state":"active_allocated","exact_state":"live","stream":7,
 *       "age_ns":120,"thread":4711,"frames":[{"name":"weights",
 *       "filename":"tag","line":0},{"name":"load","filename":"/usr/bin/train",
 *       "line":0,"offset":"0x…"}, …]}, …]}, …],
 *    "device_traces":[[{"action":"alloc","addr":140187732541440,"size":1000,
 *      "stream":7,"time_us":81234567,"number":3816,"thread":4711,"pool":0,
 *      "frames":[…]}, …], …],
 *    "allocator_settings":{},"external_annotations":[],"ns":81234567890,
 *    "places":["Device 0","Pinned, node 0","Pageable",
 *      "Private buffers of device 0","Shared buffers of device 0",
 *      "Scalars of device 0"],
 *    "history":{"next":3817,"dropped":0}}
 *
 * device: which memory, an index of places: devices, then each NUMA node, then
 * pageable memory, then of each device its private, shared and scalar buffers
 * (shared.h). device_traces has the events of each. ns: of a monotonic clock,
 * in nanoseconds. The blocks of a segment are in the order of their addresses,
 * and cover the segment. state is active_allocated, active_pending_free or
 * inactive. exact_state: live; idle; magazine (idle, cached for one thread);
 * transfer_cache (idle, cached for all threads); pending (freed, and not yet
 * noticed that its streams are done, or a freed shared buffer with users);
 * captured (freed, but a graph may use it); lost (leaked after an error of the
 * driver). requested_size: of live and pending blocks. stream: the driver's id
 * of the stream in whose order a block is live or idle; 0: no particular
 * stream, or the legacy stream. segment_pool_id: 0, and the number of the
 * private pool (private_pool.h), or 0. pieces: how many pieces a segment has
 * that holds a block larger than option pin_chunk (memory.h); left out of other
 * segments. Once the block is freed, and always in the statistics and in the
 * history, each piece counts as a segment. idle_ns: for how long the whole
 * segment has been idle; null: part of it is in use.
 * age_ns, thread and frames of a block: of the allocation of a live or pending
 * block; age_ns and thread are left out without a history. frames: the tag if
 * there is one, then the functions, innermost first; a name that is an offset
 * belongs to a function that the dynamic linker does not know: addr2line finds
 * it by object and offset. If the library is linked statically, its own
 * functions come first and count as frames.
 *
 * history is left out without the option, and the traces are empty then. Events
 * have rising numbers; next is the number of the next event. dropped: how many
 * events were not stored, since another event used their slot; the traces begin
 * after the last gap. action:
 *   alloc           size: requested
 *   free_requested  the caller freed the block
 *   free_completed  the block is idle now; the frames are of its alloc
 *   segment_alloc   the driver allocated memory
 *   segment_free    memory is returned to the driver; if the driver refuses it
 *                   a segment_alloc follows
 *   oom             a request failed; device_free, in place of addr: bytes free
 *                   on the device
 *
 * https://pytorch.org/memory_viz reads a pickle of it, which these lines of
 * Python write:
 *
 *   import json, pickle, sys
 *   with open(sys.argv[1]) as text, open(sys.argv[2], "wb") as out:
 *       pickle.dump(json.load(text), out, protocol=4)
 *
 * Status: TRUNCATED, OUT_OF_MEMORY, INVALID_ARGUMENT, RUNTIME_GONE, FORKED,
 * EXITING. */
WARM_API warm_status warm_snapshot_viz(warm_runtime *runtime, char *text,
                                       size_t bytes, size_t *needed);

/* Writes a page to look at, one file of HTML that needs nothing from outside:
 * all statistics (warm_stats_json()), and every segment to scale with its live,
 * idle, cached and pending blocks. The page is in the colours that the reader's
 * system prefers, light or dark.
 * path: replaced once the whole page is written; not before, so that a reader
 * never sees a part of one. Its owner alone may read it: it has addresses.
 * Status: OUT_OF_MEMORY, INVALID_ARGUMENT (null, or the file cannot be
 * written, or is a device, a pipe or another that is not regular, and stays;
 * the message says why), RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_snapshot_write_html(warm_runtime *runtime,
                                              const char *path);

/* The page without data, for a program that has a server: it asks its own
 * server for /stats and /snapshot, which answer with the texts of
 * warm_stats_json() (alone, or as member "warmpool" of an object) and of
 * warm_snapshot_viz(), and shows them as they change. Borrowed: constant text.
 */
WARM_API const char *warm_snapshot_page(void);

#define WARM_TAG_BYTES 48

/* Sets the tag of the calling thread, which the events of its allocations and
 * frees have from now on, in every runtime with a history. Costs only the copy,
 * and is allowed without a history.
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
