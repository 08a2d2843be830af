"""gpt.py quick | readme [--write] | NAME... - what plumb says of the scripts in examples/pytorch.

quick: gpt.py trains alike outside plumb and inside, and its run.json lists what it casts.  readme: the
README there shows what is printed, but for numbers and paths; --write renews it.  Else a whole
diagnosis for each name: verdict, class and sites must be those that the table below has, which shares
nothing with the table of bugs in the example.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

PLUMB, SOURCE = os.environ["PLUMB"], os.environ["PLUMB_SOURCE_DIR"]
EXAMPLES = os.path.join(SOURCE, "examples", "pytorch")
SCRIPT, README = os.path.join(EXAMPLES, "gpt.py"), os.path.join(EXAMPLES, "README.md")
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")
TORCHRUN = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--max_restarts", "0",
            "--rdzv_backend", "c10d", "--rdzv_endpoint", "127.0.0.1:0", "-r", "1", "-t", "1"]
failures = []

# name: what --fault says, ranks, verdict, class, what each site must match, what must be said
CASES = {
    "healthy": ("", 1, "healthy", None, None, ""),
    "healthy-ranks": ("", 2, "healthy", None, None, ""),
    "activation-rows": ("activation-rows", 1, "numerics", "forward", "layer.0/mlp.down/fprop/x", ""),
    "weight-rows": ("weight-rows", 1, "numerics", "forward", "layer.0/mlp.down/fprop/w", ""),
    "frozen-scale": ("frozen-scale", 1, "numerics", "forward", "head/fprop/w", "stale scale"),
    "dgrad-scale": ("dgrad-scale", 1, "numerics", "backward", "layer.1/mlp.up/dgrad/dy", ""),
    "wgrad-sign": ("wgrad-sign", 1, "numerics", "backward", "head/wgrad/dy", ""),
    "v-unscaled": ("v-unscaled", 1, "numerics", "optimizer", "optimizer/v", ""),
    "v-inflated": ("v-inflated", 1, "numerics", "optimizer", "optimizer/v", ""),
    "m-rows": ("m-rows", 1, "numerics", "optimizer", "optimizer/m", ""),
    "learning-rate": ("learning-rate", 1, "not numerics", None, None, ""),
    "data-order": ("data-order,activation-rows", 1, "numerics", "forward",
                   "layer.0/mlp.down/fprop/x", "not exact"),
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


def minimal(place):
    """The least that a script can keep: numerics or not, and what is missing is said."""
    command = [sys.executable, os.path.join(EXAMPLES, "minimal.py")]
    for more, verdict in (([], "healthy"), (["--fault"], "numerics")):
        study = os.path.join(place, "minimal-" + verdict)
        subprocess.run([PLUMB, "diagnose", "-q", "--study", study, "--no-html", "--steps", "120", "--"]
                       + command + more, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, check=False)
        with open(os.path.join(study, "verdict.json"), encoding="utf-8") as file:
            found = json.load(file)
        check(found["verdict"] == verdict, "minimal: " + found["headline"])
        limits = " ".join(found["limits"])
        check("declares nothing" in limits and "order of its sums" in limits, "minimal: " + limits)
    done = subprocess.run([PLUMB, "contract", "check", "-q", "--study", os.path.join(place, "check"),
                           "--"] + command, env=ENVIRONMENT, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, check=False)
    for gap in ("sites", "state_hash", "batch_hash", "checkpoint", "micro_order"):
        check(re.search("^missing +%s " % gap, done.stdout, re.M), "minimal: is told of " + gap)


def normal(text):
    """Without what differs from run to run and machine to machine: numbers, times, paths."""
    text = text.replace(sys.executable, "python3").replace(EXAMPLES + "/", "examples/pytorch/")
    text = re.sub(r"[^\s(=]*/gpt-study[^ /]*", "STUDY", text)
    text = re.sub(r"\(STUDY/.*?\.\.\.", "(STUDY...", text, flags=re.S)  # cut where the line is full
    text = re.sub(r"\b[0-9a-f]{32}\b", "ID", text)
    text = re.sub(r"[0-9.]+ min [0-9.]+ s|(?<![\w.])[0-9.]+ s\b", "TIME", text)
    return " ".join(re.sub(r"[-+]?(?<![\w.])[0-9]+(\.[0-9]+)?", "N", text).split())


def blocks():
    """(command, output) of each console block of the README."""
    with open(README, encoding="utf-8") as file:
        text = file.read()
    return text, re.findall(r"```console\n\$ ([^\n]*)\n(.*?)```", text, re.S)


def readme(place, write):
    text, shown = blocks()
    check(len(shown) > 0, "README has blocks")
    for number, (line, wanted) in enumerate(shown):
        study = os.path.join(place, "gpt-study-%d" % number)
        words = line.split()
        words = [{"plumb": PLUMB, "python3": sys.executable}.get(word, word) for word in words]
        words = [os.path.join(SOURCE, word) if word.startswith("examples/") else word
                 for word in words]
        if "diagnose" in words:
            words[2:2] = ["--study", study, "--no-html"]
        done = subprocess.run(words, env=ENVIRONMENT, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, check=False)
        seen = done.stdout.replace(sys.executable, "python3").replace(SOURCE + "/", "")
        seen = seen.replace(study, "plumb-out/gpt-study")
        text = text.replace("$ %s\n%s```" % (line, wanted), "$ %s\n%s```" % (line, seen))
        check(normal(seen) == normal(wanted), line)
        if normal(seen) != normal(wanted):
            print(seen)
    if write:
        with open(README, "w", encoding="utf-8") as file:
            file.write(text)


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
    check([kinds.count(k) for k in ("forward", "backward", "optimizer")] == [18, 36, 2], "its sites")
    with open(os.path.join(place, "metrics.jsonl"), encoding="utf-8") as file:
        last = json.loads(file.readlines()[-1])
    check("loss %.4f " % last["loss"] in outside, "the loss is what it prints")


def main():
    with tempfile.TemporaryDirectory() as place:
        for name in filter(lambda word: word != "--write", sys.argv[1:]):
            if name == "quick":
                quick(place)
            elif name == "minimal":
                minimal(place)
            elif name == "readme":
                readme(place, "--write" in sys.argv)
            else:
                diagnose(name, place)
    return 1 if failures else 0


sys.exit(main())
