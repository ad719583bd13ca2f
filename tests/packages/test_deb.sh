#!/bin/sh
# test_deb.sh: the Debian packages that make has built in $PK_BUILD, and that a
# copy of the tree elsewhere gives the same ones.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
build=${PK_BUILD:-build/release}
deb=$top/$build/deb
export LC_ALL=C.UTF-8
unset MAKELEVEL FLAVOUR B

# The packages' files, one a line.
files() {
    for package in "$deb/$1"_*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -t | sed 's|^\.||'
    done
}

test_H6_lintian_has_no_complaint() {
    lintian --allow-root --fail-on error,warning "$deb"/*.changes
}

test_H6_packages_have_what_belongs_to_them() {
    files libwarmpool0 >found
    grep -qE '^/usr/lib/[^/]+/libwarmpool\.so\.0$' found
    files libwarmpool-dev >found
    for file in /usr/include/warmpool/memory.h \
        /usr/share/man/man3/warm_free.3.gz \
        /usr/share/doc/libwarmpool-dev/html/index.html \
        /usr/share/doc/libwarmpool-dev/CHANGES.md; do
        has_line "$(cat found)" "$file"
    done
    for file in 'pkgconfig/warmpool\.pc' 'libwarmpool\.a' 'libwarmpool\.so' \
        'cmake/warmpool/warmpoolConfig\.cmake'; do
        grep -qE "^/usr/lib/[^/]+/$file\$" found
    done
    files libwarmpool-preload >found
    grep -q '/libwarmpool-preload\.so$' found
    files warmpool-tools >found
    for name in info replay run; do
        has_line "$(cat found)" "/usr/bin/warmpool-$name"
        has_line "$(cat found)" "/usr/share/man/man1/warmpool-$name.1.gz"
    done
    dpkg-deb -I "$deb"/libwarmpool0_*.deb symbols | grep -q WARMPOOL_0
}

test_H6_what_is_packed_is_hardened() {
    for package in "$deb"/*_*.deb; do
        dpkg-deb -x "$package" root
    done
    for file in root/usr/lib/*/libwarmpool.so.0 root/usr/bin/warmpool-info \
        root/usr/bin/warmpool-replay root/usr/lib/*/warmpool/*preload.so; do
        readelf -dW "$file" | grep -qE 'BIND_NOW|FLAGS.* NOW'
        readelf -lW "$file" | grep -q GNU_RELRO
    done
    nm -D root/usr/lib/*/libwarmpool.so.0 | grep -q '_chk@'
}

test_H6_unpacked_packages_work() {
    for package in "$deb"/*_*.deb; do
        dpkg-deb -x "$package" root
    done
    lib=$(echo root/usr/lib/*/libwarmpool.so.0)
    lib=$PWD/${lib%/*}
    export PKG_CONFIG_PATH="$lib/pkgconfig"
    # shellcheck disable=SC2046 # words on purpose
    cc "$top/examples/quickstart.c" $(pkg-config \
        --define-variable=prefix="$PWD/root/usr" --cflags --libs warmpool) \
        -o program
    export LD_LIBRARY_PATH="$lib"
    WARMPOOL_CONF=device:host root/usr/bin/warmpool-run ./program >out 2>err
    grep -q '^the last byte is 7$' out
    grep -q 'warmpool/libwarmpool-preload.so$' err
}

test_H6_a_copy_elsewhere_gives_the_same_files() {
    mkdir -p elsewhere/copy
    (cd "$top" && tar -c Makefile README.md handles alloc runtime include \
        tests examples) | tar -x -C elsewhere/copy
    epoch=$(dpkg-parsechangelog -l "$deb/warmpool/debian/changelog" \
        -S Timestamp)
    touch before
    # By way of a symbolic link, which the compiler would name.
    ln -s elsewhere link
    # After pages of another date.
    (cd link/copy && umask 077 && export TZ=Pacific/Auckland &&
        make -s "B=$build" man html SOURCE_DATE_EPOCH=0 &&
        make -s -j2 "B=$build" deb "SOURCE_DATE_EPOCH=$epoch") >made 2>&1 ||
        { cat made; return 1; }
    for file in libwarmpool.so.0 libwarmpool.a libwarmpool-preload.so \
        warmpool-info tests/bench/replay; do
        cmp "$top/$build/$file" "elsewhere/copy/$build/$file"
    done
    [ "$(find "$deb" -maxdepth 1 -name '*.deb' | wc -l)" -ge 4 ]
    for file in "$deb"/*.deb; do
        cmp "$file" "elsewhere/copy/$build/deb/${file##*/}"
    done
    # Nothing lies outside of build/.
    same "$(cd elsewhere/copy && find . -newer ../../before -type f \
        ! -path './build/*')" ''
}

if [ ! -d "$deb" ]; then
    echo "skip: test_deb: no packages: debhelper and dpkg-dev are not here"
    printf '1..1\nok 1 - test_deb # skip no debhelper\n' \
        >"${CK_TAP_LOG_FILE_NAME:-/dev/null}"
    exit 0
fi
set -- test_H6_packages_have_what_belongs_to_them \
    test_H6_what_is_packed_is_hardened \
    test_H6_unpacked_packages_work test_H6_a_copy_elsewhere_gives_the_same_files
if command -v lintian >/dev/null; then
    set -- "$@" test_H6_lintian_has_no_complaint
else
    echo "skip: test_deb: lintian is not here"
fi
tap_run "$@"
