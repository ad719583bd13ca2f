#!/bin/sh
# globals.sh LIBRARY LIST: writable symbols are those of the list.
#
# LIST has a line for each: the symbol, its source, the reason. Constants with
# addresses in them (.data.rel.ro) are made read-only by the dynamic linker.
set -u
export LC_ALL=C
found=$(mktemp)
trap 'rm -f "$found"' EXIT

# Symbol and source, "-" where the linker does not tell (shared by files). A
# number after the dot is that of a variable inside a function.
objdump -t "$1" |
    awk '
        / df \*ABS\*/ { source = NF == 5 ? "-" : $NF; next }
        / g / { source = "-" }
        /[ \t]\.(data|bss|tdata|tbss)[ \t]/ && !/ d  / {
            name = $NF
            sub(/\.[0-9]+$/, "", name)
            print name, source
        }' |
    # The compiler's and the linker's own.
    grep -vE '^(completed|__dso_handle|__TMC_END__|__bss_start|_edata|_end) ' |
    sort -u >"$found"

awk -v library="$1" -v list="$2" '
    FILENAME == list {
        if ($0 !~ /^(#|$)/) {
            allowed[$1, $2] = where[$1] = $2
            if (NF < 4) {
                print list ":" FNR ": " $1 " has no source or reason"
                failed = 1
            }
        }
        next
    }
    $2 == "-" && $1 in where { $2 = where[$1] }
    { seen[$1, $2] = 1 }
    !(($1, $2) in allowed) {
        print library ": writable symbol " $1 " of " $2 " is not in " list
        failed = 1
    }
    END {
        for (pair in allowed) {
            if (!(pair in seen)) {
                split(pair, part, SUBSEP)
                print list ": " part[1] " of " part[2] " is not in " library
                failed = 1
            }
        }
        exit failed
    }' "$2" "$found"
