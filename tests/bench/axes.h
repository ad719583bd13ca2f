/* axes.h: ns and memory held side by side, while one thing varies at a time. */
#ifndef BENCH_AXES_H
#define BENCH_AXES_H

#include "tests/bench/plan.h"

enum bench_axes {
    BENCH_AXES_HELD,  /* memory alone */
    BENCH_AXES_QUICK, /* fewer rows, one seed */
    BENCH_AXES_FULL,
    BENCH_AXES_PEERS /* beside PyTorch and CUB, in turns */
};

/* json: a file, or null. word: seeds=n,…, only=PREFIX, conf=key:value,…,
 * then null; or null. met, goals: those of
 * these rows are added, or printed if they are null. False, with a line on
 * standard error, if a word or the file is refused. */
bool bench_axes(enum bench_axes which, const char *json, char **word,
                unsigned *met, unsigned *goals);

#endif
