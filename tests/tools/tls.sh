#!/bin/sh
# tls.sh LIBRARY: its thread-local variables are 64 bytes at most.
#
# One of them is reached without a call (initial-exec), so all of them lie in
# the static TLS that libraries which are loaded late share (glibc: 1664 bytes).
# Plugins with the library inside are many, and with too many bytes each the
# next one is not loaded ("cannot allocate memory in static TLS block").
set -u
most=64
bytes=$(readelf -lW "$1" | awk '$1 == "TLS" { print $6 }')
bytes=$((${bytes:-0}))
if [ "$bytes" -gt "$most" ]; then
    echo "$1 has $bytes bytes of thread-local variables, more than $most:"
    readelf -sW "$1" | awk '$4 == "TLS" { print "  " $8 ": " $3 }' | sort -u
    echo "what is seldom needed belongs into runtime/base/thread_data.h"
    exit 1
fi
