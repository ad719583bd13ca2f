#!/bin/sh
# test_need.sh: need.sh on made-up machines: a folder of stubs is all of PATH.
# A package is there if $have/PACKAGE exists; apt-get install makes those.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/tap.sh"
need=$tools/../need.sh

# stub NAME: makes a program of the lines that follow.
stub() {
    { echo '#!/bin/sh'; cat; } >"bin/$1"
    chmod +x "bin/$1"
}

# machine USER: Debian, with a compiler, without pkg-config and packages.
machine() {
    mkdir bin have
    for tool in sh grep cat env mktemp rm tail flock touch; do
        ln -s "$(command -v "$tool")" "bin/$tool"
    done
    : >calls
    echo "[ \$1 = -u ] && echo $1" | stub id
    stub cc <<'END_OF_STUB'
read -r line
case $line in
*stdio.h*) exit 0 ;;
*microhttpd.h*) package=libmicrohttpd-dev ;;
*png.h*) package=libpng-dev ;;
*zlib.h*) package=zlib1g-dev ;;
*dnnl.h*) package=libdnnl-dev ;;
*jansson.h*) package=libjansson-dev ;;
*curl/curl.h*) package=libcurl4-openssl-dev ;;
esac
[ -e "have/$package" ]
END_OF_STUB
    stub dpkg-query <<'END_OF_STUB'
for package; do :; done
[ -e "dpkg/$package" ] && echo 'install ok installed'
END_OF_STUB
    stub apt-get <<'END_OF_STUB'
echo "apt-get $*" >>calls
[ "$1" = install ] || exit 0
for package; do
    case $package in install | -*) ;; *) touch "have/$package" ;; esac
done
END_OF_STUB
}

# need PACKAGE...: output in $out, status in $status
need() {
    status=0
    out=$(PATH=$PWD/bin CC=cc "$need" "$@" 2>&1) || status=$?
}

all='libmicrohttpd-dev libdnnl-dev zlib1g-dev libpng-dev'

test_root_installs_all_that_is_missing_at_once_and_only_once() {
    machine 0
    need libmicrohttpd-dev libdnnl-dev zlib1g-dev libpng-dev
    same "$status" 0
    same "$(cat calls)" "apt-get update
apt-get install -y --no-install-recommends $all"
    : >calls
    need libmicrohttpd-dev libdnnl-dev zlib1g-dev libpng-dev
    same "$status $out $(cat calls)" "0  "
}

test_what_is_there_is_left_alone() {
    machine 0
    touch have/libmicrohttpd-dev have/zlib1g-dev have/libjansson-dev \
        have/libcurl4-openssl-dev
    need libmicrohttpd-dev zlib1g-dev libjansson-dev libcurl4-openssl-dev
    same "$status $out $(cat calls)" "0  "
    need libmicrohttpd-dev libpng-dev
    has_line "$(cat calls)" \
        "apt-get install -y --no-install-recommends libpng-dev"
}

# Where the probe finds nothing, but the package is installed.
test_installed_package_is_not_installed_again() {
    machine 0
    mkdir dpkg
    touch dpkg/check dpkg/libpng-dev dpkg/libjemalloc2
    need check libpng-dev libjemalloc2
    same "$status $out $(cat calls)" "0  "
}

test_user_without_sudo_is_told_all_names_and_one_command() {
    machine 1000
    touch have/zlib1g-dev
    need libmicrohttpd-dev libdnnl-dev zlib1g-dev libpng-dev
    same "$status" 1
    missing='libmicrohttpd-dev libdnnl-dev libpng-dev'
    same "$out" "need: missing: $missing
need: to install them, run:
    sudo apt-get update && sudo apt-get install \\
        $missing"
    same "$(cat calls)" ""
}

test_user_with_everything_needs_no_root() {
    machine 1000
    touch have/libmicrohttpd-dev have/libdnnl-dev have/zlib1g-dev \
        have/libpng-dev
    need libmicrohttpd-dev libdnnl-dev zlib1g-dev libpng-dev
    same "$status $out $(cat calls)" "0  "
}

test_sudo_without_a_password_is_used() {
    machine 1000
    stub sudo <<'END_OF_STUB'
[ "$1" = -n ] && shift
[ "$1" = true ] || echo sudo >>calls
exec "$@"
END_OF_STUB
    echo 'exit 0' | stub true
    need libpng-dev
    same "$status" 0
    same "$(cat calls)" "sudo
apt-get update
sudo
apt-get install -y --no-install-recommends libpng-dev"
}

test_what_is_another_machines_needs_that_machine() {
    machine 0
    echo 'echo "dpkg $*" >>calls' | stub dpkg
    mkdir dpkg
    echo 'touch dpkg/check:arm64' >>bin/apt-get
    need check:arm64
    same "$status" 0
    same "$(cat calls)" "dpkg --add-architecture arm64
apt-get update
apt-get install -y --no-install-recommends check:arm64"
}

test_install_no_leaves_the_system_alone() {
    machine 0
    touch have/zlib1g-dev
    export INSTALL=no
    need libmicrohttpd-dev zlib1g-dev libpng-dev
    same "$status $(cat calls)" "1 "
    same "$out" "need: missing: libmicrohttpd-dev libpng-dev
need: to install them, run:
    apt-get update && apt-get install \\
        libmicrohttpd-dev libpng-dev"
    need zlib1g-dev
    same "$status $out" "0 "
}

test_install_takes_yes_or_no() {
    machine 0
    export INSTALL=never
    need libpng-dev
    same "$status $(cat calls)" "2 "
    same "$out" "need: INSTALL=never: use yes (the default) or no"
    export INSTALL=yes
    need libpng-dev
    same "$status" 0
}

test_failing_apt_get_is_shown() {
    machine 0
    echo 'echo "E: no network"; exit 100' | stub apt-get
    need libpng-dev
    same "$status" 1
    has_line "$out" "E: no network"
    has_line "$out" "need: missing: libpng-dev"
}

test_what_is_not_found_after_installing_is_an_error() {
    machine 0
    echo 'echo "apt-get $*" >>calls' | stub apt-get
    need libpng-dev
    same "$status" 1
    has_line "$out" "need: apt-get installed them, but they are not found"
}

test_machine_without_apt_get_is_told_the_names() {
    machine 0
    rm bin/apt-get
    need libpng-dev zlib1g-dev
    same "$status" 1
    has_line "$out" "need: missing: libpng-dev zlib1g-dev"
}

# Not after it has installed what only a compiler can use.
test_machine_without_a_compiler_is_told_first() {
    machine 0
    rm bin/cc
    need libmicrohttpd-dev libpng-dev
    same "$status $(cat calls)" "1 "
    same "$out" "need: cc: no C compiler, or none with the C library's headers:\
 install gcc and libc6-dev, or name one: CC=clang"
    # Other packages need none.
    mkdir dpkg
    touch dpkg/libjemalloc2
    need libjemalloc2
    same "$status" 0
}

tap_run test_root_installs_all_that_is_missing_at_once_and_only_once \
    test_what_is_there_is_left_alone \
    test_installed_package_is_not_installed_again \
    test_user_without_sudo_is_told_all_names_and_one_command \
    test_user_with_everything_needs_no_root \
    test_sudo_without_a_password_is_used \
    test_what_is_another_machines_needs_that_machine \
    test_install_no_leaves_the_system_alone \
    test_install_takes_yes_or_no \
    test_failing_apt_get_is_shown \
    test_what_is_not_found_after_installing_is_an_error \
    test_machine_without_apt_get_is_told_the_names \
    test_machine_without_a_compiler_is_told_first
