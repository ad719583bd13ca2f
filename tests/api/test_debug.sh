#!/bin/sh
# test_debug.sh: option debug in whole programs (row G9): programs of the tests
# have no fault with it; what is printed; what AddressSanitizer and valgrind
# report in a program, of a library that was built without either.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
built=$top/$(dirname "${WT_STATIC:-build/debug/libwarmpool.a}")
export WARMPOOL_CONF=device:host,debug:guard+fill+leaks,history_frames:8

# A program that commits the fault of its first argument.
program() {
    cat >fault.c <<'END'
#include <warmpool/warmpool.h>
#include <stdio.h>
#include <string.h>
int main(int count, char **word)
{
    warm_runtime *runtime;
    void *pointer, *again;
    volatile char *block;
    const char *fault = count > 1 ? word[1] : "";
    int sum = 0;

    if (warm_runtime_default(&runtime) != WARM_OK ||
        warm_pinned_alloc(runtime, 1000, &pointer) != WARM_OK) {
        return 2;
    }
    block = pointer;
    for (int i = 0; i < 1000; i++) {
        block[i] = (char)i;
    }
    if (strcmp(fault, "overrun") == 0) {
        block[1003] = 1;
    }
    if (strcmp(fault, "leak") == 0) {
        return warm_runtime_destroy(runtime, NULL) != WARM_OK;
    }
    if (warm_free(pointer) != WARM_OK) {
        return 3;
    }
    if (strcmp(fault, "write") == 0) {
        block[7] = 1;
    } else if (strcmp(fault, "read") == 0) {
        sum = block[7];
    }
    if (warm_pinned_alloc(runtime, 1000, &again) != WARM_OK ||
        again != pointer || warm_free(again) != WARM_OK ||
        warm_runtime_destroy(runtime, NULL) != WARM_OK) {
        return 4;
    }
    return sum == 12345;
}
END
    # shellcheck disable=SC2086 # words on purpose
    ${CC:-cc} -g -O1 $1 -I"$top/include" fault.c -L"$built" -lwarmpool \
        -Wl,-rpath,"$built" -rdynamic -o fault
}

# Fails unless file $1 has the text $2.
has() {
    grep -qF -- "$2" "$1" || {
        echo "no '$2' in:"
        cat "$1"
        return 1
    }
}

# Runs a program of the tests with debug:$1; what it prints has no fault.
run() {
    WARMPOOL_CONF=debug:$1 WT_SCALE=5 CK_TAP_LOG_FILE_NAME=tap \
        "$built/tests/$2" >out 2>&1 || {
        grep -E ':[FE]:' out
        return 1
    }
    ! grep -E 'debug:(guard|fill)' out
}

test_G9_random_steps_and_threads_have_no_fault() {
    run guard+fill+leaks stress/check_pinned_threads
    run guard+fill+leaks stress/check_batch_threads
    run fill+leaks model/check_memory_model
}

# Exact figures of bytes are those of requests without guards.
test_G9_spaces_pools_and_buffers_have_no_fault() {
    run fill+leaks api/check_spaces
    run fill+leaks api/check_private_pool
    run fill+leaks api/check_shared
}

test_G9_without_a_log_callback_all_is_printed() {
    program
    ./fault >none 2>&1
    same "$(cat none)" ""
    ./fault overrun >out 2>&1
    has out "debug:guard: 1 B behind the end"
    has out "was allocated by thread"
    has out "main (fault+0x"
    ./fault write >out 2>&1
    has out "debug:fill: 1 B of the freed block"
    has out "was freed by thread"
    ./fault leak >out 2>&1
    has out "debug:leaks: 1 block, 1000 B of pinned memory"
    ./fault read >out 2>&1
    same "$(cat out)" ""
}

# Of a word of the option there is nothing without it.
test_G9_off_finds_nothing() {
    program
    for fault in overrun write; do
        WARMPOOL_CONF=device:host ./fault "$fault" >out 2>&1
        same "$(cat out)" ""
    done
    WARMPOOL_CONF=device:host,debug:guard ./fault write >out 2>&1
    same "$(cat out)" ""
    WARMPOOL_CONF=device:host,debug:fill ./fault overrun >out 2>&1
    same "$(cat out)" ""
}

test_G9_addresssanitizer_finds_a_use_after_the_free() {
    export ASAN_OPTIONS=detect_leaks=0
    program -fsanitize=address
    ./fault >out 2>&1
    same "$(cat out)" ""
    for fault in read write overrun; do
        if ./fault "$fault" >out 2>&1; then
            echo "$fault was not found"
            return 1
        fi
        has out "AddressSanitizer: use-after-poison"
        has out "in main"
    done
    WARMPOOL_CONF=device:host ./fault read
}

memcheck() {
    valgrind -q --error-exitcode=9 ./fault "$@" >out 2>&1
}

test_G9_valgrind_finds_a_use_after_the_free() {
    program
    memcheck
    same "$(cat out)" ""
    for fault in read write overrun; do
        if memcheck "$fault"; then
            echo "$fault was not found"
            return 1
        fi
    done
    memcheck read || true
    has out "Invalid read of size 1"
    has out "inside a block of size 1,000 free'd"
    has out "warm_pinned_alloc"
    WARMPOOL_CONF=device:host valgrind -q --error-exitcode=9 ./fault read
}

# What the machine lacks is left out, aloud.
tests='test_G9_random_steps_and_threads_have_no_fault
    test_G9_spaces_pools_and_buffers_have_no_fault
    test_G9_without_a_log_callback_all_is_printed
    test_G9_off_finds_nothing'
if (cd "$scratch" && echo 'int main(void) { return 0; }' >try.c &&
    ${CC:-cc} -fsanitize=address try.c -o try && ./try) >/dev/null 2>&1; then
    tests="$tests test_G9_addresssanitizer_finds_a_use_after_the_free"
else
    echo "skip: test_debug: the compiler has no AddressSanitizer"
fi
if command -v valgrind >/dev/null &&
    echo '#include <valgrind/memcheck.h>' | ${CC:-cc} -E - >/dev/null 2>&1; then
    tests="$tests test_G9_valgrind_finds_a_use_after_the_free"
else
    echo "skip: test_debug: valgrind, or its header, is not installed"
fi
# shellcheck disable=SC2086 # words on purpose
tap_run $tests
