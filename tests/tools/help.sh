#!/bin/sh
# help.sh: `make help` lists every target that people may call, and no other.
#
# What make knows as phony is either in the list or for other rules to use:
# named below, or by a prefix. `lint-…` are the rules that lint runs.
set -u
export LC_ALL=C
inner='FORCE say-cuda test-programs bench-need bench-program examples-need'
inner="$inner gpu-bundle-bench gpu-bundle-demo gpu-bundle-files gpu-no-headers"
inner="$inner install-packaging uninstall-packaging"

phony=$(make -pq --no-print-directory help 2>/dev/null |
    sed -n 's/^\.PHONY: //p' | tr ' ' '\n' | sort -u)
listed=$(make -s --no-print-directory help |
    sed -n 's/^  \([a-z][a-z0-9-]*\) .*/\1/p' | sort)
failed=0
for target in $phony; do
    case " $inner " in *" $target "*) continue ;; esac
    case $target in run-* | need-* | lint-*) continue ;; esac
    echo "$listed" | grep -qxF -- "$target" || {
        echo "help: make help does not list $target"
        failed=1
    }
done
for target in $listed; do
    echo "$phony" | grep -qxF -- "$target" || {
        echo "help: make help lists $target, which is no target"
        failed=1
    }
done
[ -n "$phony" ] && [ -n "$listed" ] || failed=1
exit "$failed"
