#!/usr/bin/env python3
"""Runs every scenario and candidate of examples/demo/scenarios.yaml on some seeds with `plumb train`
and writes what came of it as CSV: the run itself, its bf16 twin, the run with the planted sites in
bf16, and the run and its twin at 0.3 of the learning rate.

    tests/demo/measure.py --plumb build/plumb --work DIR [--study DIR] > examples/demo/scenarios.csv

Nothing of plumb's own judgement is used: the predicates (docs/verdict.md) are worked out here from
metrics.jsonl.  Runs are kept in --work and found again, so the command can be stopped and goes on.
What moved first is read from verdict.json where --study has a diagnosis of that scenario.
"""
import argparse
import csv
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys

TWIN = [{"sites": "*", "use": "bf16", "raise": True}]
LOWER = 0.3


def run(plumb, work, run_file, seed, rules=None, micro_order=None, lr_scale=1):
    """Losses by step, and the losses on unseen text: in the run's own arithmetic and in bf16."""
    asked = [run_file, seed, rules, micro_order, lr_scale]
    key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:24]
    directory = os.path.join(work, key)
    if not os.path.exists(os.path.join(directory, "end.json")):
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)
        launch(plumb, directory, *asked)
    return read(directory)


def launch(plumb, directory, run_file, seed, rules, micro_order, lr_scale):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PLUMB_")}
    environment.update(PLUMB_RUN_DIR=directory, PLUMB_SEED=str(seed), PLUMB_DATA_SEED=str(seed))
    if rules is not None:
        environment["PLUMB_POLICY"] = os.path.join(directory, "policy.json")
        with open(environment["PLUMB_POLICY"], "w") as out:
            json.dump(rules, out)
    if micro_order is not None:
        environment["PLUMB_MICRO_ORDER"] = str(micro_order)
    if lr_scale != 1:
        environment["PLUMB_LR_SCALE"] = repr(lr_scale)
    path = os.path.join(directory, "run-file.json")
    with open(path, "w") as out:
        json.dump(dict(run_file, sensors={"every": 0}), out)
    subprocess.run([plumb, "train", path], env=environment, check=True, stdout=subprocess.DEVNULL)


def number(value):
    return float(value) if isinstance(value, (int, float, str)) else math.nan


def read(directory):
    with open(os.path.join(directory, "metrics.jsonl")) as lines:
        rows = [json.loads(line) for line in lines]
    validation = {}
    with open(os.path.join(directory, "events.jsonl")) as lines:
        for line in lines:
            event = json.loads(line)
            if event.get("event") == "validation":
                validation = event
    losses = [number(row["loss"]) for row in rows]
    finite = [math.isfinite(loss) and math.isfinite(number(row.get("grad_norm", 0)))
              for loss, row in zip(losses, rows)]
    with open(os.path.join(directory, "run.json")) as declared:
        about = json.load(declared)
    return {"losses": losses, "finite": finite, "validation": validation,
            "entropy": about["unigram_entropy"], "warmup": about["warmup_steps"]}


def smooth(losses):
    averages = []
    for loss in losses:
        averages.append(loss if not averages else 0.9 * averages[-1] + 0.1 * loss)
    return averages


def largest_gap(a, b):
    return max(abs(x - y) for x, y in list(zip(smooth(a), smooth(b)))[5:])


def judge(one, twin, band):
    """(predicate, first step) of the failure that is decided first, or (None, None)."""
    average, reference = smooth(one["losses"]), smooth(twin["losses"])
    least, held = math.inf, {"rise": 0, "entropy": 0, "gap": 0}
    for i, value in enumerate(average):
        if not one["finite"][i]:
            return "nonfinite", i + 1
        least = min(least, value)
        now = {"rise": value > least + 0.5,
               "entropy": value > one["entropy"] and i + 1 > 2 * one["warmup"] + 50,
               "gap": value - reference[i] > band}
        for name, holds in now.items():
            held[name] = held[name] + 1 if holds else 0
            if held[name] == 10:
                return name, i + 1 - 9
    return None, None


def words(outcome):
    predicate, step = outcome
    return "holds" if predicate is None else f"{predicate}@{step}"


def measure(plumb, work, scenario, seed):
    run_file = scenario["run"]
    twin = run(plumb, work, run_file, seed, TWIN)
    orders = [run(plumb, work, run_file, seed, TWIN, order) for order in (1, 2)]
    band = max(0.05, 3 * max(largest_gap(twin["losses"], o["losses"]) for o in orders))
    own = run(plumb, work, run_file, seed)
    healed = None
    if scenario["sites"]:
        healed = run(plumb, work, run_file, seed,
                     [{"sites": scenario["sites"], "use": "bf16", "raise": True}])
    low = run(plumb, work, run_file, seed, None, None, LOWER)
    low_twin = run(plumb, work, run_file, seed, TWIN, None, LOWER)
    if judge(low_twin, low_twin, band)[0] == "entropy":  # too slow to be asked for it in time
        low = dict(low, entropy=math.inf)
    failed = judge(own, twin, band)
    validation = own["validation"]
    losses = [number(validation.get(key)) for key in ("loss", "loss_bf16")]
    return {
        "seed": seed, "band": f"{band:.3f}", "twin": words(judge(twin, twin, band)),
        "own": words(failed),
        "gap_at_end": f"{smooth(own['losses'])[-1] - smooth(twin['losses'])[len(own['losses']) - 1]:+.3f}",
        "unseen_own": f"{losses[0]:.3f}", "unseen_bf16": f"{losses[1]:.3f}",
        "planted_sites_in_bf16": words(judge(healed, twin, band)) if healed else "-",
        "at_0.3_lr": words(judge(low, low_twin, band)),
        "lower_lr_hides_it": hides(failed, judge(low, low_twin, band)),
    }


def hides(failed, low):
    if failed[0] is None:
        return "-"
    return "yes" if low[0] is None else "no"


def moved(study, name, seed):
    path = os.path.join(study or "", name, "verdict.json")
    if study is None or seed != 1 or not os.path.exists(path):
        return {}
    with open(path) as document:
        first = json.load(document).get("first_moved")
    if not first:
        return {}
    return {"moved_first": f"{first['statistic']} of {first['site']}@{first['step']}",
            "lead": first["lead"]}


COLUMNS = ["scenario", "shipped", "base", "class", "sites", "settings", "seed", "band", "twin", "own",
           "gap_at_end", "unseen_own", "unseen_bf16", "planted_sites_in_bf16", "at_0.3_lr",
           "lower_lr_hides_it", "moved_first", "lead"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plumb", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--study")
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    listed = subprocess.run([asked.plumb, "demo", "--list", "--json"], check=True,
                            stdout=subprocess.PIPE).stdout
    print("# tests/demo/measure.py: each scenario and candidate of scenarios.yaml on "
          f"{asked.seeds} seeds; {subprocess.getoutput(asked.plumb + ' version').splitlines()[0]}")
    table = csv.DictWriter(sys.stdout, COLUMNS, restval="-", lineterminator="\n")
    table.writeheader()
    for scenario in json.loads(listed):
        settings = {key: scenario[key] for key in ("set", "rules", "faults") if key in scenario}
        said = scenario.get("class") or "+".join(scenario.get("classes") or ["-"])
        for seed in range(1, asked.seeds + 1):
            row = {"scenario": scenario["name"], "shipped": "yes" if scenario["shipped"] else "no",
                   "base": scenario["base"], "class": said, "sites": " ".join(scenario["sites"]),
                   "settings": json.dumps(settings, separators=(",", ":"))}
            row.update(measure(asked.plumb, asked.work, scenario, seed))
            row.update(moved(asked.study, scenario["name"], seed))
            table.writerow(row)
            sys.stdout.flush()


main()
