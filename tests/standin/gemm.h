/* gemm.h: C = alpha · op(A) · op(B) + beta · C, column after column; at once,
 * or in two steps, as libraries do that split the sum over k:
 *
 *   partial: workspace = alpha · op(A) · op(B)     one piece of work
 *   reduce:  C = workspace + beta · C              the next
 *
 * Between the two, another user of the same workspace does its harm. */
#ifndef STANDIN_GEMM_H
#define STANDIN_GEMM_H

#include <stdbool.h>

typedef struct standin_gemm {
    bool transpose_a, transpose_b;
    int m, n, k;
    float alpha, beta;
    const float *a, *b;
    float *c;
    int lda, ldb, ldc;
} standin_gemm;

void standin_gemm_run(const standin_gemm *g);

/* workspace: m floats for each of n columns. */
void standin_gemm_partial(const standin_gemm *g, float *workspace);
void standin_gemm_reduce(const standin_gemm *g, const float *workspace);

#endif
