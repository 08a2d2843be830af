#!/bin/sh
# launchers.sh - launchers on real processes: one that begins again by itself, one that starts for
# longer than plumb bears silence, and one that only submits the run and returns, as sbatch does.
# shellcheck disable=SC2016 # the commands expand their own variables
# shellcheck source=tests/outside/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/outside/lib.sh"

# A trainer of 40 steps.  It dies once at step 5 (again), is slow to start (slow), rises (rise), or does
# not end (stay).  Under bf16 it is a little better.
cat >"$place/train.sh" <<'END'
cd "$PLUMB_RUN_DIR" || exit 1
step=0
last=$(sed -n 's/.*"stop_at": *\([0-9]*\).*/\1/p' request.json)
loss=2.00
grep -q '"policy"' request.json && loss=1.99
echo $$ >>../pids
case $1 in
slow) sleep 2.5 ;;
alive) for second in 1 2 3 4 5; do
    sleep 0.5
    echo '{"event": "alive"}' >>events.jsonl
done ;;
esac
[ "${last:-40}" -lt 40 ] || last=40
while [ "$step" -lt "$last" ]; do
    step=$((step + 1))
    if [ "$1" = again ] && [ $step -eq 5 ] && [ ! -e tried ]; then
        : >tried
        exit 1
    fi
    [ "$1" = rise ] && [ $step -gt 10 ] && loss=9.00
    echo "{\"step\": $step, \"loss\": $loss}" >>metrics.jsonl
    if [ "$1" = rise ] || [ "$1" = deaf ]; then
        sleep 0.05
    fi
    [ -e stop ] && [ "$1" != deaf ] && break
done
[ "$1" = deaf ] && [ "$step" -gt 0 ] && sleep 60
[ "$1" = quiet ] && echo '{"contract": 1}' >run.json
[ "$1" = quiet ] || echo "{\"reason\": \"reached\", \"step\": $step}" >end.json
END

# As sbatch --parsable: starts the job in a session of its own, prints its number, returns.
cat >"$place/submit.sh" <<'END'
setsid sh "$@" >/dev/null 2>&1 </dev/null &
echo $!
END
cancel='kill -KILL "-$(cat "$PLUMB_RUN_DIR/../stdout")"; echo "$PLUMB_RUN_DIR" >>"$CANCELLED"'
export CANCELLED="$place/cancelled"

none_left() {
    find "$place/study/runs" -name pids -exec cat {} + >"$place/pids"
    left=
    while read -r pid; do
        [ -r "/proc/$pid/stat" ] && ! grep -q ') Z ' "/proc/$pid/stat" && left="$left $pid"
    done <"$place/pids"
    [ -s "$place/pids" ] && [ -z "$left" ]
    result $? "$1: nothing is left$left"
}

# limit NAME WORDS: one of the limits of the verdict holds the words
limit() {
    grep -q -F -e "$2" "$place/study/verdict.json"
    result $? "$1: a limit says '$2'"
}

ask again 0 sh -c 'until sh "$0" again; do :; done' "$place/train.sh"
says again "Healthy up to step 40"
limit again "4 line(s) are of steps that were logged before"

ask slow 0 sh "$place/train.sh" slow
says slow "Healthy up to step 40"
export options="--silence 1.5 --grace 0.5"
ask silent 2 sh "$place/train.sh" slow
says silent "was silent when asked to declare itself"
ask alive 0 sh "$place/train.sh" alive
says alive "Healthy up to step 40"

export options="--detached --grace 1"
ask submitted 0 sh "$place/submit.sh" "$place/train.sh" fine
says submitted "Healthy up to step 40"
ask unsubmitted 2 sh -c 'echo "no such partition" >&2; exit 1'
says unsubmitted "no such partition"

options="--detached --grace 1 --kill-command"
asked_with_kill() {
    name=$1
    wanted=$2
    shift 2
    rm -rf "$place/study" "$CANCELLED"
    # shellcheck disable=SC2086 # options are words
    "$PLUMB" diagnose --study "$place/study" --no-html --quiet --json $options "$cancel" \
        -- sh "$place/submit.sh" "$place/train.sh" "$name" >"$place/out" 2>"$place/err" </dev/null
    got=$?
    [ "$got" -eq "$wanted" ]
    result $? "$name: exit status $got, wanted $wanted"
    none_left "$name"
}
asked_with_kill rise 1
field rise "v['failure']['predicate']" rise
options="--steps 30 $options"
asked_with_kill deaf 0
[ -s "$CANCELLED" ]
result $? "deaf: what does not end is cancelled"
asked_with_kill quiet 0
says quiet "Healthy up to step 30"
finish
