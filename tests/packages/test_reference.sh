#!/bin/sh
# test_reference.sh: the manual pages and the reference in HTML that make has
# built in $PK_BUILD.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
build=$top/${PK_BUILD:-build/release}
man=$build/man
page=$build/html
reference=$top/runtime/packaging/reference.py
export LC_ALL=C.UTF-8
unset MAKEFLAGS MAKELEVEL FLAVOUR B

exported() {
    nm -D --defined-only "$build/libwarmpool.so" |
        awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | grep -v '_ptsz$'
}

# The page $1 as one reads it.
rendered() {
    groff -K utf8 -Tutf8 -P-cbou -man "$1" | tr -s ' \n' ' '
}

test_H6_each_function_has_a_page() {
    exported | sort >names
    [ "$(wc -l <names)" -gt 150 ]
    find "$man/man3" -name '*.3' | sed 's|.*/||; s|\.3$||' | sort >pages
    same "$(comm -23 names pages)" ''
    grep -oh 'id="warm_[a-z0-9_]*"' "$page"/*.html | cut -d'"' -f2 |
        sort -u >anchors
    same "$(comm -23 names anchors)" ''
    # Each page has a summary, in a line.
    awk 'FNR == 3 && (!/^warm_[a-z0-9_]+ \\- [^ ]/ || length($0) > 200 ||
        length($0) < length($1) + 14) { print FILENAME }' "$man"/man3/* >without
    same "$(cat without)" ''
    # No two functions have the same one.
    # shellcheck disable=SC2046 # names of functions
    same "$(cd "$man/man3" && sed -sn '3s/^[^ ]* //p' \
        $(sed 's/$/.3/' "$OLDPWD/names") | sort | uniq -d)" ''
}

# Structs that a program fills in or reads, with their fields.
test_H6_each_type_has_a_page() {
    rendered "$man/man3/warm_options.3" >text
    grep -qF 'warm_options - the options of a runtime' text
    grep -qF 'const char *device;' text
    grep -qF 'uint64_t pin_chunk;' text
    rendered "$man/man3/warm_space_stats.3" |
        grep -qF 'warm_stat live; /* allocated blocks that are not freed */'
    rendered "$man/man3/warm_status.3" |
        grep -qF 'WARM_NOT_READY = 1, /* the work has not finished yet */'
    # No macro stands where members belong, in HTML either.
    ! grep -lE '^ *WARM_[A-Z_]+_MAP\\?\(' "$man"/man?/* "$page"/*.html ||
        return 1
    sed -n 's/^} \(warm_[a-z_0-9]*\);$/\1/p' "$top"/include/warmpool/*.h |
        while read -r name; do
            [ -s "$man/man3/$name.3" ] || { echo "no page $name"; return 1; }
        done
}

# A line that ends early within a sentence ends no paragraph: each begins with a
# capital, a digit, a name or a word that a colon follows.
test_H6_no_paragraph_begins_within_a_sentence() {
    grep -hoE '<p>[a-z]+ [a-z]+ .{0,40}' "$page"/*.html |
        grep -vE '<p>([a-z_]+(, [a-z_]+)*:|name, |done |history )' >found ||
        true
    same "$(cat found)" ''
}

test_H6_a_page_says_what_the_header_says() {
    cat >made.h <<'END'
/* warmpool/made.h: made up for a test. More about it.
 *
 *   a picture ─►
 */
/* Copies count rows, of memory of \n any kind. See warm_other().
 * rows: borrowed. count: 1 or more, which is a line as long as lines may be,
 * that is 80 columns, or 0: nothing.
 * Status: INVALID_ARGUMENT (rows is null), FORKED. Any thread. */
WARM_API warm_status warm_made_copy(const void *rows,
                                    size_t count);

/* Another one.
 * - one item, which
 *   goes on
 * - .two */
WARM_API void warm_other(void);

/* Helps warm_other(). */
static inline int warm_helper(int one)
{
    return one;
}

typedef struct warm_made {
    size_t size; /* sizeof(warm_made) */
} warm_made;
END
    python3 "$reference" man 1.2.3 86400 out made.h
    python3 "$reference" html 1.2.3 86400 web made.h
    same "$(cd out && echo man?/*)" "man3/warm_made.3 man3/warm_made_copy.3 \
man3/warm_other.3 man7/warmpool-made.7 man7/warmpool.7"
    text=$(rendered out/man3/warm_made_copy.3)
    name=warm_made_copy
    for words in "$name - copies count rows, of memory of \n any kind" \
        '1970-01-02' '80 columns, or 0: nothing.' 'rows borrowed.' \
        'RETURN VALUE WARM_OK, or: INVALID_ARGUMENT (rows is null), FORKED.' \
        'SEE ALSO warm_other(3), warmpool-made(7)' \
        'warm_status warm_made_copy(const void *rows, size_t count);'; do
        case $text in
        *"$words"*) ;;
        *) echo "'$words' is not in: $text"; return 1 ;;
        esac
    done
    rendered out/man3/warm_other.3 | grep -qF 'one item, which goes on'
    rendered out/man3/warm_other.3 | grep -qF '.two'
    rendered out/man7/warmpool-made.7 | grep -qF 'size_t size; /* sizeof'
    grep -qF '<a href="made.html#warm_other">warm_other</a>()' web/made.html
    mandoc -T lint -W warning out/man?/*
}

# The pages would not have it.
test_H6_a_comment_of_no_declaration_is_refused() {
    printf '%s\n\n' '/* warmpool/made.h: made up. */' '/* Lost. */' \
        'int warm_x(void);' >made.h
    if python3 "$reference" man 1.2.3 86400 out made.h 2>said; then
        return 1
    fi
    same "$(cat said)" 'made.h: no declaration below: Lost.'
}

test_H6_formatters_have_no_complaint() {
    mandoc -T lint -W warning "$man"/man?/* >found || { cat found; return 1; }
    groff -ww -K utf8 -Tutf8 -man "$man"/man?/* >/dev/null 2>found
    same "$(cat found)" ''
}

test_H6_man_finds_the_pages() {
    make -s -C "$top" "B=${PK_BUILD:-build/release}" install-doc \
        "prefix=$PWD/root" >install.out
    export MANPATH="$PWD/root/share/man" MANPAGER=cat MANWIDTH=80
    man warm_pinned_alloc | grep -q 'include <warmpool/memory.h>'
    man 7 warmpool-memory | grep -q 'warm_pinned_alloc(3)'
    man warmpool-info | grep -q WARMPOOL_CONF
    mandb -q -u -c "$MANPATH" 2>found
    whatis -M "$MANPATH" warm_free | grep -q 'frees a block'
    make -s -C "$top" "B=${PK_BUILD:-build/release}" uninstall \
        "prefix=$PWD/root" >uninstall.out
    [ ! -e root/share/doc/warmpool ]
    same "$(find root -type f ! -path '*/cat*' ! -name index.db \
        ! -name CACHEDIR.TAG)" ''
}

test_H6_each_page_that_is_named_is_there() {
    grep -ohE '^\.BR [a-z\\_0-9-]+ \([137]\)' "$man"/man?/* | tr -d '\\()' |
        sort -u >named
    [ -s named ]
    while read -r _ name section; do
        [ -s "$man/man$section/$name.$section" ] ||
            { echo "no page $name($section)"; return 1; }
    done <named
}

test_H6_links_of_the_reference_lead_somewhere() {
    grep -oE 'href="[^"]*"' "$page"/*.html |
        sed 's|^.*/\([a-z_]*\.html\):href="|\1 |; s|"$||' | sort -u >links
    [ "$(wc -l <links)" -gt 500 ]
    ! grep -E ' (https?:|//)' links || return 1
    while read -r from link; do
        file=${link%%#*}
        file=$page/${file:-$from}
        [ -f "$file" ] || { echo "$from: $link"; return 1; }
        echo "$file ${link#*#}"
    done <links | grep -vE '\.(html|css)$' | sort -u >anchors
    grep -oE 'id="[^"]*"' "$page"/*.html |
        sed 's|:id="| |; s|"$||' | sort -u >ids
    same "$(comm -23 anchors ids)" ''
    # Nothing is loaded but the style beside it.
    ! grep -lE '<(script|img|iframe)|@import|url\(' "$page"/* || return 1
}

set -- test_H6_each_function_has_a_page \
    test_H6_no_paragraph_begins_within_a_sentence
for needed in mandoc groff man whatis; do
    command -v $needed >/dev/null || {
        echo "skip: test_reference: $needed is not here: pages are not read"
        tap_run "$@" test_H6_links_of_the_reference_lead_somewhere \
            test_H6_each_page_that_is_named_is_there
    }
done
tap_run "$@" test_H6_links_of_the_reference_lead_somewhere \
    test_H6_each_page_that_is_named_is_there \
    test_H6_each_type_has_a_page \
    test_H6_a_page_says_what_the_header_says \
    test_H6_a_comment_of_no_declaration_is_refused \
    test_H6_formatters_have_no_complaint \
    test_H6_man_finds_the_pages
