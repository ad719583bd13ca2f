#!/bin/sh
# coverage.sh BUILD: share of the library's lines that the tests of a cov
# build have reached, and of its branches that they have taken, file by file,
# and in all.
set -u
find "$1/runtime" "$1/handles" "$1/alloc" -name '*.gcno' 2>/dev/null |
    while read -r data; do
        gcov --no-output --branch-probabilities \
            --object-directory "$(dirname "$data")" "$data"
    done 2>/dev/null | awk '
    /^File / { file = $2; gsub(/\047/, "", file) }
    /^Lines executed:/ && file ~ /\.[ch]$/ && file !~ /^\// {
        split($0, part, /[:% ]+/)
        lines[file] = part[5]
        hit[file] = part[3] * part[5] / 100
    }
    /^Taken at least once:/ && file in lines {
        split($0, part, /[:% ]+/)
        branches[file] = part[7]
        taken[file] = part[5] * part[7] / 100
    }
    /^$/ { file = "" }
    END {
        for (name in lines) {
            printf "%6.1f %% of %4d lines  %6.1f %% of %4d branches  %s\n",
                100 * hit[name] / lines[name], lines[name],
                branches[name] ? 100 * taken[name] / branches[name] : 100,
                branches[name], name | "sort -k11"
            all += lines[name]
            reached += hit[name]
            ways += branches[name]
            gone += taken[name]
        }
        close("sort -k11")
        if (!all) {
            print "coverage: no data below the build folder"
            exit 1
        }
        printf "cov: lines=%d reached=%.1f%% branches=%d taken=%.1f%%\n",
            all, 100 * reached / all, ways, 100 * gone / ways
    }'
