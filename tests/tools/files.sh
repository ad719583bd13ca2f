#!/bin/sh
# files.sh PATTERN...: the tree's files whose names match, but for what was
# built; without git, which need not be there or may not trust the folder.
set -u
for pattern in "$@"; do
    find . -type d \( -name .git -o -name build \) -prune -o \
        -type f -name "$pattern" -print
done | sed 's|^\./||' | LC_ALL=C sort -u
