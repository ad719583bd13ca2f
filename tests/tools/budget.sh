#!/bin/sh
# budget.sh BUDGET FILE...: fails if the files of a folder have more lines than
# BUDGET says, or if BUDGET does not know the folder.
set -eu
budget=$1
shift
awk '
    FNR == 1 { folder = FILENAME; sub(/\/[^\/]*$/, "", folder) }
    { lines[folder]++ }
    END { for (folder in lines) print folder, lines[folder] }' "$@" |
    LC_ALL=C sort |
    awk '
        FNR == NR { if (!/^#/ && NF == 2) { most[$1] = $2 } next }
        !($1 in most) { print "budget: " $1 " has no number"; failed = 1; next }
        $2 > most[$1] {
            print "budget: " $1 " has " $2 " lines, at most " most[$1]
            failed = 1
        }
        END { exit failed }' "$budget" -
