#!/bin/bash
# watch.sh: runs a program, and says where its threads stand when it still runs
# after WATCH seconds (default: 45), if there is a debugger.
#
#   watch.sh program [argument...]
set -u

debugger=$(command -v gdb || command -v cuda-gdb || echo true)

# A test has a process of its own under the program, unless they share one.
stacks() {
    local pid
    sleep "${WATCH:-45}"
    for pid in $(pgrep -P "$1" || echo "$1"); do
        echo "==== still runs: process $pid of $2"
        timeout 10 "$debugger" -p "$pid" -batch \
            -ex 'thread apply all backtrace 12' 2>&1 | head -n 300
    done
}

"$@" &
program=$!
stacks "$program" "$1" &
watcher=$!
trap 'kill "$program" 2>/dev/null' TERM
wait "$program"
status=$?
# Its sleep, too.
pkill -P "$watcher"
kill "$watcher" 2>/dev/null
exit "$status"
