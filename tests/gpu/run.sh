#!/bin/bash
# run.sh: runs the tests and the benches beside it on this machine's GPU.
#
#   run.sh                 all three parts of PLAN.md, one after the other
#   run.sh 1|2|3           one part: 1 and 2 take 300 s at most, 3 takes 180 s
#   run.sh program...      these test programs, and nothing else
#
# OUT names the folder for results (default: ./log). It gets a handful of files:
# summary.txt (read this first), gpu-logs.tar.gz with all logs (TAP, outputs,
# figures), and the figures themselves. They are written anew after each step,
# every ten seconds within a step, and when TERM, INT or HUP ends the script and
# with it what it started: a borrowed machine may go at any time.
# WORK is the folder for logs (default: work/ beside this script). Part 2 and 3
# go on with what part 1 left there, if they run on the same machine.
# Each step has its own limit, and the others go on after one that failed.
# CUDA's libraries are looked for where the system's loader looks, in
# CUDA_HOME, and in Python's packages named nvidia. Without a GPU the script
# says so and succeeds; CUDA libraries that are missing let the tests fail, by
# name.
# GPU=assume: go on without one, to try all this over the stand-in libraries.
# STEPS: steps and their limits in seconds, instead of a part's.
# JOBS: test programs at a time (default: a third of the processors). LIMIT:
# seconds for each of them (default: 150).
# WT_SCALE: load of random and stress tests in percent (default: 5, since each
# step asks the driver).
set -u

here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-log}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
work=${WORK:-$here/work}

# What was never answered comes first, what is known comes last (PLAN.md).
declare -A plan=(
    [1]='contend=40 reset=10 first=45 calls=45 never=75 changed=75'
    [2]='python=40 preload=60 demo=60 tests=115 again=20'
    [3]='torch=60 bench=60 kinds=10 again=45'
)
# Steps that test, and their programs; "tests" has all that is left.
never='check_ipc check_runtime check_cuda'
changed='check_handles check_lease check_reserve check_shared check_adopt
    check_pinned check_private_pool check_device_memory check_lease_threads'

parts='1 2 3' programs=()
case ${1:-} in
'') ;;
1 | 2 | 3) parts=$1 ;;
*) parts='' programs=("$@") STEPS=${STEPS:-named=250 again=150} ;;
esac

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

# What is worth reading first of each step's log: of tests what failed, of
# others all.
worth_reading() {
    local name log
    while read -r name _; do
        log=$work/$name.log
        [ -s "$log" ] || continue
        echo "== $name"
        if grep -qE '^(ok|FAIL) +gpu ' "$log"; then
            sed -nE '/^(FAIL|skip|[0-9]+ passed)|^ +[|>] /p' "$log"
        else
            cat "$log"
        fi
    done <"$work/steps.txt"
}

# Writes the results into OUT. Each file is complete at every moment.
collect() {
    local file new=$out/.new.$BASHPID
    {
        cat "$work/steps.txt"
        echo
        worth_reading
        cat "$work/machine.txt"
    } >"$new" 2>/dev/null
    mv "$new" "$out/summary.txt"
    tar -C "$work" -czf "$new" . 2>/dev/null
    mv "$new" "$out/gpu-logs.tar.gz"
    for file in "$work"/*.jsonl; do
        [ ! -e "$file" ] || cp "$file" "$out"
    done
}

# Ends every process of the session that a step began, programs of programs too.
end_session() {
    local stat line _ id
    for stat in /proc/[0-9]*/stat; do
        { read -r line <"$stat"; } 2>/dev/null || continue
        # Behind the name: state, parent, group, session.
        read -r _ _ _ id _ <<<"${line##*) }"
        [ "$id" != "$1" ] || kill -KILL "${stat//[!0-9]/}" 2>/dev/null
    done
}

session='' ticker=''
# shellcheck disable=SC2317 # the traps call it
stop() {
    trap '' TERM INT HUP
    [ -z "$session" ] || end_session "$session"
    [ -z "$ticker" ] || { kill "$ticker" && wait "$ticker"; }
    echo "stopped by a signal" | tee -a "$work/steps.txt"
    collect
    exit 143
}

# A step that is not over has its log in the results, too. Reading what nobody
# writes is a sleep that leaves no process behind; the loop ends with the
# script.
tick() {
    local _
    while ! read -rt "${TICK:-10}" _ <&9 && kill -0 $$; do
        collect
    done
}

# step NAME SECONDS COMMAND...: the command's output goes to NAME.log; a line
# of the summary says how it ended. Standard input is nobody's.
failed=0
step() {
    local name=$1 limit=$2 start=$SECONDS status word=ok
    shift 2
    echo "==== $name"
    printf '%-8s  began\n' "$name" >>"$work/steps.txt"
    setsid timeout -k 5 "$limit" "$@" </dev/null >"$work/$name.log" 2>&1 &
    session=$!
    wait "$session"
    status=$?
    end_session "$session"
    session=''
    cat "$work/$name.log"
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        word="stopped after $limit s"
    elif [ "$status" -ne 0 ]; then
        word="ended with status $status"
    fi
    [ "$word" = ok ] || failed=1
    sed -i '$d' "$work/steps.txt"
    printf '%-8s %4d s  %s\n' "$name" $((SECONDS - start)) "$word" \
        >>"$work/steps.txt"
    collect
}

# has NAME FILE SECONDS COMMAND...: the step, if the bundle has the file.
has() {
    local name=$1 file=$2
    if [ -e "$here/$file" ]; then
        shift 2
        step "$name" "$@"
        return
    fi
    echo "==== $name"
    echo "skip: $name: not in this bundle" | tee "$work/$name.log"
    echo "$name  skip: not in this bundle" >>"$work/steps.txt"
}

# A context takes a good part of a second to make, so the tests of a program
# share a process. Those of these programs do not, nor those of one that failed:
# "again" tells which tests they were, and whether each fails alone.
forked=' check_ipc check_watch check_runtime check_cuda '

# tests NAME SECONDS PROGRAM...: programs that the bundle lacks are left out.
tests() {
    local name=$1 limit=$2 program one=() shared='' jobs=$(($(nproc) / 3))
    shift 2
    for program in "$@"; do
        [[ $program = */* ]] || program=$here/$program
        [ -x "$program" ] || continue
        one+=("gpu:$program")
        [ "$name" = again ] ||
            [[ $forked =~ [[:space:]]${program##*/}[[:space:]] ]] ||
            shared+=" ${program##*/}"
    done
    [ ${#one[@]} -gt 0 ] || return
    step "$name" "$limit" bash "$here/tap.sh" -l "$work" -t "${LIMIT:-150}" \
        -j "${JOBS:-$((jobs > 0 ? jobs : 1))}" -w "bash $here/watch.sh" \
        -n "$shared" "${one[@]}"
    [ "$name" = again ] ||
        awk '/^FAIL gpu/ { print $3 }' "$work/$name.log" >>"$work/red.txt"
}

# Programs that failed, and have not run again. Their logs are kept as
# NAME.first.
red() {
    local program
    sort -u "$work/red.txt" | while read -r program; do
        mv "$work/gpu/$program.tap" "$work/gpu/$program.first"
        for path in "${programs[@]:-}" "$here/$program"; do
            [ "${path##*/}" != "$program" ] || { echo "$path"; break; }
        done
    done
    : >"$work/red.txt"
}

# All programs that no other step tests.
rest() {
    local program
    for program in "$here"/check_*; do
        [[ " $never $changed " =~ [[:space:]]${program##*/}[[:space:]] ]] ||
            echo "${program##*/}"
    done
}

run_step() {
    local name=$1 limit=$2 list
    case $name in
    contend) has contend contend "$limit" "$here/contend" 1 2 4 8 16 ;;
    pairs) has pairs contend "$limit" "$here/contend" pairs ;;
    reset) has reset contend "$limit" env RESET=1 "$here/contend" 1 ;;
    first) has first first_day "$limit" "$here/first_day" ;;
    calls) has calls calls.sh "$limit" bash "$here/calls.sh" ;;
    never | changed)
        read -ra list <<<"${!name//$'\n'/ }"
        tests "$name" "$limit" "${list[@]}"
        ;;
    tests)
        mapfile -t list < <(rest)
        tests tests "$limit" "${list[@]}"
        ;;
    named) tests named "$limit" "${programs[@]}" ;;
    again)
        mapfile -t list < <(red)
        [ ${#list[@]} -eq 0 ] || tests again "$limit" "${list[@]}"
        ;;
    demo)
        has demo demo/bin/demo "$limit" \
            env LD_LIBRARY_PATH="$here/demo/lib:$LD_LIBRARY_PATH" \
            "$here/demo/bin/demo" --bin "$here/demo/bin" \
            --data "$here/demo/data" --driver cuda
        ;;
    preload) has preload preload "$limit" bash "$here/preload_gpu.sh" ;;
    python)
        has python python/warmpool "$limit" env PYTHONPATH="$here/python" \
            "${PYTHON:-python3}" "$here/python_gpu.py"
        ;;
    bench) has bench bench "$limit" "$here/bench" "${LOAD:-gpu}" "$work" ;;
    kinds) has kinds bench "$limit" "$here/bench" kinds "$work" ;;
    torch)
        has torch torch_bench.py "$limit" "${PYTHON:-python3}" \
            "$here/torch_bench.py" "$work"
        ;;
    *) echo "run.sh: $name: no such step" ;;
    esac
}

if ! has_gpu; then
    echo "skip: no GPU on this machine: nothing of tests/gpu was run"
    exit 0
fi

case $parts in 2 | 3) ;; *) rm -rf "$work" ;; esac
mkdir -p "$work" || exit 1
touch "$work/steps.txt" "$work/red.txt"
exec 9<> <(:)
trap stop TERM INT HUP

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

export WT_SCALE=${WT_SCALE:-5}

tick &
ticker=$!
if [ -z "${STEPS:-}" ]; then
    for part in $parts; do
        STEPS="${STEPS:-} ${plan[$part]}"
    done
fi
for limits in $STEPS; do
    run_step "${limits%=*}" "${limits#*=}"
done
kill "$ticker"
collect
echo "gpu: $(paste -sd';' <(head -n 8 "$work/steps.txt"))"
exit "$failed"
