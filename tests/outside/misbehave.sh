#!/bin/sh
# misbehave.sh - commands that are no trainers, or bad ones: the right exit status, 3 for what
# cannot be run as asked and 2 for what tells nothing, and a sentence that says why.
# shellcheck disable=SC2016 # the commands expand their own variables
# shellcheck source=tests/outside/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/outside/lib.sh"

ask missing 3 "$place/no-such-command"
says missing "No such file or directory"

ask usage 3 sh -c 'echo "no such data file" >&2; exit 3'
says usage "no such data file"

export options="--silence 0.5 --grace 0.5"
ask hangs 2 sh -c 'sleep 60'
says hangs "silent"
export options=

ask signal 2 sh -c 'kill -SEGV $$'
says signal "signal 11"

ask fails 2 sh -c 'echo "cannot open corpus.txt" >&2; exit 1'
says fails "cannot open corpus.txt"

ask garbage 2 sh -c 'echo "step 1 loss 2.5" >"$PLUMB_RUN_DIR/metrics.jsonl"'
says garbage "step 1 loss 2.5"

ask escapes 2 sh -c 'printf "\033[31m\377red\n" >"$PLUMB_RUN_DIR/metrics.jsonl"'
says escapes "?[31m?red"

ask half 2 sh -c 'printf "{\"step\":1,\"loss\":2.5}\n{\"step\":2,\"lo" \
    >"$PLUMB_RUN_DIR/metrics.jsonl"'
says half 'line 2 of metrics.jsonl'

ask bare 2 sh -c 'echo "{\"step\":1,\"loss\":NaN}" >"$PLUMB_RUN_DIR/metrics.jsonl"'
says bare "ignored the policy"

ask early 0 sh -c 'loss=2.00; [ -z "${PLUMB_POLICY:-}" ] || loss=2.01; step=0
while [ $step -lt 20 ]; do step=$((step + 1)); echo "{\"step\":$step,\"loss\":$loss}"
done >"$PLUMB_RUN_DIR/metrics.jsonl"'
says early "ended of itself (asked for 1000)"

ask deaf 2 python3 "$trainer" --fault frozen --deaf
says deaf "ignored the policy"
field deaf "v['fix']" None
finish
