#!/bin/sh
# test_install.sh: what `make install` brings, used as its users would: with
# pkg-config, with CMake, moved elsewhere. Of what make has built in $PK_BUILD.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
build=${PK_BUILD:-build/release}
warn='-std=c11 -Wall -Wextra -Werror'
quickstart=$top/examples/quickstart.c
unset MAKEFLAGS MAKELEVEL FLAVOUR B LD_LIBRARY_PATH
export WARMPOOL_CONF=device:host

# $1: target; the rest: variables.
make_() {
    target=$1
    shift
    make -s -C "$top" "B=$build" "$target" "$@"
}

# What pkg-config says of the installed tree $1; the rest: its arguments.
flags_of() {
    root=$1
    shift
    PKG_CONFIG_PATH=$root/lib/pkgconfig pkg-config "$@"
}

# Does program $1 need the shared library?
is_shared() {
    readelf -d "$1" | grep -q 'NEEDED.*\[libwarmpool.so.0\]'
}

# Builds the user's project. $1: installed tree, $2: what find_package wants.
cmake_project() {
    cmake -S "$tools/cmake" -B build -DCMAKE_PREFIX_PATH="$1" \
        -DQUICKSTART="$quickstart" -DWANTED="$2" >cmake.out 2>&1 || {
        cat cmake.out
        return 1
    }
}

# $1: installed tree.
cmake_programs() {
    cmake_project "$1" 0.1
    cmake --build build --parallel 2
    is_shared build/shared
    is_shared build/cpp
    ! is_shared build/static || return 1
    build/shared | grep -q '^the last byte is 7$'
    build/static | grep -q '^the last byte is 7$'
    same "$(build/cpp)" "$(flags_of "$1" --modversion warmpool)"
    ! is_shared build/libplugin.so || return 1
    readelf -d build/libplugin.so | grep -q NODELETE
}

test_H6_pkg_config_links_the_shared_library() {
    # shellcheck disable=SC2046,SC2086 # words on purpose
    cc $warn "$quickstart" $(flags_of "$prefix" --cflags --libs warmpool) \
        -o program
    is_shared program
    LD_LIBRARY_PATH=$prefix/lib ./program | grep -q '^the last byte is 7$'
}

test_H6_pkg_config_static_links_the_static_library() {
    # By its name, beside the shared one.
    # shellcheck disable=SC2046,SC2086 # words on purpose
    cc $warn "$quickstart" \
        $(flags_of "$prefix" --static --cflags --libs warmpool-static) \
        -o by_name
    # All of the program.
    # shellcheck disable=SC2046,SC2086
    cc $warn -static "$quickstart" \
        $(flags_of "$prefix" --static --cflags --libs warmpool) \
        -o all 2>warned || { cat warned; return 1; }
    # Where only the static library is installed.
    cp -r "$prefix" only
    rm only/lib/libwarmpool.so*
    # shellcheck disable=SC2046,SC2086
    cc $warn "$quickstart" \
        $(flags_of "$PWD/only" --define-prefix --static --cflags --libs \
            warmpool) -o only_one
    for program in by_name all only_one; do
        ! is_shared "$program" || return 1
        "./$program" | grep -q '^the last byte is 7$'
    done
}

test_H6_a_plugin_with_the_static_library_stays() {
    # shellcheck disable=SC2046 # words on purpose
    cc -shared -fPIC -Dmain=plugin "$quickstart" \
        $(flags_of "$prefix" --cflags --libs warmpool-static) -o plugin.so
    ! is_shared plugin.so || return 1
    readelf -d plugin.so | grep -q NODELETE
}

test_H6_cmake_finds_the_library() {
    cmake_programs "$prefix"
}

test_H6_cmake_finds_a_library_that_was_moved() {
    # Under a libdir of Debian's kind, made for /usr and lying elsewhere.
    make_ install "DESTDIR=$PWD/dest" prefix=/usr \
        "libdir=/usr/lib/$(cc -print-multiarch)" >install.out
    mv dest/usr moved
    rm -r dest
    cmake_project "$PWD/moved" 0.1
    cmake --build build --parallel 2 --target cpp
    same "$(build/cpp)" "$version"
}

test_H6_cmake_refuses_other_versions_and_components() {
    for wanted in 0.1 "$version" 0.0...0.9 "$version;EXACT"; do
        rm -rf build
        cmake_project "$prefix" "$wanted"
    done
    for wanted in 99.0 1.0 '0.0...<0.1' '0.0.9;EXACT' \
        '0.1;COMPONENTS;none'; do
        rm -rf build
        if cmake_project "$prefix" "$wanted" >refused; then
            echo "found for $wanted"
            return 1
        fi
        grep -qi warmpool refused
    done
}

test_H6_installed_programs_run() {
    "$prefix/bin/warmpool-info" device:host | grep -q '^driver: host$'
    # shellcheck disable=SC2046 # words on purpose
    cc "$quickstart" $(flags_of "$prefix" --cflags --libs warmpool-static) \
        -o program
    WARMPOOL_CONF=device:host,trace:$PWD/trace ./program >program.out
    "$prefix/bin/warmpool-replay" trace | grep -q '^complete: '
}

test_H6_stripped_libraries_still_link() {
    make_ install-strip "prefix=$PWD/root" >install.out
    ! readelf -SW root/lib/libwarmpool.so.0 | grep -q debug_info || return 1
    ! readelf -SW root/lib/libwarmpool.a | grep -q debug_info || return 1
    for package in warmpool warmpool-static; do
        # shellcheck disable=SC2046 # words on purpose
        cc "$quickstart" $(flags_of "$PWD/root" --cflags --libs "$package") \
            -o program
        LD_LIBRARY_PATH=$PWD/root/lib ./program | grep -q 'byte is 7$'
    done
}

test_H6_uninstall_leaves_nothing() {
    make_ install "prefix=$PWD/root" >install.out
    [ -n "$(find root -type f)" ]
    make_ uninstall "prefix=$PWD/root" >uninstall.out
    same "$(find root ! -type d)" ''
}

# $1: what is wrong, of `make $2` with the variable $3 in the folder copy/.
refused() {
    if make -s -C copy "$2" "$3" >out 2>&1; then
        echo "make $2 $3 is not refused"
        return 1
    fi
    grep -qF -- "$1" out || { cat out; return 1; }
}

test_H6_install_refuses_the_source_tree_and_partial_paths() {
    mkdir copy
    (cd "$top" && tar -c Makefile README.md handles alloc runtime include \
        tests examples) | tar -x -C copy
    find copy | sort >before
    for target in uninstall install; do
        refused 'that is the source tree' "$target" "prefix=$PWD/copy"
        refused 'out: give the whole path' "$target" prefix=out
        refused 'lib: give the whole path' "$target" libdir=lib
    done
    find copy | sort >after
    cmp before after
}

prefix=$scratch/prefix
if ! make_ install "prefix=$prefix" >"$scratch/install.out" 2>&1; then
    cat "$scratch/install.out"
    exit 1
fi
version=$("$prefix/bin/warmpool-info" device:host |
    sed -n 's/^warmpool \([0-9.]*\).*/\1/p')
set -- test_H6_pkg_config_links_the_shared_library \
    test_H6_pkg_config_static_links_the_static_library \
    test_H6_a_plugin_with_the_static_library_stays \
    test_H6_installed_programs_run \
    test_H6_stripped_libraries_still_link \
    test_H6_uninstall_leaves_nothing \
    test_H6_install_refuses_the_source_tree_and_partial_paths
if command -v cmake >/dev/null; then
    set -- "$@" test_H6_cmake_finds_the_library \
        test_H6_cmake_finds_a_library_that_was_moved \
        test_H6_cmake_refuses_other_versions_and_components
else
    echo "skip: test_install: cmake is not here"
fi
tap_run "$@"
