#!/bin/sh
# A study that is killed (kill -9) twenty times at random comes to the verdict of one that was left
# alone, and no run that had finished is run again.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"
run=$PLUMB_SOURCE_DIR/tests/demo/small.yaml
study=$place/study

# The verdict without what may differ: times, and which runs were found finished.
verdict() {
    grep -v -e '"seconds"' -e '"reused"' "$study/verdict.json"
}

# A finished run, as inode and time of its outcome.json: run again, both would change.  The look at
# what the trainer declares is taken each time.
finished() {
    for outcome in "$study"/runs/*/outcome.json; do
        [ ! -e "$outcome" ] || grep -q "look at the trainer" "$outcome" || stat -c '%i %y %n' "$outcome"
    done
}

# What was finished before must be finished still, untouched.
count_lost() {
    finished >"$place/after"
    lost=$((lost + $(grep -c -v -x -F -f "$place/after" "$place/before")))
    mv "$place/after" "$place/before"
}

# compare - the study has come to its end: its verdict must be the undisturbed one.
compare() {
    verdict >"$place/seen"
    diff "$place/wanted" "$place/seen" >"$place/diff" || different=$((different + 1))
    ended=$((ended + 1))
    rm -rf "$study"
    : >"$place/before"
}

try undisturbed 1 "${PLUMB:?}" diagnose "$run" --study "$study"
verdict >"$place/wanted"
rm -rf "$study"

kills=0
lost=0
different=0
ended=0
: >"$place/before"
while [ "$kills" -lt 20 ]; do
    "$PLUMB" diagnose "$run" --study "$study" >/dev/null 2>&1 &
    plumb=$!
    tenths=$(($(od -An -N1 -tu1 /dev/urandom) % 9 + 1))
    sleep "0.$tenths"
    kill -9 "$plumb" 2>/dev/null
    wait "$plumb" 2>/dev/null
    status=$?
    count_lost
    if [ "$status" -eq 137 ]; then
        kills=$((kills + 1))
    else
        compare # it had come to its end before the kill
    fi
done
echo "# killed $kills times; $(wc -l <"$place/before") runs were finished at the last kill"
try 'the same command once more' 1 "$PLUMB" diagnose "$run" --study "$study"
count_lost
compare
[ "$lost" -eq 0 ]
result $? "no finished run was repeated ($lost)"
cat "$place/diff"
[ "$different" -eq 0 ]
result $? "the undisturbed verdict, $ended times of $ended"
! pgrep -f "plumb train $run" >/dev/null
result $? "no trainer is left behind"
finish
