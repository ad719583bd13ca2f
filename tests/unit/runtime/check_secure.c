/* check_secure.c: a set-user-ID program's environment is its caller's, and is
 * not read (row G4). This program answers secure_getenv() as there. */
#include "wt.h"

#include "runtime/base/probe.h"

#include <stdlib.h>
#include <string.h>

static char *answer; /* to every name */

/* In place of the C library's. */
WARM_API char *secure_getenv(const char *name)
{
    (void)name;
    return answer;
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
#include <nvtx3/nvToolsExt.h>

static int begun, depth;

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
    (void)domain;
    ck_assert_str_eq(event->message.ascii, "work");
    begun++;
    return depth++;
}

static int pop(nvtxDomainHandle_t domain)
{
    (void)domain;
    return --depth;
}

/* A tool as NVTX finds it where it is linked to the program. */
static int inject(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned size;

    if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table,
                                           &size)) {
        return 0;
    }
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}

WT_LOOP_TEST(test_G8_ranges_reach_a_tool_that_is_named, 2)
{
    static char tool[] = "linked";

    InitializeInjectionNvtx2_fnptr = inject;
    answer = _i == 1 ? tool : NULL;
    wm_probe_open();
    ck_assert_int_eq(atomic_load(&wm_probe_ranges), _i);
    wm_range_begin("work");
    ck_assert_int_eq(depth, _i);
    wm_range_end();
    ck_assert_int_eq(depth, 0);
    ck_assert_int_eq(begun, _i);
}
#endif
