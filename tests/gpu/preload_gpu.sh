#!/bin/bash
# preload_gpu.sh [FOLDER]: programs that know CUDA alone, with and without
# warmpool-run, on this machine's GPU (row H1): equal results, and times.
#
# FOLDER (default: the folder preload beside this script) has warmpool-run,
# libwarmpool-preload.so, libwarmpool.so.0, preload_program and ipc_program.
# CUDA's libraries are those that the loader finds (LD_LIBRARY_PATH, as run.sh
# sets it); PyTorch has its own, and so gets no folder of that variable that has
# some. Prints a line PASS, FAIL or skip for each check, and times; ends with
# status 1 if one failed. Below 60 s: each program has a limit, and less if the
# others took long. PYTHON: the interpreter. SIDE: of the matrices that keep the
# GPU busy.
# Without a GPU it says so and succeeds; GPU=assume: over the stand-ins.
set -u

if [ "${GPU:-}" != assume ] &&
    ! compgen -G '/dev/nvidia[0-9]*' >/dev/null && [ ! -e /dev/dxg ]; then
    echo "skip: no GPU on this machine: nothing of preload_gpu was run"
    exit 0
fi

here=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "${1:-$here/preload}" && pwd) || exit 2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-python3}
all=preload:handles+pinned+device
failed=0

# limited SECONDS OPTIONS COMMAND...: alone without OPTIONS (empty), else under
# warmpool-run. Its output goes to $work/out, its errors to $work/err.
limited() {
    local seconds=$1 conf=$2 left=$((57 - SECONDS)) status before=()
    shift 2
    [ "$seconds" -le "$left" ] || seconds=$left
    : >"$work/out"
    if [ "$seconds" -lt 5 ]; then
        echo "skip: no time is left: $*" >"$work/out"
        return 0
    fi
    if [ -n "$conf" ]; then
        rm -f "$work/stats.json"
        before=(env WARMPOOL_CONF="$conf,stats_at_exit:$work/stats.json"
            "$folder/warmpool-run" -q)
    fi
    timeout -k 1 "$seconds" "${before[@]}" "$@" >"$work/out" 2>"$work/err" \
        </dev/null
    status=$?
    [ "$status" -ne 124 ] || echo "stopped after $seconds s" >>"$work/err"
    [ "$status" -eq 0 ] || echo "ended with status $status" >>"$work/err"
    return "$status"
}

fail() {
    echo "FAIL $1"
    cat "$work/out" "$work/err" | tail -n 15 | sed 's/^/  | /'
    failed=1
}

value() {
    sed -n "s/^$2 //p" "$work/$1"
}

# What warmpool asked of CUDA instead.
counts() {
    "$python" - "$work/stats.json" <<'END' || echo 'no statistics'
import json, sys
stats = json.load(open(sys.argv[1], encoding="utf-8"))
print("created:", *(f"{h['kind']} {h['created']} for {h['binds']} binds,"
                    for h in stats["handles"] if h["created"]),
      *(f"{name}: {of['segments']['allocated']} of CUDA's for "
        f"{of['live']['allocated']} requests;"
        for name, of in [("pinned", stats["pinned"])] +
        [("device", d["all"]) for d in stats["device_memory"]]))
END
}

# alone NAME SECONDS COMMAND...: keeps what it prints; false: nothing there.
alone() {
    local name=$1 seconds=$2
    shift 2
    if ! limited "$seconds" '' "$@"; then
        fail "$name: without warmpool"
        return 1
    fi
    cp "$work/out" "$work/alone"
    ! grep '^skip' "$work/out" && [ -n "$(value alone sum)" ]
}

# compare NAME SECONDS OPTIONS COMMAND...: with OPTIONS, beside what was kept.
compare() {
    local name="$1 with $3" seconds=$2 conf=$3 word
    shift 3
    if ! limited "$seconds" "$conf" "$@"; then
        fail "$name"
        return
    fi
    if grep '^skip' "$work/out"; then
        return
    fi
    if [ "$(value out sum)" != "$(value alone sum)" ]; then
        fail "$name: alone the sum is $(value alone sum)"
        return
    fi
    echo "PASS $name: equal results"
    for word in handles pinned device round; do
        [ -n "$(value alone "$word")" ] || continue
        awk -v name="$word" -v alone="$(value alone "$word")" \
            -v served="$(value out "$word")" 'BEGIN {
                times = served > 0 ? alone / served : 0
                printf "  %-8s %10s alone, %10s with warmpool-run: " \
                    "%.1f times\n", name, alone, served, times
            }'
    done
    echo "  $(counts)"
}

program=$folder/preload_program
if alone 'program (us)' 20 "$program" rounds; then
    compare 'program (us)' 15 "$all" "$program" rounds
    compare 'program (us)' 15 preload:handles+pinned "$program" rounds
fi
for conf in '' "$all" "$all,free:wait" preload:pinned; do
    name="order of frees ${conf:-without warmpool}"
    if limited 10 "$conf" "$program" order ${SIDE:+"$SIDE"}; then
        grep '^skip' "$work/out" || echo "PASS $name"
    else
        fail "$name"
    fi
done
# What CUDA refuses is its last error under warmpool-run as well.
if limited 10 '' "$program" errors; then
    cp "$work/out" "$work/errors"
    if limited 10 "$all" "$program" errors && cmp -s "$work/errors" "$work/out"
    then
        echo "PASS last errors"
    else
        diff "$work/errors" "$work/out" >>"$work/err"
        fail "last errors: not as without warmpool"
    fi
else
    fail "last errors: without warmpool"
fi
# Handles of shared memory: the bytes that lie there, or none. A pointer into
# memory names the whole of it, if CUDA does so.
letters=$(printf 'opened %s\n' A B C A B C)
limited 10 '' "$folder/ipc_program" share || true
[ "$(cat "$work/out")" = "$letters"$'\n'closed ] ||
    echo "note: without warmpool: $(tr '\n' ';' <"$work/out")"
if limited 10 "$all" "$folder/ipc_program" share &&
    [ "$(cat "$work/out")" = "$letters"$'\n'closed ]; then
    echo "PASS shared memory"
else
    fail "shared memory"
fi
for case in plain freed; do
    if limited 10 "$all" "$folder/ipc_program" "$case" &&
        ! grep opened "$work/out"; then
        echo "PASS shared memory $case: $(sort -u "$work/out" | tail -n 1)"
    else
        fail "shared memory, $case: opened"
    fi
done
# Libraries of another version than PyTorch's own must not come first.
if [ "${GPU:-}" != assume ]; then
    LD_LIBRARY_PATH=$(tr ':' '\n' <<<"${LD_LIBRARY_PATH:-}" |
        while read -r path; do
            compgen -G "$path/libcudart.so*" >/dev/null || echo "$path"
        done | paste -sd:)
    export LD_LIBRARY_PATH
fi
torch=$here/preload_torch.py
if alone 'PyTorch (ms)' 30 "$python" "$torch"; then
    sed -n 's/^torch/  PyTorch/p' "$work/alone"
    compare 'PyTorch (ms)' 20 "$all" "$python" "$torch"
    export PYTORCH_NO_CUDA_MEMORY_CACHING=1
    if alone 'PyTorch without its cache (ms)' 15 "$python" "$torch"; then
        compare 'PyTorch without its cache (ms)' 15 "$all" "$python" "$torch"
    fi
fi
echo "preload_gpu: $SECONDS s, failed: $failed"
exit "$failed"
