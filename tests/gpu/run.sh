#!/bin/bash
# run.sh: runs the programs beside it on this machine's GPU.
#
#   run.sh [program...]      default: every check_* in this folder
#
# OUT names the folder for results (default: ./log): gpu/<program>.tap, the
# programs' output, machine.txt, and all of it again in gpu-logs.tar.gz.
# LIMIT: seconds that one program may take (default: 240). One test may take
# half of its own limit, so that one that hangs leaves time for the others.
# CUDA's libraries are looked for where the system's loader looks, in
# CUDA_HOME, and in Python's packages named nvidia. Without a GPU it says so
# and succeeds; CUDA libraries that are missing let the tests fail, by name.
set -u

here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-log}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1

# Files of devices rather than nvidia-smi, which a container may not have.
has_gpu() {
    for device in /dev/nvidia[0-9]* /dev/dxg; do
        [ -e "$device" ] && return 0
    done
    return 1
}

# Prints the folders, one a line, that hold CUDA's libraries.
cuda_folders() {
    local home
    # The driver's own, where containers mount it.
    ls -d /usr/local/nvidia/lib64 /usr/local/nvidia/lib 2>/dev/null
    for home in "${CUDA_HOME:-}" /usr/local/cuda /opt/cuda; do
        [ -n "$home" ] && ls -d "$home/lib64" "$home/lib" 2>/dev/null
    done
    for python in python3 python; do
        "$python" -c 'import site, sys
print("\n".join(set(site.getsitepackages() + [site.getusersitepackages()] +
                    sys.path)))' 2>/dev/null
    done | sort -u | while read -r site; do
        [ -n "$site" ] && ls -d "$site"/nvidia/*/lib 2>/dev/null
    done
}

describe() {
    uname -srm
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv 2>&1
    echo "LD_LIBRARY_PATH=$LD_LIBRARY_PATH"
    ldconfig -p 2>/dev/null | grep -E 'libcu(da|dart|blas|dnn|sparse|solver)'
}

if ! has_gpu; then
    echo "skip: no GPU on this machine: nothing of tests/gpu was run"
    exit 0
fi

# What the caller has set comes first.
found=$(cuda_folders | sort -u | paste -sd: -)
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$found
export LD_LIBRARY_PATH
describe >"$out/machine.txt" 2>&1

# Streams that share a queue of the GPU wait for each other, and tests hold
# some of them up: with the default of 8 queues they could meet.
export CUDA_DEVICE_MAX_CONNECTIONS=32
export CK_TIMEOUT_MULTIPLIER=${CK_TIMEOUT_MULTIPLIER:-0.5}

programs=("$@")
[ $# -gt 0 ] || programs=("$here"/check_*)
bash "$here/tap.sh" -l "$out" -t "${LIMIT:-240}" "${programs[@]/#/gpu:}" |
    tee "$out/summary.txt"
status=${PIPESTATUS[0]}
tar -C "$out" -czf "$out/gpu-logs.tar.gz" gpu machine.txt summary.txt
exit "$status"
