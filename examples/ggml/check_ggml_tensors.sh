#!/bin/bash
# check_ggml_tensors.sh: tensors of ggml in buffers of warmpool (row H5).
# $GGML_TENSORS: the program. tensors.c checks every result itself.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../../tests/tools/tap.sh"
export WARMPOOL_CONF=device:host

# all_right OUTPUT ROUNDS
all_right() {
    has_line "$1" "rounds: $2, failed: 0, with wrong results: 0, \
with tensors elsewhere: 0"
}

test_H5_a_graph_of_ggml_computes_in_buffers_of_warmpool() {
    out=$("$GGML_TENSORS" --threads 1 --rounds 10)
    all_right "$out" 10
    has_line "$out" "buffers of weights: 1 a round"
    has_line "$out" "blocks live at the end: 0"
}

# Two layers of 8192 bytes to a buffer.
test_H5_ggml_makes_several_buffers_of_the_largest_size() {
    out=$("$GGML_TENSORS" --threads 1 --rounds 10 --largest 20000)
    all_right "$out" 10
    has_line "$out" "buffers of weights: 4 a round"
    has_line "$out" "blocks live at the end: 0"
}

# No buffer of the weights can be page-locked.
test_H5_buffers_are_pageable_where_memory_is_short() {
    out=$(WARMPOOL_CONF=device:host,segment:64k,pinned_high:64k \
        "$GGML_TENSORS" --threads 1 --rounds 5)
    all_right "$out" 5
    has_line "$out" "blocks live at the end: 0"
}

test_H5_many_threads_share_a_buffer_type() {
    out=$("$GGML_TENSORS" --threads 8 --rounds 20)
    all_right "$out" 160
    has_line "$out" "blocks live at the end: 0"
}

tap_run test_H5_a_graph_of_ggml_computes_in_buffers_of_warmpool \
    test_H5_ggml_makes_several_buffers_of_the_largest_size \
    test_H5_buffers_are_pageable_where_memory_is_short \
    test_H5_many_threads_share_a_buffer_type
