#!/usr/bin/env python3
"""A trainer that shares no code with plumb: next-character prediction in plain Python.

It keeps the run contract (docs/run-contract.md) with the little it has: no checkpoints, no state
hash, no sensors; a loss that is no number is logged as null.
"""
import argparse
import fnmatch
import json
import math
import os
import random
import sys
import zlib

TEXT = ("a tool that watches numbers is of little use if it cannot say why they went wrong. "
        "so run the same thing twice, then run it once with care, and change one part at a "
        "time until the trouble goes away; then put it back and see the trouble return. ")
ALPHABET = sorted(set(TEXT))
FEATURES, HIDDEN, BATCH, STEPS = 16, 20, 12, 120
DELAYED, CURRENT = "e4m3:delayed:history=4:margin=3:overflow", "e4m3:current:saturate"
USES = ["bf16", "e4m3:current", "e4m3:saturate"]


def bf16(x):
    if x == 0 or not math.isfinite(x):
        return x
    step = 2.0 ** (max(math.frexp(x)[1], -125) - 8)
    return round(x / step) * step


def e4m3(x, saturate):
    if x == 0 or not math.isfinite(x):
        return x if x == 0 else math.nan
    step = 2.0 ** (max(math.frexp(x)[1] - 1, -6) - 3)
    y = round(x / step) * step
    return y if abs(y) <= 448 else math.copysign(448.0, y) if saturate else math.nan


class Site:
    """One operand: how it is rounded, and the history of its largest values."""

    def __init__(self, layer, name, kind, gemm, operand):
        self.name = "blk%d.fc%d:%s" % (layer, layer + 1, name)
        self.own = DELAYED if kind == "forward" else CURRENT
        self.declared = {"name": self.name, "class": kind, "layer": layer, "gemm": gemm,
                         "operand": operand, "own": self.own, "uses": USES}
        self.use, self.history, self.scale = self.own, [], 1.0
        self.frozen, self.factor = False, 1.0  # the planted faults

    def cast(self, rows):
        if self.use == "bf16":
            return [[bf16(v) for v in row] for row in rows]
        amax = max((abs(v) for row in rows for v in row if math.isfinite(v)), default=0.0)
        if self.use == "e4m3:current" or self.own == self.use == CURRENT:
            scale = 448 / amax if amax > 0 else 1.0
        else:
            scale = self.scale
        saturate = self.use != DELAYED
        self.history = [amax] + self.history[:3]
        if not self.frozen and max(self.history) > 0:
            self.scale = 448 / 8 / max(self.history)
        back = self.factor / scale
        return [[e4m3(v * scale, saturate) * back for v in row] for row in rows]


def product(a, b):
    """a times b transposed"""
    return [[math.fsum(map(float.__mul__, row, other)) for other in b] for row in a]


def turned(a):
    return [list(column) for column in zip(*a)]


def step_of(weights, sites, features, targets):
    """Loss and gradients of one batch: linear, relu, linear, softmax."""
    x0, w0 = sites[0, "act"].cast(features), sites[0, "wgt"].cast(weights[0])
    hidden = [[max(v, 0.0) if v == v else v for v in row] for row in product(x0, w0)]
    x1, w1 = sites[1, "act"].cast(hidden), sites[1, "wgt"].cast(weights[1])
    loss, grad = 0.0, []
    for row, target in zip(product(x1, w1), targets):
        if not all(map(math.isfinite, row)):
            return math.nan, None
        top = max(row)
        odds = [math.exp(v - top) for v in row]
        total = sum(odds)
        loss += (math.log(total) + top - row[target]) / len(targets)
        grad.append([(o / total - (i == target)) / len(targets) for i, o in enumerate(odds)])
    g1 = sites[1, "gw"].cast(grad)
    back = product(sites[1, "gd"].cast(grad), turned(w1))
    back = [[g if h > 0 else 0.0 for g, h in zip(a, b)] for a, b in zip(back, hidden)]
    g0 = sites[0, "gw"].cast(back)
    return loss, [product(turned(g0), turned(x0)), product(turned(g1), turned(x1))]


def refuse(sentence):
    print(sentence, file=sys.stderr)
    sys.exit(3)


def apply_policy(path, sites, log_event):
    """Ordered rules; the last that matches a site wins."""
    for rule in json.load(open(path)):
        globs = [rule["sites"]] if isinstance(rule["sites"], str) else rule["sites"]
        hit = [s for s in sites if any(fnmatch.fnmatchcase(s.name, g) for g in globs)]
        if not hit:
            log_event(event="unmatched", sites=globs)
        for site in hit:
            if rule["use"] not in USES + ["own"]:
                refuse("%s cannot run in %s" % (site.name, rule["use"]))
            if rule.get("raise") and rule["use"] not in ("bf16", "own"):
                continue  # the own format has 8 bits, and so has every use but bf16
            site.use = site.own if rule["use"] == "own" else rule["use"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fault", choices=["none", "frozen", "gradient"], default="none",
                        help="frozen: one scale stands still from step 2 on; gradient: one "
                             "gradient comes back 8 times too large from step 40 on")
    parser.add_argument("--rate", type=float, default=0.5, help="learning rate")
    parser.add_argument("--switch", action="store_true",
                        help="declare no sites: all or nothing in bf16")
    parser.add_argument("--deaf", action="store_true", help="ignore the policy")
    return parser.parse_args()


def main():
    args, env = arguments(), os.environ
    directory = env.get("PLUMB_RUN_DIR", ".")
    stop_at = int(env.get("PLUMB_STOP_AT") or STEPS)
    rate = args.rate * float(env.get("PLUMB_LR_SCALE") or 1)
    sites = {(layer, name): Site(layer, name, *rest) for layer in (0, 1) for name, *rest in (
        ("act", "forward", "fprop", "x"), ("wgt", "forward", "fprop", "w"),
        ("gd", "backward", "dgrad", "dy"), ("gw", "backward", "wgrad", "dy"))}
    del sites[0, "gd"]  # nothing below the first layer wants a gradient

    def append(name, **fields):
        with open(os.path.join(directory, name), "a") as file:
            file.write(json.dumps(fields) + "\n")

    with open(os.path.join(directory, "run.tmp"), "w") as file:
        json.dump({"contract": 1, "trainer": "outside", "version": "1",
                   "config_hash": "%08x" % zlib.crc32(repr(sys.argv[1:]).encode()),
                   "world_size": 1, "schedule_steps": STEPS,
                   "features": ["batch_hash", "lr_scale", "data_seed"],
                   "sites": [] if args.switch else [s.declared for s in sites.values()]}, file)
    os.rename(os.path.join(directory, "run.tmp"), os.path.join(directory, "run.json"))
    if env.get("PLUMB_POLICY") and not args.deaf:
        apply_policy(env["PLUMB_POLICY"], sites.values(),
                     lambda **fields: append("events.jsonl", **fields))

    draw = random.Random(int(env.get("PLUMB_SEED") or 1))
    weights = [[[draw.gauss(0, 0.04) for _ in range(FEATURES)] for _ in range(HIDDEN)],
               [[draw.gauss(0, 0.3) for _ in range(HIDDEN)] for _ in ALPHABET]]
    order = random.Random(int(env.get("PLUMB_DATA_SEED") or 1))
    table = random.Random(0)  # what a character looks like to the first layer
    looks = {c: [table.gauss(0, 1) for _ in range(FEATURES // 2)] for c in ALPHABET}
    reason = "reached"
    for step in range(1, min(stop_at, STEPS) + 1):
        places = [order.randrange(len(TEXT) - 2) for _ in range(BATCH)]
        features = [looks[TEXT[p]] + looks[TEXT[p + 1]] for p in places]
        targets = [ALPHABET.index(TEXT[p + 2]) for p in places]
        sites[1, "act"].frozen = args.fault == "frozen" and step >= 2
        sites[1, "gd"].factor = 8.0 if args.fault == "gradient" and step >= 40 else 1.0
        loss, grads = step_of(weights, sites, features, targets)
        append("metrics.jsonl", step=step, loss=loss if math.isfinite(loss) else None,
               batch_hash="%08x" % zlib.crc32(repr(places).encode()))
        if not math.isfinite(loss) or os.path.exists(os.path.join(directory, "stop")):
            reason = "stopped" if math.isfinite(loss) else "nonfinite"
            break
        weights = [[[v - rate * g for v, g in zip(*rows)] for rows in zip(w, d)]
                   for w, d in zip(weights, grads)]
    with open(os.path.join(directory, "end.json"), "w") as file:
        json.dump({"reason": reason, "step": step if stop_at > 0 else 0}, file)


if __name__ == "__main__":
    main()
