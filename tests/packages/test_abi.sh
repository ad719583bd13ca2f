#!/bin/sh
# test_abi.sh: the library keeps the binary interface that was written down.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
build=${PK_BUILD:-build/release}
unset MAKEFLAGS MAKELEVEL FLAVOUR B

check_abi() {
    make -s -C "$top" "B=$build" check-abi "$@"
}

test_H6_the_interface_is_that_of_the_release() {
    check_abi
}

test_H6_a_function_that_is_gone_is_reported() {
    gzip -dc "$tools/libwarmpool.abi.gz" |
        sed 's/warm_pinned_trim/warm_pinned_gone/g' | gzip -n >old.gz
    if check_abi "ABI=$PWD/old.gz" >out 2>&1; then
        return 1
    fi
    grep -q warm_pinned_gone out
}

if ! command -v abidiff >/dev/null; then
    echo "skip: test_abi: abidiff is not here"
    printf '1..1\nok 1 - test_abi # skip no abidiff\n' \
        >"${CK_TAP_LOG_FILE_NAME:-/dev/null}"
    exit 0
fi
tap_run test_H6_the_interface_is_that_of_the_release \
    test_H6_a_function_that_is_gone_is_reported
