#!/bin/sh
# test_platform.sh: elsewhere than on 64-bit Linux with glibc the public headers
# and make end with one readable error.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/tap.sh"
root=$(cd "$tools/../.." && pwd)
wanted='#error "warmpool needs 64-bit Linux with glibc'

# errors FLAG...: the lines with errors of a program that includes warmpool.h.
# Without the C library's own headers, which may not be there for 32 bits.
errors() {
    # shellcheck disable=SC2086 # words on purpose
    echo '#include <warmpool/warmpool.h>' | LC_ALL=C ${CC:-cc} -x c \
        -std=c11 -ffreestanding -I"$root/include" -fsyntax-only "$@" - 2>&1 |
        grep 'error:' || true
}

one_error() {
    lines=$(errors "$@")
    echo "$lines"
    same "$(echo "$lines" | wc -l)" 1
    case $lines in *"$wanted"*) ;; *) return 1 ;; esac
}

test_this_machine_is_supported() {
    same "$(errors)" ""
}

test_other_systems_are_one_error() {
    one_error -U__linux__
}

test_32_bits_are_one_error() {
    one_error -m32
    one_error -mx32
}

# Stands for a C library whose <features.h> does not define __GLIBC__.
test_other_c_libraries_are_one_error() {
    mkdir other
    : >other/features.h
    one_error -isystem other
}

test_make_stops_at_that_error() {
    unset MAKEFLAGS
    out=$(LC_ALL=C make -k -C "$root" CUDA=no B="$PWD/b" CFLAGS=-U__linux__ \
        all 2>&1) && return 1
    same "$(echo "$out" | grep -c 'error:')" 1
    same "$(echo "$out" | grep -c '^cc  ')" 0
}

test_make_says_that_it_cannot_work_below_a_space() {
    unset MAKEFLAGS
    mkdir 'a folder'
    cp "$root/Makefile" 'a folder'
    out=$(LC_ALL=C make -n -C 'a folder' all 2>&1) && return 1
    case $out in *"/a folder: the name of this folder"*"a space"*) ;;
    *) echo "$out"; return 1 ;; esac
}

tap_run test_this_machine_is_supported \
    test_other_systems_are_one_error \
    test_32_bits_are_one_error \
    test_other_c_libraries_are_one_error \
    test_make_stops_at_that_error \
    test_make_says_that_it_cannot_work_below_a_space
