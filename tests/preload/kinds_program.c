/* kinds_program.c: a program that makes, binds and destroys handles of every
 * library, 20 times, and counts what the stand-ins made. The functions are
 * restated: none of their headers need be there. */
#include "program.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>

typedef void *handle;

int cudaStreamCreate(void **stream);
int cudaStreamDestroy(void *stream);

static const struct library {
    const char *name, *create, *destroy,
        *set; /* set: null, it has no streams */
} libraries[] = {
    {"cublas", "cublasCreate_v2", "cublasDestroy_v2", "cublasSetStream_v2"},
    {"cublaslt", "cublasLtCreate", "cublasLtDestroy", NULL},
    {"cudnn", "cudnnCreate", "cudnnDestroy", "cudnnSetStream"},
    {"cusparse", "cusparseCreate", "cusparseDestroy", "cusparseSetStream"},
    {"cusolver", "cusolverDnCreate", "cusolverDnDestroy",
     "cusolverDnSetStream"},
};

/* As a call of the program would find it. */
static void *find(const char *name)
{
    return name != NULL ? dlsym(RTLD_DEFAULT, name) : NULL;
}

static int use(const struct library *of, void *stream)
{
    int (*create)(handle *) = NULL;
    int (*destroy)(handle) = NULL;
    int (*set)(handle, void *) = NULL;
    handle two[2] = {NULL};

    *(void **)(void *)&create = find(of->create);
    *(void **)(void *)&destroy = find(of->destroy);
    *(void **)(void *)&set = find(of->set);
    if (create == NULL || destroy == NULL) {
        return 1;
    }
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 2; k++) {
            if (create(&two[k]) != 0 ||
                (set != NULL && set(two[k], stream) != 0)) {
                return 1;
            }
        }
        if (two[0] == two[1] || destroy(two[1]) != 0 || destroy(two[0]) != 0) {
            return 1;
        }
    }
    return 0;
}

int main(void)
{
    void *stream = NULL;

    if (cudaStreamCreate(&stream) != 0) {
        return 1;
    }
    for (unsigned i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        if (use(&libraries[i], stream) != 0) {
            printf("%s failed\n", libraries[i].name);
            return 1;
        }
        printf("%s %" PRIu64 "\n", libraries[i].name,
               calls_of(libraries[i].create));
    }
    return cudaStreamDestroy(stream);
}
