#!/bin/sh
# rest.sh HEADER OBJECT...: C code for the functions of cudart that HEADER of
# CUDA declares and the objects do not define. Each says once that it is not
# there, and answers cudaErrorNotSupported: a program that names it starts all
# the same. $CC compiles, with the flags in $CUDA_FLAGS.
set -eu
header=$1
shift

# Also as code for per-thread default streams names them.
declared() {
    for variant in '' -DCUDA_API_PER_THREAD_DEFAULT_STREAM; do
        # shellcheck disable=SC2086 # words on purpose: flags, or none
        echo "#include <$header>" | ${CC:-cc} -x c -E -P $CUDA_FLAGS \
            $variant - | sed -nE 's/^extern .*\b(cuda[A-Za-z0-9_]+) ?\(.*/\1/p'
    done | sort -u
}

defined() {
    nm --defined-only "$@" | awk '$2 == "T" { print $3 }' | sort -u
}

defined "$@" >"$1.defined"
cat <<'END'
#include "tests/standin/cudart.h"
#define REST(name)              \
    int s_##name(void) __asm__(#name); \
    int s_##name(void) { return standin_not_there(#name); }
END
declared | comm -23 - "$1.defined" | sed 's/.*/REST(&)/'
rm -f "$1.defined"
