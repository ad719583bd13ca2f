/* listeners.c: a list under a lock that no callback is called with. */
#include "runtime/base/listeners.h"

#include "runtime/base/callback.h"
#include "runtime/base/meta.h"

#include <string.h>

struct wm_listener {
    char name[WARM_CALLBACK_NAME];         /* const */
    warm_memory_callback callback;         /* const */
    unsigned calls;                        /* lock: threads inside */
    bool removed;                          /* lock */
    struct wm_listener *next, *next_ended; /* lock; thread that ends it */
};

/* A call by this thread, on its stack. They nest: a callback may allocate from
 * another runtime. */
struct inside {
    const wm_listeners *listeners;
    const struct inside *outer;
};

static _Thread_local const struct inside *inside;

void wm_listeners_init(wm_listeners *listeners)
{
    wm_lock_init(&listeners->lock, WM_RANK_LISTENERS);
    listeners->first = NULL;
    listeners->last = &listeners->first;
    atomic_store_explicit(&listeners->events, 0, memory_order_relaxed);
}

static void end_one(struct wm_listener *listener)
{
    if (listener->callback.done != NULL) {
        wm_callback_begin();
        listener->callback.done(listener->callback.context);
        wm_callback_end();
    }
    wm_meta_free(listener);
}

void wm_listeners_fini(wm_listeners *listeners)
{
    struct wm_listener *next;

    for (struct wm_listener *l = listeners->first; l != NULL; l = next) {
        next = l->next;
        end_one(l);
    }
    listeners->first = NULL;
}

static void count_events_locked(wm_listeners *listeners)
{
    unsigned events = 0;

    for (struct wm_listener *l = listeners->first; l != NULL; l = l->next) {
        events |= l->removed ? 0 : l->callback.events;
    }
    atomic_store_explicit(&listeners->events, events, memory_order_relaxed);
}

/* Null: there is none of that name that is not removed. */
static struct wm_listener *find_locked(const wm_listeners *listeners,
                                       const char *name)
{
    struct wm_listener *l = listeners->first;

    while (l != NULL && (l->removed || strcmp(l->name, name) != 0)) {
        l = l->next;
    }
    return l;
}

bool wm_listeners_has(wm_listeners *listeners, const char *name)
{
    bool has;

    wm_lock_acquire(&listeners->lock);
    has = find_locked(listeners, name) != NULL;
    wm_lock_release(&listeners->lock);
    return has;
}

warm_status wm_listeners_add(wm_listeners *listeners,
                             const warm_memory_callback *callback)
{
    struct wm_listener *made = wm_meta_alloc(sizeof *made);
    bool known;

    if (made == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a memory callback");
    }
    made->callback = *callback;
    strcpy(made->name, callback->name);
    made->callback.name = made->name;
    wm_lock_acquire(&listeners->lock);
    known = find_locked(listeners, made->name) != NULL;
    if (!known) {
        *listeners->last = made;
        listeners->last = &made->next;
        count_events_locked(listeners);
    }
    wm_lock_release(&listeners->lock);
    if (known) {
        wm_meta_free(made);
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "there is a memory callback '%s' already",
                       callback->name);
    }
    return WARM_OK;
}

/* Takes removed listeners with no thread inside from the list. */
static struct wm_listener *take_ended_locked(wm_listeners *listeners)
{
    struct wm_listener *ended = NULL, **link = &listeners->first, *l;

    while ((l = *link) != NULL) {
        if (l->removed && l->calls == 0) {
            *link = l->next;
            l->next_ended = ended;
            ended = l;
        } else {
            link = &l->next;
        }
    }
    listeners->last = link;
    return ended;
}

static void end_all(struct wm_listener *ended)
{
    struct wm_listener *next;

    for (; ended != NULL; ended = next) {
        next = ended->next_ended;
        end_one(ended);
    }
}

warm_status wm_listeners_remove(wm_listeners *listeners, const char *name)
{
    struct wm_listener *l, *ended;

    wm_lock_acquire(&listeners->lock);
    l = find_locked(listeners, name);
    if (l != NULL) {
        l->removed = true;
    }
    count_events_locked(listeners);
    ended = take_ended_locked(listeners);
    wm_lock_release(&listeners->lock);
    end_all(ended);
    return l != NULL ? WARM_OK
                     : wm_fail(WARM_NOT_FOUND,
                               "there is no memory callback '%.48s'", name);
}

bool wm_listeners_inside(const wm_listeners *listeners)
{
    const struct inside *i = inside;

    while (i != NULL && i->listeners != listeners) {
        i = i->outer;
    }
    return i != NULL;
}

/* An event, and what its callback gets. */
struct happening {
    warm_memory_event event;
    void *buffer;
    size_t bytes;
    const warm_segment *segment; /* null: the event is of no segment */
};

static bool call_one(const struct wm_listener *listener,
                     const struct happening *what)
{
    const warm_memory_callback *callback = &listener->callback;
    int result = 0;

    wm_callback_begin();
    if (what->segment != NULL) {
        callback->segment(callback->context, what->event, what->segment);
    } else {
        result = callback->function(callback->context, what->event,
                                    what->buffer, what->bytes);
    }
    wm_callback_end();
    return result != 0;
}

static bool call_all(wm_listeners *listeners, const struct happening *what)
{
    struct inside mine = {listeners, inside};
    struct wm_listener *ended;
    bool any = false;

    WM_KEEP_ERROR();
    inside = &mine;
    wm_lock_acquire(&listeners->lock);
    for (struct wm_listener *l = listeners->first; l != NULL; l = l->next) {
        if (l->removed || (l->callback.events & (unsigned)what->event) == 0) {
            continue;
        }
        l->calls++; /* it stays in the list */
        wm_lock_release(&listeners->lock);
        any |= call_one(l, what);
        wm_lock_acquire(&listeners->lock);
        l->calls--;
    }
    ended = take_ended_locked(listeners);
    wm_lock_release(&listeners->lock);
    end_all(ended);
    inside = mine.outer;
    return any;
}

bool wm_listeners_call(wm_listeners *listeners, warm_memory_event event,
                       void *buffer, size_t bytes)
{
    return wm_listeners_hear(listeners, event) &&
           !wm_listeners_inside(listeners) &&
           call_all(listeners, &(struct happening){event, buffer, bytes, NULL});
}

void wm_listeners_tell(wm_listeners *listeners, warm_memory_event event,
                       const warm_segment *segment)
{
    if (wm_listeners_hear(listeners, event)) {
        (void)call_all(listeners, &(struct happening){event, segment->base,
                                                      segment->bytes, segment});
    }
}
