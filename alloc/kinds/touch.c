/* touch.c: touches the pages of a range with several threads.
 *
 * The caller and its helper threads take pieces until none is left. For a small
 * range, or if no thread can be made, the caller touches all of it. */
#include "alloc/kinds/pin.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { HELPERS = 63 };

/* A multiple of huge pages; touching a piece takes longer than starting a
 * thread. */
#define PIECE ((size_t)16 << 20)

struct touch {
    char *base;
    size_t bytes;
    _Atomic size_t next;  /* offset of the first piece that no thread took */
    _Atomic bool refused; /* there is no memory */
};

/* For kernels before 5.14. */
static void write_to_pages(volatile char *base, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (size_t i = 0; i < bytes; i += page) {
        base[i] = 0;
    }
}

static bool touch_piece(char *base, size_t bytes)
{
    int result;

    do {
        result = madvise(base, bytes, MADV_POPULATE_WRITE);
    } while (result != 0 && (errno == EAGAIN || errno == EINTR));
    if (result != 0 && errno != EINVAL) {
        return false;
    }
    if (result != 0) {
        write_to_pages(base, bytes);
    }
    return true;
}

static void *touch_pieces(void *argument)
{
    struct touch *t = argument;

    /* Relaxed, both: the pages are published by the join. */
    while (!atomic_load_explicit(&t->refused, memory_order_relaxed)) {
        size_t at =
            atomic_fetch_add_explicit(&t->next, PIECE, memory_order_relaxed);

        if (at >= t->bytes) {
            break;
        }
        if (!touch_piece(t->base + at,
                         t->bytes - at < PIECE ? t->bytes - at : PIECE)) {
            atomic_store_explicit(&t->refused, true, memory_order_relaxed);
        }
    }
    return NULL;
}

bool wm_pin_touch(void *base, size_t bytes, unsigned threads)
{
    struct touch t = {.base = base, .bytes = bytes};
    size_t pieces = (bytes + PIECE - 1) / PIECE;
    pthread_t helper[HELPERS];
    sigset_t all, old;
    unsigned wanted, started = 0;

    wanted = pieces < threads ? (unsigned)pieces : threads;
    wanted = wanted > HELPERS ? HELPERS : wanted;
    /* Signals are for the program's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (started + 1 < wanted &&
           pthread_create(&helper[started], NULL, touch_pieces, &t) == 0) {
        started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)touch_pieces(&t);
    for (unsigned i = 0; i < started; i++) {
        pthread_join(helper[i], NULL);
    }
    return !atomic_load_explicit(&t.refused, memory_order_relaxed);
}
