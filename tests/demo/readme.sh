#!/bin/sh
# What README shows is what `plumb demo` prints: times and paths are normalised, all else must be
# equal.  The block of README is the one after the line "<!-- plumb demo -->".
#
# To renew it: sh tests/demo/readme.sh --write (with PLUMB and PLUMB_SOURCE_DIR set).
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"
readme=$PLUMB_SOURCE_DIR/README.md

# normalise < OUTPUT - seconds, minutes, identities and directories become fixed words; runs of
# spaces one space, since a time changes the width of its column.
normalise() {
    sed -e "s|$PLUMB_SOURCE_DIR/||g" -e 's|[^ =]*/plumb train|plumb train|g' \
        -e 's|[^ =]*/study[^ /]*/|STUDY/|g' \
        -e 's/[0-9a-f]\{32\}/ID/g' \
        -e 's/[0-9.]\{1,\} min [0-9]\{1,\} s/TIME/g' -e 's/[0-9.]\{1,\} s\( \|$\)/TIME\1/g' \
        -e 's/  */ /g' -e 's/ $//'
}

try demo 0 "${PLUMB:?}" demo --study "$place/study"
if [ "${1:-}" = --write ]; then
    sed -e "s|$PLUMB_SOURCE_DIR/||g" -e "s|$PLUMB |plumb |g" \
        -e "s|$place/study|plumb-out/study-frozen-scale|g" "$place/out" >"$place/block"
    awk -v block="$place/block" '
        /^<!-- plumb demo -->$/ { print; getline; print; waiting = 1
            while ((getline line < block) > 0) print line
            next }
        waiting && /^```$/ { waiting = 0 }
        !waiting && !/^<!-- plumb demo -->$/ { print }' "$readme" >"$place/new" &&
        cat "$place/new" >"$readme"
fi
awk '/^<!-- plumb demo -->$/ { found = 1; next }
     found && /^```/ { if (inside) exit; inside = 1; next }
     inside' "$readme" | normalise >"$place/wanted"
normalise <"$place/out" >"$place/seen"
[ -s "$place/wanted" ]
result $? "README has the output of plumb demo"
diff "$place/wanted" "$place/seen"
result $? "and it is what plumb demo prints"
finish
