#!/bin/bash
# check_mpi.sh: the training on several ranks of MPI (row H7), all on this
# machine. $EX_BIN: the folder of the programs.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../../tests/tools/tap.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMP_NUM_THREADS=1
program=$EX_BIN/data_parallel_mpi
options="--mpi --driver host --epochs 1 --batch 3000"

# $1: ranks; of four threads in all. Writes its weights here.
train() {
    # shellcheck disable=SC2086 # words on purpose
    timeout 120 mpirun -np "$1" "$program" $options \
        --threads $((4 / $1)) --weights "weights$1" 2>errors |
        grep '^train: ok'
}

value() {
    echo "$1" | sed -n "s/.* $2=\([^ ]*\).*/\1/p"
}

test_H7_ranks_learn_the_same() {
    one=$(train 1)
    for ranks in 2 4; do
        several=$(train "$ranks")
        same "$(value "$several" ranks)" "$ranks"
        same "$(value "$several" accuracy)" "$(value "$one" accuracy)"
        cmp weights1 "weights$ranks" # to the last bit
    done
    # Three threads have other sums.
    several=$(train 3)
    same "$(value "$several" ranks)" 3
    awk -v a="$(value "$one" accuracy)" -v b="$(value "$several" accuracy)" \
        'BEGIN { exit !(a > 0.5 && a - b < 0.01 && b - a < 0.01) }'
}

# A thread without one would have no gradient to add.
test_H7_a_batch_has_an_image_for_each_thread_of_each_rank() {
    status=0
    timeout 60 mpirun -np 3 "$program" --mpi --driver host --batch 64 \
        --threads 22 --weights e >out 2>&1 || status=$?
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
    grep -q 'batch 64: fewer images than there are threads, 22 on .* 3 ranks' \
        out
}

# Machines need not share a folder.
test_H7_the_first_rank_alone_writes_weights() {
    # shellcheck disable=SC2086
    timeout 120 mpirun -np 1 "$program" $options --weights d : \
        -np 1 "$program" $options --weights no/such/folder >out 2>&1
    grep -q '^train: ok .*ranks=2' out
    [ -s d ]
}

test_H7_memory_is_registered_once() {
    out=$(train 2)
    same "$(value "$out" sums)" 20
    # Two buffers a sum, and those that threads stage in, come and go; how many
    # segments they take depends on which threads meet.
    [ "$(value "$out" registrations)" -ge 1 ]
    [ "$(value "$out" registrations)" -le 10 ]
}

# One of two gets an option that does not exist.
test_H7_a_rank_that_fails_ends_all() {
    status=0
    # shellcheck disable=SC2086
    timeout 60 mpirun -np 1 "$program" $options --weights a : \
        -np 1 -x WARMPOOL_CONF=no_such:1 "$program" $options --weights b \
        >out 2>&1 || status=$?
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
    grep -q 'rank 1: .*no_such' out
}

test_H7_a_rank_that_is_killed_ends_all() {
    # shellcheck disable=SC2086
    timeout 60 mpirun -np 2 "$program" $options --epochs 1000 --weights c \
        >out 2>&1 &
    until grep -q '^epoch' out; do
        kill -0 $!
        sleep 0.1
    done
    # timeout starts mpirun, and mpirun the ranks.
    kill -9 "$(pgrep -n -P "$(pgrep -P $!)")"
    status=0
    wait $! || status=$?
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
}

test_H7_a_program_without_mpi_says_so() {
    ! "$EX_BIN/data_parallel" --mpi 2>said || return 1
    grep -q 'built without MPI' said
}

tap_run test_H7_ranks_learn_the_same \
    test_H7_a_batch_has_an_image_for_each_thread_of_each_rank \
    test_H7_the_first_rank_alone_writes_weights \
    test_H7_memory_is_registered_once test_H7_a_rank_that_fails_ends_all \
    test_H7_a_rank_that_is_killed_ends_all test_H7_a_program_without_mpi_says_so
