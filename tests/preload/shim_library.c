/* shim_library.c: libcudnn.so.9 as NVIDIA makes it: it looks its own functions
 * up in libcudnn_graph.so.9, and calls those. As other libraries of theirs do,
 * it makes a handle of cuBLAS when it needs one, and ends it when one of its
 * own ends. */
#include <dlfcn.h>
#include <stddef.h>

typedef int create_fn(void **handle);
typedef int destroy_fn(void *handle);
typedef int stream_fn(void *handle, void *stream);

create_fn cudnnCreate;
destroy_fn cudnnDestroy;
stream_fn cudnnSetStream, cudnnGetStream;
create_fn cublasCreate_v2;
destroy_fn cublasDestroy_v2;

static void *inner;

static void *look(const char *name)
{
    void *graph = dlopen("libcudnn_graph.so.9", RTLD_NOW | RTLD_LOCAL);

    return graph != NULL ? dlsym(graph, name) : NULL;
}

int cudnnCreate(void **handle)
{
    create_fn *create = NULL;

    *(void **)(void *)&create = look("cudnnCreate");
    return create != NULL ? create(handle) : 1;
}

int cudnnDestroy(void *handle)
{
    destroy_fn *destroy = NULL;

    if (inner != NULL && cublasDestroy_v2(inner) != 0) {
        return 1;
    }
    inner = NULL;
    *(void **)(void *)&destroy = look("cudnnDestroy");
    return destroy != NULL ? destroy(handle) : 1;
}

int cudnnSetStream(void *handle, void *stream)
{
    stream_fn *set = NULL;

    *(void **)(void *)&set = look("cudnnSetStream");
    return set != NULL ? set(handle, stream) : 1;
}

int cudnnGetStream(void *handle, void *stream)
{
    stream_fn *get = NULL;

    if (inner == NULL && cublasCreate_v2(&inner) != 0) {
        return 1;
    }
    *(void **)(void *)&get = look("cudnnGetStream");
    return get != NULL ? get(handle, stream) : 1;
}
