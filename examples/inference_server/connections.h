/* connections.h: the server's open connections, and how long each may take.
 *
 *   IDLE ── request line ──► RECEIVING ── body complete ──► WORKING
 *    ▲                                                         │
 *    └──────── answer sent ◄── SENDING ◄──── answer queued ────┘
 *
 * The thread that accepts connections announces them here and ends those that
 * take too long; libmicrohttpd's threads move them from phase to phase. */
#ifndef EXAMPLE_CONNECTIONS_H
#define EXAMPLE_CONNECTIONS_H

#include "examples/common/images.h"

#include <pthread.h>
#include <stdint.h>

/* One of them. */
typedef struct peer peer;

typedef struct connections {
    /* const while connections are open; milliseconds */
    int deadline_ms; /* a request has to be complete, an answer sent */
    int idle_ms;     /* a connection may stay without a request */
    int linger_ms;   /* the same once the server drains */
    int changed;     /* eventfd, written when a connection has ended */
    pthread_mutex_t mutex;
    /* lock mutex */
    peer *first;
    int open;
    bool draining;
    int64_t drained_from_ns;      /* when draining began */
    unsigned long long timed_out; /* requests that were not complete in time */
} connections;

int64_t clock_ns(void);

bool connections_init(connections *c, message *why);

/* A connection was accepted, and peer_begin() will follow, or, if
 * libmicrohttpd did not take it, connections_forget(). */
void connections_expect(connections *c);
void connections_forget(connections *c);

/* For an announced connection, when libmicrohttpd has taken it. Null: out of
 * memory; peer_end() takes that. */
peer *peer_begin(connections *c, int fd);
/* Before libmicrohttpd closes fd. */
void peer_end(connections *c, peer *one);

/* The request line has been read. */
void peer_receives(connections *c, peer *one);
/* A request is complete. False: too late, it has been answered with 408. */
bool peer_works(connections *c, peer *one, int64_t *line_ns);
/* Its answer has been queued. */
void peer_sends(connections *c, peer *one);
/* Its answer has been sent. */
void peer_rests(connections *c, peer *one);

/* From now on connections without a request are closed after linger_ms.
 * Returns how many connections are open. */
int connections_drain(connections *c);
bool connections_draining(connections *c);
int connections_open(connections *c);
unsigned long long connections_timed_out(connections *c);

/* Ends the connections whose time is up: with an answer 408 where a request is
 * incomplete, without a word elsewhere. Returns in how many milliseconds to
 * call again; before that none can be due. */
int connections_expire(connections *c);

#endif
