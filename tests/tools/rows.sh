#!/bin/sh
# rows.sh ROWS.md BUILD [SOURCES...]: the contract, and what shows it.
#
# Prints each row with the tests that name it (test_A4_A8_name names A4 and
# A8) and how they last ended on the host device, the stand-in CUDA libraries
# and a GPU, and at last `rows: shown=<n> of=<m> gpu=<k>`. A row is shown if, on
# some backend, a test that names it has run and passed, and no test that names
# it has failed on any; k of them were shown on a GPU.
#
# Tests are those of the sources (default: tests/ and examples/); how they
# ended stands in the TAP logs BUILD/<flavour>/log/<backend>/<program>.tap,
# of which the newest counts for a program and backend, and for a GPU also in
# tests/gpu/log/<program>.tap.
set -u
rows=$1 build=$2
shift 2
if [ $# -eq 0 ]; then
    set -- tests
    [ ! -d examples ] || set -- tests examples
fi
export LC_ALL=C.UTF-8

# The newest log of every program on a backend.
newest() {
    # shellcheck disable=SC2012,SC2046 # our own names; many words on purpose
    ls -t $(ls "$build"/*/log/"$1"/*.tap 2>/dev/null) \
        $([ "$1" != gpu ] || ls tests/gpu/log/*.tap 2>/dev/null) \
        /dev/null 2>/dev/null | awk -F/ '/\.tap$/ && !seen[$NF]++'
}

{
    awk -F'|' '/^\| *[A-IT][0-9]+ *\|/ {
        gsub(/^ +| +$/, "", $2); gsub(/^ +| +$/, "", $3)
        print "row\t" $2 "\t" $3
    }' "$rows"
    find "$@" -name '*.c' -exec grep -hozE \
        'WT(_LOOP)?_TEST\([[:space:]]*test_[A-Za-z0-9_]+' {} + |
        tr '\0\n' '\n ' | sed 's/.*test_/test\ttest_/'
    find "$@" -name '*.sh' -exec grep -hoE \
        '^test_[A-IT][0-9]+[A-Za-z0-9_]*\(\)' {} + | sed 's/()$//;s/^/test\t/'
    for backend in host standin gpu; do
        newest "$backend" | while read -r log; do
            awk -v b="$backend" '/^(not )?ok / {
                end = /^not/ ? "failed" : tolower($0) ~ /# skip/ ? "" : "passed"
                if (end != "" && match($0, /test_[A-Za-z0-9_]+/)) {
                    name = substr($0, RSTART, RLENGTH)
                    print "end\t" b "\t" name "\t" end
                }
            }' "$log"
        done
    done
} | awk -F'\t' -f "$(dirname "$0")/rows.awk"
