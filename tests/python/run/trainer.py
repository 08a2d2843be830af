"""A small trainer without PyTorch for the tests of plumb_run: one weight learns to be 3 through a cast
to few bits, with a layer that has a `precision`.  What it promises comes from the command line.
"""
import math
import os
import random
import signal
import sys
import time

if "--torch" not in sys.argv:
    sys.modules["torch"] = None  # as if it were not installed
sys.path.insert(0, os.path.join(os.environ["PLUMB_SOURCE_DIR"], "python"))
import plumb_run

STEPS, MICRO = 30, 8


class Layer:
    precision_name = "gemm"
    precision_uses = ("bf16", "e4m3")

    def __init__(self, fault):
        self.precision = {"fprop/w": "e4m3:current", "dgrad/dy": "e4m3:current"}
        self.fault = fault

    def cast(self, x, part):
        bits = 8 if self.precision[part] == "bf16" else 4 if part == "fprop/w" else 7
        if not math.isfinite(x):
            return x
        fraction, exponent = math.frexp(x)
        x = math.ldexp(round(math.ldexp(fraction, bits)), exponent - bits)
        return x * 40 if self.fault == part and bits < 8 else x


def option(name, otherwise=""):
    return next((a[len(name) + 3:] for a in sys.argv if a.startswith("--%s=" % name)), otherwise)


def fork(step):
    """Two children, as workers of a data loader: one is ended by SIGTERM, one ends of itself."""
    if option("forks") != str(step):
        return
    for naps in (True, False):
        child = os.fork()
        if child == 0:
            time.sleep(30 if naps else 0)
            sys.exit(0)
        if naps:
            time.sleep(0.2)
            os.kill(child, signal.SIGTERM)
        status = os.waitpid(child, 0)[1]
        if (os.WTERMSIG(status) if naps else status) != (signal.SIGTERM if naps else 0):
            sys.exit(9)


def main():
    layer = Layer(option("fault"))
    promises = option("promises").replace(",", " ")
    own = plumb_run.seed(1) if "--seedless" not in sys.argv else 1
    run = plumb_run.start(layer, promises=promises, schedule_steps=STEPS, trainer="one weight",
                          patience=float(option("patience", "300")))
    weight, rate = random.Random(own).uniform(-1, 1), 0.3
    if "lr_scale" in promises and "--forgets" not in sys.argv:
        rate = run.lr(rate)
    seed = run.data_seed(7) if "data_seed" in promises and "--forgets" not in sys.argv else 7
    for step in range(run.first_step, STEPS + 1):
        fork(step)
        order = run.micro_order(MICRO) if "micro_order" in promises else range(MICRO)
        batch = run.batch_number(step) if "skip" in promises else step
        data = random.Random("%d %d" % (seed, batch))
        micro = [data.uniform(0.5, 1) for _ in range(MICRO)]
        loss = grad = 0.0
        for k in order:
            if "batch_hash" in promises:
                run.batch([micro[k]])
            error = (layer.cast(weight, "fprop/w") - 3) * micro[k]
            loss += error * error / MICRO
            grad += layer.cast(error, "dgrad/dy") * micro[k] / MICRO
        weight = min(max(weight - rate * grad, -1e200), 1e200)
        if option("raises") == str(step):
            raise ValueError("the disk is full\nand more")
        if option("exits") == str(step):
            sys.exit(5)
        if option("hangs") == str(step):
            time.sleep(60)
        loss = math.nan if option("nan") == str(step) else loss
        run.log(step, loss, grad_norm=abs(grad), state=[weight], word=option("word") or None)
        if option("kills") == str(step):
            os.kill(os.getpid(), signal.SIGTERM)
        if option("nan") == str(step) or run.should_stop(step):
            break
    if "--endless" not in sys.argv:
        run.end()


main()
