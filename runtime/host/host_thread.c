/* host_thread.c: the host device's records of threads.
 *
 *   thread ── key ──► record ──► record        one for each driver it used
 *                        │          │
 *                        ▼          ▼
 *                       root       root ──► host (null once closed)
 *
 * The list belongs to its thread alone. A record holds a reference of its root,
 * not of the driver: a thread that outlives the driver finds root->host null,
 * under the root's own lock, and touches nothing. One key serves the process,
 * because a key cannot be deleted safely while threads exit. The records are
 * freed in the second round of destructors: those of the first round, whose
 * order is not known, may still name the thread's streams. */
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

bool wm_host_thread_put_off(wm_host_thread *thread)
{
    bool first = !thread->exits;

    thread->exits = true;
    return first && pthread_setspecific(list.key, thread) == 0;
}

void wm_host_root_release(wm_host_root *root)
{
    /* Release: all that this thread did under the lock, the unlock included,
     * comes before its decrement. Acquire: the thread that frees sees it all.
     * If references were counted under the lock, the last thread could free the
     * lock while another one is still inside its unlock. */
    if (atomic_fetch_sub_explicit(&root->references, 1, memory_order_acq_rel) ==
        1) {
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
    /* Relaxed: the driver holds a reference meanwhile. */
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
