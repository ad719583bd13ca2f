/* warmpool/snapshot.h: what memory there is, who has it, and what happened to
 * it.
 *
 * A snapshot names every segment and every block in it, of a device, of all
 * page-locked memory, or of both in the layout that PyTorch's memory visualiser
 * reads. With option history:N in force it also tells the last N events of the
 * runtime's memory, and of every live block who allocated it: the thread, the
 * tag that it had set, and with history_frames:K the K functions it came from.
 *
 *   WARMPOOL_CONF=history:100000,history_frames:16 ./program
 *
 * A history costs 128 bytes an event, and 8 for each frame of it; 64 and 8 for
 * each record of a block. Every allocation and free takes the slow path then:
 * some microseconds, without frames less than one. Without the option nothing
 * is kept and no call costs more.
 *
 * Texts are JSON; bytes and needed as in warm_stats_json() (stats.h). All of a
 * device, or of a NUMA node, is of one moment; so are the events, which end
 * with it. While threads run, what they do meanwhile is seen or not: a block
 * that is just being allocated or freed may be live and have no event yet.
 *
 * Any thread, while everything runs. The cache is locked while it is read, but
 * not while it is written. Calls no driver. Status of the three: OUT_OF_MEMORY,
 * INVALID_ARGUMENT, RUNTIME_GONE, FORKED, EXITING.
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
 * ns: of a monotonic clock, in nanoseconds. Blocks come in the order of
 * addresses within a segment, and together are the segment. state: live; idle;
 * magazine and depot (idle, and kept ready for a thread, or for threads);
 * pending (freed, waits for streams); captured (kept for a graph); lost (kept
 * after an error of the driver). requested: of live blocks. stream: the
 * driver's id of the stream in whose order a block is live, or idle; null: of
 * none in particular, and of the legacy stream. pool: the number of the
 * private one (private_pool.h), or 0. idle_ns: how long all of a segment has
 * been idle, or null; of expandable ones null. frames: innermost first;
 * function is left out if the dynamic linker does not know it, but addr2line
 * does, by object and offset. Where the library is linked statically its own
 * functions come first, and count. age_ns, thread, tag, frames: when and by
 * whom a live or pending block was allocated, where there is a history; else
 * they are left out. tag and frames are left out too where there are none.
 *
 * history is left out without the option. Events have rising numbers, of which
 * next is the first to come; some are another device's, dropped as many as met
 * a younger one in their place. action:
 *   alloc           bytes: asked for
 *   free_requested  the caller freed it
 *   free_completed  it is idle now; tag and frames are those of its alloc
 *   segment_alloc   memory came from the driver
 *   segment_free    it goes back there; if the driver does not take it, there
 *                   is a segment_alloc again
 *   segment_map, segment_unmap   the same of parts of expandable segments
 *   oom             bytes could not be had; "free": bytes free on the device
 */
WARM_API warm_status warm_device_snapshot(warm_runtime *runtime, int device,
                                          char *text, size_t bytes,
                                          size_t *needed);

/* The same of page-locked memory, of all NUMA nodes, and of pageable memory
 * that stands in for it:
 *
 *   {"space":"pinned","ns":…,"nodes":[{"node":0,"segments":[…]}, …],
 *    "pageable":{"segments":[…]},"history":{…}}
 *
 * An event has "node":0 besides, or "pageable":true. Each node is of a moment
 * of its own. */
WARM_API warm_status warm_pinned_snapshot(warm_runtime *runtime, char *text,
                                          size_t bytes, size_t *needed);

/* All of it in the layout of torch.cuda.memory._snapshot(). Page-locked memory
 * appears as further devices: after the last one each NUMA node, then pageable
 * memory. States are active_allocated, active_pending_free (pending, captured,
 * lost) and inactive; a tag is the first frame. https://pytorch.org/memory_viz
 * reads a pickle of it, which these lines of Python make:
 *
 *   import json, pickle, sys
 *   with open(sys.argv[1]) as text, open(sys.argv[2], "wb") as out:
 *       pickle.dump(json.load(text), out, protocol=4)
 */
WARM_API warm_status warm_snapshot_viz(warm_runtime *runtime, char *text,
                                       size_t bytes, size_t *needed);

#define WARM_TAG_BYTES 48

/* Names what the calling thread does: what it allocates and frees from now on
 * is told by that name, in every runtime with a history. Costs no more than the
 * copy, and is allowed without a history as well.
 * tag: copied, fewer than WARM_TAG_BYTES bytes; null or "": none.
 * Status: INVALID_ARGUMENT (longer), OUT_OF_MEMORY (the thread's first); the
 * old one stays. */
WARM_API warm_status warm_memory_tag_set(const char *tag);

/* The calling thread's tag, "" if it has none. Borrowed, and changed by the
 * next warm_memory_tag_set() of the thread: to set one for a while, copy the
 * old one first. */
WARM_API const char *warm_memory_tag_get(void);

#ifdef __cplusplus
}
#endif
#endif
