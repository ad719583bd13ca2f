/* check_secure.c: a set-user-ID program's environment is its caller's, and is
 * not read (row G4). This program answers secure_getenv() as there. */
#include "wt.h"

#include "runtime/base/probe.h"

#include <stdlib.h>
#include <string.h>

static bool is_another_users = true;

/* In place of the C library's. */
WARM_API char *secure_getenv(const char *name)
{
    return is_another_users ? NULL : getenv(name);
}

static void refuse_warnings(void *context, warm_log_level level,
                            const char *line)
{
    (void)context;
    wt_require(level != WARM_LOG_WARNING || strstr(line, "CONFIG") == NULL,
               "%s", line);
}

WT_CASE("secure");

WT_TEST(test_G4_environment_of_a_set_user_id_program_is_not_read)
{
    warm_runtime *runtime;
    warm_stream stream = NULL;
    void *handle = NULL;

    setenv("WARMPOOL_CONF", "nonsense", 1);
    setenv("CUBLAS_WORKSPACE_CONFIG", "nonsense", 1);
    setenv("NVTX_INJECTION64_PATH", "nonsense", 1);
    warm_log_set(refuse_warnings, NULL);
    runtime = wt_runtime(NULL);
    ck_assert(!atomic_load(&wm_probe_ranges));
    if (!wt_on_host()) {
        wt_ok(warm_stream_reserve(runtime, 0, &stream));
        wt_ok(warm_handle_reserve_on(runtime, WARM_KIND_CUBLAS, 0, stream,
                                     &handle));
    }
    wt_ok(warm_thread_release(runtime));
    wt_runtime_end(runtime);
    warm_log_set(NULL, NULL);
}

#if !defined(WM_NO_CUDA) && __has_include(<nvtx3/nvToolsExt.h>)
WT_LOOP_TEST(test_G8_ranges_are_on_if_a_tool_is_named, 2)
{
    is_another_users = false;
    if (_i == 1) {
        setenv("NVTX_INJECTION64_PATH", "nonsense", 1);
    }
    wm_probe_open();
    ck_assert_int_eq(atomic_load(&wm_probe_ranges), _i);
}
#endif
