#!/bin/sh
# test_readme.sh: the programs of README.md compile as it prints, against what
# `make install` brings of $PK_BUILD, and run where they can.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
build=${PK_BUILD:-build/release}
unset MAKEFLAGS MAKELEVEL FLAVOUR B LD_LIBRARY_PATH

# The first block of README.md whose fence names the language $1.
block() {
    awk -v fence="\`\`\`$1" '$0 == fence { inside = 1; next }
        inside && /^```$/ { exit } inside' "$top/README.md"
}

# The command of README.md that begins with $1, as it stands there.
command_of() {
    sed -n "s/^    \\($1 .*\\)/\\1/p" "$top/README.md" | head -n 1
}

with_warmpool() {
    PKG_CONFIG_PATH=$prefix/lib/pkgconfig LIBRARY_PATH=$prefix/lib \
        sh -c "$1"
}

test_H6_the_first_program_compiles_and_runs() {
    mkdir examples
    block c >examples/quickstart.c
    with_warmpool "$(command_of cc)"
    WARMPOOL_CONF=device:host LD_LIBRARY_PATH=$prefix/lib ./quickstart >out
    has_line "$(cat out)" 'the last byte is 7'
}

test_H6_the_program_in_cpp_compiles_and_runs() {
    block cpp >page.cpp
    with_warmpool "c++ -std=c++17 -Wall -Wextra -Werror page.cpp \
        \$(pkg-config --cflags --libs warmpool) -o page"
    WARMPOOL_CONF=device:host LD_LIBRARY_PATH=$prefix/lib ./page
}

test_H6_the_kernel_compiles() {
    block cuda >kernel.cu
    with_warmpool "$(command_of nvcc)"
    [ -x kernel ]
}

prefix=$scratch/root
make -s -C "$top" "B=$build" install "prefix=$prefix" >"$scratch/install.out" ||
    { cat "$scratch/install.out"; exit 1; }
set -- test_H6_the_first_program_compiles_and_runs \
    test_H6_the_program_in_cpp_compiles_and_runs
if command -v nvcc >/dev/null; then
    set -- "$@" test_H6_the_kernel_compiles
else
    echo "skip: test_readme: no nvcc: the kernel is not compiled"
fi
tap_run "$@"
