#!/bin/sh
# readme.sh [print]: the README's quickstart is examples/quickstart.c.
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
