#!/bin/sh
# test_preload_edges.sh: rarer things that a program does which knows CUDA alone
# (row H1), with libwarmpool-preload.so over the stand-ins: see test_preload.sh.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
built=$(dirname "$top/${WT_STATIC:-build/debug/libwarmpool.a}")
standin=$built/standin
cuda=${CUDA_HOME:-/usr/local/cuda}/include

# Builds a program of tests/preload/. $1: name; the rest: libraries.
build() {
    source=$top/tests/preload/$1_program.c
    name=$1
    shift
    cudart=$(cd "$standin" && echo libcudart.so.*)
    ${CC:-cc} -g -Wno-deprecated-declarations -I"$cuda" \
        -DLIBCUDART="\"$cudart\"" "$source" "$@" -pthread -ldl \
        -Wl,-rpath,"$standin" -Wl,-rpath-link,"$standin" -o "$scratch/$name"
}

served() {
    WARMPOOL_CONF=preload:handles+pinned+device \
        timeout 60 "$built/warmpool-run" -q "$scratch/$1" ${2+"$2"}
}

test_H1_handles_of_every_library_are_leases() {
    "$scratch/edge" kinds >plain
    served edge kinds >warm
    for library in blas lt dnn sparse solver; do
        [ "$(sed -n "s/^$library //p" plain)" -ge 12 ]
        [ "$(sed -n "s/^$library //p" warm)" -le 2 ] || { cat warm; return 1; }
    done
}

test_H1_a_free_waits_for_streams_that_were_destroyed() {
    "$scratch/edge" order
    served edge order
}

test_H1_look_ups_of_old_programs_are_served() {
    same "$("$scratch/old")" 'pins 20'
    [ "$(served old | sed -n 's/^pins //p')" -le 2 ]
}

test_H1_a_folder_that_cannot_be_preloaded_is_refused() {
    mkdir 'a b'
    cp "$built/warmpool-run" "$built/libwarmpool-preload.so" 'a b'
    status=0
    'a b/warmpool-run' "$scratch/old" 2>said || status=$?
    same "$status" 2
    grep -q 'a space or a colon in the path ends it' said
}

if [ ! -d "$standin" ] || [ ! -e "$cuda/cuda_runtime_api.h" ]; then
    echo "skip: test_preload_edges: no stand-ins of CUDA's libraries"
    printf '1..1\nok 1 - test_preload_edges # skip no stand-ins\n' \
        >"${CK_TAP_LOG_FILE_NAME:-/dev/null}"
    exit 0
fi
LD_LIBRARY_PATH=$standin
export LD_LIBRARY_PATH
build edge "$standin"/libcu[bdrs]*.so.* && build old || exit 1
tap_run test_H1_handles_of_every_library_are_leases \
    test_H1_a_free_waits_for_streams_that_were_destroyed \
    test_H1_look_ups_of_old_programs_are_served \
    test_H1_a_folder_that_cannot_be_preloaded_is_refused
