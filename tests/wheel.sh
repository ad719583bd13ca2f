#!/bin/sh
# wheel.sh NAME==VERSION FOLDER: unpacks a wheel of Python into a folder.
#
# For libraries that Debian does not package and tests run against. A folder
# that has this version is left alone. Where pip is missing or finds nothing,
# and with INSTALL=no, the script says so, and fails.
set -u
wheel=$1 folder=$2

if [ -e "$folder/$wheel" ]; then
    exit 0
fi
give_up() {
    echo "wheel: $wheel: $1" >&2
    exit 1
}
[ "${INSTALL:-}" != no ] || give_up "not downloaded with INSTALL=no"
python3 -m pip --version >/dev/null 2>&1 ||
    give_up "python3 has no pip (python3-pip)"

mkdir -p "$folder"
exec 9<"$folder"
flock 9
if [ -e "$folder/$wheel" ]; then
    exit 0
fi
echo "wheel: downloading $wheel"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
timeout 300 python3 -m pip download --quiet --disable-pip-version-check \
    --no-deps --only-binary :all: --retries 1 --dest "$work" "$wheel" \
    >"$work/log" 2>&1 || {
    tail -n 5 "$work/log" >&2
    give_up "pip could not download it"
}
python3 -m zipfile -e "$work"/*.whl "$folder" ||
    give_up "it could not be unpacked"
: >"$folder/$wheel"
