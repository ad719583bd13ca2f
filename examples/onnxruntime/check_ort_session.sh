#!/bin/bash
# check_ort_session.sh: sessions of ONNX Runtime in memory of warmpool (row H4).
# $ORT_SESSION: the program. session.c checks every result itself.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../../tests/tools/tap.sh"
export WARMPOOL_CONF=device:host

# A figure of the output. $1: output, $2: its name.
figure() {
    echo "$1" | sed -n "s/^$2: \([0-9]*\).*/\1/p"
}

test_H4_a_session_allocates_from_warmpool_and_computes_right() {
    out=$("$ORT_SESSION" --threads 1 --runs 64)
    has_line "$out" \
        "runs: 64, failed: 0, with wrong results: 0, with outputs elsewhere: 0"
    # An input and an output a run; weights of both sessions are reserved.
    [ "$(figure "$out" NumAllocs)" -ge 128 ]
    [ "$(figure "$out" NumReserves)" -ge 2 ]
    [ "$(figure "$out" InUse)" -ge $((2 * 256 * 64 * 4)) ]
    has_line "$out" "blocks live at the end: 0"
}

test_H4_memory_of_runs_is_used_again() {
    few=$("$ORT_SESSION" --threads 1 --runs 32)
    more=$("$ORT_SESSION" --threads 1 --runs 320)
    same "$(figure "$few" TotalAllocated)" "$(figure "$more" TotalAllocated)"
}

test_H4_shrinking_returns_what_is_idle() {
    out=$("$ORT_SESSION" --threads 1 --runs 32)
    has_line "$out" "at the end TotalAllocated: 0"
}

# No more than the weights can be page-locked.
test_H4_sessions_go_on_in_pageable_memory() {
    out=$(WARMPOOL_CONF=device:host,segment:64k,pinned_high:64k \
        "$ORT_SESSION" --threads 2 --runs 32)
    has_line "$out" \
        "runs: 64, failed: 0, with wrong results: 0, with outputs elsewhere: 0"
    [ "$(figure "$out" MaxInUse)" -le 65536 ]
    has_line "$out" "blocks live at the end: 0"
}

test_H4_sessions_of_many_threads_share_an_allocator() {
    out=$("$ORT_SESSION" --threads 8 --runs 50)
    has_line "$out" \
        "runs: 400, failed: 0, with wrong results: 0, with outputs elsewhere: 0"
    has_line "$out" "blocks live at the end: 0"
}

tap_run test_H4_a_session_allocates_from_warmpool_and_computes_right \
    test_H4_memory_of_runs_is_used_again \
    test_H4_shrinking_returns_what_is_idle \
    test_H4_sessions_go_on_in_pageable_memory \
    test_H4_sessions_of_many_threads_share_an_allocator
