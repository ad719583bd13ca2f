/* refuse.h: calls that CUDA refuses, with what each answers and what
 * cudaGetLastError() says of it: the same with and without warmpool. */
#ifndef REFUSE_H
#define REFUSE_H

#include "program.h"

#include <cuda_runtime_api.h>

static inline void say_error(const char *what, int code)
{
    printf("%s: %d, then %d\n", what, code, (int)cudaGetLastError());
}

static inline void refuse_all(size_t bytes)
{
    const size_t too_much = (size_t)1 << 50;
    void *pinned = NULL, *device = NULL, *none = NULL;

    say_error("device", (int)cudaMalloc(&none, too_much));
    say_error("async", (int)cudaMallocAsync(&none, too_much, NULL));
    TRY(cudaMallocHost(&pinned, bytes));
    TRY(cudaMalloc(&device, bytes));
    say_error("free of a part", (int)cudaFree((char *)device + 512));
    say_error("free of the host's", (int)cudaFree(pinned));
    say_error("host's free", (int)cudaFreeHost(device));
    TRY(cudaFree(device));
    TRY(cudaFreeHost(pinned));
    say_error("nothing", 0);
}

#endif
