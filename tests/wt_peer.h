/* wt_peer.h: a second process for tests of shared memory.
 *
 * Start the peer before the test creates a runtime: a forked child cannot use
 * its parent's CUDA. The peer creates its own runtime on the same backend and
 * runs steps that the test sends through a pipe. Its blocks and openings are in
 * numbered slots. The test fails if the peer ends without wt_peer_end() or
 * wt_peer_die(). */
#ifndef WT_PEER_H
#define WT_PEER_H

#include "wt.h"

enum { WT_PEER_SLOTS = 16 };

typedef struct wt_peer wt_peer;

/* devices: how many the peer has; ignored on a GPU. */
wt_peer *wt_peer_start(int devices);
/* Destroys the peer's runtime, of which nothing may be in use, and ends the
 * process. */
void wt_peer_end(wt_peer *peer);
/* The peer ends at once, without freeing anything. */
void wt_peer_die(wt_peer *peer);

/* Allocates a block full of word and exports it. */
warm_ipc_handle wt_peer_export(wt_peer *peer, int slot, int device,
                               size_t bytes, uint32_t word);
void wt_peer_free(wt_peer *peer, int slot);
/* Opens a handle; returns the status of warm_ipc_open() in the peer. */
warm_status wt_peer_open(wt_peer *peer, int slot,
                         const warm_ipc_handle *handle);
warm_status wt_peer_close(wt_peer *peer, int slot);
/* The word that all bytes of a slot repeat; 0: they differ. */
uint32_t wt_peer_read(wt_peer *peer, int slot, size_t bytes);
void wt_peer_write(wt_peer *peer, int slot, size_t bytes, uint32_t word);

/* wt_peer_read() and wt_peer_write() for memory of this process: copies, and
 * waits for the copies. */
uint32_t wt_device_read(warm_runtime *runtime, const void *pointer,
                        size_t bytes);
void wt_device_write(warm_runtime *runtime, void *pointer, size_t bytes,
                     uint32_t word);

#endif
