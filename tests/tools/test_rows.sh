#!/bin/sh
# test_rows.sh: rows.sh, on made-up rows, sources and logs.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/tap.sh"

# A little project: three rows, tests of A1 and of A1 and A2.
project() {
    mkdir -p src build/debug/log/host build/tsan/log/host \
        build/debug/log/standin
    cat >rows.md <<'END'
| row | behaviour | state |
| --- | --- | --- |
| A1 | first | 2 |
| A2 | second | 2 |
| B10 | third | later |
END
    {
        echo 'WT_TEST(test_A1_one)'
        echo 'WT_LOOP_TEST('
        echo '    test_A1_A2_two, 2)'
        echo 'WT_TEST(test_plain)'
    } >src/check_x.c
}

# $1: log, $2: ok or "not ok", $3: test
ended() {
    echo "$2 1 - src/check_x.c:case:$3: text" >>"build/$1/check_x.tap"
}

rows() {
    "$tools/rows.sh" rows.md build src
}

test_no_logs_show_nothing() {
    project
    out=$(rows)
    has_line "$out" "rows: shown=0 of=3 gpu=0"
    has_line "$out" "A1   first"
    has_line "$out" \
        "      test_A1_one: host not run, stand-in not run, GPU not run"
    has_line "$out" "      none"
}

test_passed_test_shows_every_row_it_names() {
    project
    ended debug/log/host ok test_A1_A2_two
    out=$(rows)
    has_line "$out" "rows: shown=2 of=3 gpu=0"
    has_line "$out" \
        "      test_A1_A2_two: host passed, stand-in not run, GPU not run"
}

test_a_failure_on_any_backend_hides_the_row() {
    project
    ended debug/log/host ok test_A1_one
    ended debug/log/host ok test_A1_A2_two
    ended debug/log/standin "not ok" test_A1_one
    out=$(rows)
    has_line "$out" "rows: shown=1 of=3 gpu=0"
    has_line "$out" \
        "      test_A1_one: host passed, stand-in failed, GPU not run"
}

test_one_failed_round_of_a_loop_is_a_failure() {
    project
    ended debug/log/host ok test_A1_one
    ended debug/log/host "not ok" test_A1_one
    ended debug/log/host ok test_A1_one
    has_line "$(rows)" "rows: shown=0 of=3 gpu=0"
}

test_the_newest_log_of_a_program_counts() {
    project
    ended debug/log/host "not ok" test_A1_one
    ended tsan/log/host ok test_A1_one
    touch -d '2001-01-01' build/debug/log/host/check_x.tap
    has_line "$(rows)" "rows: shown=1 of=3 gpu=0"
    touch -d '2002-01-01' build/debug/log/host/check_x.tap
    touch -d '2001-01-01' build/tsan/log/host/check_x.tap
    has_line "$(rows)" "rows: shown=0 of=3 gpu=0"
}

test_rows_shown_on_a_gpu_are_counted() {
    project
    mkdir -p build/gpu/log/gpu
    ended debug/log/host ok test_A1_one
    ended gpu/log/gpu ok test_A1_A2_two
    out=$(rows)
    has_line "$out" "rows: shown=2 of=3 gpu=2"
    ended debug/log/host "not ok" test_A1_one
    has_line "$(rows)" "rows: shown=1 of=3 gpu=1"
}

test_a_skipped_test_was_not_run() {
    project
    echo "ok 1 - src/check_x.c:case:test_A1_one: # SKIP no headers" \
        >build/debug/log/standin/check_x.tap
    has_line "$(rows)" "rows: shown=0 of=3 gpu=0"
}

test_a_test_that_is_no_more_shows_nothing() {
    project
    ended debug/log/host ok test_B10_gone
    has_line "$(rows)" "rows: shown=0 of=3 gpu=0"
}

test_a_name_with_no_such_row_is_an_error() {
    project
    echo 'WT_TEST(test_A99_x)' >>src/check_x.c
    if out=$(rows); then
        echo "it passed"
        return 1
    fi
    has_line "$out" "rows: test_A99_x names A99, which is no row"
}

test_rows_of_devices_and_of_trust_are_known() {
    project
    printf '| I1 | devices | part |\n| T2 | trust | part |\n' >>rows.md
    echo 'WT_TEST(test_A1_I1_T2_x)' >>src/check_x.c
    ended debug/log/host ok test_A1_I1_T2_x
    out=$(rows)
    has_line "$out" "rows: shown=3 of=5 gpu=0"
}

test_rows_of_the_contract_are_all_there() {
    out=$("$tools/rows.sh" "$tools/../ROWS.md" build /dev/null | tail -n 1)
    same "$out" "rows: shown=0 of=117 gpu=0"
}

tap_run test_no_logs_show_nothing \
    test_passed_test_shows_every_row_it_names \
    test_a_failure_on_any_backend_hides_the_row \
    test_one_failed_round_of_a_loop_is_a_failure \
    test_the_newest_log_of_a_program_counts \
    test_rows_shown_on_a_gpu_are_counted \
    test_a_skipped_test_was_not_run \
    test_a_test_that_is_no_more_shows_nothing \
    test_a_name_with_no_such_row_is_an_error \
    test_rows_of_devices_and_of_trust_are_known \
    test_rows_of_the_contract_are_all_there
