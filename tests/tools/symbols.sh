#!/bin/sh
# symbols.sh LIBRARY: the shared library exports warm_* and nothing else.
set -u
failed=0
export LC_ALL=C

others=$(nm -D --defined-only "$1" |
    awk '$2 != "A" && $3 !~ /^warm_[a-z0-9_]+@@WARMPOOL_[0-9_]+$/ { print $3 }')
if [ -n "$others" ]; then
    echo "$1 exports what is not warm_*: $others"
    failed=1
fi

# Every function of the headers is there, and nothing that they do not have.
exported=$(mktemp)
declared=$(mktemp)
streams=$(mktemp)
second=$(mktemp)
trap 'rm -f "$exported" "$declared" "$streams" "$second"' EXIT
nm -D --defined-only "$1" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' |
    sort >"$second"
grep -v '_ptsz$' "$second" >"$exported"
sed -n 's/_ptsz$//p' "$second" | sort -o "$second"
awk -f "$(dirname "$0")/strip.awk" include/warmpool/*.h | cut -d: -f3- |
    tr '\n' ' ' | grep -oE 'WARM_API[^;(]*\([^;]*' >"$streams"
grep -oE 'WARM_API[^;(]*\(' "$streams" |
    grep -oE 'warm_[a-z0-9_]+\($' | tr -d '(' | sort >"$declared"
for name in $(comm -23 "$declared" "$exported"); do
    echo "$1 lacks $name(), which a header declares"
    failed=1
done
for name in $(comm -13 "$declared" "$exported"); do
    echo "$1 exports $name(), which no header declares"
    failed=1
done

# Every function has a line in the table of wrong arguments.
for name in $(grep -oE '^ *[STAZV]\(warm_[a-z0-9_]+' tests/api/misuse.h |
    sed 's/.*(//' | sort -u | comm -13 - "$exported"); do
    echo "$name() has no line in tests/api/misuse.h"
    failed=1
done

# Every function that takes a stream has a second one for code whose default
# streams are its threads', which per_thread.h puts in its place.
grep -E 'warm_stream +stream *[,)]' "$streams" |
    grep -v 'warm_stream_destroy *(' | grep -oE 'WARM_API[^;(]*\(' |
    grep -oE 'warm_[a-z0-9_]+\($' | tr -d '(' | sort -o "$streams"
for name in $(comm -3 "$streams" "$second"); do
    echo "$name() takes a stream and ${name}_ptsz() is not there, or the" \
        "other way round: runtime/per_thread.c"
    failed=1
done
for name in $(sed -n 's/^#define \(warm_[a-z0-9_]*\) *\1_ptsz$/\1/p' \
    include/warmpool/per_thread.h | sort | comm -3 - "$streams"); do
    echo "$name() takes a stream and is not in per_thread.h, or the other way" \
        "round"
    failed=1
done

soname=$(readelf -d "$1" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')
case $soname in
libwarmpool.so.[0-9]*) ;;
*)
    echo "$1 has the soname '$soname'"
    failed=1
    ;;
esac
readelf -d "$1" | grep -q NODELETE || {
    echo "$1 was not linked with -z nodelete"
    failed=1
}
exit "$failed"
