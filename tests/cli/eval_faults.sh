#!/bin/sh
# Planted faults act in `plumb eval` as in the run: for every example of docs/faults.md the loss of the
# step after a checkpoint, in own, is to the bit what the run logs for that step.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

awk 'BEGIN {
    split("the scale of,a tensor is,stale and,wrong: 0.5,norm; or,few bits.", word, ",")
    state = 7
    for (i = 0; i < 5000; i++) {
        state = (state * 16807) % 2147483647
        printf "%s%s", word[1 + int(state / 65536) % 6], state % 5 == 0 ? "\n" : " "
    }
}' >text
awk '/^```yaml$/ { file = sprintf("%02d.yaml", ++n); next } /^```$/ { file = ""; next }
     file != "" { print >file }' "$PLUMB_SOURCE_DIR/docs/faults.md"
[ -f 20.yaml ]
result $? "there are examples"
for file in ??.yaml; do
    run=${file%.yaml}
    kind=$(sed -n 's/.*kind: //p' "$file" | head -n 1)
    mkdir "$run"
    PLUMB_RUN_DIR=$PWD/$run PLUMB_STOP_AT=5 PLUMB_CHECKPOINT_AT=2,4 "$PLUMB" train "$file" \
        --set data=text --set model.layers=2 --set model.width=32 --set model.heads=2 \
        --set model.ff=64 --set model.context=32 --set optimizer.steps=40 >/dev/null
    at=$(find "$run/checkpoints" -name 'step-*' | sed 's/.*step-//' | sort -n | tail -n 1)
    wanted=$(sed -n "s/.*\"step\": *$((at + 1)),.*\"loss\": *\([^,]*\),.*/\1/p" "$run/metrics.jsonl")
    "$PLUMB" eval "$run" --batches 1 --tokens 0 --batch-of-step --json >json
    got=$(sed -n 's/.*"next_loss": *\([^,]*\),.*/\1/p' json | head -n 1)
    [ -n "$wanted" ] && awk -v a="$wanted" -v b="$got" \
        'BEGIN { gsub("\"", "", a); gsub("\"", "", b); exit !(a == b || a + 0 == b + 0 && a + 0 > 0) }'
    result $? "$kind, step $((at + 1)): $got, in the run $wanted"
done
finish
