/* quickstart.c: a handle from the pool, a pinned buffer, a safe free.
 *
 *   cc quickstart.c $(pkg-config --cflags --libs warmpool) -o quickstart
 *
 * Runs on a GPU where there is one, and on the host device elsewhere.
 */
#include <warmpool/warmpool.h>

#include <stdio.h>
#include <string.h>

#define TRY(call)                                                              \
    if ((call) != WARM_OK) {                                                   \
        fprintf(stderr, "%s\n", warm_last_error_message());                    \
        return 1;                                                              \
    }

int main(void)
{
    enum { BYTES = 1 << 20 };
    warm_runtime *runtime;
    warm_stream stream;
    void *blas, *buffer, *on_device;

    TRY(warm_runtime_default(&runtime));
    /* This thread's own stream, and its cuBLAS handle (a cublasHandle_t) bound
     * to it. Both go back to the pool when the thread exits. */
    TRY(warm_stream_reserve(runtime, 0, &stream));
    if (warm_handle_reserve_on(runtime, WARM_KIND_CUBLAS, 0, stream, &blas) !=
        WARM_OK) {
        printf("goes on without cuBLAS: %s\n", warm_last_error_message());
    }
    TRY(warm_device_alloc(runtime, 0, stream, BYTES, &on_device));

    TRY(warm_pinned_alloc(runtime, BYTES, &buffer));
    memset(buffer, 7, BYTES);
    TRY(warm_copy_async(runtime, on_device, buffer, BYTES, WARM_COPY_TO_DEVICE,
                        stream));
    /* At once: nobody gets the buffer before the copy has finished. */
    TRY(warm_free(buffer));

    TRY(warm_pinned_alloc(runtime, BYTES, &buffer));
    TRY(warm_copy_async(runtime, buffer, on_device, BYTES, WARM_COPY_TO_HOST,
                        stream));
    TRY(warm_stream_synchronize(runtime, stream));
    printf("the last byte is %d\n", ((char *)buffer)[BYTES - 1]);
    TRY(warm_free(buffer));
    TRY(warm_free(on_device));
    TRY(warm_runtime_destroy(runtime, NULL));
    return 0;
}
