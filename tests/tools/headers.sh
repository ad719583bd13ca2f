#!/bin/sh
# headers.sh FLAGS...: every public header compiles alone, as C11 and C++17,
# with both compilers. Typed headers are left out aloud where the vendor's
# header is missing; those of onnxruntime.h and ggml.h are restated in
# tests/vendor/. None names a row of the contract, which users do not have.
set -u
failed=0
warn='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror'

# Calls of one header; $1: compiler, $2: language, $3: standard, $4: header.
compile() {
    # shellcheck disable=SC2086 # words on purpose
    # One may have macros only.
    printf '#include "warmpool/%s"\nextern int something;\n' "$4" |
        "$1" -x "$2" -std="$3" $warn $flags -Iinclude -Itests/vendor \
            -fsyntax-only - ||
        { echo "headers: $4 does not compile with $1 as $3"; failed=1; }
}

flags="$*"
for path in include/warmpool/*.h; do
    header=$(basename "$path")
    vendor=$(sed -n 's/^#include <\(.*[a-z]\.h\)>$/\1/p' "$path" |
        grep -E '^(cu|dnnl)' | head -n 1)
    # shellcheck disable=SC2086 # words on purpose
    if [ -n "$vendor" ] && ! echo "#include <$vendor>" |
        ${CC:-cc} $flags -E - >/dev/null 2>&1; then
        echo "skip: $header: <$vendor> not found"
        continue
    fi
    for compiler in gcc clang; do
        command -v $compiler >/dev/null || continue
        compile $compiler c c11 "$header"
    done
    for compiler in g++ clang++; do
        command -v $compiler >/dev/null || continue
        compile $compiler c++ c++17 "$header"
    done
done
# Versions before and after each field of the allocator.
for version in 17 18 22 23 24; do
    base=$flags
    flags="$base -DORT_API_VERSION=$version -include onnxruntime_c_api.h"
    compile gcc c c11 onnxruntime.h
    compile g++ c++ c++17 onnxruntime.h
    flags=$base
done
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || continue
    for standard in c++17 c++20; do
        compile $compiler c++ $standard warmpool.hpp
    done
done
if grep -nE '\((rows? )?[A-IT][0-9]' include/warmpool/*.h*; then
    echo "headers: a row of the contract in a public header"
    failed=1
fi
exit "$failed"
