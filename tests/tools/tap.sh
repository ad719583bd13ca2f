# tap.sh: tests in sh. A script sources this file, defines functions test_…,
# and ends with `tap_run test_one test_two …`. A test fails if its function
# answers non-zero; what it prints is shown then.
#
# shellcheck shell=sh

# shellcheck disable=SC2034 # for the script that sources this
tools=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Fails, saying why, unless the two are equal.
same() {
    [ "$1" = "$2" ] || {
        echo "expected: $2"
        echo "got:      $1"
        return 1
    }
}

# Fails unless text $1 has the line $2.
has_line() {
    printf '%s\n' "$1" | grep -qxF -- "$2" || {
        echo "no line '$2' in:"
        printf '%s\n' "$1"
        return 1
    }
}

tap_run() {
    log=${CK_TAP_LOG_FILE_NAME:-/dev/null}
    number=0 bad=0
    : >"$log"
    for name in "$@"; do
        number=$((number + 1))
        folder=$scratch/$name
        mkdir "$folder"
        # Not as a condition: set -e would be off inside it.
        (set -e; cd "$folder"; "$name") >"$folder.out" 2>&1
        status=$?
        if [ "$status" -eq 0 ]; then
            echo "ok $number - $name: Passed" >>"$log"
        else
            bad=$((bad + 1))
            echo "not ok $number - $name: failed" >>"$log"
            sed "s/^/$name: /" "$folder.out"
        fi
    done
    echo "1..$number" >>"$log"
    exit "$bad"
}
