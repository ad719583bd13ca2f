#!/bin/sh
# need.sh PACKAGE...: makes sure that what a target needs is installed.
#
# What can be found is not asked for again. What is missing is installed with
# apt-get where we may (root, or sudo without a password), said in one line;
# anywhere else the script says what to install and fails.
set -u

# Is the thing that Debian calls $1 here, whoever packaged it?
found() {
    case $1 in
    pkg-config | clang | clang-tidy | clang-format | cppcheck | valgrind | \
        shellcheck | jq) command -v "$1" >/dev/null ;;
    check) pkg_config check ;;
    # Only some builds of Check want it.
    libsubunit-dev) pkg_config libsubunit ||
        { pkg_config check && ! pkg-config --libs check | grep -q subunit; } ;;
    libmicrohttpd-dev) pkg_config libmicrohttpd ;;
    libpng-dev) pkg_config libpng ;;
    zlib1g-dev) pkg_config zlib ;;
    libcurl4-openssl-dev) pkg_config libcurl ;;
    libdnnl-dev) header dnnl.h ;;
    libopenblas-dev) header cblas.h ;;
    dataset-fashion-mnist) [ -d /usr/share/datasets/fashion-mnist ] ;;
    *) dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null |
        grep -q '^install ok installed' ;;
    esac
}

pkg_config() {
    pkg-config --exists "$1" 2>/dev/null
}

header() {
    echo "#include <$1>" | ${CC:-cc} -E - >/dev/null 2>&1
}

missing_of() {
    for package in "$@"; do
        found "$package" || printf '%s ' "$package"
    done
}

give_up() {
    echo "need: missing: $missing" >&2
    echo "need: $1" >&2
    exit 1
}

missing=$(missing_of "$@")
[ -n "$missing" ] || exit 0

command -v apt-get >/dev/null ||
    give_up "install these libraries and tools (named as Debian names them)"
root=
if [ "$(id -u)" -ne 0 ]; then
    root="sudo -n"
    $root true 2>/dev/null || give_up "run: sudo apt-get install $missing"
fi

# One at a time: targets of one make may ask at once.
exec 9<"$0"
flock 9
missing=$(missing_of "$@")
[ -n "$missing" ] || exit 0
echo "need: installing $missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # words on purpose: names of packages, sudo -n
if ! { $root apt-get update && $root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    give_up "apt-get could not install them"
fi
