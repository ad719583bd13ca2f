/* probe_program.c: a program without CUDA, which looks whether it is there (row
 * H1): no library has these functions, and so nobody finds them. */
#include "program.h"

int main(void)
{
    void *program = dlopen(NULL, RTLD_LAZY);

    MUST(program != NULL);
    MUST(dlsym(RTLD_DEFAULT, "cudaMalloc") == NULL);
    MUST(dlerror() != NULL);
    MUST(dlsym(program, "cublasCreate_v2") == NULL);
    MUST(dlerror() != NULL);
    MUST(dlsym(RTLD_DEFAULT, "malloc") != NULL);
    MUST(dlsym(program, "dlsym") != NULL);
    puts("no CUDA");
    return 0;
}
