#!/bin/sh
# test_wheel.sh: wheel.sh with wheels of a folder instead of the package index.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/tap.sh"
wheel=$tools/../wheel.sh

# $1: a version. Its wheel has one file, named by the version.
index() {
    python3 - "$1" <<'END'
import sys, zipfile
version = sys.argv[1]
name = f"tiny-{version}"
with zipfile.ZipFile(f"{name}-py3-none-any.whl", "w") as file:
    file.writestr(f"tiny/of_{version}", "")
    file.writestr(f"{name}.dist-info/METADATA",
                  f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n")
    file.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\n"
                  "Root-Is-Purelib: true\nTag: py3-none-any\n")
END
}

get() {
    PIP_NO_INDEX=1 PIP_FIND_LINKS=. "$wheel" "$@"
}

test_H3_a_wheel_replaces_another_version() {
    index 1.0
    index 2.0
    get tiny==1.0 folder
    get tiny==3.0 folder && return 1
    INSTALL=no get tiny==2.0 folder && return 1
    rm tiny-1.0*
    get tiny==1.0 folder
    [ -e folder/tiny/of_1.0 ]
    get tiny==2.0 folder
    [ -e folder/tiny/of_2.0 ]
    [ ! -e folder/tiny/of_1.0 ]
    [ ! -e folder/tiny==1.0 ]
}

if ! python3 -c 'import pip' 2>/dev/null; then
    echo 'skip: test_wheel: python3 has no pip'
    printf '1..1\nok 1 - test_wheel # skip no pip\n' \
        >"${CK_TAP_LOG_FILE_NAME:-/dev/null}"
    exit 0
fi
tap_run test_H3_a_wheel_replaces_another_version
