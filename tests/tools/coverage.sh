#!/bin/sh
# coverage.sh BUILD: share of the library's lines that the tests of a cov
# build have reached, file by file, and in all.
set -u
find "$1/runtime" "$1/handles" "$1/alloc" -name '*.gcno' 2>/dev/null |
    while read -r data; do
        gcov --no-output --object-directory "$(dirname "$data")" "$data"
    done 2>/dev/null | awk '
    /^File / { file = $2; gsub(/\047/, "", file) }
    /^Lines executed:/ && file ~ /\.[ch]$/ && file !~ /^\// {
        split($0, part, /[:% ]+/)
        lines[file] = part[5]
        hit[file] = part[3] * part[5] / 100
        file = ""
    }
    END {
        for (name in lines) {
            printf "%6.1f %% of %4d  %s\n",
                100 * hit[name] / lines[name], lines[name], name | "sort -k5"
            all += lines[name]
            reached += hit[name]
        }
        close("sort -k5")
        if (!all) {
            print "coverage: no data below the build folder"
            exit 1
        }
        printf "cov: lines=%d reached=%.1f%%\n", all, 100 * reached / all
    }'
