#!/bin/bash
# run.sh: runs test programs and adds up what their TAP logs say.
#
#   run.sh [-l logdir] [-t seconds] [-j jobs] [-s standin] [-w wrapper]
#          [-b suffix] [-n names] backend:program...
#
# Programs of those names run their tests in one process.
# Prints a line a program, the whole output of one that failed, every line of
# output that begins with "skip", and at last `N passed, N failed`, with
# `, N skipped` if any. A program that crashes, hangs, runs no test or leaves
# tests of its plan out has failed, whatever its log says. The log of each is
# logdir/backend[-suffix]/program.tap; programs are Check's, or scripts that
# write TAP to $CK_TAP_LOG_FILE_NAME themselves.
set -u

logs=build/log limit=120 jobs=1 standin='' wrapper='' suffix='' shared=''
while getopts l:t:j:s:w:b:n: option; do
    case $option in
    l) logs=$OPTARG ;;
    t) limit=$OPTARG ;;
    j) jobs=$OPTARG ;;
    s) standin=$OPTARG ;;
    w) wrapper=$OPTARG ;;
    b) suffix=-$OPTARG ;;
    n) shared=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
runs=("$@")

# The program's name; with its folder's before it if another one of the same
# backend has that name too, so that each has a log of its own.
name_of() {
    local backend=${1%%:*} name same=0 other
    name=$(basename "${1#*:}" .sh)
    for other in "${runs[@]}"; do
        case $other in
        "$backend:"*"/$name" | "$backend:$name") same=$((same + 1)) ;;
        esac
    done
    if [ "$same" -gt 1 ]; then
        name=$(basename "$(dirname "${1#*:}")")-$name
    fi
    echo "$name"
}

# Words of the line of one program, from its log and exit status.
# Sets passed, failed, skipped and reason.
judge() {
    local log=$1 status=$2 plan
    passed=$(grep -ci '^ok ' "$log")
    skipped=$(grep -ci '^ok .*# skip' "$log")
    failed=$(grep -c '^not ok ' "$log")
    passed=$((passed - skipped))
    plan=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$log" | tail -n 1)
    reason=
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        reason="stopped after $limit s"
    elif [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        reason="ended with status $status"
    elif [ $((passed + failed + skipped)) -eq 0 ]; then
        reason="ran no test"
    elif [ $((passed + failed + skipped)) -ne "${plan:-0}" ]; then
        reason="ran $((passed + failed + skipped)) of ${plan:-?} tests"
    fi
    if [ -n "$reason" ]; then
        failed=$((failed + 1))
        echo "not ok 0 - $reason" >>"$log"
    fi
}

run_one() {
    local backend=${1%%:*} program=${1#*:} name log out status start
    name=$(name_of "$1")
    log=$logs/$backend$suffix/$name.tap
    out=$logs/$backend$suffix/$name.out
    mkdir -p "$(dirname "$log")"
    : >"$log"
    start=$EPOCHREALTIME
    (
        export WT_BACKEND=$backend CK_TAP_LOG_FILE_NAME=$log
        export CK_DEFAULT_TIMEOUT=${CK_DEFAULT_TIMEOUT:-$((limit / 2))}
        case " $shared " in *" $name "*) export CK_FORK=no ;; esac
        [ "$backend" != standin ] || export LD_LIBRARY_PATH=$standin:$standin/12
        # shellcheck disable=SC2086 # the wrapper is a command with words
        exec timeout -k 5 "$limit" $wrapper "$program"
    ) >"$out" 2>&1 </dev/null
    status=$?
    judge "$log" "$status"
    report >"$out.line"
    cat "$out.line"
    rm -f "$out.line"
    echo "$passed $failed $skipped" >"${log%.tap}.count"
}

# In one piece, since others print at the same time.
report() {
    local word=ok
    [ "$failed" -eq 0 ] || word=FAIL
    printf '%-4s %-8s %-24s %4d passed' "$word" "$backend" "$name" "$passed"
    [ "$failed" -eq 0 ] || printf ', %d failed' "$failed"
    [ "$skipped" -eq 0 ] || printf ', %d skipped' "$skipped"
    awk -v a="$start" -v b="$EPOCHREALTIME" \
        'BEGIN { printf "  %6.1f s\n", b - a }'
    if [ "$failed" -ne 0 ]; then
        sed 's/^/     | /' "$out"
        grep '^not ok ' "$log" | sed 's/^/     > /'
    else
        grep -i '^skip' "$out" | sed 's/^/     | /'
    fi
}

running=0
for run in "$@"; do
    if [ "$running" -ge "$jobs" ]; then
        wait -n
        running=$((running - 1))
    fi
    run_one "$run" &
    running=$((running + 1))
done
wait

for run in "$@"; do
    name=$(name_of "$run")
    cat "$logs/${run%%:*}$suffix/$name.count"
done | awk '{ p += $1; f += $2; s += $3 }
    END {
        printf "%d passed, %d failed", p, f
        if (s) printf ", %d skipped", s
        print ""
        exit (f > 0 || p == 0)
    }'
