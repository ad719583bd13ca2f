#!/bin/bash
# instr.sh BENCH FOLDER: instructions an operation, counted by callgrind.
#
# One thread; two lengths of each work, of which the difference counts, so
# that making ready costs nothing. Reproducible to the instruction, whatever
# else the machine does. Writes FOLDER/instr.jsonl; the last line is
# `bench-instr: goals met=<n> of=<m>`.
set -u
bench=$1 folder=$2
short=${BENCH_INSTR:-4000} long=$((5 * ${BENCH_INSTR:-4000}))
json=$folder/instr.jsonl
mkdir -p "$folder"
: >"$json"
log=$(mktemp)
out=$log.out
trap 'rm -f "$log" "$log.ops" "$out"' EXIT
declare -A per_op
toggle=() # what is counted, if not all
warm=0    # operations before
met=0 goals=0

# Instructions of the whole process, mutexes locked, calls of the driver and
# operations, those of the warm-up too; $1 preload, $2 subject, $3 work, $4 ops,
# $5 size, $6 threads. No figure may hang on time: events are done by lag alone.
count() {
    local with=()
    [ -z "$1" ] || with=(env "LD_PRELOAD=$1" "BENCH_PRELOAD=$1")
    "${with[@]}" valgrind --tool=callgrind --callgrind-out-file="$out" \
        "${toggle[@]}" \
        "$bench" one "$2" "$3" "ops=$(($4 / $6))" "size=$5" "threads=$6" \
        "warm=$warm/0" runs=1 lag=4/0 >"$log.ops" 2>"$log" ||
        { grep -E '^(skip|bench)' "$log" >&2; return 1; }
    awk -v threads="$6" -v asked="$4" '
        # What the program says of itself; churn does not.
        /^ops=[0-9]/ { ops += substr($0, 5) }
        /^warm_ops=[0-9]/ { ops += threads * substr($0, 10) }
        # Names are written once, "(7) name", and are "(7)" from then on.
        /^c?fn=/ {
            sub(/^[^=]*=/, "")
            id = $1
            if (NF > 1) { name[id] = $2 }
            callee = name[id]
        }
        /^calls=/ { split($1, n, "="); calls[callee] += n[2] }
        /^(summary|totals):/ { all = $2 }
        END {
            for (c in calls) {
                if (c ~ /^(__)?pthread_mutex_(try)?lock(@|$)/) { l += calls[c] }
            }
            printf "%.0f %.0f %.0f %.0f\n", all, l, calls["call_begin"],
                ops ? ops : 1.25 * asked
        }' "$log.ops" "$out"
}

# inside FUNCTION WORK: of one call of the library, without the loop around it.
inside() {
    toggle=(--toggle-collect="$1")
    measure "$1" "$2" warmpool
    toggle=()
}

# measure LABEL WORK [SUBJECT [PRELOAD [SIZE [THREADS]]]]: of one operation.
measure() {
    local label=$1 work=$2 subject=${3:-$1} preload=${4:-} size=${5:-0} a b
    local threads=${6:-1}
    local n=$short m=$long
    case $work in
    churn | birth* | short) n=40 m=200 ;;
    mixed*) [ "$warm" = 0 ] || m=$((n + 65536)) ;; # a whole plan
    esac
    if ! a=$(count "$preload" "$subject" "$work" "$n" "$size" "$threads") ||
        ! b=$(count "$preload" "$subject" "$work" "$m" "$size" "$threads"); then
        echo "skip: $label $work"
        return
    fi
    read -r instr locks calls <<<"$(awk '{
        f = $8 - $4
        printf "%.1f %.2f %.2f", ($5 - $1) / f, ($6 - $2) / f, ($7 - $3) / f
        }' <<<"$a $b")"
    per_op[$work $label]=$instr
    printf '%-12s %-14s %10s %8s %8s\n' "$work" "$label" "$instr" "$locks" \
        "$calls"
    printf '{"bench":"instr-%s","case":"%s","threads":%s,%s%s,%s,%s}\n' \
        "$work" "$label" "$threads" '"instructions":' "$instr" \
        "\"locks\":$locks" "\"driver_calls\":$calls" >>"$json"
}

# goal NAME VALUE LIMIT
goal() {
    local word='NOT MET'
    goals=$((goals + 1))
    if awk -v v="$2" -v l="$3" 'BEGIN { exit !(v != "" && v <= l) }'; then
        word=met met=$((met + 1))
    fi
    printf '%-44s %-8s <= %-6s %s\n' "$1" "$word" "$3" "$2"
}

printf '%-12s %-14s %10s %8s %8s\n' work subject instr/op locks/op driver/op
measure tls tls
measure warmpool reserve
measure warmpool reserve_on
measure warmpool reserve_two
measure floor reserve_two
inside warm_handle_reserve reserve
inside warm_handle_reserve_on reserve_on
measure bare churn
measure tls churn
measure warmpool churn
for work in birth1 birth5; do
    for subject in bare warmpool mutex-stack; do
        measure "$subject" "$work"
    done
done
# Once the caches hold the most of every size; before, see below.
steady() {
    warm=2000000
    measure "$@"
    warm=0
}

for subject in none warmpool torch; do
    measure "$subject" short
done
steady 'ours, warm' mixed warmpool
steady 'floor, warm' mixed floor
steady 'ours, warm' mixeds warmpool
measure 'two threads' xthread warmpool '' 0 2
measure 'two, none' xthread none '' 0 2
for work in hot64k mixed; do
    for subject in none floor warmpool; do
        measure "$subject" "$work"
    done
    measure glibc "$work" malloc
    measure mimalloc "$work" malloc libmimalloc.so.2.0
    measure jemalloc "$work" malloc libjemalloc.so.2
done
for work in hot64ks mixeds; do
    measure warmpool "$work"
    measure cub "$work"
done
for size in 1000 100000; do
    measure "$size" live warmpool '' "$size"
done
for work in streams foreign; do
    for size in 1 10 100 1000; do
        measure "$size" "$work" warmpool '' "$size"
    done
done
for work in hot64k mixeds; do
    for threads in 10 100; do
        measure "$threads threads" "$work" warmpool '' 0 "$threads"
    done
done

echo
above=$(awk -v a="${per_op[churn warmpool]:-}" -v b="${per_op[churn bare]:-}" \
    'BEGIN { if (a != "" && b != "") printf "%.0f", a - b }')
short_above() {
    awk -v a="${per_op[short $1]:-}" -v b="${per_op[short none]:-}" \
        'BEGIN { if (a != "" && b != "") printf "%.0f", a - b }'
}
call=${per_op[reserve warm_handle_reserve]:-}
goal 'reserve a handle held, the call itself' "$call" 14
goal 'thread that reserves once, above a bare one' "$above" 1200
goal 'thread with three buffers, above a bare one' "$(short_above warmpool)" \
    "$(torch=$(short_above torch); echo "${torch:-4133}")"
two=$(awk -v a="${per_op[reserve_two warmpool]:-}" \
    -v b="${per_op[reserve_two floor]:-}" \
    'BEGIN { if (a != "" && b != "") printf "%.0f", a - b }')
goal 'two streams in turn, above the library' "$two" 250
cat <<'END'
elsewhere (2 vCPU Xeon, gcc 12), with the loop around (4 of the TLS read; 9 of
warmpool, which has more arguments): TLS read 7; PyTorch reserve 115, bound 537,
thread 4160 above a bare one; hot64k floor 36, glibc 374, mimalloc 272, PyTorch
868 (5 locks), RMM 1047 (2 locks); mixed floor 52, PyTorch 884, RMM 1549;
mixeds PyTorch 4129 (14 locks), RMM 1556 (2), CUB 1923 (2)
END
echo "bench-instr: goals met=$met of=$goals"
