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

# As where `make` came before `make demo`, which installs oneDNN's. The compiler
# finds the headers of this folder alone when it is asked what is there.
test_what_a_header_is_used_for_is_built_once_it_is_there() {
    unset MAKEFLAGS
    mkdir headers
    cat >ours <<END
#!/bin/sh
case " \$* " in
*" -E "*) exec cc -nostdinc -I"$PWD/headers" "\$@" ;;
*) exec cc "\$@" ;;
esac
END
    chmod +x ours
    make_ "$PWD/b/flags" CUDA=no CC="$PWD/ours" B="$PWD/b"
    cp b/flags before
    make_ "$PWD/b/flags" CUDA=no CC="$PWD/ours" B="$PWD/b"
    cmp before b/flags
    : >headers/dnnl.h
    make_ "$PWD/b/flags" CUDA=no CC="$PWD/ours" B="$PWD/b"
    same "$(cat b/flags)" "$(cat before)dnnl.h "
}

test_make_names_a_compiler_that_is_missing_and_nothing_else() {
    out=$(make_ all CC=nosuch CUDA=no B="$PWD/b") && return 1
    same "$(echo "$out" | grep nosuch)" "make: nosuch: no C compiler: \
install gcc and libc6-dev, or name one: CC=clang"
    same "$(echo "$out" | grep -c 'not found')" 0
}

test_make_says_that_it_cannot_work_below_a_space() {
    unset MAKEFLAGS
    mkdir 'a folder'
    cp "$root/Makefile" 'a folder'
    out=$(LC_ALL=C make -n -C 'a folder' all 2>&1) && return 1
    case $out in *"/a folder: the name of this folder"*"a space"*) ;;
    *) echo "$out"; return 1 ;; esac
}

# A make of this tree; $1: what it makes, the rest: variables.
make_() {
    env -u MAKEFLAGS -u MAKELEVEL -u CUDA_HOME -u FLAVOUR -u B \
        make -s -C "$root" "$@" 2>&1
}

test_a_build_says_whether_it_has_cuda() {
    mkdir -p toolkit/include
    echo '#define CUDART_VERSION  12040' >toolkit/include/cuda_runtime_api.h
    with="cuda with CUDA 12.4 ($PWD/toolkit)"
    same "$(make_ say-cuda CUDA_HOME="$PWD/toolkit")" "$with"
    same "$(make_ say-cuda CUDA=no)" 'cuda without CUDA: CUDA=no'
    none='no headers of it are found; CUDA_HOME names its folder'
    same "$(make_ say-cuda CUDA_HOME=)" "cuda without CUDA: $none"
    for goal in all install deb; do
        make_ -n "$goal" CUDA=no | grep -q 'cuda without CUDA: CUDA=no'
    done
}

test_a_folder_without_cuda_is_an_error() {
    out=$(make_ say-cuda CUDA_HOME=/nowhere) && return 1
    echo "$out" | grep -q \
        'CUDA_HOME=/nowhere: no include/cuda_runtime_api.h there'
    same "$(make_ say-cuda CUDA_HOME=/nowhere CUDA=no)" \
        'cuda without CUDA: CUDA=no'
    make_ help CUDA_HOME=/nowhere | grep -q '^  all '
}

tap_run test_this_machine_is_supported \
    test_other_systems_are_one_error \
    test_32_bits_are_one_error \
    test_other_c_libraries_are_one_error \
    test_make_stops_at_that_error \
    test_what_a_header_is_used_for_is_built_once_it_is_there \
    test_make_names_a_compiler_that_is_missing_and_nothing_else \
    test_make_says_that_it_cannot_work_below_a_space \
    test_a_build_says_whether_it_has_cuda \
    test_a_folder_without_cuda_is_an_error
