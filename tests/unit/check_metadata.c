/* check_metadata.c: what the library's own memory comes to: the same after many
 * threads as after a few (row B25), and little for what a thread does not use.
 * Host device; wm_meta_live() counts. */
#include "wt.h"

#include "alloc/device_space.h"
#include "alloc/magazine_int.h"
#include "alloc/pinned.h"
#include "runtime/base/meta.h"

#include <pthread.h>
#include <string.h>

enum { AT_ONCE = 4, FEW = 8, MANY = 40, SIZE = 5000 };

static warm_runtime *runtime;

/* ---- threads that come and go --------------------------------------------
 */

static struct {
    pthread_barrier_t step;
    unsigned round;
    warm_status status[AT_ONCE];
    unsigned moved[AT_ONCE]; /* sets that went to another arena */
} churn;

/* The calling thread's sets go to another arena, as if their threads had met
 * at the lock again and again. */
static unsigned part(void)
{
    wm_window *window = wm_window_mine();
    unsigned moved = 0;

    wm_section_lock(&window->section);
    for (int i = -1; i < WM_LANE_SLOTS; i++) {
        wm_magazines *set =
            i < 0 ? wm_magazines_of(window) : wm_lane_set(&window->lane[i]);

        if (set != NULL) {
            const wm_arena *before = set->arena;

            set->met = WM_MEET_OFTEN;
            wm_magazines_spread(set);
            moved += set->arena != before;
        }
    }
    wm_section_unlock(&window->section);
    return moved;
}

static warm_status use_memory(warm_stream stream, int device)
{
    warm_status status = WARM_OK;
    void *block = NULL;

    for (int i = 0; i < 3 && status == WARM_OK; i++) {
        status = warm_pinned_alloc(runtime, SIZE, &block);
        if (status == WARM_OK && i > 0) {
            status = warm_record_stream(block, stream);
        }
        (void)warm_free(block);
        block = NULL;
        if (status == WARM_OK) {
            status = warm_device_alloc(runtime, device, stream, SIZE, &block);
        }
        (void)warm_free(block);
        block = NULL;
    }
    return status;
}

/* Each step one thread after the other, so that every round is as the one
 * before. They end in another order each time. */
static void live_shortly(void *argument, unsigned index)
{
    warm_status *status = &churn.status[index];
    int device = (int)(index % 2);
    warm_stream stream = NULL;

    (void)argument;
    for (unsigned turn = 0; turn < 3 * AT_ONCE; turn++) {
        if (turn == index) {
            *status = warm_stream_reserve(runtime, device, &stream);
            if (*status == WARM_OK) {
                *status = use_memory(stream, device);
            }
        } else if (turn == AT_ONCE + index && *status == WARM_OK) {
            churn.moved[index] += part();
            *status = use_memory(stream, device);
        } else if (turn == 2 * AT_ONCE + (index + churn.round) % AT_ONCE &&
                   *status == WARM_OK) {
            *status = warm_thread_release(runtime);
        }
        pthread_barrier_wait(&churn.step);
    }
}

static int64_t live_after(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++, churn.round++) {
        wt_threads(AT_ONCE, live_shortly, NULL);
        for (int k = 0; k < AT_ONCE; k++) {
            wt_ok(churn.status[k]);
        }
        wt_ok(warm_poll(runtime));
    }
    return wm_meta_live();
}

/* Several arenas, into which threads part, and one; with two nodes a thread's
 * page-locked memory follows its device. */
static const struct {
    uint64_t arenas, nodes;
} houses[] = {{4, 1}, {1, 1}, {3, 2}, {1, 2}};

START_TEST(test_A1_B25_threads_that_come_and_go_leave_no_metadata)
{
    warm_options options = {.size = sizeof options,
                            .device = "host",
                            .host_devices = 2,
                            .numa_nodes = houses[_i].nodes,
                            .arenas = houses[_i].arenas};
    unsigned moved = 0;
    int64_t few;

    runtime = wt_runtime(&options);
    for (int i = 0; options.arenas != 1 && i < 2; i++) {
        /* They begin in one arena, and part. */
        runtime->pinned->space.parted = false;
        runtime->device_spaces[i].space.parted = false;
    }
    pthread_barrier_init(&churn.step, NULL, AT_ONCE);
    memset(churn.moved, 0, sizeof churn.moved);
    churn.round = 0;
    few = live_after(FEW);
    ck_assert_int_eq(live_after(MANY), few);
    for (int i = 0; i < AT_ONCE; i++) {
        moved += churn.moved[i];
    }
    ck_assert(moved > 0 || options.arenas <= 1);
    pthread_barrier_destroy(&churn.step);
    wt_runtime_end(runtime);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metadata");
    TCase *tcase = tcase_create("churn");

    tcase_add_loop_test(tcase,
                        test_A1_B25_threads_that_come_and_go_leave_no_metadata,
                        0, sizeof houses / sizeof houses[0]);
    suite_add_tcase(suite, tcase);
    return wt_main(suite);
}
