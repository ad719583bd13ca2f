#!/bin/sh
# tag.sh VENV WHEEL FOLDER: puts the wheel into the folder under the tag of the
# oldest systems on which it runs, as auditwheel finds it; without a verdict
# under its own tag, of this machine.
set -u
venv=$1 wheel=$2 folder=$3
mkdir -p "$folder"
says='consistent with the following platform tag'
found=$("$venv/auditwheel" show "$wheel" 2>&1 | tr '\n' ' ' |
    sed -n "s/.*$says: *\"\([a-z0-9_]*\)\".*/\1/p")
case $found in
manylinux_*)
    "$venv/python" -m wheel tags --platform-tag "$found" "$wheel" >/dev/null &&
        mv "${wheel%-linux_*}-$found.whl" "$folder" || exit 1
    ;;
*)
    echo "wheel: no tag of manylinux is true of it"
    cp "$wheel" "$folder" || exit 1
    ;;
esac
ls "$folder"/*.whl
