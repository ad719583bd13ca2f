/* own_program.c: opens libraries of CUDA, or with stubs of them, by their path,
 * so that nothing is found by name (row H1).
 *
 *   own_program LIBRARY: makes handles of cuBLAS, by the library's
 *   create_often() if it has one, and prints how many were made. */
#include "program.h"

typedef int often_fn(int times);
typedef int create_fn(void **handle);
typedef int destroy_fn(void *handle);

static void create_often(void *library)
{
    create_fn *create = NULL;
    destroy_fn *destroy = NULL;

    *(void **)(void *)&create = dlsym(library, "cublasCreate_v2");
    *(void **)(void *)&destroy = dlsym(library, "cublasDestroy_v2");
    for (int i = 0; i < 20; i++) {
        void *handle = NULL;

        TRY(create(&handle));
        TRY(destroy(handle));
    }
}

int main(int argc, char **argv)
{
    void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
    often_fn *often = NULL;

    MUST(library != NULL);
    *(void **)(void *)&often = dlsym(library, "create_often");
    if (often != NULL) {
        TRY(often(20));
    } else {
        create_often(library);
    }
    printf("creates %llu\n", (unsigned long long)calls_of("cublasCreate_v2"));
    return 0;
}
