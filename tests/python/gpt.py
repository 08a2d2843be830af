"""gpt.py quick | FAULT... - what plumb says of examples/pytorch/gpt.py.

quick: outside plumb and inside it trains alike, and its run.json lists what it casts.  Else a whole
diagnosis for each name: healthy, or a fault; verdict, class and sites must be those that the table
below has, which shares nothing with the table of bugs in the example.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

PLUMB, SOURCE = os.environ["PLUMB"], os.environ["PLUMB_SOURCE_DIR"]
SCRIPT = os.path.join(SOURCE, "examples", "pytorch", "gpt.py")
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")
TORCHRUN = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--max_restarts", "0",
            "--master_port", "0", "-r", "1", "-t", "1"]
failures = []

# name: what --fault says, ranks, verdict, class, what each site must match, what must be said
CASES = {
    "healthy": ("", 1, "healthy", None, None, ""),
    "healthy-ranks": ("", 2, "healthy", None, None, ""),
    "activation-rows": ("activation-rows", 1, "numerics", "forward", "layer.0/mlp.down/fprop/x", ""),
    "weight-rows": ("weight-rows", 1, "numerics", "forward", "layer.0/mlp.down/fprop/w", ""),
    "frozen-scale": ("frozen-scale", 1, "numerics", "forward", "layer.[01]/mlp.down/fprop/w",
                     "stale scale"),
    "dgrad-scale": ("dgrad-scale", 1, "numerics", "backward", "layer.1/mlp.up/dgrad/dy", ""),
    "wgrad-rows": ("wgrad-rows", 1, "numerics", "backward", "layer.[01]/.*/wgrad/dy", ""),
    "v-unscaled": ("v-unscaled", 1, "numerics", "optimizer", "optimizer/v", ""),
    "v-inflated": ("v-inflated", 1, "numerics", "optimizer", "optimizer/v", ""),
    "m-rows": ("m-rows", 1, "numerics", "optimizer", "optimizer/m", ""),
    "learning-rate": ("learning-rate", 1, "not numerics", None, None, ""),
    "data-order": ("data-order,activation-rows", 1, "numerics", "forward",
                   "layer.0/mlp.down/fprop/x", "not exact"),
    "allreduce-unscaled": ("allreduce-unscaled", 2, "numerics", "collective", "collective/grad", ""),
    "allreduce-sign": ("allreduce-sign", 2, "numerics", "collective", "collective/grad", ""),
}


def check(good, what):
    print("%s - %s" % ("ok" if good else "not ok", what), flush=True)
    if not good:
        failures.append(what)


def diagnose(name, place):
    fault, ranks, verdict, kind, site, words = CASES[name]
    command = [sys.executable] + (TORCHRUN if ranks > 1 else []) + [SCRIPT]
    command += ["--fault", fault] if fault else []
    study = os.path.join(place, name)
    done = subprocess.run([PLUMB, "diagnose", "--study", study, "--no-html", "--"] + command,
                          env=ENVIRONMENT, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    before = len(failures)
    with open(os.path.join(study, "verdict.json"), encoding="utf-8") as file:
        found = json.load(file)
    check(found["verdict"] == verdict, "%s: %s" % (name, found["headline"]))
    if kind:
        check(found.get("class") == kind, "%s: class %s" % (name, found.get("class")))
        sites = found.get("sites") or []
        check(sites and all(re.fullmatch(site, one) for one in sites), "%s: %s" % (name, sites))
    check(words in json.dumps(found), "%s: says '%s'" % (name, words))
    print("# %s: %s" % (name, found["cost"]))
    if len(failures) > before:
        print(done.stdout)


def train(place, inside):
    """Standard output of a short run, and the directory of one inside plumb."""
    environment = {key: value for key, value in ENVIRONMENT.items() if not key.startswith("PLUMB_")}
    if inside:
        environment["PLUMB_RUN_DIR"] = place
    done = subprocess.run([sys.executable, SCRIPT, "--steps", "20"], env=environment, text=True,
                          stdout=subprocess.PIPE, check=True)
    return done.stdout


def quick(place):
    outside = train(place, False)
    check(re.fullmatch(r"step +20  loss \d\.\d+  gradient \d\.\d+\n", outside), "trains: " + outside)
    check(train(place, True) == outside, "and trains alike under plumb")
    with open(os.path.join(place, "run.json"), encoding="utf-8") as file:
        told = json.load(file)
    kinds = [site["class"] for site in told["sites"]]
    check([kinds.count(k) for k in ("forward", "backward", "optimizer")] == [16, 32, 2], "its sites")
    with open(os.path.join(place, "metrics.jsonl"), encoding="utf-8") as file:
        last = json.loads(file.readlines()[-1])
    check("loss %.4f " % last["loss"] in outside, "the loss is what it prints")


def main():
    with tempfile.TemporaryDirectory() as place:
        for name in sys.argv[1:]:
            if name == "quick":
                quick(place)
            else:
                diagnose(name, place)
    return 1 if failures else 0


sys.exit(main())
