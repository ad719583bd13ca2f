#!/bin/bash
# cold_path.sh LIBRARY [list]: how many functions, in how many files of alloc/,
# one cold request for page-locked memory passes; and how many of these are of
# the floors that decide what is tried next: api, space and kinds.
#
# The request is the second of its thread, for more bytes than the space has
# idle: each rung of the ladder fails, and a segment is obtained from the driver
# of the host device. Counted by callgrind are functions of *.c files; inline
# functions of headers, and what lies below alloc/, are not. The figure is that
# of the source only where the compiler inlines nothing:
#
#   make FLAVOUR=debug B=build/cold CFLAGS=-O0 build/cold/libwarmpool.a
#   tests/tools/cold_path.sh build/cold/libwarmpool.a list
set -eu
library=$1 list=${2:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/cold.c" <<'END'
#include <warmpool/warmpool.h>

__attribute__((noinline)) static int cold_request(warm_runtime *runtime)
{
    void *pointer;

    return (int)warm_pinned_alloc(runtime, 64 << 20, &pointer);
}

int main(void)
{
    warm_options *options = 0;
    warm_runtime *runtime;
    void *first;

    return warm_runtime_create(options, &runtime) != WARM_OK ||
           warm_pinned_alloc(runtime, 4096, &first) != WARM_OK ||
           cold_request(runtime) != WARM_OK;
}
END
cc -std=c17 -g -O0 -Iinclude "$folder/cold.c" "$library" -pthread -ldl -lm \
    -o "$folder/cold"
WARMPOOL_CONF=device:host valgrind --tool=callgrind \
    --toggle-collect=cold_request --callgrind-out-file="$folder/out" \
    "$folder/cold" >"$folder/log" 2>&1 || {
    cat "$folder/log"
    exit 1
}
# Files and functions are named once, "(7) name", and are "(7)" from then on.
awk -v list="$list" '
    function named(table, text,    id) {
        sub(/^[^=]*=/, "", text)
        id = text
        sub(/ .*/, "", id)
        if (text ~ / /) { table[id] = substr(text, length(id) + 2) }
        return table[id]
    }
    /^(cfi|cfl)=/ { named(file, $0) }
    /^cfn=/ { named(fn, $0) }
    /^(fl|fi|fe)=/ { at = named(file, $0) }
    /^fn=/ {
        name = named(fn, $0)
        if (at ~ /alloc\/[a-z_]+\/[a-z_]+\.c$/) { # not alloc/malloc.c of libc
            short = at
            sub(/^.*alloc\//, "alloc/", short)
            sub(/\x27.*/, "", name) # a recursion
            if (!((short, name) in seen)) {
                seen[short, name] = 1
                of[short] = of[short] " " name
                functions++
                upper += short ~ /alloc\/(api|space|kinds)\//
            }
        }
    }
    END {
        for (f in of) {
            files++
            upper_files += f ~ /alloc\/(api|space|kinds)\//
            if (list != "") { print f ":" of[f] | "sort" }
        }
        close("sort")
        printf "cold path: %d functions in %d files; api, space, kinds: %d " \
            "in %d\n", functions, files, upper, upper_files
    }' "$folder/out"
