#!/bin/sh
# readme.sh [print]: the README's quickstart is examples/quickstart.c, it has at
# most 250 lines, tests/README.md names all packages that make may install, and
# tests that tests/PEERS.md names exist.
#
# The first C block of the README is compared with the example, less its head
# comment; with `print` it is written to standard output instead.
set -u
block() {
    awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' \
        README.md
}

if [ "${1:-}" = print ]; then
    block
    exit
fi

if [ ! -f examples/quickstart.c ]; then
    echo "readme: examples/quickstart.c is missing"
    exit 1
fi
example=$(mktemp)
trap 'rm -f "$example"' EXIT
awk 'past { print } /\*\// && !past { past = 1 }' examples/quickstart.c \
    >"$example"
if ! block | diff "$example" - >&2; then
    echo "readme: the quickstart in README.md is not examples/quickstart.c"
    exit 1
fi

if [ "$(wc -l <README.md)" -gt 250 ]; then
    echo "readme: README.md has more than 250 lines"
    exit 1
fi

# What the variables …_NEED of the Makefiles hold.
failed=0
for package in $(make -pq --no-print-directory help 2>/dev/null |
    sed -n 's/^[A-Z]*_NEED :\{0,1\}= //p'); do
    tr -s ' ,' '\n' <tests/README.md | grep -qxF -- "$package" || {
        echo "readme: tests/README.md does not name the package $package"
        failed=1
    }
done
tests=$(mktemp)
trap 'rm -f "$example" "$tests"' EXIT
find tests -name '*.c' -exec grep -ho '(test_[A-Za-z0-9_]*' {} + | tr -d '(' |
    sort -u >"$tests"
missing=$(grep -o 'test_[A-Za-z0-9_]*' tests/PEERS.md | sort -u |
    comm -23 - "$tests")
if [ -n "$missing" ]; then
    printf 'readme: tests/PEERS.md names what is no test: %s\n' "$missing"
    failed=1
fi
exit "$failed"
