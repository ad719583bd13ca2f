#!/bin/sh
# check_guides.sh: the code of the guides compiles without a warning, as their
# README says, and runs on the host device, without a warning of the library.
# $WT_STATIC: the static library.
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
        ${CC:-cc} -Wall -Wextra -Wpedantic -Werror -I"$top/include" \
            "$block" "$static" -pthread -ldl ${WT_LINK:-} -o program
        WARMPOOL_CONF=device:host timeout 60 ./program >out 2>errors
        # A sample that the library warns about teaches a mistake.
        same "$(cat errors)" ''
        cat out >>said
    done
    cat said
}

test_guide_server() {
    run_page server
    grep -q 'of 400 buffers came from the cache' said
}

test_guide_training() {
    run_page training
    made=$(sed -n 's/^60 threads, \([0-9]*\) streams made$/\1/p' said)
    [ "$made" -le 7 ]
}

test_guide_file() {
    run_page file
    queued=$(sed -n 's/^1000 copies became \([0-9]*\)$/\1/p' said)
    [ "$queued" -le 100 ]
    has_line "$(cat said)" "copied from the file's own pages"
}

test_guide_graphs() {
    run_page graphs
    for number in 1 2 3; do
        has_line "$(cat said)" "replay $number: $number"
    done
}

# Words of the pages that a pattern finds, each once.
words() {
    cat "$here"/*.md | grep -oE "$1" | sort -u
}

# Every function, option, figure, class, header and page that is named is there.
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
    # Figures and options; RMM's resources are not ours.
    for name in $(words '`[a-z]+(_[a-z]+)+`' | tr -d '`' | grep -v resource); do
        grep -qw "$name" "$public"/*.h || { echo "no word $name"; return 1; }
    done
    for name in $(words 'warmpool::[a-z_]+'); do
        grep -qE "(class|struct) ${name#*::}\b" "$public/warmpool.hpp" ||
            { echo "no class $name"; return 1; }
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
