#!/bin/bash
# cold_path.sh LIBRARY [list]: what one cold request for page-locked memory
# passes, as callgrind counts it. Prints two figures:
#
#   the way    functions of alloc/ through which the request comes to the call
#              that page-locks memory: what a reader follows to learn why the
#              driver is called
#   all        functions of alloc/ that run at all, with those that the rungs of
#              the ladder call in vain, bins, figures and the page map
#
# Fails if the way has more than 20 functions or 10 files, or if more than MOST
# run at all: a number that is only ever made smaller.
#
# The request is the second of its thread, for more bytes than the space has
# idle: each rung of the ladder fails, and a segment is obtained from the driver
# of the host device. Functions of *.c and *.h files count, in a library of
# which the compiler inlined nothing; `make cold-path` builds it.
set -eu
MOST=280
library=$1 list=${2:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/cold.c" <<'END'
#include <warmpool/testing.h>
#include <warmpool/warmpool.h>

static uint64_t now(void) /* nothing is due in between */
{
    return 1000000000;
}

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

    warm_testing_set_clock(now);
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
awk -v list="$list" -v most="$MOST" '
    function named(table, text,    id) {
        sub(/^[^=]*=/, "", text)
        id = text
        sub(/ .*/, "", id)
        if (text ~ / /) { table[id] = substr(text, length(id) + 2) }
        return table[id]
    }
    # "file:function"; file is "" unless it is a file of alloc/.
    function key(path, text) {
        text = named(fn, text)
        sub(/\x27.*/, "", text) # a recursion
        # Not alloc/malloc.c of libc.
        if (path !~ /alloc\/[a-z_]+\/[a-z_]+\.[ch]$/) {
            return ":" text
        }
        sub(/^.*alloc\//, "", path)
        return path ":" text
    }
    # Marks all callers of a function, and theirs.
    function mark(f,    n, i, caller) {
        n = split(callers[f], caller, "\t")
        for (i = 1; i <= n; i++) {
            if (!(caller[i] in on_way)) {
                on_way[caller[i]] = 1
                mark(caller[i])
            }
        }
    }
    # Whether there are too many.
    function count(title, chosen, most, most_files,    f, part, n, files,
                   names) {
        for (f in chosen) {
            split(f, part, ":")
            if (part[1] != "") {
                n++
                names[part[1]] = names[part[1]] " " part[2]
            }
        }
        for (f in names) {
            files++
            if (list != "") { print title ", " f ":" names[f] | "sort" }
        }
        close("sort")
        printf "%s: %d functions in %d files of alloc/\n", title, n, files
        return n == 0 || n > most || files > most_files
    }
    /^(fl|fi|fe)=/ { at = named(file, $0) }
    /^fn=/ { caller_at = key(at, $0); all[caller_at] = 1 }
    /^(cfi|cfl)=/ { called_at = named(file, $0) }
    /^cfn=/ {
        callee = key(called_at != "" ? called_at : at, $0)
        callers[callee] = callers[callee] "\t" caller_at
        called_at = ""
    }
    END {
        mark(":wm_driver_pinned_alloc")
        long_way = count("the way", on_way, 20, 10)
        exit count("all", all, most, 1000) || long_way
    }' "$folder/out"
