#!/bin/sh
# The table of several scenarios: it is the one of the undisturbed command also when plumb is killed
# (kill -9) again and again, no run that had finished is run again, and what the exit status says.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

# Times differ, and by a step or two when a failing run was stopped; everything else must not.
without_times() {
    grep -v -e seconds -e search -e horizons "$1"
}

finished() {
    for outcome in "$place"/killed/*/runs/*/outcome.json; do
        [ ! -e "$outcome" ] || grep -q "look at the trainer" "$outcome" || stat -c '%i %y %n' "$outcome"
    done
}

set -- clean-tensor unscaled-second-moment
try undisturbed 0 "${PLUMB:?}" demo "$@" --study "$place/undisturbed" --json
without_times "$place/out" >"$place/wanted"
shows undisturbed '"right": 2'

kills=0
lost=0
: >"$place/before"
while [ "$kills" -lt 6 ]; do
    "$PLUMB" demo "$@" --study "$place/killed" --quiet >/dev/null 2>&1 &
    plumb=$!
    sleep $((kills % 3 + 1))
    kill -9 "$plumb" 2>/dev/null
    wait "$plumb" 2>/dev/null
    kills=$((kills + 1))
    finished >"$place/after"
    lost=$((lost + $(grep -c -v -x -F -f "$place/after" "$place/before")))
    mv "$place/after" "$place/before"
done
echo "# killed $kills times; $(wc -l <"$place/before") runs were finished at the last kill"
[ -s "$place/before" ]
result $? "some runs had finished"
try 'the same command once more' 0 "$PLUMB" demo "$@" --study "$place/killed" --json
without_times "$place/out" >"$place/seen"
diff "$place/wanted" "$place/seen"
result $? "the undisturbed table"
finished >"$place/after"
lost=$((lost + $(grep -c -v -x -F -f "$place/after" "$place/before")))
[ "$lost" -eq 0 ]
result $? "no finished run was repeated ($lost)"

try "as text" 0 "$PLUMB" demo "$@" --study "$place/killed"
head -n 1 "$place/out" | grep -q '^2 of 2 right; clean runs or decoys called numerics: 0; '
result $? "the first line sums up"
shows "as text" "CPU time"
says "as text" "[2 of 2]"

try "both or neither" 3 "$PLUMB" demo --all clean-tensor
says "both or neither" "not both"
try "a seed of nothing" 3 "$PLUMB" demo --faults-seed 1
says "a seed of nothing" "needs --all"
try "draws" 0 "$PLUMB" demo --all --faults-seed 1 --draws 3 --list
[ "$(wc -l <"$place/out")" -eq 3 ]
result $? "three draws are listed"
finish
