#!/bin/sh
# test_preload.sh: a program that knows CUDA alone (tests/preload/) with and
# without libwarmpool-preload.so (row H1), over the stand-ins, of the folder in
# which make check has built everything: that of $WT_STATIC.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
built=$(dirname "$top/${WT_STATIC:-build/debug/libwarmpool.a}")
standin=$built/standin
source=$top/tests/preload
cuda=${CUDA_HOME:-/usr/local/cuda}/include
run=$built/warmpool-run
all=preload:handles+pinned+device

# Builds a program against the stand-ins. $1: name; the rest: sources, flags.
build() {
    name=$1
    shift
    cudart=$(cd "$standin" && echo libcudart.so.*)
    ${CC:-cc} -g -isystem "$cuda" -DLIBCUDART="\"$cudart\"" "$@" \
        "$standin/$cudart" "$standin"/libcublas.so.* -pthread -ldl \
        -Wl,-rpath,"$standin" -o "$scratch/$name"
}

# What the program's case prints: alone; with warmpool ($3: its options).
alone() {
    timeout 60 "$scratch/$1" "$2"
}
served() {
    WARMPOOL_CONF=${3-$all} timeout 60 "$run" -q "$scratch/$1" "$2"
}

# The number behind a word: $1: text, $2: word.
number() {
    printf '%s\n' "$1" | sed -n "s/^$2 //p"
}

fell() {
    plain=$(alone "$1" rounds)
    warm=$(served "$1" rounds)
    same "$(number "$warm" sum)" "$(number "$plain" sum)"
    same "$(number "$plain" creates)" 200
    same "$(number "$plain" pins)" 400
    [ "$(number "$warm" creates)" -le 2 ] || { echo "$warm"; return 1; }
    [ "$(number "$warm" pins)" -le 2 ] || { echo "$warm"; return 1; }
    has_line "$warm" 'misuses 0'
}

test_H1_creates_and_pins_of_200_rounds_fall_to_two() {
    fell program
}

test_H1_a_program_with_address_sanitizer_is_served_as_well() {
    fell asan
    served asan order
    served asan ends
}

test_H1_frees_keep_the_order_of_cuda() {
    alone program order
    served program order
    served program order preload:pinned
    served program order "$all,free:wait"
}

test_H1_a_free_waits_if_asked() {
    same "$(alone program waits)" 'the free waited'
    same "$(served program waits)" 'the free did not wait'
    same "$(served program waits "$all,free:wait")" 'the free waited'
}

test_H1_threads_share_no_handle() {
    plain=$(alone program threads)
    warm=$(served program threads)
    same "$(number "$warm" sum)" "$(number "$plain" sum)"
    same "$(number "$plain" creates)" 200
    [ "$(number "$warm" creates)" -le 8 ]
}

# Two at a time, of every library that has a stand-in.
test_H1_handles_of_every_library_are_served() {
    plain=$(timeout 60 "$scratch/kinds")
    warm=$(WARMPOOL_CONF=$all timeout 60 "$run" -q "$scratch/kinds")
    for library in cublas cublaslt cudnn cusparse cusolver; do
        same "$(number "$plain" "$library")" 40
        same "$(number "$warm" "$library")" 2
    done
}

test_H1_what_is_not_served_is_cudas() {
    alone program errors
    served program errors
    served program errors "$all,pin_chunk:1M" # with blocks above it
    served program errors preload:handles
    served program errors preload:off
}

test_H1_captures_are_not_broken() {
    served program captures
}

test_H1_look_ups_by_dlsym_are_served() {
    same "$(alone program lookups)" 'pins 20'
    [ "$(number "$(served program lookups)" pins)" -le 2 ]
}

test_H1_forks_and_exits_are_survived() {
    same "$(served program ends)" 'child 0'
}

test_H1_handles_of_every_library_are_served() {
    plain=$(alone handles all)
    warm=$(served handles all)
    for kind in cublas cublaslt cudnn cusparse cusolver; do
        [ "$(number "$plain" "$kind")" -ge 20 ]
        [ "$(number "$warm" "$kind")" -le 3 ] || { echo "$warm"; return 1; }
    done
    has_line "$warm" 'misuses 0'
}

test_H1_a_free_of_freed_memory_is_refused() {
    same "$(alone order twice)" 'freed twice'
    same "$(served order twice)" 'freed twice'
    same "$(served order twice "$all,pin:alloc")" 'freed twice'
}

test_H1_memory_of_a_stream_keeps_its_order() {
    same "$(served order async)" 'in order'
    same "$(served order async "$all,free:wait")" 'in order'
}

test_H1_memory_in_a_capture_is_the_graphs() {
    same "$(alone order graph_memory)" "the graph's"
    same "$(served order graph_memory)" "the graph's"
}

test_H1_a_free_breaks_no_capture_of_a_blocking_stream() {
    same "$(served order blocking_capture)" whole
    same "$(served order blocking_capture "$all,free:wait")" whole
}

test_H1_after_a_reset_all_is_cudas() {
    same "$(alone order reset | tail -n 1)" new
    warm=$(served order reset 2>said)
    same "$(printf '%s\n' "$warm" | tail -n 1)" new
    [ "$(number "$warm" creates)" -le 2 ]
}

test_H1_a_program_that_looks_for_cuda_finds_none() {
    same "$("$scratch/probe")" 'no CUDA'
    same "$("$run" -q "$scratch/probe")" 'no CUDA'
}

# Its own functions are those of another library, which it looks up by name.
test_H1_a_library_that_looks_itself_up_is_served() {
    mkdir shim
    ${CC:-cc} -shared -Wl,-soname,libcudnn_graph.so.9 \
        "$standin"/tests/standin/cudnn.o "$standin"/tests/standin/version.o \
        "$standin/libcuda.so.1" -o shim/libcudnn_graph.so.9
    ${CC:-cc} -shared -fPIC -Wl,-soname,libcudnn.so.9 -Wl,--no-as-needed \
        "$source/shim_library.c" shim/libcudnn_graph.so.9 -ldl \
        -o shim/libcudnn.so.9
    LD_LIBRARY_PATH=$PWD/shim:$standin
    [ "$(number "$(alone handles all)" cudnn)" -ge 20 ]
    warm=$(served handles all)
    [ "$(number "$warm" cudnn)" -le 3 ] || { echo "$warm"; return 1; }
    has_line "$warm" 'misuses 0'
}

# What cannot be served, and is said.
test_H1_a_static_cudart_is_not_served_and_said() {
    same "$(alone inside rounds)" inside
    warm=$("$run" "$scratch/inside" rounds 2>said)
    same "$warm" inside
    grep -q 'has the CUDA runtime inside it' said
}

test_H1_a_set_user_id_program_is_said() {
    cp "$scratch/program" suid
    chmod u+s suid
    "$run" ./suid ends >/dev/null 2>said
    grep -q 'set-user-ID' said
}

# A library that is opened with RTLD_DEEPBIND finds its own CUDA first.
test_H1_deepbind_is_not_served() {
    same "$(number "$(served deep bound)" pins)" 20
    [ "$(number "$(served deep open)" pins)" -le 2 ]
}

test_H1_off_serves_nothing_and_says_so() {
    same "$(number "$(served program rounds preload:off 2>said)" creates)" 200
    grep -q 'serves nothing: option preload is off' said
    # The program runs all the same.
    warm=$(served program rounds preload:everything 2>said)
    same "$(number "$warm" creates)" 200
    grep -q 'allowed is off, or words of' said
}

test_H1_warmpool_run_says_what_it_found() {
    "$run" "$scratch/program" ends >/dev/null 2>said
    grep -q 'libwarmpool-preload.so$' said
    grep -q 'WARMPOOL_CONF=preload:handles+pinned$' said
    status=0
    "$run" 2>said || status=$?
    same "$status" 2
    grep -q '^usage: ' said
    status=0
    "$run" ./no-such-program 2>said || status=$?
    same "$status" 127
    grep -q 'no program ./no-such-program' said
}

if [ ! -d "$standin" ] || [ ! -e "$cuda/cuda_runtime_api.h" ]; then
    echo "skip: test_preload: no stand-ins of CUDA's libraries"
    printf '1..1\nok 1 - test_preload # skip no stand-ins\n' \
        >"${CK_TAP_LOG_FILE_NAME:-/dev/null}"
    exit 0
fi
LD_LIBRARY_PATH=$standin
export LD_LIBRARY_PATH
build program "$source/cuda_program.c" &&
    build order "$source/order_program.c" &&
    build handles "$source/handles_program.c" "$standin"/libcublasLt.so.* \
        "$standin"/libcudnn.so.* "$standin"/libcus[op]*.so.* &&
    ${CC:-cc} "$source/probe_program.c" -ldl -o "$scratch/probe" &&
    build deep "$source/deep_program.c" -DLIBRARY="\"$scratch/deep.so\"" &&
    build kinds "$source/kinds_program.c" -Wl,--no-as-needed \
        "$standin"/libcublasLt.so.* "$standin"/libcudnn.so.* \
        "$standin"/libcusparse.so.* "$standin"/libcusolver.so.* &&
    build deep.so -shared -fPIC "$source/deep_library.c" &&
    ${CC:-cc} "$source/inside_program.c" -o "$scratch/inside" || exit 1
asan=
if build asan "$source/cuda_program.c" -fsanitize=address 2>/dev/null; then
    asan=test_H1_a_program_with_address_sanitizer_is_served_as_well
else
    echo "skip: a program with AddressSanitizer: the compiler has none"
fi
# shellcheck disable=SC2086 # a name, or none
tap_run test_H1_creates_and_pins_of_200_rounds_fall_to_two $asan \
    test_H1_frees_keep_the_order_of_cuda test_H1_a_free_waits_if_asked \
    test_H1_handles_of_every_library_are_served \
    test_H1_threads_share_no_handle test_H1_what_is_not_served_is_cudas \
    test_H1_captures_are_not_broken test_H1_look_ups_by_dlsym_are_served \
    test_H1_forks_and_exits_are_survived \
    test_H1_a_static_cudart_is_not_served_and_said \
    test_H1_a_set_user_id_program_is_said test_H1_deepbind_is_not_served \
    test_H1_handles_of_every_library_are_served \
    test_H1_a_free_of_freed_memory_is_refused \
    test_H1_memory_of_a_stream_keeps_its_order \
    test_H1_memory_in_a_capture_is_the_graphs \
    test_H1_a_free_breaks_no_capture_of_a_blocking_stream \
    test_H1_after_a_reset_all_is_cudas \
    test_H1_a_library_that_looks_itself_up_is_served \
    test_H1_a_program_that_looks_for_cuda_finds_none \
    test_H1_off_serves_nothing_and_says_so \
    test_H1_warmpool_run_says_what_it_found
