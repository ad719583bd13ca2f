#!/bin/sh
# check_wheel.sh: the wheel of build/python/dist, installed with NumPy and
# PyTorch's CUDA wheel (row H3); run by make check-python, which has built and
# fetched all. PyTorch's CUDA libraries are the stand-ins (torch_libraries.py).
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
built=$(dirname "$top/${WT_STATIC:-build/debug/libwarmpool.a}")
python=$top/build/python/torch/bin/python
free_threaded=$(command -v python3.13t || command -v python3.14t)
check=$top/tests/python

torch=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
torch=$torch/torch/lib
standin=$built/standin

install_wheel() {
    "$python" -m pip install -q --disable-pip-version-check --no-deps \
        --force-reinstall "$top"/build/python/dist/warmpool-*.whl
}

over_standins() {
    LD_LIBRARY_PATH=$scratch/cuda:$standin timeout 300 "$@"
}

# $1: a case of check_torch.py
torch_case() {
    over_standins "$python" "$check/check_torch.py" "$1"
}

test_H3_wheel_passes_the_tests_with_numpy() {
    WARMPOOL_CONF=device:host "$python" "$check/check_python.py"
    WARMPOOL_CONF=device:cuda over_standins "$python" "$check/check_python.py"
}

test_H3_wheel_has_a_tag_that_is_true() {
    "$python" -m pip install -q --disable-pip-version-check --no-deps \
        --target "$scratch/elsewhere" "$top"/build/python/dist/warmpool-*.whl
    WARMPOOL_CONF=device:host PYTHONPATH=$scratch/elsewhere "$python" -c '
import warmpool
assert warmpool.__file__.startswith("'"$scratch"'"), warmpool.__file__'
    set -- "$top"/build/python/dist/warmpool-*-py3-none-*.whl
    [ $# -eq 1 ] && [ -f "$1" ]
}

test_H3_wheel_is_the_same_on_every_day() {
    "$python" -c '
import sys, zipfile
files = zipfile.ZipFile(sys.argv[1]).infolist()
assert len({file.date_time for file in files}) == 1, files
' "$top"/build/python/dist/warmpool-*.whl
}

test_H3_torch_allocates_from_warmpool() {
    torch_case allocates
}

test_H3_torch_refuses_use_after_its_first_allocation() {
    torch_case too_late
}

test_H3_torch_record_stream_delays_the_next_use() {
    torch_case record_stream
}

test_H3_torch_pools_and_empty_cache() {
    torch_case pools
}

test_H3_torch_mem_pool_takes_segments_from_warmpool() {
    torch_case mem_pool
}

test_H3_torch_out_of_memory_is_an_exception() {
    torch_case out_of_memory
}

test_H3_torch_tensors_share_pinned_buffers() {
    torch_case pinned_buffers
}

test_H3_torch_pins_by_preload() {
    over_standins env WARMPOOL_CONF=preload:pinned \
        "$built/warmpool-run" -q "$python" "$check/check_torch.py" pin_memory
}

# The README names the calls.
test_H3_torch_stops_at_these_calls() {
    output=$(torch_case where_it_stops 2>&1)
    echo "$output"
    has_line "$output" 'stand-in stops at cudaPointerGetAttributes'
}

test_H3_wheel_works_without_a_global_interpreter_lock() {
    PYTHONPATH=$scratch/elsewhere WARMPOOL_CONF=device:host \
        "$free_threaded" "$check/check_python.py"
}

install_wheel || exit 1
set -- test_H3_wheel_has_a_tag_that_is_true \
    test_H3_wheel_is_the_same_on_every_day \
    test_H3_wheel_passes_the_tests_with_numpy
if [ -n "$free_threaded" ]; then
    set -- "$@" test_H3_wheel_works_without_a_global_interpreter_lock
else
    echo "skip: no python3.13t or python3.14t: free-threaded Python"
fi
if [ -d "$standin" ]; then
    python3 "$check/torch_libraries.py" "$torch" "$standin" \
        "$scratch/cuda" ||
        exit 1
    set -- "$@" test_H3_torch_allocates_from_warmpool \
        test_H3_torch_refuses_use_after_its_first_allocation \
        test_H3_torch_record_stream_delays_the_next_use \
        test_H3_torch_pools_and_empty_cache \
        test_H3_torch_mem_pool_takes_segments_from_warmpool \
        test_H3_torch_out_of_memory_is_an_exception \
        test_H3_torch_tensors_share_pinned_buffers \
        test_H3_torch_pins_by_preload \
        test_H3_torch_stops_at_these_calls
else
    echo "skip: no CUDA headers, so no stand-ins: PyTorch's CUDA wheel"
fi
tap_run "$@"
