#!/bin/sh
# globals.sh LIBRARY LIST: writable symbols are those of the list.
#
# LIST has a line for each: the symbol, its source, the reason. Constants with
# addresses in them (.data.rel.ro) are made read-only by the dynamic linker.
set -u
export LC_ALL=C
found=$(mktemp)
trap 'rm -f "$found"' EXIT

# Number after the dot: a static variable inside a function.
objdump -t "$1" |
    awk '/[ \t]\.(data|bss|tdata|tbss)[ \t]/ && $2 != "d" && !/ d  / {
        name = $NF
        sub(/\.[0-9]+$/, "", name)
        print name
    }' |
    # The compiler's and the linker's own.
    grep -vE '^(completed|__dso_handle|__TMC_END__|__bss_start|_edata|_end)$' |
    sort -u >"$found"

awk -v library="$1" -v list="$2" '
    FILENAME == list {
        if ($0 !~ /^(#|$)/) {
            allowed[$1] = 1
            if (NF < 4) {
                print list ":" FNR ": " $1 " has no source or reason"
                failed = 1
            }
        }
        next
    }
    { seen[$1] = 1 }
    !($1 in allowed) {
        print library ": writable symbol " $1 " is not in " list
        failed = 1
    }
    END {
        for (name in allowed) {
            if (!(name in seen)) {
                print list ": " name " is not in " library " any more"
                failed = 1
            }
        }
        exit failed
    }' "$2" "$found"
