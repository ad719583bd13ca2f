#!/bin/sh
# need.sh PACKAGE...: makes sure that what a target needs is installed.
#
# What is there is left alone, whoever packaged it. What is missing is named,
# all of it at once, and installed with apt-get where that is allowed: for root,
# or with sudo without a password. Anywhere else, and always with INSTALL=no,
# the script prints the command that installs it, and fails.
set -u

case ${INSTALL:-} in
'' | yes | no) ;;
*)
    echo "need: INSTALL=$INSTALL: use yes (the default) or no" >&2
    exit 2
    ;;
esac

# Is there what Debian calls $1? Under its name, or as the compiler, the shell
# or pkg-config find it.
found() {
    case $1 in
    pkg-config | clang | clang-tidy | clang-format | cppcheck | valgrind | \
        shellcheck | jq | chromium | python3 | cmake)
        command -v "$1" >/dev/null && return ;;
    check) pkg_config check && return ;;
    python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null && return ;;
    g++) command -v "${CXX:-g++}" >/dev/null && return ;;
    # Only some builds of Check want it.
    libsubunit-dev) pkg_config libsubunit && return
        pkg_config check && ! pkg-config --libs check | grep -q subunit &&
            return ;;
    libjansson-dev) header jansson.h && return ;;
    libcurl4-openssl-dev) header curl/curl.h && return ;;
    libmicrohttpd-dev) header microhttpd.h && return ;;
    libpng-dev) header png.h && return ;;
    zlib1g-dev) header zlib.h && return ;;
    libdnnl-dev) header dnnl.h && return ;;
    libucx-dev) header ucp/api/ucp.h && return ;;
    libopenmpi-dev) command -v mpicc >/dev/null && return ;;
    openmpi-bin) command -v mpirun >/dev/null && return ;;
    dataset-fashion-mnist)
        [ -d /usr/share/datasets/fashion-mnist ] && return ;;
    esac
    dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null |
        grep -q '^install ok installed'
}

pkg_config() {
    pkg-config --exists "$1" 2>/dev/null
}

header() {
    echo "#include <$1>" | ${CC:-cc} -E - >/dev/null 2>&1
}

missing_of() {
    for package in "$@"; do
        found "$package" || printf ' %s' "$package"
    done
}

give_up() {
    echo "need: missing:$missing" >&2
    echo "need: $1" >&2
    exit 1
}

# Headers are for a compiler: without one nothing is installed for it.
case " $* " in
*-dev\ *)
    header stdio.h || {
        echo "need: ${CC:-cc}: no C compiler, or none with the C library's" \
            "headers: install gcc and libc6-dev, or name one: CC=clang" >&2
        exit 1
    }
    ;;
esac

missing=$(missing_of "$@")
[ -n "$missing" ] || exit 0

command -v apt-get >/dev/null ||
    give_up "install them with this system's tools (the names are Debian's)"
root='' sudo=''
if [ "$(id -u)" -ne 0 ]; then
    root="sudo -n" sudo="sudo "
fi
# What is another machine's (check:arm64): dpkg has to know of that machine.
foreign=
for package in $missing; do
    case $package in
    *:*) foreign="dpkg --add-architecture ${package#*:}" ;;
    esac
done
first=${foreign:+$sudo$foreign && }
advice="to install them, run:
    $first${sudo}apt-get update && ${sudo}apt-get install \\
       $missing"
[ "${INSTALL:-}" != no ] || give_up "$advice"
[ -z "$root" ] || $root true 2>/dev/null || give_up "$advice"

# One at a time: targets of one make may ask at once.
exec 9<"$0"
flock 9
missing=$(missing_of "$@")
[ -n "$missing" ] || exit 0
echo "need: installing$missing"
echo "need: INSTALL=no would leave the system alone"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # words on purpose: names of packages, sudo -n
if ! { { [ -z "$foreign" ] || $root $foreign; } && $root apt-get update &&
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y \
        --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    give_up "apt-get could not install them; the lines above say why"
fi
missing=$(missing_of "$@")
[ -z "$missing" ] || give_up "apt-get installed them, but they are not found"
