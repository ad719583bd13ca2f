/* touch.c: threads that touch pages (touch.h). */
#include "alloc/kinds/touch.h"

#include "runtime/base/lock.h"
#include "runtime/base/os_page.h"
#include "runtime/base/thread_start.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { HELPERS = 64 };

/* A multiple of huge pages; touching a piece takes longer than starting a
 * thread. */
#define PIECE ((size_t)16 << 20)

struct touch {
    char *base;
    size_t bytes;
    _Atomic size_t next; /* offset of the first unclaimed piece */
    _Atomic int error;   /* errno of a piece that was refused; 0: none was */
};

/* Returns 0, or errno. */
static int touch_piece(char *base, size_t bytes)
{
    size_t page = wm_os_page();
    int error;

    do {
        error = madvise(base, bytes, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
    } while (error == EAGAIN || error == EINTR);
    if (error != EINVAL) {
        return error;
    }
    for (size_t i = 0; i < bytes; i += page) { /* a kernel before 5.14 */
        ((volatile char *)base)[i] = 0;
    }
    return 0;
}

static void *touch_pieces(void *argument)
{
    struct touch *t = argument;

    /* Relaxed, all: the pages and the error are published by the join. */
    while (atomic_load_explicit(&t->error, memory_order_relaxed) == 0) {
        size_t at =
            atomic_fetch_add_explicit(&t->next, PIECE, memory_order_relaxed);
        int error;

        if (at >= t->bytes) {
            break;
        }
        error = touch_piece(t->base + at,
                            t->bytes - at < PIECE ? t->bytes - at : PIECE);
        if (error != 0) {
            atomic_store_explicit(&t->error, error, memory_order_relaxed);
        }
    }
    return NULL;
}

/* Helpers run on the CPUs alone. Returns how many were started. */
static unsigned start_helpers(struct touch *t, pthread_t helper[HELPERS],
                              unsigned wanted, const cpu_set_t *cpus)
{
    unsigned started = 0;
    pthread_attr_t attr;

    if (pthread_attr_init(&attr) != 0) {
        return 0;
    }
    if (cpus == NULL ||
        pthread_attr_setaffinity_np(&attr, sizeof *cpus, cpus) == 0) {
        while (started < wanted &&
               wm_thread_start(&helper[started], &attr, touch_pieces, t)) {
            started++;
        }
    }
    pthread_attr_destroy(&attr);
    return started;
}

bool wm_touch_pages(void *base, size_t bytes, unsigned threads,
                    const cpu_set_t *cpus)
{
    struct touch t = {.base = base, .bytes = bytes};
    size_t pieces = (bytes + PIECE - 1) / PIECE;
    pthread_t helper[HELPERS];
    unsigned wanted = pieces < threads ? (unsigned)pieces : threads;
    unsigned own = cpus == NULL; /* the caller is one of them */
    unsigned most = cpus != NULL ? (unsigned)CPU_COUNT(cpus) : HELPERS;
    unsigned started;

    WM_CANCEL_OFF(); /* it joins the helpers */
    wanted = wanted > own ? wanted - own : 0;
    started = start_helpers(&t, helper, wanted < most ? wanted : most, cpus);
    if (own != 0 || started == 0) {
        (void)touch_pieces(&t);
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(helper[i], NULL);
    }
    errno = atomic_load_explicit(&t.error, memory_order_relaxed);
    return errno == 0;
}
