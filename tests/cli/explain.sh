#!/bin/sh
# plumb explain: every word of the closed lists is explained on a screen; every number that is
# worked by hand is right (awk works it again), and every command runs and shows what is said.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

PATH=$(dirname "${PLUMB:?}"):$PATH

# The lists are walked by the program; a word without a text is exit status 2.
try "the list" 0 "$PLUMB" explain
cp out list
! grep "not yet" list
result $? "every word of the closed lists is explained"
"$PLUMB" completion -- explain "" | cut -f 1 >words
[ "$(wc -l <words)" -gt 40 ]
result $? "$(wc -l <words) words"

# check_numbers < TEXT: "    EXPRESSION = NUMBER", to the digits that are written.
check_numbers() {
    sed -n 's/^    \(.*\) = \([-+0-9.e]*\)$/\1|\2/p' >numbers
    [ -s numbers ] || echo "no number is worked"
    while IFS='|' read -r expression stated; do
        awk -v number="$stated" '
        function log2(x) { return log(x) / log(2) }
        BEGIN {
            value = '"$expression"'
            digits = number
            exponent = match(digits, /e/) ? substr(digits, RSTART + 1) + 0 : 0
            sub(/e.*/, "", digits)
            decimals = match(digits, /\./) ? length(digits) - RSTART : 0
            allowed = 0.5000001 * 10 ^ (exponent - decimals)
            gap = value - number
            if (gap < -allowed || gap > allowed)
                printf "'"$expression"' = %.9g, not %s\n", value, number
        }' </dev/null || echo "awk cannot work out $expression"
    done <numbers
}

# check_commands < TEXT: "$ COMMAND" and, below it, "> WORDS" of its output.
check_commands() {
    : >shown
    commands=0
    while IFS= read -r line; do
        case $line in
        '$ '*)
            commands=$((commands + 1))
            (cd "$place" && eval "${line#\$ }") >shown 2>&1 </dev/null ||
                echo "exit status $?: $line"
            ;;
        '> '*) grep -q -F -e "${line#> }" shown || echo "not shown: $line" ;;
        esac
    done
    [ "$commands" -gt 0 ] || echo "no command to see it"
}

while IFS= read -r word; do
    {
        "$PLUMB" explain "$word" >text 2>&1 || echo "exit status $?"
        awk 'length > 79 { print "wide: " $0 } END { if (NR > 30) print NR " lines" }' text
        grep -q '^From: ' text || echo "no source"
        check_numbers <text
        check_commands <text
    } >complaints
    [ ! -s complaints ] || sed "s/^/# $word: /" complaints
    [ ! -s complaints ]
    result $? "$word"
done <words

# All spellings of a word lead to it; what is no word gets the nearest.
"$PLUMB" explain "stale scale" >wanted
for spelling in "stale scale" "Stale-Scale" "stale_scale" "frozen scale"; do
    # shellcheck disable=SC2086 # parted on purpose
    "$PLUMB" explain $spelling | cmp -s - wanted
    result $? "spelling: $spelling"
done
try "nearly a word" 3 "$PLUMB" explain headrom
says "nearly a word" "unknown word 'headrom'; did you mean 'headroom'?"
try "no word" 3 "$PLUMB" explain zzzzzz
says "no word" "'plumb explain' lists them"
for known in e4m3 optimizer.lr decoy matmul; do
    try "$known is known elsewhere" 0 "$PLUMB" explain "$known"
    shows "$known is known elsewhere" "\$ plumb "
done
finish
