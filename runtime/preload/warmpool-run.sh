#!/bin/sh
# warmpool-run [-q] PROGRAM [ARGUMENT...]: runs a program whose calls of CUDA
# warmpool serves: libwarmpool-preload.so goes in front of LD_PRELOAD. Option
# preload says what is served (handles+pinned if WARMPOOL_CONF does not say).
# Says on standard error what it found; -q: only what cannot work.
set -u
usage() {
    cat <<'END'
usage: warmpool-run [-q] PROGRAM [ARGUMENT...]

Runs PROGRAM, which need not be changed, with handles of CUDA's libraries and
memory from warmpool.

  -q          prints only what cannot work
  -h, --help  prints this

WARMPOOL_CONF   options of warmpool, as name:value,name:value. Option preload
                says what is served: handles, pinned, device, joined by +
                (default: handles+pinned). stats_at_exit:FILE writes what was.
WARMPOOL_PRELOAD  the path of libwarmpool-preload.so, if it is neither beside
                  this script nor in ../lib

    warmpool-run ./program
    WARMPOOL_CONF=preload:handles+pinned+device warmpool-run python3 train.py
END
}
quiet=
case ${1-} in
-h | --help)
    usage
    exit 0
    ;;
-q)
    quiet=1
    shift
    ;;
-*)
    echo "warmpool-run: there is no option $1; --help lists them" >&2
    exit 2
    ;;
esac
if [ $# -eq 0 ]; then
    usage >&2
    exit 2
fi
say() {
    [ -n "$quiet" ] || echo "warmpool-run: $*" >&2
}
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd) || exit 2
for library in "${WARMPOOL_PRELOAD-}" "$here/libwarmpool-preload.so" \
    "$here/../lib/libwarmpool-preload.so" \
    "$here/../lib64/libwarmpool-preload.so" \
    "$here"/../lib/*/libwarmpool-preload.so \
    "$here"/../lib/*/warmpool/libwarmpool-preload.so ''; do
    [ -z "$library" ] || [ ! -f "$library" ] || break
done
if [ -z "$library" ]; then
    echo "warmpool-run: libwarmpool-preload.so is neither beside this script" \
        "nor in ../lib; WARMPOOL_PRELOAD may name it" >&2
    exit 2
fi
case $library in
*[[:space:]:]*)
    echo "warmpool-run: $library cannot be preloaded: a space or a colon" \
        "in the path ends it; install warmpool elsewhere" >&2
    exit 2
    ;;
esac
program=$(command -v -- "$1") || {
    echo "warmpool-run: there is no program $1" >&2
    exit 127
}

# What the dynamic loader will not do.
if [ -u "$program" ] || [ -g "$program" ]; then
    echo "warmpool-run: $program is set-user-ID or set-group-ID: the loader" \
        "preloads nothing into it" >&2
fi
first=$(head -c 4 "$program" 2>/dev/null | od -An -c | tr -d ' ')
if [ "$first" = '177ELF' ] && command -v readelf >/dev/null; then
    if ! readelf -lW "$program" 2>/dev/null | grep -q INTERP; then
        echo "warmpool-run: $program is linked statically: nothing can be" \
            "preloaded into it" >&2
    elif ! readelf -dW "$program" | grep -q 'NEEDED.*libcudart' &&
        readelf -sW "$program" | grep -qE ' (cudaMalloc|cudaHostAlloc)$'; then
        echo "warmpool-run: $program has the CUDA runtime inside it: memory" \
            "is not served; link it with -cudart shared" >&2
    fi
fi
# CuPy's packages have the CUDA runtime inside them, too.
case ${program##*/} in
python*)
    cupy=$("$program" -c 'import importlib.util as u
spec = u.find_spec("cupy_backends")
print(next(iter(spec.submodule_search_locations)) if spec else "")' \
        2>/dev/null) || cupy=
    for runtime in "$cupy"/cuda/api/runtime.*.so; do
        if [ -n "$cupy" ] && [ -f "$runtime" ] &&
            command -v readelf >/dev/null &&
            ! readelf -dW "$runtime" | grep -q 'NEEDED.*libcudart'; then
            say "$cupy has the CUDA runtime inside it: memory of CuPy is not" \
                "served; warmpool.cupy.use() of the Python package serves it"
        fi
    done
    ;;
esac

conf=${WARMPOOL_CONF-}
case ,$conf in
*,*preload:*) ;;
*) conf=${conf:+$conf,}preload:handles+pinned ;;
esac
# AddressSanitizer wants its own library first, which the program's is then.
case ${LD_PRELOAD-} in
*lib[at]san* | *clang_rt.[at]san*) LD_PRELOAD="$LD_PRELOAD:$library" ;;
*) LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD} ;;
esac
if [ "$first" = '177ELF' ] && command -v readelf >/dev/null; then
    sanitizer=$(readelf -dW "$program" 2>/dev/null |
        sed -nE 's/.*NEEDED.*\[(lib(clang_rt\.)?[at]san[^]]*)\].*/\1/p')
    case $LD_PRELOAD in
    *lib[at]san* | *clang_rt.[at]san*) ;;
    *) LD_PRELOAD=${sanitizer:+$sanitizer:}$LD_PRELOAD ;;
    esac
fi
say "$library"
say "WARMPOOL_CONF=$conf"
export LD_PRELOAD WARMPOOL_CONF="$conf"
exec "$@"
