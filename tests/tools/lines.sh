#!/bin/sh
# lines.sh: no line over 80 columns, no blank at the end of a line, no tab in
# C, a comment at the head of every C file and script, a README in every folder
# of the library.
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
done
for file in $(listed '*.c' '*.h'); do
    grep -nP '\t' "$file" /dev/null && complain "$file: a tab"
    head -n 1 "$file" | grep -q '^/\* .*' || complain "$file: no head comment"
done
for file in $(listed '*.sh' '*.awk' run); do
    head -n 2 "$file" | grep -qE '^# [a-z.]+' ||
        complain "$file: no head comment"
done
for folder in tests examples runtime runtime/* handles handles/* alloc \
    alloc/*; do
    [ -d "$folder" ] || continue
    [ -f "$folder/README.md" ] || complain "$folder: no README.md"
done
exit "$failed"
