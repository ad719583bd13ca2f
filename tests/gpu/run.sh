#!/bin/bash
# run.sh: runs the tests and the benches beside it on this machine's GPU.
#
#   run.sh [program...]      default: first_day (what is not known of CUDA yet),
#                            every check_* in this folder, the benches
#
# OUT names the folder for results (default: ./log), which gets a handful of
# files: summary.txt, gpu-logs.tar.gz with all logs (TAP, outputs, figures), and
# the figures themselves. Each step has its own limit and the others go on after
# one that failed. Programs named on the command line are tested, and nothing
# else is done.
# CUDA's libraries are looked for where the system's loader looks, in
# CUDA_HOME, and in Python's packages named nvidia. Without a GPU it says so
# and succeeds; CUDA libraries that are missing let the tests fail, by name.
# GPU=assume: go on without one, to try all this over the stand-in libraries.
# STEPS: steps and their limits in seconds (default: all, twelve minutes).
# JOBS: test programs at a time (default: a third of the processors). LIMIT:
# seconds for each of them (default: 150).
# WT_SCALE: load of random and stress tests in percent (default: 20, since each
# step asks the driver).
set -u

here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-log}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
# Many small files: packed at the end, since not every way back takes them all.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Files of devices rather than nvidia-smi, which a container may not have.
has_gpu() {
    [ "${GPU:-}" != assume ] || return 0
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
    nproc
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv 2>&1
    echo "LD_LIBRARY_PATH=$LD_LIBRARY_PATH"
    ldconfig -p 2>/dev/null | grep -E 'libcu(da|dart|blas|dnn|sparse|solver)'
}

# Whether the bundle has a file that a step needs; says so, if not.
has() {
    [ -e "$here/$2" ] || echo "skip: $1: not in this bundle" |
        tee "$work/$1.log"
    [ -e "$here/$2" ]
}

# step NAME SECONDS COMMAND...: its output goes to NAME.log; a line for the
# summary says how it ended. Standard input is nobody's.
failed=0
step() {
    local name=$1 limit=$2 start=$SECONDS status word=ok
    shift 2
    echo "==== $name"
    timeout -k 5 "$limit" "$@" </dev/null 2>&1 | tee "$work/$name.log"
    status=${PIPESTATUS[0]}
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        word="stopped after $limit s"
    elif [ "$status" -ne 0 ]; then
        word="ended with status $status"
    fi
    [ "$word" = ok ] || failed=1
    printf '%-8s %4d s  %s\n' "$name" $((SECONDS - start)) "$word" \
        >>"$work/summary.txt"
}

# What is worth reading first, and everything, packed.
collect() {
    {
        echo
        cat "$work/first.log"
        grep -hE '^(FAIL|[0-9]+ passed)|^ +[|>] ' "$work/tests.log"
        sed 's/^/alone: /' "$work/again.log"
        sed -n '/^skip/p' "$work"/*.log | sort -u
        cat "$work/machine.txt"
        cat "$work"/{demo,preload,python,bench,kinds,torch}.log
    } >>"$work/summary.txt" 2>/dev/null
    tar -C "$work" -czf "$out/gpu-logs.tar.gz" .
    cp "$work/summary.txt" "$out"
    cp "$work"/*.jsonl "$out" 2>/dev/null
}

if ! has_gpu; then
    echo "skip: no GPU on this machine: nothing of tests/gpu was run"
    exit 0
fi

# What the caller has set comes first.
found=$(cuda_folders | sort -u | paste -sd: -)
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$found
export LD_LIBRARY_PATH
describe >"$work/machine.txt" 2>&1

# Streams that share a queue of the GPU wait for each other, and tests hold
# some of them up: with the default of 8 queues they could meet.
export CUDA_DEVICE_MAX_CONNECTIONS=32
# One test may take half of its own limit, so that one that hangs leaves time
# for the others.
export CK_TIMEOUT_MULTIPLIER=${CK_TIMEOUT_MULTIPLIER:-0.5}

export WT_SCALE=${WT_SCALE:-20}

programs=("$@")
steps='tests=250 again=150'
if [ $# -eq 0 ]; then
    programs=("$here"/check_*)
    steps='first=40 tests=270 again=100 demo=40 preload=60 python=40 bench=90
        kinds=10 torch=80'
fi

# A context takes a good part of a second to make, so the tests of a program
# share a process. Those of these programs do not, nor those of one that failed:
# "again" tells which tests they were, and whether each fails alone.
forked=' check_ipc check_ipc_fault check_random check_watch '
names=
for program in "${programs[@]}"; do
    [[ $forked =~ [[:space:]]${program##*/}[[:space:]] ]] ||
        names="$names ${program##*/}"
done
jobs=$(($(nproc) / 3))
tap=(bash "$here/tap.sh" -l "$work" -t "${LIMIT:-150}"
    -j "${JOBS:-$((jobs > 0 ? jobs : 1))}" -w "bash $here/watch.sh")

# Programs that failed, and that have not run one test a process yet. Their logs
# are kept as NAME.first.
again() {
    local name
    awk '/^FAIL gpu/ { print $3 }' "$work/tests.log" | while read -r name; do
        case " $names " in
        *" $name "*)
            cp "$work/gpu/$name.tap" "$work/gpu/$name.first"
            echo "gpu:$here/$name"
            ;;
        esac
    done
}

for limits in ${STEPS:-$steps}; do
    name=${limits%=*} limit=${limits#*=}
    case $name in
    first) step first "$limit" "$here/first_day" ;;
    tests)
        step tests "$limit" "${tap[@]}" -n "$names" "${programs[@]/#/gpu:}"
        ;;
    again)
        mapfile -t red < <(again)
        [ ${#red[@]} -eq 0 ] || step again "$limit" "${tap[@]}" "${red[@]}"
        ;;
    demo)
        has demo demo/bin/demo && step demo "$limit" \
            env LD_LIBRARY_PATH="$here/demo/lib:$LD_LIBRARY_PATH" \
            "$here/demo/bin/demo" --bin "$here/demo/bin" \
            --data "$here/demo/data" --driver cuda
        ;;
    preload)
        has preload preload &&
            step preload "$limit" bash "$here/preload_gpu.sh"
        ;;
    python)
        has python python/warmpool &&
            step python "$limit" env PYTHONPATH="$here/python" \
                "${PYTHON:-python3}" "$here/python_gpu.py"
        ;;
    bench) step bench "$limit" "$here/bench" "${LOAD:-gpu}" "$work" ;;
    kinds) step kinds "$limit" "$here/bench" kinds "$work" ;;
    torch)
        step torch "$limit" "${PYTHON:-python3}" "$here/torch_bench.py" "$work"
        ;;
    esac
done
collect
echo "gpu: $(paste -sd';' <(head -n 8 "$work/summary.txt"))"
exit "$failed"
