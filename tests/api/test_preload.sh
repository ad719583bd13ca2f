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
    served asan combined
    served asan ends
}

test_H1_frees_keep_the_order_of_cuda() {
    alone order order
    served order order
    served order order preload:pinned
    served order order "$all,free:wait"
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
    same "$(number "$plain" creates)" 504
    [ "$(number "$warm" creates)" -le 13 ]
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
    served program captures "$all,free:wait"
}

test_H1_code_for_per_thread_streams_is_served() {
    same "$(alone program per_thread)" 'allocs 4'
    # One of them fails: the refusal of a free becomes CUDA's last error so.
    [ "$(number "$(served program per_thread)" allocs)" -le 3 ]
}

test_H1_write_combined_memory_is_served() {
    same "$(alone program combined)" 'pins 41'
    [ "$(number "$(served program combined)" pins)" -le 3 ]
}

test_H1_look_ups_by_dlsym_are_served() {
    same "$(alone program lookups)" 'pins 20'
    [ "$(number "$(served program lookups)" pins)" -le 2 ]
}

test_H1_forks_and_exits_are_survived() {
    same "$(served program ends)" 'child 0'
}

# check_end says what must hold then.
test_H1_T3_a_served_program_ends_in_each_way() {
    CK_TAP_LOG_FILE_NAME=end.tap WT_BACKEND=standin \
        LD_LIBRARY_PATH=$standin:$standin/12 WARMPOOL_CONF=$all \
        "$run" -q "$built/tests/api/check_end" >said 2>&1 ||
        { cat said; return 1; }
    same "$(grep -c '^ok ' end.tap)" 14
}

test_H1_nothing_is_said_of_a_driver_that_is_shutting_down() {
    same "$(served order late 2>&1)" ''
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

# Programs that look only there.
test_H1_a_refusal_is_the_last_error_of_cuda() {
    alone order errors >plain
    served order errors >warm
    diff plain warm
    served order errors "$all,device_high:64M" >warm
    diff plain warm
    same "$(served order capture_error)" 'in a capture: 2, then 2'
}

test_H1_a_handle_of_shared_memory_opens_the_same_bytes() {
    each='opened A\nopened B\nopened C\n'
    # shellcheck disable=SC2059 # the letters are the format
    printf "$each${each}closed\n" >wanted
    alone ipc share | diff wanted -
    served ipc share | diff wanted -
}

# Without warmpool, after the free, and where CUDA makes no handle: never
# another block's bytes.
test_H1_a_handle_of_shared_memory_is_refused_elsewhere() {
    served ipc plain >out
    same "$(sort -u out)" "$(printf 'closed\nrefused by CUDA')"
    served ipc freed >out 2>said
    same "$(cat out)" "$(printf 'refused as invalid\nclosed')"
    grep -q 'has freed it' said
    STANDIN_NO_IPC=1 served ipc refused >out 2>said
    same "$(sort -u out)" 'export 1, last error 1'
    same "$(grep -c 'leave the word device out of option preload' said)" 1
}

# By programs that were built before glibc 2.34, too.
test_H1_look_ups_of_old_programs_are_served() {
    same "$(alone old all)" 'pins 20'
    [ "$(number "$(served old all)" pins)" -le 2 ]
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

# The fault is warmpool's: CUDA has made, or would have destroyed, the stream.
test_H1_B6_no_stream_is_missed() {
    same "$(served order unseen)" seen
    same "$(served order unretired)" retired
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
# The handle that it makes inside is a lease, even where one of CUDA's ends it.
test_H1_a_library_that_looks_itself_up_is_served() {
    mkdir shim
    # shellcheck disable=SC2086 # words on purpose
    ${CC:-cc} -shared -Wl,-soname,libcudnn_graph.so.9 \
        "$standin"/tests/standin/cudnn.o "$standin"/tests/standin/version.o \
        "$standin/libcuda.so.1" ${WT_LINK:-} -o shim/libcudnn_graph.so.9
    ${CC:-cc} -shared -fPIC -Wl,-soname,libcudnn.so.9 -Wl,--no-as-needed \
        "$source/shim_library.c" shim/libcudnn_graph.so.9 -ldl \
        -o shim/libcudnn.so.9
    LD_LIBRARY_PATH=$PWD/shim:$standin
    [ "$(number "$(alone handles all)" cudnn)" -ge 20 ]
    warm=$(served handles all)
    [ "$(number "$warm" cudnn)" -le 3 ] || { echo "$warm"; return 1; }
    has_line "$warm" 'ends 0'
    has_line "$warm" 'misuses 0'
}

# Renamed, as in packages of Python, and opened for its user alone.
test_H1_a_library_of_another_name_is_found() {
    # shellcheck disable=SC2086 # words on purpose
    ${CC:-cc} -shared -Wl,-soname,libcudart-0a1b2c3d.so.13 \
        "$standin"/tests/standin/cudart*.o "$standin"/cudart_rest.o \
        "$standin"/tests/standin/version.o \
        "$standin/libcuda.so.1" ${WT_LINK:-} -o libcudart-0a1b2c3d.so.13
    ${CC:-cc} -shared -fPIC -isystem "$cuda" "$source/deep_library.c" \
        "$PWD/libcudart-0a1b2c3d.so.13" -o user.so
    ${CC:-cc} "$source/deep_program.c" -DLIBRARY="\"$PWD/user.so\"" -ldl \
        -o "$scratch/user"
    LD_LIBRARY_PATH=$PWD:$standin
    same "$(alone user open)" 'pins 20'
    [ "$(number "$(served user open)" pins)" -le 2 ]
}

# A library with functions of CUDA's names, which open CUDA's own.
test_H1_a_library_with_stubs_of_its_own_is_served() {
    ${CC:-cc} -shared -fPIC "$source/stub_library.c" \
        -DCUBLAS="\"$(cd "$standin" && echo libcublas.so.*)\"" -ldl -o stub.so
    same "$(alone own ./stub.so)" 'creates 20'
    same "$(served own ./stub.so preload:off)" 'creates 20'
    [ "$(number "$(served own ./stub.so)" creates)" -le 2 ]
}

# A folder that the loader does not know: only the path of cuBLAS leads there.
# JAX's packages have cudart in that folder, or in one beside it.
test_H1_cudart_is_found_beside_the_cublas_that_is_loaded() {
    mkdir -p all cublas/lib cuda_runtime/lib driver
    cp "$standin"/libcuda.so.1 driver
    cp "$standin"/libcudart.so.* cuda_runtime/lib
    cp "$standin"/libcublas.so.* cublas/lib
    cp "$standin"/libcudart.so.* "$standin"/libcublas.so.* all
    LD_LIBRARY_PATH=$PWD/driver
    for cublas in all/libcublas.so.* cublas/lib/libcublas.so.*; do
        same "$(alone own "./$cublas")" 'creates 20'
        [ "$(number "$(served own "./$cublas")" creates)" -le 2 ]
    done
}

# NVIDIA's own libraries, which fail without a GPU, and must not crash.
test_H1_the_real_libraries_answer_as_without() {
    LD_LIBRARY_PATH=$real
    alone real all >plain 2>&1
    served real all >warm 2>&1
    diff plain warm
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

test_H1_a_folder_that_cannot_be_preloaded_is_refused() {
    mkdir 'a b'
    cp "$built/warmpool-run" "$built/libwarmpool-preload.so" 'a b'
    status=0
    'a b/warmpool-run' "$scratch/old" 2>said || status=$?
    same "$status" 2
    grep -q 'a space or a colon in the path ends it' said
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

# CuPy's package, if its module links no cudart.
test_H1_a_cupy_with_the_runtime_inside_is_said() {
    mkdir -p site/cupy_backends/cuda/api
    : >site/cupy_backends/__init__.py
    ${CC:-cc} -shared -fPIC "$source/stub_library.c" -DCUBLAS='""' -ldl \
        -o site/cupy_backends/cuda/api/runtime.abi3.so
    PYTHONPATH=$PWD/site "$run" python3 -c '' 2>said
    grep -q 'memory of CuPy is not served' said
    cp "$scratch/deep.so" site/cupy_backends/cuda/api/runtime.abi3.so
    PYTHONPATH=$PWD/site "$run" python3 -c '' 2>said
    same "$(grep -c CuPy said)" 0
    "$run" python3 -c '' 2>said
    same "$(grep -c CuPy said)" 0
}

test_H1_warmpool_run_has_help() {
    "$run" --help >said
    grep -q '^usage: warmpool-run' said
    grep -q 'WARMPOOL_CONF' said
    same "$("$run" -h)" "$(cat said)"
    status=0
    "$run" --quiet "$scratch/program" 2>said || status=$?
    same "$status" 2
    grep -q 'no option --quiet' said
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
    build ipc "$source/ipc_program.c" &&
    build handles "$source/handles_program.c" "$standin"/libcublasLt.so.* \
        "$standin"/libcudnn.so.* "$standin"/libcus[op]*.so.* &&
    ${CC:-cc} "$source/own_program.c" -ldl -o "$scratch/own" &&
    ${CC:-cc} "$source/probe_program.c" -ldl -o "$scratch/probe" &&
    build deep "$source/deep_program.c" -DLIBRARY="\"$scratch/deep.so\"" &&
    build old "$source/old_program.c" &&
    build real "$source/real_program.c" -Wl,--no-as-needed \
        "$standin"/libcublasLt.so.* "$standin"/libcudnn.so.* \
        "$standin"/libcus[op]*.so.* &&
    build deep.so -shared -fPIC "$source/deep_library.c" &&
    ${CC:-cc} "$source/inside_program.c" -o "$scratch/inside" || exit 1
# What not every machine has.
also=
if build asan "$source/cuda_program.c" -fsanitize=address 2>/dev/null; then
    also=test_H1_a_program_with_address_sanitizer_is_served_as_well
else
    echo "skip: a program with AddressSanitizer: the compiler has none"
fi
real=$(dirname "$cuda")/lib64
if [ -e "$real/libcudnn.so.9" ] && [ -e "$real/libcusolver.so.12" ]; then
    also="$also test_H1_the_real_libraries_answer_as_without"
else
    echo "skip: CUDA's own libraries: none in $real"
fi
# shellcheck disable=SC2086 # names, or none
tap_run test_H1_creates_and_pins_of_200_rounds_fall_to_two $also \
    test_H1_frees_keep_the_order_of_cuda test_H1_a_free_waits_if_asked \
    test_H1_threads_share_no_handle test_H1_what_is_not_served_is_cudas \
    test_H1_captures_are_not_broken \
    test_H1_code_for_per_thread_streams_is_served \
    test_H1_write_combined_memory_is_served \
    test_H1_look_ups_by_dlsym_are_served \
    test_H1_look_ups_of_old_programs_are_served \
    test_H1_forks_and_exits_are_survived \
    test_H1_a_static_cudart_is_not_served_and_said \
    test_H1_a_set_user_id_program_is_said \
    test_H1_a_folder_that_cannot_be_preloaded_is_refused \
    test_H1_deepbind_is_not_served \
    test_H1_T3_a_served_program_ends_in_each_way \
    test_H1_nothing_is_said_of_a_driver_that_is_shutting_down \
    test_H1_handles_of_every_library_are_served \
    test_H1_a_library_that_looks_itself_up_is_served \
    test_H1_a_library_of_another_name_is_found \
    test_H1_a_library_with_stubs_of_its_own_is_served \
    test_H1_cudart_is_found_beside_the_cublas_that_is_loaded \
    test_H1_a_free_of_freed_memory_is_refused \
    test_H1_a_refusal_is_the_last_error_of_cuda \
    test_H1_a_handle_of_shared_memory_opens_the_same_bytes \
    test_H1_a_handle_of_shared_memory_is_refused_elsewhere \
    test_H1_memory_of_a_stream_keeps_its_order \
    test_H1_B6_no_stream_is_missed \
    test_H1_memory_in_a_capture_is_the_graphs \
    test_H1_a_free_breaks_no_capture_of_a_blocking_stream \
    test_H1_after_a_reset_all_is_cudas \
    test_H1_a_program_that_looks_for_cuda_finds_none \
    test_H1_off_serves_nothing_and_says_so \
    test_H1_a_cupy_with_the_runtime_inside_is_said \
    test_H1_warmpool_run_has_help \
    test_H1_warmpool_run_says_what_it_found
