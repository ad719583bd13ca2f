/* wait.c: what CUDA calls wait for that do not say so. Whoever makes one of
 * them while a host function waits for him has locked himself up, and a test
 * that does so must hang here as it would on a GPU. */
#include "standin.h"

#include "runtime/driver/host.h"

#include <stdlib.h>

/* A core and how far it had come to at the call. */
struct mark {
    wm_host_core *core;
    uint64_t queued;
};

static size_t count_locked(const wm_host *host)
{
    size_t count = 1; /* the array is never empty */

    for (const wm_host_core *c = host->all_cores; c != NULL; c = c->next) {
        count++;
    }
    return count;
}

void standin_wait_for_devices(wm_driver *d)
{
    wm_host *host = wm_host_of(d);
    struct mark *marks;
    size_t count = 0;

    wm_host_lock(host);
    marks = calloc(count_locked(host), sizeof *marks);
    for (wm_host_core *c = host->all_cores; c != NULL; c = c->next) {
        c->references++;
        marks[count++] = (struct mark){c, c->queued};
    }
    for (size_t i = 0; i < count; i++) {
        wm_host_wait_locked(host, marks[i].core, marks[i].queued);
        wm_host_core_unref_locked(host, marks[i].core);
    }
    wm_host_unlock(host);
    free(marks);
}
