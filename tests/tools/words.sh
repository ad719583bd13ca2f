#!/bin/sh
# words.sh FILE...: names that may stand only in some files of the library.
#
# - CUDA's names: the CUDA driver, the CUDA kinds and their typed headers, and
#   where a macro of CUDA's says what a null stream is;
# - getenv, which trusts the environment of a set-user-ID program;
# - what prints or ends the process: where tests/tools/words.txt says so, as
#   often as it says, each with its reason.
# And no message has a raw count of bytes (sizes.awk).
set -u
tools=$(dirname "$0")
code=$(mktemp)
trap 'rm -f "$code"' EXIT
awk -f "$tools/strip.awk" "$@" >"$code"

failed=0
edge='(^|[^A-Za-z0-9_])'

# cudaMalloc, cublasHandle_t, cuInit, CU_…, CUDNN_…
cuda='(cuda|cublas|cudnn|cusparse|cusolver|cu)[A-Z][A-Za-z0-9_]*'
cuda="$cuda|cu(da|blas|dnn|sparse|solver)_[a-z_]+|CU[a-z]+"
cuda="$cuda|CU(DA|BLAS|DNN|SPARSE|SOLVER)?_[A-Z0-9_]+"
ours='runtime/(cuda/|per_thread\.c)|handles/kinds/kind_cu'
ours="$ours|include/warmpool/(cu|per_thread\.h)"
if grep -vE "^($ours)" "$code" | grep -E "$edge($cuda)([^A-Za-z0-9_]|\$)"; then
    echo "words: a CUDA name outside of the CUDA driver and the CUDA kinds"
    failed=1
fi

if grep -E "${edge}getenv[[:space:]]*\(" "$code"; then
    echo "words: getenv(), where a set-user-ID program needs secure_getenv()"
    failed=1
fi

ends='v?f?printf|v?dprintf|f?puts|putchar|f?putc|fwrite|perror|psignal|syslog'
ends="$ends|abort|_?exit|_Exit|quick_exit|raise|assert|errx?|warnx?"
grep -oE "^[^:]*:[0-9]+:|$edge($ends)[[:space:]]*\(" "$code" |
    awk -F: '
        NF == 3 { file = $1; line = $2; next }
        { gsub(/[^A-Za-z_]/, ""); print file, $0, line }' |
    awk -v list="$tools/words.txt" '
        BEGIN {
            while ((getline text < list) > 0) {
                split(text, part, " ")
                if (text !~ /^(#|$)/) {
                    allowed[part[1] " " part[2]] = part[3]
                }
            }
        }
        ++seen[$1 " " $2] > allowed[$1 " " $2] {
            print $1 ":" $3 ": " $2 "() does not belong in the library"
            failed = 1
        }
        END { exit failed }' || failed=1

if ! awk -f "$tools/sizes.awk" "$@"; then
    echo "words: sizes in messages are for people: wm_bytes()"
    failed=1
fi
exit "$failed"
