#!/bin/bash
# test_probes.sh: what tracers can listen to (row G8), in the shared library
# that make check has built beside the static one, $WT_STATIC.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
built=$top/$(dirname "${WT_STATIC:-build/debug/libwarmpool.a}")
library=$(ls "$built"/libwarmpool.so.?)

has_header() {
    echo "#include <$1>" | ${CC:-cc} -E "${@:2}" - >/dev/null 2>&1
}

# Every probe is there by its name, and is a nop until a tracer comes.
test_G8_usdt_probes_are_nops_with_names() {
    readelf -n "$library" >notes
    for name in driver_call_begin driver_call_end grow_begin grow_end \
        wait_begin wait_end; do
        has_line "$(sed -n 's/^ *Name: //p' notes)" "$name"
    done
    sed -n 's/^ *Provider: //p' notes | sort -u >providers
    has_line "$(cat providers)" warmpool
    sed -n 's/^ *Location: \(0x[0-9a-f]*\),.*/\1/p' notes >places
    [ "$(wc -l <places)" -ge 10 ]
    objdump -d "$library" | sed -n 's/^ *\([0-9a-f]*\):.*\tnop$/0x\1/p' >nops
    while read -r place; do
        grep -qx "0x$(printf '%x' "$place")" nops || {
            echo "no nop at $place"
            return 1
        }
    done <places
}

# A thread that is to be cancelled allocates: the tool's functions, called for
# it, are cancellation points.
program() {
    cat >program.c <<'END'
#include <warmpool/warmpool.h>
#include <pthread.h>
#include <stdio.h>
static void *allocate(void *runtime)
{
    void *block;

    pthread_cancel(pthread_self());
    return warm_pinned_alloc(runtime, 100, &block) == WARM_OK &&
                   warm_free(block) == WARM_OK
               ? runtime
               : NULL;
}
int main(void)
{
    warm_options options = {.size = sizeof options, .device = "host"};
    warm_runtime *runtime;
    pthread_t thread;
    void *returned;

    if (warm_runtime_create(&options, &runtime) != WARM_OK ||
        pthread_create(&thread, NULL, allocate, runtime) != 0 ||
        pthread_join(thread, &returned) != 0 || returned != runtime) {
        return 1;
    }
    return warm_runtime_destroy(runtime, NULL) != WARM_OK;
}
END
    # shellcheck disable=SC2086 # words on purpose
    ${CC:-cc} -pthread -I"$top/include" program.c -L"$built" -lwarmpool \
        -Wl,-rpath,"$built" ${WT_LINK:-} -o program
}

# A tool as NVTX injects it: it prints where each range begins and ends.
tool() {
    cat >tool.c <<'END'
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
static int depth;
static nvtxDomainHandle_t make(const char *name)
{
    printf("domain %s\n", name);
    return (nvtxDomainHandle_t)&depth;
}
static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
    pthread_testcancel();
    printf("%d %s\n", domain != NULL ? depth : -1, event->message.ascii);
    return depth++;
}
static int pop(nvtxDomainHandle_t domain)
{
    (void)domain;
    pthread_testcancel();
    if (--depth == 0) {
        printf("balanced\n");
    }
    return depth;
}
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned size;

    if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table,
                                           &size)) {
        return 0;
    }
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)make;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
END
    ${CC:-cc} -shared -fPIC "$nvtx" tool.c -o tool.so
}

test_G8_nvtx_ranges_reach_an_injected_tool() {
    program
    tool
    NVTX_INJECTION64_PATH=$PWD/tool.so ./program >ranges
    has_line "$(cat ranges)" "domain warmpool"
    has_line "$(cat ranges)" "0 grow"
    has_line "$(cat ranges)" "1 pinned_alloc"
    has_line "$(tail -n 1 ranges)" "balanced"
}

tests=''
if has_header sys/sdt.h; then
    tests=test_G8_usdt_probes_are_nops_with_names
else
    echo "skip: USDT probes: no sys/sdt.h (systemtap-sdt-dev)"
fi
nvtx=-I${CUDA_HOME:-/usr/local/cuda}/include
if has_header nvtx3/nvToolsExt.h "$nvtx" &&
    nm "$library" | grep -q nvtxDomainRangePushEx; then
    tests="$tests test_G8_nvtx_ranges_reach_an_injected_tool"
else
    echo "skip: NVTX ranges: built without CUDA's nvtx3/nvToolsExt.h"
fi
if [ -z "$tests" ]; then
    printf '1..1\nok 1 - test_G8_probes # SKIP built without\n' \
        >"${CK_TAP_LOG_FILE_NAME:-/dev/null}"
    exit 0
fi
# shellcheck disable=SC2086 # words on purpose
tap_run $tests
