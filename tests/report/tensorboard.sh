#!/bin/sh
# Event files read back by TensorBoard's own package: every tag and value of a short run of the
# built-in trainer.  Exits 77 where the package is not installed; PLUMB_TENSORBOARD_PYTHON names the
# Python that has it.
set -eu
python=${PLUMB_TENSORBOARD_PYTHON:-python3}
"$python" -c 'import tensorboard' 2>/dev/null || {
    echo "1..0 # SKIP no tensorboard package for $python"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
i=0
while [ "$i" -lt 400 ]; do
    echo "line $i of a text that is long enough to train on for a few steps"
    i=$((i + 1))
done >"$work/text"
"$PLUMB" train --set data="$work/text" --set recipe=te-delayed --set optimizer.steps=4 --set sensors.every=2 \
    --out "$work/run" >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
"$PLUMB" report "$work/run" --tensorboard >/dev/null
"$python" - "$work/run" <<'END'
import json, struct, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run = sys.argv[1]
lines = [json.loads(line) for line in open(run + "/metrics.jsonl")]
events = EventAccumulator(run + "/tensorboard", size_guidance={"scalars": 0})
events.Reload()
tags = events.Tags()["scalars"]
single = lambda x: struct.unpack("f", struct.pack("f", x))[0]
failed = 0

def check(name, holds):
    global failed
    failed += not holds
    print(("ok" if holds else "not ok"), "-", name)

for tag, key in (("lm loss", "loss"), ("train/loss", "loss"), ("loss_metrics/global_avg_loss", "loss"),
                 ("loss_metrics/global_max_loss", "loss_max"), ("grad-norm", "grad_norm"),
                 ("grad_norm", "grad_norm"), ("train/grad_norm", "grad_norm"),
                 ("learning-rate", "lr"), ("train/learning_rate", "lr")):
    got = [(e.step, e.value) for e in events.Scalars(tag)] if tag in tags else None
    check(tag, got == [(l["step"], single(l[key])) for l in lines])
sites = [s["name"] for s in json.load(open(run + "/run.json"))["sites"]]
check("there are sites", len(sites) > 20)
for stat, most in (("underflows%", 100), ("overflows%", 100), ("amax", 1e30), ("headroom", float("inf"))):
    of = [s for s in sites if s + "_" + stat in tags]
    check("sites with " + stat, len(of) > 20)
    values = [e.value for s in of for e in events.Scalars(s + "_" + stat)]
    check("values of " + stat + ": %g to %g" % (min(values), max(values)),
          all(0 <= v <= most for v in values) and (stat == "overflows%" or max(values) > 0))
    check("steps of " + stat, {e.step for s in of for e in events.Scalars(s + "_" + stat)} <= {1, 2, 3, 4})
sys.exit(1 if failed else 0)
END
