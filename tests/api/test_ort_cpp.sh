#!/bin/sh
# test_ort_cpp.sh: what a request ends with that fails, for ONNX Runtime in a
# program of C++ (row H4). ONNX Runtime catches exceptions of an allocator, and
# would write to null. Of the static library that make check has built,
# $WT_STATIC.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
static=$top/${WT_STATIC:-build/debug/libwarmpool.a}

# Prints what requests of 64 TiB end with, and whether small ones still succeed.
# The program takes its name from $1; the rest: flags.
run_program() {
    name=$1
    shift
    cat >"$name.cpp" <<'END'
#include <onnxruntime_c_api.h>
#include <warmpool/onnxruntime.h>

struct OrtMemoryInfo {
    int unused;
};

static OrtMemoryInfo info;

static OrtStatus *create_info(const char *, OrtAllocatorType, int, OrtMemType,
                              OrtMemoryInfo **out) noexcept
{
    *out = &info;
    return nullptr;
}

static void request(OrtAllocator *a, size_t bytes)
{
#ifdef __cpp_exceptions
    try {
#endif
        void *block = a->Alloc(a, bytes);

        printf("%s\n", block == nullptr ? "null" : "memory");
        a->Free(a, block);
#ifdef __cpp_exceptions
    } catch (const std::exception &error) {
        printf("%s\n", error.what());
    }
#endif
}

int main()
{
    OrtApi api = {};
    warm_runtime *runtime = nullptr;
    warm_ort_allocator host, device;

    api.CreateMemoryInfo = create_info;
    if (warm_runtime_create(nullptr, &runtime) != WARM_OK ||
        warm_ort_host_init(&host, &api, runtime, "Cpu", 0) != nullptr ||
        warm_ort_device_init(&device, &api, runtime, 0, nullptr) != nullptr) {
        return 1;
    }
    OrtAllocator *const both[] = {&host.base, &device.base};
    for (OrtAllocator *a : both) {
        request(a, size_t(1) << 46);
        request(a, 1000);
        request(a, 0);
    }
    return warm_runtime_destroy(runtime, nullptr);
}
END
    # shellcheck disable=SC2086 # words on purpose
    g++ -std=c++17 "$@" -I"$top/include" -I"$top/tests/vendor" \
        "$name.cpp" "$static" -pthread -ldl ${WT_LINK:-} -o "$name"
    WARMPOOL_CONF=device:host "./$name"
}

test_H4_in_cpp_a_request_that_fails_throws_its_message() {
    out=$(run_program throws)
    same "$(echo "$out" | sed -n 2,3p)" "$(printf 'memory\nnull')"
    same "$(echo "$out" | sed -n 5,6p)" "$(printf 'memory\nnull')"
    for line in 1 4; do
        echo "$out" | sed -n "${line}p" |
            grep -q 'out of memory: requested 64.0 TiB'
    done
}

test_H4_without_exceptions_it_returns_null() {
    out=$(run_program plain -fno-exceptions)
    same "$(echo "$out" | tr '\n' ' ')" 'null memory null null memory null '
}

if ! command -v g++ >/dev/null; then
    echo "skip: test_ort_cpp: g++ is not here"
    printf '1..1\nok 1 - test_ort_cpp # skip no compiler of C++\n' \
        >"${CK_TAP_LOG_FILE_NAME:-/dev/null}"
    exit 0
fi
tap_run test_H4_in_cpp_a_request_that_fails_throws_its_message \
    test_H4_without_exceptions_it_returns_null
