#!/bin/sh
# Help fits a screen of 80 columns and 24 lines, comes on standard output, and names every
# verb and option that the program knows.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

fits() {
    awk 'length > 80 { exit 1 } END { if (NR > 24 || NR < 3) exit 1 }' "$place/out"
    result $? "$1 fits 80 x 24"
}

try "no argument" 0 "$PLUMB"
cp "$place/out" "$place/overview"
fits "the overview"
verbs=$(sed -n 's/^  \([a-z]*\) .*/\1/p' "$place/overview")
for verb in demo diagnose report watch bench train footprint format matmul text version help; do
    echo "$verbs" | grep -q -x "$verb"
    result $? "the overview names $verb"
done
for spelling in help --help -h; do
    try "plumb $spelling" 0 "$PLUMB" "$spelling"
    cmp -s "$place/out" "$place/overview"
    result $? "plumb $spelling is the overview"
done
for verb in $verbs; do
    try "$verb --help" 0 "$PLUMB" "$verb" --help
    fits "$verb --help"
    shows "$verb --help" "usage: plumb $verb"
    cp "$place/out" "$place/long"
    try "help $verb" 0 "$PLUMB" help "$verb"
    cmp -s "$place/out" "$place/long"
    result $? "help $verb and $verb --help are the same"
    # What help offers must be known: an option that needs a value says so, and no other
    # complaint comes than about the value or the rest of the line.
    options=$(sed -n 's/^  \(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p' "$place/long")
    for option in $options; do
        "$PLUMB" "$verb" "$option" 0 --help >"$place/out" 2>"$place/err"
        if grep -q "unknown option" "$place/err"; then
            result 1 "$verb $option is offered but unknown"
        else
            result 0 "$verb $option is known"
        fi
    done
done
try "--help after nonsense values" 0 "$PLUMB" diagnose a b c --help
try "version" 0 "$PLUMB" version
shows "version" "plumb 0."
try "--version" 0 "$PLUMB" --version
try "settings of the trainer" 0 "$PLUMB" train --settings
shows "settings of the trainer" "model.width"
shows "settings of the trainer" "optimizer.lr"
awk 'length > 80 || /e[+]/ { exit 1 }' "$place/out"
result $? "settings of the trainer fit 80 columns, with ranges as people write them"
try "scenarios" 0 "$PLUMB" demo --list
shows "scenarios" "frozen-scale"
shows "scenarios" "decoy"
finish
