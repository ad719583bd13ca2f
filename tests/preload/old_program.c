/* old_program.c: looks CUDA's functions up with the dlsym() that programs built
 * before glibc 2.34 call: another version of the symbol. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>

#include "program.h"

#ifndef LIBCUDART /* to be opened */
#define LIBCUDART ""
#endif

#ifdef __x86_64__
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
#endif

int main(void)
{
    void *cudart = dlopen(LIBCUDART, RTLD_NOW | RTLD_LOCAL);
    int (*alloc)(void **, size_t, unsigned) = NULL;
    int (*end)(void *) = NULL;
    void *block = NULL;

    MUST(cudart != NULL);
    *(void **)(void *)&alloc = dlsym(cudart, "cudaHostAlloc");
    *(void **)(void *)&end = dlsym(cudart, "cudaFreeHost");
    MUST(alloc != NULL && end != NULL);
    for (int i = 0; i < 20; i++) {
        MUST(alloc(&block, 4096, 0) == 0 && end(block) == 0);
    }
    printf("pins %" PRIu64 "\n",
           calls_of("cuMemHostAlloc") + calls_of("cuMemHostRegister_v2"));
    return 0;
}
