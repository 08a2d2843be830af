#!/bin/sh
# The same bytes on processors that this one is not: without AVX-512, and with neither AVX2 nor FMA.
#
#   qemu.sh PROGRAM      (test_across_levels)
set -eu
program=$1

case $(uname -m) in
x86_64 | amd64) ;;
*)
    echo "skipped: the other processors are x86-64, this is $(uname -m)"
    exit 77
    ;;
esac
command -v qemu-x86_64 >/dev/null || {
    echo "skipped: there is no qemu-x86_64 (apt install qemu-user)"
    exit 77
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$program" print >"$scratch/here" 2>"$scratch/levels"
echo "here: $(cat "$scratch/levels" "$scratch/here" | tr '\n' ' ')"
failed=0
# An old processor, and the levels that plumb must see on it: 0 baseline, 1 AVX2.
for pair in Nehalem:0 Haswell:1; do
    cpu=${pair%:*}
    qemu-x86_64 -cpu "$cpu" "$program" print >"$scratch/there" 2>"$scratch/levels" || {
        echo "not ok - under $cpu the program failed"
        cat "$scratch/levels"
        failed=1
        continue
    }
    if ! grep -qx "levels ${pair#*:}" "$scratch/levels"; then
        echo "not ok - under $cpu: wanted levels ${pair#*:}, got"
        cat "$scratch/levels"
        failed=1
    fi
    if cmp -s "$scratch/here" "$scratch/there"; then
        echo "ok - $cpu gives the same bytes"
    else
        echo "not ok - $cpu gives other bytes: $(cat "$scratch/there")"
        failed=1
    fi
done
exit "$failed"
