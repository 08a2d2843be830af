#!/bin/sh
# `plumb eval`: weights that have adapted to a fault are found, healthy ones are not; what it says of a
# batch is what the trainer says when it takes that very step; and nothing is written.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

awk 'BEGIN {
    split("the scale of,a tensor is,stale and,wrong: 0.5,norm; or,few bits.", word, ",")
    state = 7
    for (i = 0; i < 20000; i++) {
        state = (state * 16807) % 2147483647
        printf "%s%s", word[1 + int(state / 65536) % 6], state % 5 == 0 ? "\n" : " "
    }
}' >text
cat >run.yaml <<'END'
name: stale
data: text
model: {layers: 2, width: 64, heads: 2, ff: 96, context: 32}
batch: {sequences: 8, micro_batches: 2, ranks: 2}
optimizer: {lr: 1.0e-2, warmup: 4, steps: 60}
recipe: te-delayed
sensors: {every: 0}
checkpoint: {every: 30}
validation: {batches: 8}
faults:
  - {kind: frozen-scale, sites: "layer.*/fprop/x", from: 3}
END
try "a run with a stale scale" 0 "$PLUMB" train run.yaml --out bad
try "the same without" 0 "$PLUMB" train run.yaml --set 'faults=[]' --out good
own=$(sed -n 's/.*"event":[ ]*"validation".*"loss":[ ]*\([0-9.]*\).*/\1/p' good/events.jsonl)
find bad good -type f -exec cksum {} + >before

# value FILE ARITHMETIC KEY
value() {
    awk -v arm="\"in\": \"$2\"" -v key="\"$3\":" '
        index($0, "\"in\":") { at = index($0, arm) > 0 }
        at && $1 == key { gsub(/[",]/, "", $2); print $2; exit }' "$1"
}

fits() {
    awk 'length > 80 { exit 1 } END { if (NR > 24) exit 1 }' out
    result $? "$1 fits a screen"
}

# --- what it finds -------------------------------------------------------------------------

try "adapted weights" 1 "$PLUMB" eval bad
sed -n 1,2p out | tr '\n' ' ' |
    grep -q 'nats worse in bf16 than in their own arithmetic: they have adapted to a fault of it'
result $? "the first line is the verdict"
shows "adapted weights" "in own       frozen-scale on layer.*/fprop/x from step 3"
shows "adapted weights" "checkpoint   bad/checkpoints/step-60"
tail -n 1 out | grep -q -x 'next: plumb eval bad/checkpoints/step-60 --in own --in bf16 --in e4m3:current'
result $? "the last line is what is next"
fits "adapted weights"
next=$(sed -n 's/^next: plumb //p' out)
try "what is next" 1 sh -c "'$PLUMB' $next"
shows "what is next" "e4m3:current is far off, too: not the format is to blame; look at its scales"
fits "what is next"
try "healthy weights" 0 "$PLUMB" eval good
head -n 1 out | grep -q 'The weights are as good in bf16 as in their own arithmetic: '
result $? "the first line is the verdict"
fits "healthy weights"
for path in good/checkpoints good/checkpoints/step-60 good/checkpoints/step-60/ \
    good/checkpoints/step-60/state.json; do
    "$PLUMB" eval "$path" --json >again
    [ "$(value again own loss)" = "$("$PLUMB" eval good --json >out; value out own loss)" ]
    result $? "$path is the same checkpoint"
done
try "an earlier checkpoint" 1 "$PLUMB" eval bad/checkpoints/step-30
shows "an earlier checkpoint" "step 30 of 60"
try "fp8 is own" 0 "$PLUMB" eval good --in fp8 --in bf16
try "recipes and specs" 0 "$PLUMB" eval good --in bf16 --in te-current --in e4m3:1x128
shows "recipes and specs" "as good in"
try "few bits" 1 "$PLUMB" eval good --in own --in e2m1:none
shows "few bits" "nats worse in e2m1:none"
try "few batches" 2 "$PLUMB" eval bad --batches 3
shows "few batches" "3 batches give no interval"
try "not finite" 2 "$PLUMB" eval good --in own --in e4m3:static=1e30:overflow
shows "not finite" "the loss in e4m3:static=1e30:overflow is not finite"

# --- whether it is right -------------------------------------------------------------------

# The loss of the step after a checkpoint, taken by the trainer: ARITHMETIC RUN [POLICY]
echo '[{"sites": "*", "use": "bf16", "raise": true}]' >rules.json
step() {
    mkdir "step-$1-$2"
    PLUMB_RUN_DIR=$PWD/step-$1-$2 PLUMB_START=$PWD/$2/checkpoints/step-30 PLUMB_STOP_AT=31 \
        PLUMB_POLICY=$3 "$PLUMB" train run.yaml --set "faults=$faults" >/dev/null
    sed -n 's/.*"loss": *\([^,]*\),.*/\1/p' "step-$1-$2/metrics.jsonl" | head -n 1
}
for run in bad good; do
    faults='[]'
    [ $run = good ] || faults='[{kind: frozen-scale, sites: "layer.*/fprop/x", from: 3}]'
    "$PLUMB" eval $run/checkpoints/step-30 --batch-of-step --json >json
    for in in own bf16; do
        wanted=$(step $in $run "$([ $in = own ] || echo "$PWD/rules.json")")
        got=$(value json $in next_loss)
        [ -n "$wanted" ] && awk -v a="$wanted" -v b="$got" 'BEGIN { exit !(a + 0 == b + 0) }'
        result $? "step 31 of $run in $in: $got, the trainer's is $wanted"
    done
done
# A run that was asked for much: all of it is in its checkpoint.
cat >rules.json <<'END'
[{"sites": "layer.0/*/fprop/x", "use": "e5m2:current:stochastic"}]
END
mkdir asked
PLUMB_RUN_DIR=$PWD/asked PLUMB_SEED=18446744073709551615 PLUMB_DATA_SEED=9 PLUMB_MICRO_ORDER=3 \
    PLUMB_SKIP=3-7 PLUMB_POLICY=$PWD/rules.json PLUMB_CHECKPOINT_AT=6 PLUMB_STOP_AT=7 \
    "$PLUMB" train run.yaml --set recipe=te-current --set \
    'faults=[{kind: stale-decode-scale, sites: "layer.1/*/fprop/x", from: 3}]' >/dev/null
wanted=$(sed -n 's/.*"step": *7,.*"loss": *\([^,]*\),.*/\1/p' asked/metrics.jsonl)
"$PLUMB" eval asked --batches 1 --batch-of-step --json >json
got=$(value json own next_loss)
[ -n "$wanted" ] && awk -v a="$wanted" -v b="$got" 'BEGIN { exit !(a + 0 == b + 0) }'
result $? "seeds, order, skipped steps, policy and fault: $got, the trainer's is $wanted"
"$PLUMB" eval good --batches 8 --json >json
awk -v a="$own" -v b="$(value json own loss)" \
    'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-20) }'
result $? "the loss of 8 batches is the run's own validation loss, $own"
"$PLUMB" eval bad --tokens 20 --json | sed -n 's/^   *"position": \([0-9]*\),/position \1/p
    s/^   *"context": "\(.*\)",/context \1/p; s/^   *"next": "\(.\)",/next \1/p
    s/^    *\([0-9.]*\),*$/loss \1/p' >tokens
sed -n 's/^position //p' tokens | while read -r position; do
    tail -c +$((position - 4)) text | head -c 6 | tr '\n' '.'
    echo
done >wanted
awk 'FILENAME == "wanted" { text[++lines] = $0; next }
     /^context/ { before = substr($0, 9) }
     /^next/ { shown = before substr($0, 6, 1); n = length(shown) < 6 ? length(shown) : 6
         if (substr(shown, length(shown) - n + 1) != substr(text[++count], 7 - n)) exit 1 }
     END { if (count != 20) exit 1 }' wanted tokens
result $? "20 tokens, each with what the text has before it and there"
awk '/^loss/ { if (++n % 2) first = $2; else { apart = $2 - first
         if (apart <= 0 || (n > 2 && apart > last)) exit 1
         last = apart } } END { if (n != 40) exit 1 }' tokens
result $? "the worst first, all of them worse in bf16"
# The mean over n batches for each n gives every batch by itself; t is of a table, 7 degrees.
for n in 1 2 3 4 5 6 7 8; do
    "$PLUMB" eval bad --batches $n --json >json
    value json bf16 gap
done >gaps
echo "$(value json bf16 low) $(value json bf16 high)" |
    awk '{ if (FILENAME == "gaps") { g[NR] = NR * $1 - sum; sum = NR * $1; mean = $1; next }
           for (i = 1; i <= 8; i++) squares += (g[i] - mean) ^ 2
           wide = 2.364624 * sqrt(squares / 7 / 8); print "# wide", wide, ($2 - $1) / 2
           bad = (($1 - mean) / wide + 1) ^ 2 > 1e-6 || (($2 - mean) / wide - 1) ^ 2 > 1e-6 }
         END { exit !(wide > 0) || bad }' gaps -
result $? "the interval is that of Student's t over the batches"
find bad good -type f -exec cksum {} + | cmp -s - before
result $? "no file of the runs has changed"

# --- what it refuses -------------------------------------------------------------------------

try "nothing there" 3 "$PLUMB" eval nowhere
says "nothing there" "'nowhere' does not exist"
try "no checkpoint" 3 "$PLUMB" eval step-own-good
says "no checkpoint" "holds none; plumb train writes some with --set checkpoint.every=N"
try "another file" 3 "$PLUMB" eval text
says "another file" "'text' is no file of a checkpoint"
try "one arithmetic" 3 "$PLUMB" eval good --in own
says "one arithmetic" "1 arithmetic; allowed: 2 to 8"
try "twice the same" 3 "$PLUMB" eval good --in own --in own
says "twice the same" "'own' is asked for twice"
try "no arithmetic" 3 "$PLUMB" eval good --in own --in e4m4
says "no arithmetic" "'e4m4' is neither own, fp8, a recipe, nor a spec"
cp -r good torn
printf x | dd of=torn/checkpoints/step-60/state.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
try "a torn checkpoint" 3 "$PLUMB" eval torn
says "a torn checkpoint" "state.safetensors is torn or altered"
: >torn/checkpoints/step-60/state.safetensors
try "an empty state" 3 "$PLUMB" eval torn
says "an empty state" "state.safetensors is too short"
rm torn/checkpoints/step-60/state.safetensors
try "a lost state" 3 "$PLUMB" eval torn
says "a lost state" "state.safetensors is missing"
sed -i 's/"model.width": 64/"model.width": 32/' torn/checkpoints/step-60/state.json
try "an altered note" 3 "$PLUMB" eval torn
says "an altered note" "state.json is torn or altered"
mv text elsewhere
try "a text that has moved" 3 "$PLUMB" eval good
says "a text that has moved" "data: 'text' does not exist"
try "where it is now" 0 "$PLUMB" eval good --data elsewhere
echo more >>elsewhere
try "another text" 3 "$PLUMB" eval good --data elsewhere
says "another text" "belongs to another configuration or text"
finish
