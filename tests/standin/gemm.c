/* gemm.c: see gemm.h. op(A) is packed block by block, so that the innermost
 * loop runs down contiguous columns of A and C and can be vectorised; four
 * columns of C share each load of A. */
#include "gemm.h"

enum { ROWS = 256, DEPTH = 128 };

static void scale(const standin_gemm *g)
{
    for (int j = 0; j < g->n; j++) {
        float *c = g->c + (long)j * g->ldc;

        for (int i = 0; i < g->m; i++) {
            /* Not multiplied by 0: what is there may be no number. */
            c[i] = g->beta != 0 ? c[i] * g->beta : 0;
        }
    }
}

/* packed[l * ROWS + i] = alpha · op(A)(row + i, depth + l) */
static void pack(const standin_gemm *g, int row, int rows, int depth,
                 int depths, float *packed)
{
    for (int l = 0; l < depths; l++) {
        for (int i = 0; i < rows; i++) {
            long at = g->transpose_a ? depth + l + (long)(row + i) * g->lda
                                     : row + i + (long)(depth + l) * g->lda;

            packed[l * ROWS + i] = g->alpha * g->a[at];
        }
    }
}

static float element_b(const standin_gemm *g, int l, int j)
{
    return g->b[g->transpose_b ? j + (long)l * g->ldb : l + (long)j * g->ldb];
}

static void columns4(const standin_gemm *g, int row, int rows, int depth,
                     int depths, int j, const float *restrict packed)
{
    float *restrict c0 = g->c + row + (long)j * g->ldc;
    float *restrict c1 = c0 + g->ldc;
    float *restrict c2 = c1 + g->ldc;
    float *restrict c3 = c2 + g->ldc;

    for (int l = 0; l < depths; l++) {
        const float *restrict a = packed + (long)l * ROWS;
        float b0 = element_b(g, depth + l, j);
        float b1 = element_b(g, depth + l, j + 1);
        float b2 = element_b(g, depth + l, j + 2);
        float b3 = element_b(g, depth + l, j + 3);

        for (int i = 0; i < rows; i++) {
            c0[i] += a[i] * b0;
            c1[i] += a[i] * b1;
            c2[i] += a[i] * b2;
            c3[i] += a[i] * b3;
        }
    }
}

static void column(const standin_gemm *g, int row, int rows, int depth,
                   int depths, int j, const float *restrict packed)
{
    float *restrict c = g->c + row + (long)j * g->ldc;

    for (int l = 0; l < depths; l++) {
        const float *restrict a = packed + (long)l * ROWS;
        float b = element_b(g, depth + l, j);

        for (int i = 0; i < rows; i++) {
            c[i] += a[i] * b;
        }
    }
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

void standin_gemm_run(const standin_gemm *g)
{
    float packed[ROWS * DEPTH];

    scale(g);
    for (int depth = 0; depth < g->k; depth += DEPTH) {
        for (int row = 0; row < g->m; row += ROWS) {
            int depths = least(DEPTH, g->k - depth);
            int rows = least(ROWS, g->m - row);
            int j = 0;

            pack(g, row, rows, depth, depths, packed);
            for (; j + 4 <= g->n; j += 4) {
                columns4(g, row, rows, depth, depths, j, packed);
            }
            for (; j < g->n; j++) {
                column(g, row, rows, depth, depths, j, packed);
            }
        }
    }
}

void standin_gemm_partial(const standin_gemm *g, float *workspace)
{
    standin_gemm part = *g;

    part.beta = 0;
    part.c = workspace;
    part.ldc = g->m;
    standin_gemm_run(&part);
}

void standin_gemm_reduce(const standin_gemm *g, const float *workspace)
{
    scale(g);
    for (int j = 0; j < g->n; j++) {
        for (int i = 0; i < g->m; i++) {
            g->c[i + (long)j * g->ldc] += workspace[i + (long)j * g->m];
        }
    }
}
