/* life.c: which objects end with a context. A reset of the device ends all that
 * was made in its primary context: a call that names such an object afterwards
 * is noted as misuse.
 *
 * Tracked are streams, events, executable graphs, memory but that of ranges,
 * and handles of libraries. */
#include "standin.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct object {
    struct object *next;
    const void *name;
    standin_life life;
} object;

enum { BUCKETS = 1024 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static object *buckets[BUCKETS]; /* mutex */

static object **find_locked(const void *name)
{
    uintptr_t bits = (uintptr_t)name;
    object **at = &buckets[(bits >> 4 ^ bits >> 12) % BUCKETS];

    while (*at != NULL && (*at)->name != name) {
        at = &(*at)->next;
    }
    return at;
}

void standin_born(const void *name)
{
    standin_life life = standin_current_life();
    object **at;

    pthread_mutex_lock(&mutex);
    at = find_locked(name);
    /* One of that address was given back in a way that is not seen here. */
    if (*at == NULL) {
        *at = calloc(1, sizeof **at);
        (*at)->name = name;
    }
    (*at)->life = life;
    pthread_mutex_unlock(&mutex);
}

standin_life standin_life_of(const void *name)
{
    const object *o;
    standin_life life = {0};

    pthread_mutex_lock(&mutex);
    o = *find_locked(name);
    if (o != NULL) {
        life = o->life;
    }
    pthread_mutex_unlock(&mutex);
    return life;
}

bool standin_used(const char *function, const void *name)
{
    if (!standin_is_alive(standin_life_of(name))) {
        standin_note_misuse("%s: of a context that was reset", function);
        return false;
    }
    return true;
}

void standin_gone(const void *name)
{
    object **at, *o;

    pthread_mutex_lock(&mutex);
    at = find_locked(name);
    o = *at;
    if (o != NULL) {
        *at = o->next;
        free(o);
    }
    pthread_mutex_unlock(&mutex);
}
