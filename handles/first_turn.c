/* first_turn.c: see first_turn.h. Takes lock process. */
#include "handles/first_turn.h"

#include "runtime/base/log.h"
#include "runtime/base/process.h"
#include "runtime/base/thread_data.h"

#include <string.h>

static struct {
    wm_first_turn *list; /* lock process: begun, and not over */
    unsigned generation; /* lock process: the process of the list */
    wm_cond over;
} turns;

/* In the child of a fork the threads that had a turn do not exist. */
static void reset_if_forked_locked(void)
{
    if (turns.generation != wm_process_generation()) {
        turns.generation = wm_process_generation();
        turns.list = NULL;
    }
}

/* Kinds of two runtimes are the same if their names are. */
static bool is_same(const wm_first_turn *a, const wm_first_turn *b)
{
    return a->device == b->device &&
           strcmp(a->kind->ops->name, b->kind->ops->name) == 0 &&
           strcmp(a->kind->driver->name, b->kind->driver->name) == 0;
}

bool wm_first_turn_is_mine(void)
{
    return wm_thread_marks_now.turns > 0;
}

static bool must_wait_locked(const wm_first_turn *turn)
{
    const wm_first_turn *t = turns.list;

    while (t != NULL && !is_same(t, turn)) {
        t = t->next;
    }
    return t != NULL && !wm_first_turn_is_mine();
}

void wm_first_turn_begin(wm_first_turn *turn, const wm_kind *kind, int device)
{
    *turn = (wm_first_turn){.kind = kind, .device = device};
    wm_lock_acquire(&wm_process_lock);
    reset_if_forked_locked();
    while (must_wait_locked(turn)) {
        wm_cond_wait(&turns.over, &wm_process_lock);
    }
    turn->next = turns.list;
    turns.list = turn;
    wm_thread_marks_now.turns++;
    wm_lock_release(&wm_process_lock);
}

void wm_first_turn_end(wm_first_turn *turn)
{
    wm_first_turn **at = &turns.list;

    wm_lock_acquire(&wm_process_lock);
    while (*at != NULL && *at != turn) { /* null: forked in the creation */
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = turn->next;
    }
    wm_thread_marks_now.turns--;
    wm_cond_broadcast(&turns.over);
    wm_lock_release(&wm_process_lock);
}
