/* last_error.c: what warmpool refuses becomes the last error of CUDA as well,
 * for programs that look at cudaGetLastError() alone.
 *
 * Only CUDA can set it: a call that fails with that code does. It asks for more
 * than any device has, or gives no place for the pointer, and changes nothing.
 * Captures of the thread survive it, since the thread is in relaxed mode
 * meanwhile. */
#include "preload.h"

enum { RELAXED = 2 };
static const size_t too_much = (size_t)1 << 50;

typedef int alloc_fn(void **pointer, size_t bytes);
typedef int free_fn(void *pointer);
typedef int exchange_fn(int *mode);

static void exchange(int *mode)
{
    exchange_fn *real =
        (exchange_fn *)wp_real(WP_AT_cudaThreadExchangeStreamCaptureMode, NULL);

    if (real != NULL) {
        (void)real(mode);
    }
}

static void fail(alloc_fn *alloc, int code)
{
    void *block = NULL;

    if (code == WP_OUT_OF_MEMORY && alloc(&block, too_much) == 0) {
        free_fn *end = (free_fn *)wp_real(WP_AT_cudaFree, NULL);

        (void)(end != NULL ? end(block) : 0);
    }
    if (code == WP_INVALID_VALUE) {
        (void)alloc(NULL, 1);
    }
}

int wp_failed(int code)
{
    int mode = RELAXED;
    alloc_fn *alloc = (alloc_fn *)wp_real(WP_AT_cudaMalloc, NULL);

    /* Whatever other code says that CUDA has ended. */
    if (alloc != NULL &&
        (code == WP_OUT_OF_MEMORY || code == WP_INVALID_VALUE)) {
        wp_in();
        exchange(&mode);
        fail(alloc, code);
        exchange(&mode);
        wp_out();
    }
    return code;
}
