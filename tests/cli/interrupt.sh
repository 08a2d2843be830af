#!/bin/sh
# Who interrupts twice gets the prompt back, and nothing of the trainer stays behind, however deaf
# the trainer is to what it is asked.
# shellcheck disable=SC2016 # the kill command expands its own variables
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

cat >deaf.sh <<'END'
trap '' TERM INT HUP
echo $$ >pid
sleep 60 &
echo $! >child
while :; do
    sleep 1
done
END

alive() { # PID: still running, and no zombie
    [ -r "/proc/$1/stat" ] && ! grep -q ') Z ' "/proc/$1/stat"
}

within() { # SECONDS COMMAND...: it becomes true in time
    tries=$((10 * $1))
    shift
    while ! "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.1
    done
}

gone() {
    ! alive "$1"
}

if [ ! -r /proc/self/stat ]; then
    echo "1..0 # SKIP no /proc"
    exit 77
fi
"$PLUMB" diagnose --quiet --no-html --grace 30 --study study \
    --kill-command 'sleep 0.5; echo "$PLUMB_RUN_DIR" >killed.part; mv killed.part killed' \
    -- sh deaf.sh >out 2>err &
program=$!
within 30 test -s child
result $? "the trainer runs"
kill -TERM "$program"
sleep 0.3
alive "$(cat pid)"
result $? "it is deaf to the first signal"
kill -TERM "$program"
within 10 gone "$program"
result $? "the second ends plumb"
wait "$program"
got=$?
[ "$got" -eq 143 ]
result $? "as a signal does: $got"
within 10 gone "$(cat pid)"
result $? "and the trainer"
within 10 gone "$(cat child)"
result $? "and what the trainer had started"
within 10 test -s killed
result $? "and the kill command is run, for what lies on other hosts"
[ -d "$(cat killed)" ]
result $? "which is told what run it was: $(cat killed)"
for pid in "$(cat pid)" "$(cat child)"; do
    alive "$pid" && kill -KILL "$pid"
done
finish
