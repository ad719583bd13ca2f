#!/bin/sh
# lines.sh: no line over 80 columns, no blank at the end of a line, no tab in
# C, a comment at the head of every C file and script, a README of at most 40
# lines in every folder, which names its files. Files over 400 lines are named,
# but for tests.
set -u
export LC_ALL=C.UTF-8
failed=0

complain() {
    echo "lines: $1"
    failed=1
}

listed() {
    "$(dirname "$0")/files.sh" "$@"
}

for file in $(listed '*.c' '*.h' '*.sh' '*.awk' run); do
    grep -nE '^.{81,}' "$file" /dev/null && complain "$file: over 80 columns"
    grep -nE '[[:blank:]]+$' "$file" /dev/null && complain "$file: blank at end"
    lines=$(wc -l <"$file")
    case $file in
    tests/*) ;; # tables and cases may be long
    *) [ "$lines" -le 400 ] || echo "long: $file has $lines lines" ;;
    esac
done
for file in $(listed '*.c' '*.h'); do
    grep -nP '\t' "$file" /dev/null && complain "$file: a tab"
    head -n 1 "$file" | grep -q '^/\* .*' || complain "$file: no head comment"
done
for file in $(listed '*.sh' '*.awk' run); do
    head -n 2 "$file" | grep -qE '^# [a-z.]+' ||
        complain "$file: no head comment"
done
for folder in runtime handles alloc tests examples; do
    [ -d "$folder" ] || continue
    [ -f "$folder/README.md" ] || complain "$folder: no README.md"
done
# A README of a folder of the library names every file in it and below.
for folder in runtime handles alloc; do
    for file in "$folder"/*.[ch] "$folder"/*/*.[ch]; do
        [ -f "$file" ] || continue
        stem=$(basename "$file")
        grep -qwF "${stem%.*}" "$folder/README.md" ||
            complain "$folder/README.md does not name $stem"
    done
done
for file in $(listed README.md | grep /); do
    lines=$(wc -l <"$file")
    [ "$lines" -le 40 ] || complain "$file has $lines lines, not at most 40"
done
exit "$failed"
