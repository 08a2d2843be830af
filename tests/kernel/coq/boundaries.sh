#!/bin/sh
# Makes boundaries.csv anew, which takes Coq 8.16 and Flocq 4.1 (apt: coq libcoq-flocq) and a minute:
#
#   sh tests/kernel/coq/boundaries.sh > tests/kernel/coq/boundaries.csv
#
# A row is a format, the fp32 bits of a midpoint, and the codes of the float below it, of itself and of
# the float above.  Nothing is trusted but Coq: the tests read the table, they do not compute it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$here/boundaries.v" "$scratch"
cd "$scratch"
coqc boundaries.v >&2

# table NAME all|some EXPONENT-OF-LEAST FRACTION-BITS LARGEST-CODE
table() {
    printf 'Require Import ZArith. Require Import boundaries. Open Scope Z_scope.\n' >ask.v
    printf 'Set Printing Width 200. Set Printing Depth 1000000.\n' >>ask.v
    printf 'Eval vm_compute in (%s (%s) %s %s).\n' "$2" "$3" "$4" "$5" >>ask.v
    coqc ask.v | tr -d ' \n' | grep -oE '([0-9]+::){4}nil' | sed "s/::nil//; s/::/,/g; s/^/$1,/"
}

echo 'format,midpoint,below,at,above'
table e4m3 all -9 3 126
table e5m2 all -16 2 123
table e4m3fnuz all -10 3 127
table e5m2fnuz all -17 2 127
table e3m2 all -4 2 31
table e2m3 all -3 3 31
table e2m1 all -1 1 7
table bf16 some -133 7 32639
table fp16 some -24 10 31743
table tf32 some -136 10 261119
