#!/bin/sh
# preload.sh FOLDER: one program that knows CUDA alone, without and with
# warmpool-run, on the stand-ins of CUDA's libraries in FOLDER/standin. These
# wait as long as CUDA's own were reported to take; everything else about the
# times is this machine's.
set -u
built=$1
cuda=${CUDA_HOME:-/usr/local/cuda}/include
# Microseconds of each call. cublasCreate and -Destroy together 326.5 us
# (GitHub, Cytnx issue 1148, RTX 4070 Ti SUPER); page-locking 1 MiB 574 us, as
# 102 GiB take 60 s (GitHub, llama.cpp issue 28223).
delays=cublasCreate_v2=327,cuMemHostAlloc=574,cuMemHostRegister_v2=574

echo "An unmodified program, with and without warmpool-run"
if [ ! -d "$built/standin" ] || [ ! -e "$cuda/cuda_runtime_api.h" ]; then
    echo "  skipped: the stand-ins need CUDA's headers"
    exit 0
fi
scratch=$(mktemp -d) || exit
trap 'rm -rf "$scratch"' EXIT
LD_LIBRARY_PATH=$built/standin STANDIN_DELAYS=$delays
export LD_LIBRARY_PATH STANDIN_DELAYS
# shellcheck disable=SC2086 # two files
${CC:-cc} -O2 -I"$cuda" -DLIBCUDART='""' tests/preload/cuda_program.c \
    "$built"/standin/libcudart.so.* "$built"/standin/libcublas.so.* \
    -Wl,-rpath-link,"$built/standin" -pthread -ldl -o "$scratch/program" || exit
"$scratch/program" rounds >"$scratch/alone" &&
    "$built/warmpool-run" -q "$scratch/program" rounds >"$scratch/served" ||
    exit
awk '
    { value[FILENAME == ARGV[1], $1] = $2 }
    END {
        printf "  200 rounds of create, pin 2 x 1 MiB, copy, free, destroy:\n"
        printf "  %-14s %8s %8s %10s\n", "", "creates", "pins", "ms"
        printf "  %-14s %8d %8d %10.1f\n", "alone", value[1, "creates"],
            value[1, "pins"], value[1, "ms"]
        printf "  %-14s %8d %8d %10.1f\n", "warmpool-run", value[0, "creates"],
            value[0, "pins"], value[0, "ms"]
        same = value[0, "sum"] == value[1, "sum"]
        printf "  %s results, %.1f times as fast, on stand-ins of CUDA " \
            "that wait\n  327 us to create a handle and 574 us to pin, as " \
            "reported of GPUs\n", same ? "the same" : "OTHER",
            value[1, "ms"] / value[0, "ms"]
        exit !same
    }' "$scratch/alone" "$scratch/served"
