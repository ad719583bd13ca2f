/* stub_library.c: a library that has cuBLAS's functions itself, and opens
 * cuBLAS in them, as CTranslate2 does. It knows no version of it: row H1. */
#include <dlfcn.h>
#include <stddef.h>

#ifndef CUBLAS /* the file to open; test_preload.sh names the stand-in's */
#define CUBLAS "libcublas.so"
#endif

typedef int create_fn(void **handle);
typedef int destroy_fn(void *handle);

create_fn cublasCreate_v2;
destroy_fn cublasDestroy_v2;
int create_often(int times);

static void *look(const char *name)
{
    static void *cublas;

    if (cublas == NULL) {
        cublas = dlopen(CUBLAS, RTLD_LAZY | RTLD_LOCAL);
    }
    return cublas != NULL ? dlsym(cublas, name) : NULL;
}

int cublasCreate_v2(void **handle)
{
    create_fn *create = NULL;

    *(void **)(void *)&create = look("cublasCreate_v2");
    return create != NULL ? create(handle) : -1;
}

int cublasDestroy_v2(void *handle)
{
    destroy_fn *destroy = NULL;

    *(void **)(void *)&destroy = look("cublasDestroy_v2");
    return destroy != NULL ? destroy(handle) : -1;
}

/* 0, or the first code that is not. */
int create_often(int times)
{
    int code = 0;

    for (int i = 0; i < times && code == 0; i++) {
        void *handle = NULL;

        code = cublasCreate_v2(&handle);
        if (code == 0) {
            code = cublasDestroy_v2(handle);
        }
    }
    return code;
}
