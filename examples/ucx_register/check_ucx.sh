#!/bin/bash
# check_ucx.sh: the example ucx_register (row B24): what it sends arrives, and a
# segment is registered once. $UCX_REGISTER: the program. Over shared memory and
# in the process itself, so that no NIC is needed.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../../tests/tools/tap.sh"
export WARMPOOL_CONF=device:host UCX_TLS=self,sm,tcp UCX_LOG_LEVEL=error

number() {
    echo "$1" | sed -n "s/$2/\\1/p"
}

test_B24_ucx_registers_each_segment_once() {
    out=$("$UCX_REGISTER" --buffers 400)
    has_line "$out" "buffers: 800, wrong: 0"
    made=$(number "$out" 'registrations: \([0-9]*\), one for each segment.*')
    ended=$(number "$out" 'unregistered: \([0-9]*\) of .*')
    same "$made" "$ended"
    [ "$made" -ge 1 ]
    [ "$((made * 10))" -le 800 ]
}

test_B24_ucx_needs_no_more_registrations_for_more_buffers_of_a_segment() {
    few=$("$UCX_REGISTER" --buffers 1)
    more=$("$UCX_REGISTER" --buffers 4)
    same "$(number "$few" 'registrations: \([0-9]*\),.*')" \
        "$(number "$more" 'registrations: \([0-9]*\),.*')"
}

tap_run test_B24_ucx_registers_each_segment_once \
    test_B24_ucx_needs_no_more_registrations_for_more_buffers_of_a_segment
