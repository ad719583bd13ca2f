#!/bin/sh
# glibc.sh FOLDER: fails, naming the file, if a program or library in the folder
# needs a newer C library than that of Ubuntu 22.04, the oldest machine that the
# bundle is made for. The demo brings libraries of its own and is left out.
set -u
newest=2.35
failed=0

find "$1" -type f -not -path '*/demo/*' -not -path '*/python/*' |
    (while read -r file; do
        for version in $(objdump -T "$file" 2>/dev/null |
            sed -n 's/.*(GLIBC_\([0-9.]*\)).*/\1/p' | sort -Vu); do
            [ "$(printf '%s\n' "$version" "$newest" | sort -V | tail -n 1)" = \
                "$newest" ] || {
                echo "glibc.sh: $file: needs GLIBC_$version" >&2
                failed=1
            }
        done
    done
    exit "$failed")
