#!/bin/bash
# steps.sh "TARGET...": makes every target, whatever the others do. Each
# argument is a row of targets, made one after another beside the other rows.
#
# Prints a line a target, the whole output of one that failed, of the others
# what begins with "skip:" or "long:", and at last `N passed, N failed`; fails
# if one failed.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Of target $1, made in $3 s: its line and its output, in $out.
report() {
    printf '%-4s %-24s %4d s\n' "$2" "$1" "$3"
    if [ "$2" = ok ]; then
        grep -E '^(skip|long):' "$out" | sed 's/^/     | /'
    else
        sed 's/^/     | /' "$out"
    fi
}

row() {
    local target start word out
    for target in "$@"; do
        start=$SECONDS word=FAIL out=$work/$target
        ${MAKE:-make} -k "$target" >"$out" 2>&1 && word=ok
        # In one piece, since other rows print at the same time; and one row at
        # a time, since two cats into one file may write at one place.
        report "$target" "$word" $((SECONDS - start)) >"$out.line"
        flock "$work" cat "$out.line"
        [ "$word" = FAIL ] || : >"$out.ok"
    done
}

for targets in "$@"; do
    # shellcheck disable=SC2086 # a row is words
    row $targets &
done
wait
passed=0 failed=0
for targets in "$@"; do
    for target in $targets; do
        if [ -e "$work/$target.ok" ]; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
        fi
    done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
