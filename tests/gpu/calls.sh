#!/bin/bash
# calls.sh: mixed sizes with a recorded stream, by threads and option `keep`:
# nanoseconds and driver calls of a free, and what is obtained meanwhile. A
# growth that takes milliseconds is another explanation of a slow row.
set -u
here=$(cd "$(dirname "$0")" && pwd)

value() {
    sed -n "s/^$1=//p" <<<"$figures"
}

printf '%-10s %-8s %8s %9s %9s %9s %9s\n' load keep threads ns records \
    queries obtains
for load in mixed mixeds; do
    for keep in '' 60; do
        for threads in 1 2 4 8; do
            figures=$(WARMPOOL_CONF=${keep:+keep:$keep} "$here/bench" one cuda \
                "$load" threads="$threads" ops=5000 runs=3) || exit 1
            printf '%-10s %-8s %8d %9.0f %9.3f %9.3f %9.0f\n' "$load" \
                "${keep:-default}" "$threads" "$(value ns)" \
                "$(value records)" "$(value queries)" "$(value obtains)"
        done
    done
done
