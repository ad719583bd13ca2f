#!/bin/sh
# test_standin.sh: programs that are linked with NVIDIA's own libraries, as a
# user links them, run over the stand-ins, which LD_LIBRARY_PATH names (row H8).
# Of the folder in which make check has built everything: that of $WT_STATIC.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
built=$(dirname "$top/${WT_STATIC:-build/debug/libwarmpool.a}")
standin=$built/standin
source=$top/tests/preload
cuda=${CUDA_HOME:-/usr/local/cuda}
real=$cuda/lib64
[ -d "$real" ] || real=$cuda/lib

# $1: name, $2: source; the rest: flags. The libraries' own files are linked.
link_real() {
    name=$1 file=$2
    shift 2
    ${CC:-cc} -g -isystem "$cuda/include" "$source/$file" "$@" "$cudart" \
        "$real/$cublas" -pthread -ldl -o "$name"
}

over() {
    LD_LIBRARY_PATH=$standin timeout 60 "$@"
}

test_H8_what_programs_call_is_there() {
    link_real plain plain_program.c
    same "$(over ./plain 2>said)" 'all as expected'
    same "$(cat said)" 'stand-in: cudaDestroyTextureObject() is not there'
    # Nothing is said of versions that the loader misses.
    WARMPOOL_CONF=preload:handles+pinned+device
    export WARMPOOL_CONF
    same "$(over "$built/warmpool-run" -q ./plain 2>said)" 'all as expected'
    same "$(cat said)" 'stand-in: cudaDestroyTextureObject() is not there'
}

# All names are looked up before the program begins.
test_H8_a_program_that_is_bound_at_the_start_starts() {
    link_real bound plain_program.c -Wl,-z,now
    same "$(over ./bound 2>said)" 'all as expected'
    link_real rounds cuda_program.c -Wl,-z,now
    over ./rounds rounds >plain
    grep -q '^creates 200$' plain
}

# As the library that they stand for; libcuda has none.
test_H8_versions_of_symbols_are_nvidias() {
    for file in "$standin"/libcu*.so.*; do
        name=${file##*/}
        [ "$name" != libcuda.so.1 ] || continue
        readelf -VW "$file" | sed -n 's/.*Flags: none.*Name: //p' >ours
        grep -qx "$name" ours
        [ ! -e "$real/$name" ] ||
            readelf -VW "$real/$name" | sed -n '/Version def/,/^$/p' |
            grep -q "Flags: none.*Name: $name\$"
    done
}

test_H8_kernels_are_counted_and_not_run() {
    cat >kernel.cu <<'END'
#include <stdio.h>
__global__ void set(int *to) { *to = 1; }
int main()
{
    int *to, back = 5;
    if (cudaMalloc(&to, 4) || cudaMemset(to, 0, 4)) return 1;
    set<<<1, 1>>>(to);
    if (cudaGetLastError()) return 2;
    if (cudaMemcpy(&back, to, 4, cudaMemcpyDefault)) return 3;
    printf("%d\n", back);
    return cudaFree(to);
}
END
    "$nvcc" -cudart shared -o kernel kernel.cu -L"$real" >log 2>&1 ||
        { cat log; return 1; }
    same "$(over ./kernel 2>said)" 0
    grep -qx 'stand-in: kernels are counted, and not run: .*' said
}

skip_all() {
    echo "skip: test_standin: $1"
    printf '1..1\nok 1 - test_standin # skip %s\n' "$1" \
        >"${CK_TAP_LOG_FILE_NAME:-/dev/null}"
    exit 0
}

[ -d "$standin" ] || skip_all "no stand-ins of CUDA's libraries"
cudart=$(cd "$standin" && echo libcudart.so.*)
cublas=$(cd "$standin" && echo libcublas.so.*)
cudart=$real/$cudart
for file in "$cudart" "$real/$cublas"; do
    [ -e "$file" ] || skip_all "no $file"
done
also=
nvcc=$cuda/bin/nvcc
if echo 'int main() { return 0; }' >"$scratch/try.cu" &&
    "$nvcc" -cudart shared -o "$scratch/try" "$scratch/try.cu" -L"$real" \
        >/dev/null 2>&1; then
    also=test_H8_kernels_are_counted_and_not_run
else
    echo "skip: a program with a kernel: no nvcc that works"
fi
# shellcheck disable=SC2086 # a name, or none
tap_run test_H8_what_programs_call_is_there \
    test_H8_a_program_that_is_bound_at_the_start_starts \
    test_H8_versions_of_symbols_are_nvidias $also
