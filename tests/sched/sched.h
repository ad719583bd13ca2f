/* sched.h: plays threads of the library through their schedules.
 *
 *   wt_play ─ fork ─► one schedule: setup, threads, check      (a process each)
 *      ▲                 │ every atomic operation, futex call and driver call
 *      └── choices ◄─────┘ of the library: go on, or another thread
 *
 * One thread runs at a time. First random schedules, by PCT: a random thread
 * has precedence, and loses it at a few random places. Then those with no, one
 * and two preemptions, depth first (a switch from a thread that waits, yields
 * or ends is none); if they are too many, a part of them, which may reach the
 * last places only, and so others at places of equal chance. A place for a
 * switch is before an operation that another player's disturbs. A schedule
 * fails if a check or an assertion fails, the process dies, all threads wait,
 * or they never end. It is cut down to the switches that it needs, and printed
 *
 *   WT_SCHEDULE=STEP>THREAD,…       at that step that thread runs instead
 *
 * which plays it again, and tells each switch. WT_SCHEDULES is about how many
 * schedules a scenario gets, WT_SEED begins what is random. Time is simulated:
 * it passes when all threads wait. The workers of the host device are such
 * threads, so that work on a stream ends at any moment. Inside the host device
 * a thread is preempted only where it enters.
 *
 * Memory is as weak as C11 allows, in part (weak.c): a store that is not part
 * of a read-modify-write may be late for the other threads, which is a choice
 * as a preemption is ("STEP>15"), and plain memory that two threads use has to
 * be ordered by what acquires and releases. A load is never early; nor is the
 * store of a read-modify-write late, but for sequentially consistent ones with
 * WT_WEAKEN.
 * With WT_WEAKEN=FILE:LINE the library's operation there has a weaker order,
 * which should turn a scenario red. Of a scenario that passes it is printed
 * whether players met that operation ("green") or not ("never met"). */
#ifndef WT_SCHED_H
#define WT_SCHED_H

#include <stdbool.h>

enum { WT_PLAYERS = 4 };

typedef struct wt_scenario {
    void (*setup)(void); /* once, before all schedules; starts no thread */
    void (*begin)(void); /* or null: alone, at the beginning of a schedule */
    /* Or null: in each player, before there is a choice. If there is one, the
     * end of a thread is without a choice, too. */
    void (*warm)(void);
    void (*check)(void); /* or null: alone, after the players have ended */
    void (*player[WT_PLAYERS])(void);
} wt_scenario;

/* Plays the scenario, and asserts that no schedule fails. */
void wt_play(const wt_scenario *scenario);

/* For any thread of a scenario: ends the schedule as a failed one. */
_Noreturn void wt_fail(const char *file, int line, const char *what);
#define wt_must(condition)                                                     \
    ((condition) ? (void)0 : wt_fail(__FILE__, __LINE__, #condition))
#define wt_must_ok(call) wt_must((call) == WARM_OK)

/* A place in a scenario's own code at which another thread may run. */
void wt_here(void);
/* Sets a word of the scenario, and waits until it is set: who waits has seen
 * what was done before. */
void wt_tell(bool *word);
void wt_await(const bool *word);

#endif
