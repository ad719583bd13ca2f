/* inside_program.c: a program that has the CUDA runtime inside it, as those
 * have that are linked with libcudart_static.a: its own functions come first.
 */
#include <stdio.h>
#include <stdlib.h>

int cudaHostAlloc(void **pointer, size_t bytes, unsigned flags);
int cudaFreeHost(void *pointer);
int cudaMalloc(void **pointer, size_t bytes);

static int calls;

__attribute__((noinline)) int cudaHostAlloc(void **pointer, size_t bytes,
                                            unsigned flags)
{
    (void)flags;
    calls++;
    *pointer = malloc(bytes);
    return *pointer == NULL;
}

__attribute__((noinline)) int cudaMalloc(void **pointer, size_t bytes)
{
    return cudaHostAlloc(pointer, bytes, 0);
}

__attribute__((noinline)) int cudaFreeHost(void *pointer)
{
    free(pointer);
    return 0;
}

int main(void)
{
    void *block = NULL;

    for (int i = 0; i < 20; i++) {
        if (cudaHostAlloc(&block, 4096, 0) != 0 || cudaFreeHost(block) != 0) {
            return 1;
        }
    }
    puts(calls == 20 ? "inside" : "served");
    return 0;
}
