#!/bin/sh
# edited.sh - a run file that is changed and diagnosed again, in the same study: the verdict is on
# the file as it is now, and what came to nothing the first time is tried again.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"
run=$place/run.yaml
study=$place/study

cp "$PLUMB_SOURCE_DIR/tests/demo/small.yaml" "$run"
try faulty 1 "${PLUMB:?}" diagnose "$run" --study "$study" --quiet --no-html
sed '/^faults:/,$d' "$PLUMB_SOURCE_DIR/tests/demo/small.yaml" >"$run"
try "fault removed" 0 "$PLUMB" diagnose "$run" --study "$study" --quiet --no-html
shows "fault removed" "Healthy"
try "once more" 0 "$PLUMB" diagnose "$run" --study "$study" --quiet --no-html
shows "once more" "kept"

cat >"$place/trainer.sh" <<'EOF'
[ -e "$1" ] || { echo "no data yet" >&2; exit 1; }
step=0
while [ "$step" -lt 20 ]; do
    step=$((step + 1))
    echo "{\"step\":$step,\"loss\":2}" >>"$PLUMB_RUN_DIR/metrics.jsonl"
done
echo "{\"reason\":\"reached\",\"step\":20}" >"$PLUMB_RUN_DIR/end.json"
EOF
try "no data" 2 "$PLUMB" diagnose --study "$place/other" --quiet --no-html -- \
    sh "$place/trainer.sh" "$place/data"
shows "no data" "no data yet"
touch "$place/data"
try "data there" 2 "$PLUMB" diagnose --study "$place/other" --quiet --no-html -- \
    sh "$place/trainer.sh" "$place/data"
shows "data there" "ignored the"
finish
