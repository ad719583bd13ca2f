/* gemm.h: C = alpha · op(A) · op(B) + beta · C, column after column. */
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

#endif
