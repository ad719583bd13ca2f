/* fuzz_ipc.c: handles of memory of other processes. The bytes change a handle
 * of this process's own, whose checksum is made to fit: it is refused, and then
 * nothing is open, or it is opened and may be closed. */
#include "fuzz/fuzz.h"

#include <stddef.h>
#include <string.h>

static warm_runtime *runtime;
static warm_ipc_handle exported;

static void begin(void)
{
    void *block;

    runtime = wt_runtime(NULL);
    exported.size = sizeof exported;
    wt_ok(warm_device_alloc(runtime, 0, NULL, 4096, &block));
    wt_ok(warm_ipc_export(block, &exported));
}

/* FNV-1a, as the library has it: else no input would come behind it. */
static uint64_t check_of(const warm_ipc_handle *handle)
{
    const unsigned char *at = (const unsigned char *)handle;
    uint64_t sum = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < offsetof(warm_ipc_handle, check); i++) {
        sum = (sum ^ at[i]) * UINT64_C(1099511628211);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    warm_ipc_handle handle;
    warm_ipc_stats stats = {.size = sizeof stats};
    unsigned char *at = (unsigned char *)&handle;
    void *pointer = &stats;

    if (runtime == NULL) {
        begin();
        ck_assert_uint_eq(exported.check, check_of(&exported));
    }
    handle = exported;
    for (size_t i = 0; i < bytes && i < offsetof(warm_ipc_handle, check); i++) {
        at[i] ^= data[i];
    }
    handle.check = check_of(&handle);
    if (warm_ipc_open(runtime, &handle, &pointer) == WARM_OK) {
        wt_ok(warm_ipc_close(runtime, pointer));
    } else {
        ck_assert_ptr_eq(pointer, &stats);
        ck_assert_str_ne(warm_last_error_message(), "");
    }
    wt_ok(warm_ipc_get_stats(runtime, &stats));
    ck_assert_uint_eq(stats.opened, 0);
    return 0;
}
