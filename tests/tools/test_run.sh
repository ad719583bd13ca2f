#!/bin/sh
# test_run.sh: run.sh, on made-up test programs.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/tap.sh"
runner=$tools/../run.sh

# program NAME: makes a program of the lines that follow.
program() {
    { echo '#!/bin/sh'; cat; } >"$1"
    chmod +x "$1"
}

# run SECONDS BACKEND:PROGRAM...: output in $out, status in $status
run() {
    seconds=$1
    shift
    status=0
    out=$("$runner" -l log -t "$seconds" "$@" 2>&1) || status=$?
}

last() {
    printf '%s\n' "$out" | tail -n 1
}

passing() {
    program "$1" <<'END'
printf '%s\n' 'ok 1 - x.c:case:test_a: Passed' \
    'ok 2 - x.c:case:test_b: Passed' 1..2 >"$CK_TAP_LOG_FILE_NAME"
echo "chatter of $WT_BACKEND"
END
}

test_sums_over_programs_and_backends() {
    passing good
    run 60 host:./good standin:./good
    same "$status" 0
    same "$(last)" "4 passed, 0 failed"
    [ -s log/host/good.tap ] && [ -s log/standin/good.tap ]
}

test_output_of_a_passing_program_is_not_shown() {
    passing good
    run 60 host:./good
    ! printf '%s' "$out" | grep chatter
}

test_failure_is_shown_and_the_rest_goes_on() {
    passing good
    program bad <<'END'
printf 'ok 1 - test_a: Passed\nnot ok 2 - test_b: broken\n1..2\n' \
    >"$CK_TAP_LOG_FILE_NAME"
echo what happened
exit 1
END
    run 60 host:./bad host:./good
    same "$status" 1
    has_line "$out" "     | what happened"
    has_line "$out" "     > not ok 2 - test_b: broken"
    same "$(last)" "3 passed, 1 failed"
}

test_crash_is_a_failure() {
    program crash <<'END'
echo 'ok 1 - test_a: Passed' >"$CK_TAP_LOG_FILE_NAME"
kill -SEGV $$
END
    run 60 host:./crash
    same "$status" 1
    same "$(last)" "1 passed, 1 failed"
}

test_crash_after_a_clean_log_is_a_failure() {
    program late <<'END'
printf 'ok 1 - test_a: Passed\n1..1\n' >"$CK_TAP_LOG_FILE_NAME"
exit 23
END
    run 60 host:./late
    same "$(last)" "1 passed, 1 failed"
}

test_no_test_is_a_failure() {
    program empty <<'END'
true
END
    run 60 host:./empty
    same "$status" 1
    same "$(last)" "0 passed, 1 failed"
}

test_tests_missing_from_the_plan_are_a_failure() {
    program short <<'END'
printf 'ok 1 - test_a: Passed\n1..3\n' >"$CK_TAP_LOG_FILE_NAME"
END
    run 60 host:./short
    same "$(last)" "1 passed, 1 failed"
}

test_hang_is_stopped_and_is_a_failure() {
    program hang <<'END'
exec tail -f /dev/null
END
    run 1 host:./hang
    same "$status" 1
    has_line "$out" "     > not ok 0 - stopped after 1 s"
    same "$(last)" "0 passed, 1 failed"
}

test_missing_program_is_a_failure() {
    run 60 host:./nothing
    same "$status" 1
    same "$(last)" "0 passed, 1 failed"
}

test_skips_are_counted_apart_and_said() {
    program skip <<'END'
printf 'ok 1 - test_a # SKIP no headers\nok 2 - test_b: Passed\n1..2\n' \
    >"$CK_TAP_LOG_FILE_NAME"
echo 'skip: no headers'
END
    run 60 host:./skip
    same "$status" 0
    has_line "$out" "     | skip: no headers"
    same "$(last)" "1 passed, 0 failed, 1 skipped"
}

test_programs_of_one_name_have_logs_of_their_own() {
    mkdir unit api
    passing unit/same
    program api/same <<'END'
printf 'not ok 1 - test_c: broken\n1..1\n' >"$CK_TAP_LOG_FILE_NAME"
exit 1
END
    run 60 host:unit/same host:api/same
    same "$(last)" "2 passed, 1 failed"
    [ -s log/host/unit-same.tap ] && [ -s log/host/api-same.tap ]
}

test_stale_log_counts_for_nothing() {
    mkdir -p log/host
    printf 'ok 1 - test_a: Passed\n1..1\n' >log/host/empty.tap
    program empty <<'END'
true
END
    run 60 host:./empty
    same "$(last)" "0 passed, 1 failed"
}

tap_run test_sums_over_programs_and_backends \
    test_output_of_a_passing_program_is_not_shown \
    test_failure_is_shown_and_the_rest_goes_on \
    test_crash_is_a_failure \
    test_crash_after_a_clean_log_is_a_failure \
    test_no_test_is_a_failure \
    test_tests_missing_from_the_plan_are_a_failure \
    test_hang_is_stopped_and_is_a_failure \
    test_missing_program_is_a_failure \
    test_skips_are_counted_apart_and_said \
    test_programs_of_one_name_have_logs_of_their_own \
    test_stale_log_counts_for_nothing
