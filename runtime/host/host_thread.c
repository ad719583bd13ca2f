/* host_thread.c: what the host device keeps for each thread.
 *
 *   thread ── key ──► record ──► record        one for each driver it used
 *                        │          │
 *                        ▼          ▼
 *                       root       root ──► host (null once closed)
 *
 * The list belongs to its thread alone. A record keeps its root alive, not the
 * driver: a thread that outlives the driver finds null there, under the lock
 * that lives in the root, and touches nothing. One key serves the process, as
 * a key that is deleted while a thread exits could not be deleted safely. */
#include "runtime/host/host.h"

#include "runtime/base/meta.h"
#include "runtime/base/process.h"

/* Written once, before the first host device is opened. */
static struct {
    pthread_key_t key;
    bool made; /* false if the process had no key left */
} list;

void wm_host_thread_key(void (*at_exit)(void *))
{
    list.made = pthread_key_create(&list.key, at_exit) == 0;
}

void wm_host_root_release(wm_host_root *root)
{
    /* Release: what this thread did under the lock, the unlock included, comes
     * before the drop; acquire: the last one sees all of that before it frees.
     * Counted under the lock instead, the last one could free it while
     * another thread is still about to leave it. */
    if (atomic_fetch_sub_explicit(&root->references, 1, memory_order_acq_rel) ==
        1) {
        wm_lock_fini(&root->lock);
        wm_meta_free(root);
    }
}

static wm_host_thread *make_locked(wm_host *host, wm_host_thread *first)
{
    size_t devices = (size_t)host->driver.devices;
    wm_host_thread *thread =
        wm_meta_alloc(sizeof *thread + devices * sizeof(wm_host_stream *));

    if (thread == NULL) {
        return NULL;
    }
    thread->next = first;
    thread->root = host->root;
    thread->generation = host->driver.generation;
    thread->token = host->next_token++;
    if (pthread_setspecific(list.key, thread) != 0) {
        wm_meta_free(thread);
        return NULL;
    }
    /* Relaxed: the driver's own reference is there meanwhile. */
    atomic_fetch_add_explicit(&host->root->references, 1, memory_order_relaxed);
    return thread;
}

wm_host_thread *wm_host_thread_locked(wm_host *host, bool make)
{
    wm_host_thread *first;

    if (!list.made) {
        return NULL;
    }
    first = pthread_getspecific(list.key);
    for (wm_host_thread *t = first; t != NULL; t = t->next) {
        if (t->root == host->root) {
            return t;
        }
    }
    return make ? make_locked(host, first) : NULL;
}

void wm_host_thread_prune(void)
{
    wm_host_thread *thread, *kept = NULL;

    thread = list.made ? pthread_getspecific(list.key) : NULL;
    if (thread == NULL) {
        return;
    }
    while (thread != NULL) {
        wm_host_thread *next = thread->next;
        bool closed = false;

        if (thread->generation == wm_process_generation()) {
            wm_lock_acquire(&thread->root->lock);
            closed = thread->root->host == NULL;
            wm_lock_release(&thread->root->lock);
        }
        if (closed) {
            wm_host_root_release(thread->root);
            wm_meta_free(thread);
        } else {
            thread->next = kept;
            kept = thread;
        }
        thread = next;
    }
    pthread_setspecific(list.key, kept);
}
