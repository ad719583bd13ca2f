#!/bin/bash
# test_info.sh: the installed program warmpool-info (row G8), beside the static
# library that make check has built, $WT_STATIC.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
info=$top/$(dirname "${WT_STATIC:-build/debug/libwarmpool.a}")/warmpool-info

test_G8_info_says_what_there_is() {
    out=$("$info" device:host,host_devices:2,segment:8M)
    has_line "$out" "driver: host"
    has_line "$out" "devices: 2"
    echo "$out" | grep -q '^  1: host device 1, 4\.0 GiB'
    # Without CUDA's headers, or beside a device that is none of CUDA's.
    echo "$out" | grep -qxE '  cublas: (cuBLAS needs a CUDA device|.*without.*)'
    echo "$out" | grep -qE '^  memory: [0-9.]+ [KMGT]iB, '
    echo "$out" | grep -qE '^  locked memory \(ulimit -l\): (unl|[0-9])'
    echo "$out" | grep -qE '^  cgroup'
    echo "$out" | grep -qE '^  overcommit .*: [012], .* committed of '
    echo "$out" | grep -qE '^  huge pages: transparent .* of them free$'
    echo "$out" | grep -qE '^nodes: '
    has_line "$out" "WARMPOOL_CONF: device:host,host_devices:2,segment:8M"
    has_line "$out" "  segment:8388608"
    has_line "$out" "  slack:15"
}

test_G8_info_says_the_limit_on_locked_memory() {
    ulimit -l 64
    "$info" device:host | grep -q '^  locked memory (ulimit -l): 64\.0 KiB'
}

test_G8_info_writes_no_file_that_the_environment_names() {
    conf=trace:trace,log:debug,log_file:log,stats_at_exit:stats
    conf=$conf,pin_lock_file:turn
    WARMPOOL_CONF=$conf,snapshot_signal:USR1,device:host "$info" >/dev/null
    same "$(ls)" ""
}

test_G8_info_without_a_runtime_says_why_and_the_rest() {
    status=0
    out=$("$info" device:metal) || status=$?
    same "$status" 1
    echo "$out" | grep -q '^no runtime: .*metal.*auto|cuda|host'
    echo "$out" | grep -q '^nodes: '
}

test_G8_info_helps_and_refuses_what_it_does_not_understand() {
    "$info" --help | grep -q '^usage: warmpool-info '
    status=0
    "$info" --nonsense 2>err || status=$?
    same "$status" 2
    grep -q '^usage: ' err
}

tap_run test_G8_info_says_what_there_is \
    test_G8_info_says_the_limit_on_locked_memory \
    test_G8_info_writes_no_file_that_the_environment_names \
    test_G8_info_without_a_runtime_says_why_and_the_rest \
    test_G8_info_helps_and_refuses_what_it_does_not_understand
