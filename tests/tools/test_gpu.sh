#!/bin/sh
# test_gpu.sh: gpu/run.sh, with made-up programs in a bundle of its own.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/tap.sh"

# A program of the bundle; $1: its name, then its lines.
program() {
    name=$1
    shift
    { echo '#!/bin/bash'; printf '%s\n' "$@"; } >"bundle/$name"
    chmod +x "bundle/$name"
}

# The scripts as they are, a test that passes, benches that print a figure.
bundle() {
    mkdir -p bundle
    cp "$tools/../gpu/run.sh" "$tools/../gpu/watch.sh" bundle
    cp "$tools/../run.sh" bundle/tap.sh
    : >bundle/torch_bench.py
    # shellcheck disable=SC2016 # for the program to expand
    program check_good 'printf "1..1\nok 1 - x\n" >"$CK_TAP_LOG_FILE_NAME"' \
        'echo "backend $WT_BACKEND"'
    # shellcheck disable=SC2016
    program bench 'echo "bench: $1"' 'echo "{}" >"$2/$1.jsonl"'
    program first_day 'echo " 1. Which CUDA? none"'
    # shellcheck disable=SC2016
    program python 'echo "python: $(basename "$1")"'
}

run() {
    OUT=$PWD/out GPU=assume PYTHON=$PWD/bundle/python \
        bash bundle/run.sh "$@" 2>&1
}

test_all_steps_run_and_are_packed() {
    bundle
    out=$(run)
    has_line "$out" "==== torch"
    has_line "$out" "bench: kinds"
    has_line "$out" "python: torch_bench.py"
    summary=$(cat out/summary.txt)
    has_line "$summary" "1 passed, 0 failed"
    has_line "$summary" "bench: gpu"
    has_line "$summary" " 1. Which CUDA? none"
    [ -f out/gpu.jsonl ] && [ -f out/kinds.jsonl ]
    [ "$(find out -type f | wc -l)" -le 8 ]
    tar -tzf out/gpu-logs.tar.gz | grep -q '^\./gpu/check_good.tap$'
}

test_a_step_that_fails_stops_no_other() {
    bundle
    program bench 'exit 3'
    out=$(run) && return 1
    has_line "$out" "python: torch_bench.py"
    grep -q '^bench .*ended with status 3$' out/summary.txt
    grep -q '^torch .*ok$' out/summary.txt
}

test_a_step_that_hangs_is_stopped() {
    bundle
    program bench 'sleep 60'
    out=$(STEPS='bench=1 kinds=1 torch=30' run) && return 1
    has_line "$out" "python: torch_bench.py"
    grep -q '^bench .*stopped after 1 s$' out/summary.txt
    grep -q '^kinds .*stopped after 1 s$' out/summary.txt
}

test_a_failed_test_is_in_the_summary() {
    bundle
    # shellcheck disable=SC2016
    program check_bad \
        'printf "1..1\nnot ok 1 - y\n" >"$CK_TAP_LOG_FILE_NAME"' 'exit 1'
    run >/dev/null && return 1
    summary=$(cat out/summary.txt)
    has_line "$summary" "1 passed, 1 failed"
    echo "$summary" | grep -q '> not ok 1 - y'
    has_line "$summary" "== again"
    has_line "$summary" "0 passed, 1 failed"
}

test_one_program_alone_runs_no_bench() {
    bundle
    out=$(run "$PWD/bundle/check_good")
    same "$(echo "$out" | grep -cE '^bench:|Which CUDA')" 0
    has_line "$(cat out/summary.txt)" "1 passed, 0 failed"
}

# The first time it fails beside others, the second time it is alone.
test_a_test_that_fails_in_company_has_a_process_of_its_own() {
    bundle
    # shellcheck disable=SC2016
    program check_company 'echo "fork ${CK_FORK:-yes}"' \
        '[ "${CK_FORK:-yes}" = yes ] && word=ok || word="not ok"' \
        'printf "1..1\n$word 1 - z\n" >"$CK_TAP_LOG_FILE_NAME"' \
        '[ "$word" = ok ]'
    out=$(run) && return 1
    has_line "$out" "==== again"
    grep -q '^again .*ok$' out/summary.txt
    tar -tzf out/gpu-logs.tar.gz | grep -q '^\./gpu/check_company.first$'
}

test_what_the_bundle_lacks_is_skipped_aloud() {
    bundle
    out=$(run)
    has_line "$out" "skip: demo: not in this bundle"
    has_line "$(cat out/summary.txt)" "skip: python: not in this bundle"
}

test_a_program_that_hangs_tells_where() {
    bundle
    mkdir -p path
    # shellcheck disable=SC2016
    printf '#!/bin/sh\necho "stacks of $2"\n' >path/gdb
    chmod +x path/gdb
    program check_hangs 'exec sleep 60'
    PATH=$PWD/path:$PATH WATCH=1 LIMIT=4 run "$PWD/bundle/check_hangs" >out1 &&
        return 1
    grep -q 'still runs: process' out1
    grep -q '  | stacks of [0-9]' out1
}

test_a_part_runs_its_own_steps() {
    bundle
    run 3 >/dev/null
    same "$(sed -n 's/ .*//p;/^$/q' out/summary.txt | paste -sd' ')" \
        "torch bench kinds"
}

# What the first part found red is tried alone by the last one.
test_a_later_part_goes_on_with_the_same_logs() {
    bundle
    # shellcheck disable=SC2016
    program check_handles \
        'printf "1..1\nnot ok 1 - y\n" >"$CK_TAP_LOG_FILE_NAME"' 'exit 1'
    run 1 >/dev/null && return 1
    STEPS=again=30 run 3 >/dev/null && return 1
    grep -q '^changed .*ended with status 1$' out/summary.txt
    has_line "$(cat out/summary.txt)" "== again"
}

# Starts the script with a bench that starts a program of its own and hangs, and
# waits until that program has said which process it is.
hang() {
    bundle
    # shellcheck disable=SC2016
    program bench 'echo figure' \
        'timeout 60 bash -c "echo \$\$ >child; sleep 60" &' 'sleep 60'
    TICK=0.2 STEPS='first=30 bench=60 torch=30' OUT=$PWD/out GPU=assume \
        PYTHON=$PWD/bundle/python bash "$PWD/bundle/run.sh" >out1 2>&1 &
    script=$!
    turns=600
    until [ -s child ] && grep -qs '^figure$' out/summary.txt; do
        turns=$((turns - 1))
        [ "$turns" -gt 0 ] || return 1
        sleep 0.1
    done
}

test_a_script_that_is_stopped_keeps_its_results_and_ends_its_children() {
    hang
    kill -TERM "$script"
    status=0
    wait "$script" || status=$?
    same "$status" 143
    summary=$(cat out/summary.txt)
    has_line "$summary" "stopped by a signal"
    has_line "$summary" " 1. Which CUDA? none"
    has_line "$summary" figure
    tar -tzf out/gpu-logs.tar.gz | grep -q '^\./bench.log$'
    # It has ended, even if nobody has asked yet how.
    case $(sed 's/.*) //' "/proc/$(cat child)/stat" 2>/dev/null) in
    '' | Z*) ;;
    *) return 1 ;;
    esac
}

# Nothing is written at the end: what is there was written before.
test_a_script_that_is_killed_has_left_its_results() {
    hang
    kill -KILL "$script"
    wait "$script" 2>/dev/null || true
    pkill -KILL -s "$(ps -o sess= -p "$(cat child)" | tr -d ' ')"
    has_line "$(cat out/summary.txt)" " 1. Which CUDA? none"
    tar -tzf out/gpu-logs.tar.gz | grep -q '^\./bench.log$'
    # It wrote beside the steps, and has ended by itself.
    while pgrep -f "$PWD/bundle/run.sh" >/dev/null; do sleep 0.1; done
}

tap_run test_a_part_runs_its_own_steps \
    test_a_later_part_goes_on_with_the_same_logs \
    test_a_script_that_is_stopped_keeps_its_results_and_ends_its_children \
    test_a_script_that_is_killed_has_left_its_results \
    test_all_steps_run_and_are_packed \
    test_a_step_that_fails_stops_no_other \
    test_a_step_that_hangs_is_stopped \
    test_a_failed_test_is_in_the_summary \
    test_one_program_alone_runs_no_bench \
    test_a_test_that_fails_in_company_has_a_process_of_its_own \
    test_what_the_bundle_lacks_is_skipped_aloud \
    test_a_program_that_hangs_tells_where
