#!/bin/sh
# floors.sh LIBRARY: fails if a call goes up or round in a circle (floors.awk).
# Reads the objects in the folder of LIBRARY.
set -eu
tools=$(dirname "$0")
build=$(dirname "$1")
for folder in runtime handles alloc; do
    find "$build/$folder" \( -name tools -o -name preload \) -prune -o \
        -name '*.o' -print
done | while read -r object; do
    source=${object#"$build/"}
    [ ! -f "${source%.o}.c" ] || echo "$object" # else of a file that is gone
done | LC_ALL=C sort | xargs nm -A -P |
    awk -v build="$build/" -f "$tools/floors.awk" "$tools/floors.txt" -
