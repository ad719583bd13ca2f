#!/bin/sh
# test_cpp.sh: the header for C++ (warmpool.hpp), by a program of C++, with both
# compilers in C++17 and C++20. Of the static library that make check has built,
# $WT_STATIC.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
static=$top/${WT_STATIC:-build/debug/libwarmpool.a}
warn='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror'
cccl='' # folder of CUDA's C++ library, beside CUDA's headers
for folder in "${CUDA_HOME:-/usr/local/cuda}" /usr/local/cuda; do
    folder=$folder/include
    if [ -e "$folder/cccl/cuda/memory_resource" ]; then
        cccl=$folder
    fi
done

# Of these the names of a sanitizer's or of coverage's runtimes differ: the
# library was built with gcc.
compilers() {
    for compiler in g++ clang++; do
        case $compiler:${WT_LINK:-} in
        clang++:*-fsanitize=* | clang++:*--coverage*) continue ;;
        esac
        if command -v $compiler >/dev/null; then
            echo $compiler
        fi
    done
}

# Builds the program in a folder, in the background. $1: folder, $2: compiler
# and flags.
build() {
    mkdir -p "$scratch/bin/$1"
    # shellcheck disable=SC2086 # words on purpose
    $2 $warn -I"$top/include" "$top/tests/api/cpp_program.cpp" "$static" \
        -pthread -ldl ${WT_LINK:-} -o "$scratch/bin/$1/program" \
        >"$scratch/bin/$1/log" 2>&1 &
}

build_all() {
    for compiler in $(compilers); do
        build "$compiler-17" "$compiler -std=c++17"
        build "$compiler-20" "$compiler -std=c++20"
        build "none-$compiler" "$compiler -std=c++17 -fno-exceptions -fno-rtti"
        wait
        if [ -n "$cccl" ]; then
            build "mr-$compiler" "$compiler -std=c++17 -DWARMPOOL_CUDA_MR
                -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
                -isystem $cccl/cccl -isystem $cccl"
        fi
    done
    wait
}

# $1: which of the programs, a pattern; the rest: cases.
run_cases() {
    pattern=$1
    shift
    for folder in "$scratch"/bin/$pattern; do
        [ -x "$folder/program" ] || { cat "$folder/log"; return 1; }
        for name in "$@"; do
            echo "$folder $name"
            "$folder/program" "$name"
        done
    done
}

test_H2_owners_end_what_they_own() {
    run_cases '*++-*' runtimes buffers leases binds graphs
}

test_H2_errors_are_exceptions_or_values() {
    run_cases '*++-*' values exceptions
}

test_H2_A6_owners_may_end_below_main() {
    run_cases '*++-*' late
}

test_H2_builds_without_exceptions_and_rtti() {
    run_cases 'none-*' values buffers
}

test_H2_containers_use_pinned_memory() {
    run_cases '*++-*' containers allocators
}

test_H2_resources_free_in_the_order_of_a_stream() {
    run_cases '*++-*' in_order frees_wait waits_for_nobody
}

test_H2_resources_are_those_of_cuda_mr() {
    run_cases 'mr-*' cuda_resources
}

if [ -z "$(compilers)" ]; then
    echo "skip: test_cpp: neither g++ nor clang++ is here"
    printf '1..1\nok 1 - test_cpp # skip no compiler of C++\n' \
        >"${CK_TAP_LOG_FILE_NAME:-/dev/null}"
    exit 0
fi
set -- test_H2_owners_end_what_they_own \
    test_H2_errors_are_exceptions_or_values \
    test_H2_A6_owners_may_end_below_main \
    test_H2_builds_without_exceptions_and_rtti \
    test_H2_containers_use_pinned_memory \
    test_H2_resources_free_in_the_order_of_a_stream
if [ -n "$cccl" ]; then
    set -- "$@" test_H2_resources_are_those_of_cuda_mr
else
    echo "skip: cuda::mr: <cuda/memory_resource> not found"
fi
build_all
tap_run "$@"
