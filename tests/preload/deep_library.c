/* deep_library.c: a library that calls CUDA, which deep_program.c opens. */
#include <cuda_runtime_api.h>

int pin_often(int times);

int pin_often(int times)
{
    void *block = NULL;

    for (int i = 0; i < times; i++) {
        if (cudaHostAlloc(&block, 1 << 20, 0) != cudaSuccess ||
            cudaFreeHost(block) != cudaSuccess) {
            return 1;
        }
    }
    return 0;
}
