/* check_memory_model.c: random steps over all memory against a plain model
 * (rows B4 to B7, B15, B18, C1, C4, C10, E1 to E9, F2, T9): three devices,
 * page-locked memory, of a node too, pageable memory where there is no other,
 * and buffers that host and devices share, with their users; streams
 * that are held, retired, adopted, replaced and capture; private pools; graphs
 * that are launched; limits and a driver without memory; a second runtime,
 * which the same threads use.
 *
 * For every freed block the model has the stream positions that must be passed
 * before its memory is allocated again, or that it never may be (model.h). It
 * checks each allocation against them; work on the streams checks that nobody
 * wrote to a block too early; and the statistics must equal the model's. */
#include "model/memory_model.h"

WT_LOOP_TEST(
    test_B4_B15_B18_C4_C10_E4_E9_F2_T9_random_steps_agree_with_the_model,
    MODEL_KINDS)
{
    unsigned long steps = wt_scaled(40000);

    model_begin((unsigned)_i, steps);
    for (model.step = 1; model.step <= steps; model.step++) {
        model_step();
        if (model.step % 64 == 0) {
            model_check_figures();
        }
        if (model.step % 512 == 0) {
            model_check_arenas();
        }
        if (model.step % 4096 == 0) {
            model_drain();
        }
    }
    model_end();
}
