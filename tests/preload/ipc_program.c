/* ipc_program.c: device memory shared by CUDA's handles, by a program that
 * knows CUDA alone (row H1).
 *
 *   ipc_program CASE: shares three buffers with another process, which is this
 *   program as well, and prints what each of its opens gives it. In case
 * `plain` that process is not preloaded. */
#include "program.h"

#include <cuda_runtime_api.h>

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BUFFERS = 3, BYTES = 1 << 20 };

static void send_handle(int to, const cudaIpcMemHandle_t *handle)
{
    MUST(write(to, handle, sizeof *handle) == (ssize_t)sizeof *handle);
}

/* One answer a handle: the byte that lies there, or the code. */
static int import(void)
{
    cudaIpcMemHandle_t handle;
    void *opened[2 * BUFFERS + 1] = {NULL};
    char byte = 0;
    int count = 0;

    TRY(cudaFree(NULL));
    while (read(STDIN_FILENO, &handle, sizeof handle) ==
           (ssize_t)sizeof handle) {
        int code = cudaIpcOpenMemHandle(&opened[count], handle,
                                        cudaIpcMemLazyEnablePeerAccess);

        MUST(code == (int)cudaGetLastError());
        if (code == 0) {
            TRY(cudaMemcpyAsync(&byte, opened[count++], 1,
                                cudaMemcpyDeviceToHost, NULL));
            TRY(cudaStreamSynchronize(NULL));
            printf("opened %c\n", byte);
        } else {
            printf("refused %s\n",
                   code == cudaErrorInvalidValue ? "as invalid" : "by CUDA");
        }
        fflush(stdout);
    }
    while (count > 0) {
        TRY(cudaIpcCloseMemHandle(opened[--count]));
    }
    MUST(cudaIpcCloseMemHandle(opened[0]) != cudaSuccess);
    printf("closed\n");
    return 0;
}

/* Starts the importer; returns where its handles are to be written. */
static int start(bool plain)
{
    int ends[2];

    MUST(pipe(ends) == 0);
    fflush(stdout);
    if (fork() == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        if (plain) {
            unsetenv("LD_PRELOAD");
        }
        execl("/proc/self/exe", "ipc_program", "import", (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    return ends[1];
}

static void end(int to)
{
    int status = 1;

    close(to);
    MUST(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Buffers full of A, B and C. The first of all is CUDA's own. */
static void fill(char **buffers)
{
    TRY(cudaFree(NULL));
    for (int i = 0; i < BUFFERS; i++) {
        TRY(cudaMalloc((void **)&buffers[i], BYTES));
        TRY(cudaMemsetAsync(buffers[i], 'A' + i, BYTES, NULL));
    }
    TRY(cudaStreamSynchronize(NULL));
}

/* All of them, one by a pointer into it; and once more. */
static void share_all(int to, char **buffers)
{
    cudaIpcMemHandle_t handle;

    for (int i = 0; i < 2 * BUFFERS; i++) {
        TRY(cudaIpcGetMemHandle(&handle, buffers[i % BUFFERS] + i * 1000));
        send_handle(to, &handle);
    }
}

/* A handle of memory that is free, or another's since. */
static void share_freed(void)
{
    char *buffers[BUFFERS], *next = NULL;
    cudaIpcMemHandle_t handle;
    int to;

    fill(buffers);
    TRY(cudaIpcGetMemHandle(&handle, buffers[1]));
    TRY(cudaFree(buffers[1]));
    TRY(cudaMalloc((void **)&next, BYTES));
    TRY(cudaMemsetAsync(next, 'X', BYTES, NULL));
    TRY(cudaStreamSynchronize(NULL));
    to = start(false);
    send_handle(to, &handle);
    end(to);
    TRY(cudaFree(next));
}

static void share(bool plain)
{
    char *buffers[BUFFERS];
    int to;

    fill(buffers);
    to = start(plain);
    share_all(to, buffers);
    end(to);
    for (int i = 0; i < BUFFERS; i++) {
        TRY(cudaFree(buffers[i]));
    }
}

/* What CUDA has no handles for is refused. */
static void refused(void)
{
    char *buffers[BUFFERS];
    cudaIpcMemHandle_t handle;

    fill(buffers);
    for (int i = 0; i < 2; i++) {
        printf("export %d", (int)cudaIpcGetMemHandle(&handle, buffers[1]));
        printf(", last error %d\n", (int)cudaGetLastError());
    }
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "share";

    if (strcmp(name, "import") == 0) {
        return import();
    }
    if (strcmp(name, "refused") == 0) {
        refused();
    } else if (strcmp(name, "freed") == 0) {
        share_freed();
    } else {
        share(strcmp(name, "plain") == 0);
    }
    return 0;
}
