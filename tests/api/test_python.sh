#!/bin/sh
# test_python.sh: the Python package (row H3) from its sources, with the library
# that make check has built, beside $WT_STATIC, on the host device and over the
# stand-ins. What needs packages of Python is in make check-python.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
built=$(dirname "$top/${WT_STATIC:-build/debug/libwarmpool.a}")
warn='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror'

compiler=''
for name in g++ clang++; do
    if [ -z "$compiler" ] && command -v $name >/dev/null; then
        compiler=$name
    fi
done

skip() {
    echo "skip: test_python: $1"
    printf '1..1\nok 1 - test_python # skip %s\n' "$1" \
        >"${CK_TAP_LOG_FILE_NAME:-/dev/null}"
    exit 0
}
command -v python3 >/dev/null || skip 'no python3'
[ -n "$compiler" ] || skip 'no compiler of C++'
case ${WT_LINK:-} in
*-fsanitize=*) skip 'Python is built without sanitizers' ;;
esac

# The package as it would be installed, with the libraries inside.
package=$scratch/package/warmpool
# shellcheck disable=SC2086 # words on purpose
build() {
    mkdir -p "$package"
    cp "$top"/runtime/python/warmpool/*.py "$built/libwarmpool.so.0" \
        "$package" &&
        $compiler -std=c++17 $warn -fPIC -shared -fvisibility=hidden \
            -I"$top/include" "$top"/runtime/python/*.cpp \
            -L"$built" -lwarmpool -Wl,-rpath,"\$ORIGIN" \
            -o "$package/libwarmpool-python.so" &&
        $compiler -std=c++17 $warn -I"$top/include" \
            "$top/tests/python/entry_program.cpp" \
            "$package/libwarmpool-python.so" -L"$built" -lwarmpool -pthread \
            -Wl,-rpath,"$package" -o "$scratch/entry_program"
}

on_host() {
    WARMPOOL_CONF=device:host timeout 60 "$@"
}
on_standin() {
    [ ! -d "$built/standin" ] ||
        WARMPOOL_CONF=device:cuda LD_LIBRARY_PATH=$built/standin \
            timeout 60 "$@"
}

# Both drivers run a class of check_python.py, and a case of the program.
# $1: class
class() {
    for on in on_host on_standin; do
        echo "$on $1"
        PYTHONPATH=$scratch/package PYTHONDONTWRITEBYTECODE=1 \
            $on python3 "$top/tests/python/check_python.py" "$1"
    done
}
entry() {
    on_host "$scratch/entry_program" "$1"
    on_standin "$scratch/entry_program" "$1"
}

test_H3_buffers_are_views_of_page_locked_memory() {
    class Buffers
}

test_H3_dlpack_capsules_own_the_memory() {
    class Capsules
}

test_H3_errors_are_exceptions() {
    class Errors
}

test_H3_statistics_and_snapshots_are_dictionaries() {
    class State
}

test_H3_what_is_left_at_exit_ends_in_peace() {
    class Endings
}

test_H3_threads_share_buffers() {
    class Threads
}

test_H3_frameworks_are_refused_the_host_device() {
    class Frameworks
}

test_H3_classes_of_shapes_do_not_pile_up() {
    class Types
}

test_H3_torch_memory_is_in_the_order_of_its_stream() {
    entry memory
}

test_H3_torch_frees_wait_for_recorded_streams() {
    entry streams
}

test_H3_torch_failures_are_exceptions() {
    entry failures
}

test_H3_torch_fraction_is_a_watermark() {
    entry fraction
}

test_H3_torch_pools_are_private_pools() {
    entry pools
}

test_H3_signatures_are_those_of_the_headers() {
    PYTHONPATH=$scratch/package python3 "$top/tests/python/signatures.py" \
        >"$scratch/signatures.cpp" &&
        $compiler -std=c++17 -fsyntax-only -I"$top" -I"$top/include" \
            "$scratch/signatures.cpp"
}

# Files that are no libraries hide a cudart that this machine has.
test_H3_cudart_of_pythons_packages_is_found() {
    [ -d "$built/standin" ] || return 0
    mkdir -p "$scratch/site/nvidia/cu13" "$scratch/hide"
    ln -s "$built/standin" "$scratch/site/nvidia/cu13/lib"
    : >"$scratch/hide/libcudart.so.13"
    : >"$scratch/hide/libcudart.so.12"
    LD_LIBRARY_PATH=$scratch/hide WARMPOOL_CONF=device:cuda \
        PYTHONPATH=$scratch/package:$scratch/site PYTHONDONTWRITEBYTECODE=1 \
        timeout 60 python3 -c 'import warmpool; warmpool.runtime()'
}

build || exit 1
tap_run test_H3_buffers_are_views_of_page_locked_memory \
    test_H3_dlpack_capsules_own_the_memory \
    test_H3_errors_are_exceptions \
    test_H3_statistics_and_snapshots_are_dictionaries \
    test_H3_threads_share_buffers \
    test_H3_what_is_left_at_exit_ends_in_peace \
    test_H3_frameworks_are_refused_the_host_device \
    test_H3_classes_of_shapes_do_not_pile_up \
    test_H3_cudart_of_pythons_packages_is_found \
    test_H3_signatures_are_those_of_the_headers \
    test_H3_torch_memory_is_in_the_order_of_its_stream \
    test_H3_torch_frees_wait_for_recorded_streams \
    test_H3_torch_failures_are_exceptions \
    test_H3_torch_fraction_is_a_watermark \
    test_H3_torch_pools_are_private_pools
