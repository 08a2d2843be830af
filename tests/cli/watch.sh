#!/bin/sh
# plumb watch: follows a run until its end, says so in its exit status, writes nothing, and is ended
# by Ctrl-C without a trace in the run.  On a terminal it draws over itself and leaves it as it was.
set -u
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

mkdir run
line() { # STEP LOSS
    echo "{\"step\":$1,\"loss\":$2,\"grad_norm\":1.5,\"seconds\":0.1}" >>run/metrics.jsonl
}

line 1 4.5
try "once" 2 "$PLUMB" watch run --once
shows "once" "The run is at step 1, and nothing in its log fails so far."
shows "once" "loss                  4.5"

# A run that grows while it is watched, and then ends.
{
    sleep 0.4
    line 2 4.25
    sleep 0.4
    line 3 4
    sleep 0.2
    echo '{"reason":"reached","step":3}' >run/end.json
} &
try "to the end" 0 "$PLUMB" watch run --interval 0.05
wait
shows "to the end" "step 1  loss 4.5000  grad norm 1.5"
shows "to the end" "step 2  loss 4.2500"
shows "to the end" "The run reached step 3, and nothing in its log fails."
[ "$(ls run)" = "$(printf 'end.json\nmetrics.jsonl')" ]
result $? "nothing was written into the run"

try "a finished run" 0 "$PLUMB" watch run
cp -r run twin
echo '{"step":4,"loss":"NaN"}' >>run/metrics.jsonl
try "a run that fails" 1 "$PLUMB" watch run --twin twin
shows "a run that fails" "The run fails at step 4: a value is not finite."
shows "a run that fails" "gap"
try "no run" 3 "$PLUMB" watch nowhere
says "no run" "nowhere: no such directory"

mkdir -p study/runs
try "a study" 3 "$PLUMB" watch study
says "a study" "study/runs/ID/run"

# Ctrl-C.
rm run/end.json
sed -i '/NaN/d' run/metrics.jsonl
"$PLUMB" watch run --interval 0.05 >out 2>&1 &
watcher=$!
sleep 0.5
kill -INT "$watcher" 2>/dev/null
# A shell without job control starts what is in the background with SIGINT ignored.
sleep 0.3
kill -TERM "$watcher" 2>/dev/null
wait "$watcher"
result $((!($? == 2))) "interrupted: exit status 2"
[ "$(ls run)" = metrics.jsonl ]
result $? "the run is left alone"

if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    TERM=xterm script -qec "timeout -s TERM 1 '$PLUMB' watch run --interval 0.05" typed </dev/null >/dev/null 2>&1
    esc=$(printf '\033')
    grep -q "$esc\[?1049h$esc\[?25l" typed && grep -q "$esc\[?25h$esc\[?1049l" typed
    result $? "the other screen is entered and left, the cursor comes back"
    grep -q "$esc\[H" typed && ! grep -q "$esc\[2J" typed
    result $? "frames are drawn over each other, never on an empty screen"
fi
finish
