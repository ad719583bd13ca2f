/* sched.h: plays threads of the library through their schedules.
 *
 *   wt_play ─ fork ─► one schedule: setup, threads, check      (a process each)
 *      ▲                 │ every atomic operation, futex call and driver call
 *      └── choices ◄─────┘ of the library: go on, or another thread
 *
 * One thread runs at a time. First all schedules with one and then with two
 * preemptions, depth first (a switch from a thread that waits, yields or ends
 * is none); then random ones, by PCT: a random thread has precedence, and loses
 * it at a few random places. A schedule fails if a check or an assertion fails,
 * the process dies, all threads wait, or they never end. It is printed as
 *
 *   WT_SCHEDULE=STEP>THREAD,…       at that step that thread runs instead
 *
 * which plays it again, and tells each switch. WT_SCHEDULES is how many
 * schedules a scenario gets, WT_SEED begins the random ones. Time is simulated:
 * it passes when all threads wait. The workers of the host device are such
 * threads, so that work on a stream ends at any moment. Inside the host device
 * a thread is preempted only where it enters. */
#ifndef WT_SCHED_H
#define WT_SCHED_H

enum { WT_PLAYERS = 4 };

typedef struct wt_scenario {
    void (*setup)(void); /* once, before all schedules; starts no thread */
    void (*begin)(void); /* or null: alone, at the beginning of a schedule */
    void (*player[WT_PLAYERS])(void);
    void (*check)(void); /* alone, after the players have ended */
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
/* In a loop that waits for another thread of the scenario. */
void wt_wait(void);

#endif
