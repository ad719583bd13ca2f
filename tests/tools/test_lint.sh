#!/bin/bash
# test_lint.sh: the house rules' own tools, on made-up sources.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/tap.sh"

# file PATH: makes a file of the lines that follow.
file() {
    mkdir -p "$(dirname "$1")"
    cat >"$1"
}

includes() {
    awk -f "$tools/includes.awk" "$tools/floors.txt" "$@"
}

words() {
    "$tools/words.sh" "$@"
}

budget() {
    "$tools/budget.sh" budget.txt "$@"
}

refused() {
    if "$@"; then
        echo "not refused: $*"
        return 1
    fi
}

test_strip_takes_comments_and_literals() {
    file x.c <<'END'
int a; /* abort() */ int b; // exit(1)
/* over
   abort() */ char *s = "puts(\"x\")"; char c = '"'; int d;
END
    same "$(awk -f "$tools/strip.awk" x.c | sed 's/ *$//')" \
        'x.c:1:int a;   int b;
x.c:2:
x.c:3:  char *s = ""; char c = '"''"'; int d;'
}

test_folders_stay_within_their_budget() {
    printf '# lines\nalloc/a 3\nalloc/a/b 1\n' >budget.txt
    printf 'int a;\nint b;\n' | file alloc/a/a.c
    printf 'int c;\n' | file alloc/a/c.h
    printf 'int d;\n' | file alloc/a/b/d.c
    budget alloc/a/a.c alloc/a/c.h alloc/a/b/d.c
    printf 'int d;\nint e;\n' | file alloc/a/b/d.c
    same "$(refused budget alloc/a/a.c alloc/a/c.h alloc/a/b/d.c)" \
        'budget: alloc/a/b has 2 lines, at most 1'
    printf 'int f;\n' | file alloc/f/f.c
    same "$(refused budget alloc/a/a.c alloc/f/f.c)" \
        'budget: alloc/f has no number'
}

test_includes_downwards_pass() {
    file alloc/arena/a.c <<'END'
#include "alloc/arena/b.h"
#include "alloc/block/block.h"
#include "runtime/driver/driver.h"
#include "runtime/base/lock.h"
#include "warmpool/base.h"
#include <stdio.h>
END
    file handles/kinds/kind_cublas.c <<'END'
#include <cublas_v2.h>
#include "handles/kind.h"
END
    includes alloc/arena/a.c handles/kinds/kind_cublas.c
}

test_includes_upwards_or_sideways_are_refused() {
    i=0
    while read -r path header; do
        i=$((i + 1))
        file "$i/x" </dev/null
        (
            cd "$i"
            echo "#include $header" | file "$path"
            refused includes "$path"
        )
    done <<'END'
alloc/arena/a.c "handles/pool.h"
alloc/arena/a.c "alloc/stream/timeline.h"
alloc/space/a.c "alloc/kinds/pinned.h"
alloc/x.c "alloc/arena/arena.h"
handles/a.c "alloc/kinds/pinned.h"
handles/a.c "handles/kinds/kind_cuda.h"
runtime/base/a.c "runtime/driver/driver.h"
runtime/driver/a.c "runtime/thread/window.h"
runtime/host/a.c "runtime/cuda/cuda.h"
runtime/thread/a.c "handles/pool.h"
include/warmpool/a.h "runtime/base/lock.h"
alloc/api/a.c "runtime/stats.h"
alloc/api/a.c "b.h"
alloc/api/a.c "../alloc/b.h"
alloc/api/a.c <cuda_runtime_api.h>
runtime/runtime.c <cublas_v2.h>
END
    same "$i" 16
}

# floors NAME=FUNCTION[,CALLED]...: objects of a made-up library, each with one
# function that calls another one.
floors() {
    for object in "$@"; do
        name=${object%%=*} functions=${object#*=}
        echo "build/$name.o: ${functions%%,*} T 0 1"
        [ "${functions#*,}" = "$functions" ] ||
            echo "build/$name.o: ${functions#*,} U"
    done | awk -v build=build/ -f "$tools/floors.awk" "$tools/floors.txt" -
}

test_calls_downwards_pass() {
    floors alloc/space/a=f,g alloc/arena/b=g,h alloc/arena/c=h,log \
        runtime/base/log=log,malloc
}

test_calls_upwards_or_sideways_are_refused() {
    for pair in alloc/arena:alloc/space alloc/arena:handles \
        handles:alloc/block handles:handles/kinds runtime/host:runtime/cuda \
        alloc:alloc/arena runtime/base:runtime; do
        refused floors "${pair%:*}/a=f,g" "${pair#*:}/b=g"
    done
    out=$(floors alloc/arena/a=f,g alloc/space/b=g) || true
    same "$out" \
        "floors: alloc/arena/a calls alloc/space/b, which lies above it: g"
}

test_calls_in_a_circle_are_refused() {
    refused floors alloc/arena/a=f,g alloc/arena/b=g,h alloc/arena/c=h,f >out
    has_line "$(cat out)" "floors: a circle:"
    has_line "$(cat out)" "    alloc/arena/b -> h"
}

test_words_of_cuda_stay_in_their_files() {
    file alloc/api/a.c <<'END'
/* as cudaFree() does */ const char *s = "cudaMalloc"; int warm_cublas;
END
    words alloc/api/a.c
    file runtime/cuda/cuda_a.c <<'END'
    cudaFree(p);
END
    words runtime/cuda/cuda_a.c
    for name in 'cudaFree(p)' 'cublasHandle_t h' 'cuInit(0)' 'CUdevice d' \
        'CUDA_SUCCESS' 'cudnnStatus_t s'; do
        echo "    $name;" | file alloc/b.c
        refused words alloc/b.c
    done
}

test_words_that_print_or_end_are_refused() {
    for call in 'printf("x")' 'fprintf (f, "x")' 'abort()' 'exit(1)' 'puts(s)' \
        'assert(x)' '_exit(0)'; do
        echo "    if (x) { $call; }" | file alloc/b.c
        refused words alloc/b.c
    done
    echo '    snprintf(s, n, "x"); wm_assert(x); wm_exit(1);' | file alloc/b.c
    words alloc/b.c
}

test_words_that_trust_the_environment_are_refused() {
    echo '    x = getenv("X");' | file alloc/b.c
    refused words alloc/b.c
    echo '    x = secure_getenv("X"); /* getenv() */' | file alloc/b.c
    words alloc/b.c
}
test_words_F10_raw_counts_of_bytes_are_refused() {
    i=0
    while read -r message; do
        i=$((i + 1))
        {
            echo 'int a(void)'
            echo "{ return wm_fail(WARM_OK, $message); }"
        } | file "alloc/$i.c"
        refused words "alloc/$i.c" | grep "alloc/$i.c:2: a raw count" || return
    done <<'END'
"%zu bytes of it", bytes
"copy of %zu", bytes
"%llu bytes", (unsigned long long)bytes
"%" PRIu64 " bytes", bytes
"%u B and more", bytes
"it has " "%d " "bytes", bytes
f("(") ? "a" : "%lu bytes", bytes
END
    file alloc/b.c <<'END'
    wm_log(1, "x \"",
        2);


    wm_log(1,
        "%zu");
END
    refused words alloc/b.c | grep 'alloc/b.c:5: a raw count'
}

test_words_F10_sizes_for_people_pass() {
    file alloc/api/a.c <<'END'
int a(void)
{
    snprintf(text, sizeof text, "%zu bytes", bytes);
    wm_log(1, "%s of it, %u streams", wm_bytes(4096).text, 3);
    wm_log(1, "%d Blocks, %llu bits", 2, 3ull);
    return wm_fail(WARM_OK, "%s.size is %zu; set it, here %zu", name, a, b) +
           wm_fail(WARM_OK, "at most %zu characters", n);
}
END
    words alloc/api/a.c
}

test_words_F10_plural_that_may_follow_a_one_is_found() {
    file alloc/api/a.c <<'END'
void a(void) { wm_log(1, "%" PRIu64 " live blocks of it", n); }
END
    refused words alloc/api/a.c
    file alloc/api/a.c <<'END'
void a(void) { wm_log(1, "%s of it", wm_counted(n, "block").text); }
END
    words alloc/api/a.c
}

test_words_allowed_are_allowed_so_often() {
    echo '    fprintf(stderr, "x");' | file runtime/base/log.c
    words runtime/base/log.c
    echo '    fprintf(stderr, "x"); fprintf(stderr, "y");' |
        file runtime/base/log.c
    refused words runtime/base/log.c
}

# library SOURCE...: builds libwarmpool.so.0 of the lines that follow.
library() {
    file x.c
    cc -shared -fPIC -fvisibility=hidden x.c -Wl,-soname,libwarmpool.so.0 \
        -Wl,--version-script=x.map -Wl,-z,nodelete -o x.so
}

symbols_project() {
    echo 'WARMPOOL_0 { global: *; };' >x.map
    file include/warmpool/base.h <<'END'
WARM_API int warm_a(void);
/* WARM_API int warm_not(void); */
END
    file include/warmpool/per_thread.h </dev/null
    echo '    S(warm_a, NUMBER)' | file tests/api/misuse.h
}

test_symbols_other_than_ours_are_refused() {
    symbols_project
    echo '__attribute__((visibility("default"))) int warm_a(void) {return 0;}' |
        library
    "$tools/symbols.sh" x.so
    {
        echo '__attribute__((visibility("default"))) int warm_a(void);'
        echo 'int warm_a(void) {return 0;}'
        echo '__attribute__((visibility("default"))) int other(void);'
        echo 'int other(void) {return 0;}'
    } | library
    refused "$tools/symbols.sh" x.so
}

test_symbols_and_headers_agree() {
    symbols_project
    echo '__attribute__((visibility("default"))) int warm_b(void) {return 0;}' |
        library
    out=$("$tools/symbols.sh" x.so) || true
    has_line "$out" "x.so lacks warm_a(), which a header declares"
    has_line "$out" "x.so exports warm_b(), which no header declares"
    has_line "$out" "warm_b() has no line in tests/api/misuse.h"
}

test_streams_of_threads_are_not_forgotten() {
    symbols_project
    echo 'WARM_API int warm_a(int x, warm_stream stream);' |
        file include/warmpool/base.h
    {
        echo '__attribute__((visibility("default"))) int warm_a(int x);'
        echo 'int warm_a(int x) { return x; }'
    } | file a.c
    library <a.c
    out=$("$tools/symbols.sh" x.so) || true
    has_line "$out" "warm_a() takes a stream and warm_a_ptsz() is not there,\
 or the other way round: runtime/per_thread.c"
    has_line "$out" "warm_a() takes a stream and is not in per_thread.h,\
 or the other way round"
    sed 's/warm_a/&_ptsz/g' a.c | cat a.c - | library
    echo '#define warm_a warm_a_ptsz' | file include/warmpool/per_thread.h
    "$tools/symbols.sh" x.so
}

test_thread_local_variables_are_few_bytes() {
    symbols_project
    variable='_Thread_local struct { long l[8]; } a;'
    use='long *warm_a(void) { return a.l; }'
    echo "$variable $use" | library
    "$tools/tls.sh" x.so
    echo "_Thread_local int b; $variable $use" | library
    refused "$tools/tls.sh" x.so
    echo "int warm_a(void) { return 0; }" | library
    "$tools/tls.sh" x.so
}

test_globals_not_listed_are_refused() {
    symbols_project
    library <<'END'
static int *counter(void) { static int n; return &n; }
static const char *const names[] = {"a", "b"};
__attribute__((visibility("default"))) int warm_a(int i) {
    return names[i][0] + ++*counter();
}
END
    echo 'n x.c counts for the test' >list
    "$tools/globals.sh" x.so list
    echo '# nothing' >list
    refused "$tools/globals.sh" x.so list
    printf 'n x.c counts for the test\nm x.c is no more\n' >list
    refused "$tools/globals.sh" x.so list
    echo 'n x.c' >list
    refused "$tools/globals.sh" x.so list
}

# A Makefile with one target, and the list that make help prints.
makefile() {
    printf '%s\n' '.PHONY: shown run-shown' 'shown run-shown:' 'help:' \
        "	@printf '$1'" '.PHONY: help' >Makefile
}

test_help_lists_what_can_be_made() {
    unset MAKEFLAGS
    makefile '  shown a target\n  help  this list\n'
    "$tools/help.sh"
    makefile '  help  this list\n'
    refused "$tools/help.sh"
    makefile '  shown a target\n  help  this list\n  gone  no target\n'
    refused "$tools/help.sh"
    makefile ''
    refused "$tools/help.sh"
}

# One row waits for the other: they are made beside each other.
test_steps_are_made_whatever_the_others_do() {
    mkfifo pipe
    file Makefile <<'END'
good:
	@echo 'skip: no headers' && echo hidden && cat pipe
bad:
	@echo what happened && false
last:
	@echo x >pipe
END
    status=0
    out=$("$tools/steps.sh" good 'bad last' none) || status=$?
    same "$status" 1
    same "$(printf '%s\n' "$out" | tail -n 1)" "2 passed, 2 failed"
    has_line "$out" "     | skip: no headers"
    has_line "$out" "     | what happened"
    same "$(printf '%s\n' "$out" | grep -c hidden)" 0
    "$tools/steps.sh" good last >out
    same "$(tail -n 1 out)" "2 passed, 0 failed"
}

tap_run test_strip_takes_comments_and_literals \
    test_folders_stay_within_their_budget \
    test_includes_downwards_pass \
    test_includes_upwards_or_sideways_are_refused \
    test_calls_downwards_pass \
    test_calls_upwards_or_sideways_are_refused \
    test_calls_in_a_circle_are_refused \
    test_words_of_cuda_stay_in_their_files \
    test_words_that_print_or_end_are_refused \
    test_words_that_trust_the_environment_are_refused \
    test_words_allowed_are_allowed_so_often \
    test_words_F10_raw_counts_of_bytes_are_refused \
    test_words_F10_sizes_for_people_pass \
    test_words_F10_plural_that_may_follow_a_one_is_found \
    test_symbols_other_than_ours_are_refused \
    test_streams_of_threads_are_not_forgotten \
    test_thread_local_variables_are_few_bytes \
    test_symbols_and_headers_agree \
    test_globals_not_listed_are_refused \
    test_help_lists_what_can_be_made \
    test_steps_are_made_whatever_the_others_do
