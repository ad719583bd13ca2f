#!/bin/sh
# check_guides.sh: the code of the guides compiles without a warning, and runs
# on the host device. $WT_STATIC: the static library.
# shellcheck source=tests/tools/tap.sh disable=SC2317,SC2016
. "$(dirname "$0")/../../tests/tools/tap.sh"
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
static=$top/${WT_STATIC:-build/release/libwarmpool.a}

# Writes the C blocks of a page to 1.c, 2.c, …
blocks() {
    awk '/^```c$/ { file = ++count ".c"; next } /^```$/ { file = ""; next }
         file != "" { print > file }' "$1"
}

run_page() {
    blocks "$here/$1.md"
    for block in ?.c; do
        # shellcheck disable=SC2086 # words on purpose
        ${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror \
            -I"$top/include" "$block" "$static" -pthread -ldl ${WT_LINK:-} \
            -o program
        WARMPOOL_CONF=device:host timeout 60 ./program >out
        cat out
        [ -s out ]
    done
}

test_guide_server() {
    run_page server
    grep -q 'of 400 buffers came from the cache' out
}

test_guide_training() {
    run_page training
    made=$(sed -n 's/^60 threads, \([0-9]*\) streams made$/\1/p' out)
    [ "$made" -le 7 ]
}

test_guide_file() {
    run_page file
}

test_guide_graphs() {
    run_page graphs
    has_line "$(cat out)" 'replay 3: 3'
}

# Words of the pages that a pattern finds, each once.
words() {
    cat "$here"/*.md | grep -oE "$1" | sort -u
}

# Every function, option, header and page that is named is there.
test_guides_name_what_exists() {
    public=$top/include/warmpool
    for name in $(words 'warm_[a-z0-9_]+\(' | tr -d '('); do
        grep -qE "(^|[ *])$name\(" "$public"/*.h ||
            { echo "no function $name"; return 1; }
    done
    for name in $(words '`[a-z_]+:[a-zA-Z0-9/._+,][a-zA-Z0-9/._+,:]*`' |
        tr -d '`' | tr ',' '\n' | cut -d: -f1 | sort -u); do
        grep -qE "(X_[A-Z]+\($name|^ +$name)," "$public/options.h" ||
            { echo "no option $name"; return 1; }
    done
    for name in $(words '`[a-z_]+\.(h|hpp)`' | tr -d '`'); do
        [ -e "$public/$name" ] || { echo "no header $name"; return 1; }
    done
    for page in $(words '\]\([a-z]+\.md\)' | tr -d '])('); do
        [ -e "$here/$page" ] || { echo "no page $page"; return 1; }
    done
}

tap_run test_guide_server test_guide_training test_guide_file \
    test_guide_graphs test_guides_name_what_exists
