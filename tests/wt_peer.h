/* wt_peer.h: a second process for tests of shared memory.
 *
 * Started before the test has a runtime (a forked child has no CUDA of its
 * parent's), it makes one of its own on the same backend, and does what it is
 * told through a pipe, a step at a time. What it holds stands in slots. The
 * test fails if it ends by itself, but not if it was told to. */
#ifndef WT_PEER_H
#define WT_PEER_H

#include "wt.h"

enum { WT_PEER_SLOTS = 16 };

typedef struct wt_peer wt_peer;

/* devices: how many it has, on every backend but a GPU. */
wt_peer *wt_peer_start(int devices);
/* Ends its runtime, of which nothing may be left, and the process. */
void wt_peer_end(wt_peer *peer);
/* It ends at once, and leaves everything to the system. */
void wt_peer_die(wt_peer *peer);

/* Allocates a block full of word and exports it. */
warm_ipc_handle wt_peer_export(wt_peer *peer, int slot, int device,
                               size_t bytes, uint32_t word);
void wt_peer_free(wt_peer *peer, int slot);
/* Opens a handle; the status is its own. */
warm_status wt_peer_open(wt_peer *peer, int slot,
                         const warm_ipc_handle *handle);
warm_status wt_peer_close(wt_peer *peer, int slot);
/* The word that all bytes of a slot repeat; 0: they differ. */
uint32_t wt_peer_read(wt_peer *peer, int slot, size_t bytes);
void wt_peer_write(wt_peer *peer, int slot, size_t bytes, uint32_t word);

/* The same for memory of this process: copies, and waits for them. */
uint32_t wt_device_read(warm_runtime *runtime, const void *pointer,
                        size_t bytes);
void wt_device_write(warm_runtime *runtime, void *pointer, size_t bytes,
                     uint32_t word);

#endif
