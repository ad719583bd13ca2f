#!/bin/bash
# steps.sh TARGET...: makes every target, whatever the others do.
#
# Prints a line a target, the whole output of one that failed, of the others
# what begins with "skip:" or "long:", and at last `N passed, N failed`; fails
# if one failed.
set -u
passed=0 failed=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for target in "$@"; do
    start=$SECONDS
    if ${MAKE:-make} -k "$target" >"$out" 2>&1; then
        word=ok passed=$((passed + 1))
    else
        word=FAIL failed=$((failed + 1))
    fi
    printf '%-4s %-24s %4d s\n' "$word" "$target" $((SECONDS - start))
    if [ "$word" = ok ]; then
        grep -E '^(skip|long):' "$out" | sed 's/^/     | /'
    else
        sed 's/^/     | /' "$out"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
