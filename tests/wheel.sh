#!/bin/sh
# wheel.sh NAME==VERSION FOLDER: unpacks a wheel of Python into its own folder.
#
# For libraries that Debian does not package and tests run against. A folder
# that has this version is left alone, another version is deleted first. Where
# pip is missing or finds nothing, and with INSTALL=no, the script says so,
# fails, and leaves the folder as it is.
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
python3 -c 'import pip' 2>/dev/null ||
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
find "$folder" -mindepth 1 -delete
python3 -m zipfile -e "$work"/*.whl "$folder" ||
    give_up "it could not be unpacked"
: >"$folder/$wheel"
