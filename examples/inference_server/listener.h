/* listener.h: the socket on which the server's clients arrive. */
#ifndef EXAMPLE_LISTENER_H
#define EXAMPLE_LISTENER_H

#include "examples/common/images.h"

/* Listens on a port of this machine (127.0.0.1); *port 0 takes a free one and
 * is set to it. Returns the socket, or -1 and says why. */
int listener_open(int *port, message *why);

/* A connection of the queue, or -1: there is none, or no descriptor is left. */
int listener_accept(int listening);

/* No connection joins the queue from now on: who tries waits, and is refused
 * when the socket is closed. Without this a client that arrives between the
 * last listener_accept() and the close would be cut off after it was let in. */
void listener_stop(int listening);

#endif
