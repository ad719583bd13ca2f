#!/bin/sh
# init.sh: WARM_INIT works for every struct that starts with its size, in each
# standard of C and C++ that programs use, with both compilers and without a
# warning; and types that must not be mixed up are refused by the compiler.
set -u
failed=0
warn='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

types=$(sed -n 's/^ *size_t size; .*sizeof(\(warm_[a-z_]*\)).*/\1/p' \
    include/warmpool/*.h)
[ "$(echo "$types" | wc -l)" -ge 10 ] ||
    { echo "init: found no structs in include/warmpool"; exit 1; }

# Exits with 0 if every struct gets its size, and a struct's other fields zero.
{
    echo '#include "warmpool/warmpool.h"'
    echo '#include <string.h>'
    echo 'int main(void) { int wrong = 0;'
    for type in $types; do
        cat <<END
{ $type s = WARM_INIT($type);
  if (s.size != sizeof s) { wrong = 1; }
  s.size = 0;
  s = WARM_INIT($type);
  if (s.size != sizeof s) { wrong = 1; } }
END
    done
    cat <<END
warm_options o;
memset(&o, 0xff, sizeof o);
o = WARM_INIT(warm_options);
return wrong || o.device || o.segment || o.libraries || o.test; }
END
} >"$work/init"

# $1: compiler, $2: language, $3: standard.
works() {
    command -v "$1" >/dev/null || return
    # shellcheck disable=SC2086 # words on purpose
    if ! "$1" -x "$2" -std="$3" $warn -Iinclude "$work/init" \
        -o "$work/program" || ! "$work/program"; then
        echo "init: WARM_INIT fails with $1 -std=$3"
        failed=1
    fi
}

# $1: compiler, $2: language, $3: a statement, $4: whether it compiles.
mixed() {
    command -v "$1" >/dev/null || return
    printf '#include "warmpool/warmpool.h"\nvoid f(warm_runtime *r, %s\n' \
        "warm_lease l, warm_private_pool p, warm_event e, warm_graph g) {
        (void)r; (void)l; (void)p; (void)e; (void)g; $3 }" >"$work/mixed"
    takes=no
    "$1" -x "$2" -Werror -Iinclude -fsyntax-only "$work/mixed" 2>/dev/null &&
        takes=yes
    if [ $takes != "$4" ]; then
        echo "init: $1 -x $2: compiles, $takes instead of $4: $3"
        failed=1
    fi
}

for compiler in gcc clang; do
    for standard in c11 c17; do
        works $compiler c $standard
    done
done
for compiler in g++ clang++; do
    for standard in c++11 c++14 c++17 c++20; do
        works $compiler c++ $standard
    done
done
for language in 'gcc c' 'clang c' 'g++ c++' 'clang++ c++'; do
    # shellcheck disable=SC2086 # words on purpose
    set -- $language
    mixed "$1" "$2" '(void)warm_handle_return(r, l);' yes
    mixed "$1" "$2" '(void)warm_private_pool_end(r, p);' yes
    mixed "$1" "$2" '(void)warm_event_query(r, e);' yes
    mixed "$1" "$2" '(void)warm_graph_destroy(r, g);' yes
    mixed "$1" "$2" '(void)warm_handle_return(r, p);' no
    mixed "$1" "$2" '(void)warm_handle_return(r, 1);' no
    mixed "$1" "$2" '(void)warm_private_pool_end(r, l);' no
    mixed "$1" "$2" '(void)warm_event_query(r, g);' no
    mixed "$1" "$2" '(void)warm_graph_destroy(r, e);' no
done
exit "$failed"
