"""Golden values of what a run carries over and sends in few bits, in exact rational arithmetic: moments
and weights of AdamW after three steps, and all-reduces over five ranks.

    python3 tests/train/state.py > tests/train/state.csv
"""
import random
import sys
from fractions import Fraction as F
from math import isqrt
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from exact import FORMATS, fp32, hex32, philox, rounded, stochastic, stream_at, stream_of

# As tests/train/test_state.c asks for them.
NAME, N, RANKS, SEED = "layer.0/mlp.up", 160, 5, 1
LR, WARMUP, EPS, DECAY, BETA1, BETA2 = 0.25, 1000, 1e-8, 0.1, 0.9, 0.95


def f32(x):
    return fp32(F(x))


def root(x):
    """The fp32 number nearest to the root of x."""
    shift = 4 ** 120
    whole = isqrt(x.numerator * shift * x.denominator)
    exact = whole * whole == x.numerator * shift * x.denominator
    return fp32((F(whole) + (0 if exact else F(1, 2))) / (2 ** 120 * x.denominator))


# --- codes and back ---------------------------------------------------------------------------------


def groups(n, grain):
    length = {"tensor": n, "none": n, "1x128": 128}[grain]
    return [range(i, min(i + length, n)) for i in range(0, n, length)]


def through(x, spec, draw=None):
    """A tensor as its codes have it.  draw: seed and stream of a stochastic rounding."""
    words = spec.split(":")
    name, grain = words[0], words[1] if len(words) > 1 else "none"
    if name == "fp32":
        return list(x)
    if grain == "stochastic":
        w = [philox(*draw, i // 4)[i % 4] for i in range(len(x))]
        return [stochastic(a, name, b) for a, b in zip(x, w)]
    out = list(x)
    for group in groups(len(x), grain):
        amax = max(abs(x[i]) for i in group)
        s = F(1) if grain == "none" or amax == 0 else fp32(FORMATS[name][2] / amax)
        for i in group:
            out[i] = fp32(rounded(fp32(x[i] * s), name) * fp32(1 / s))
    return out


# --- AdamW --------------------------------------------------------------------------------------------


def draw_of(what, step):
    return SEED, stream_at(stream_of(NAME + "/optimizer/" + what), step)


def adam(weights, gradients, specs, unrounded):
    b1, b2, eps, decay = f32(BETA1), f32(BETA2), f32(EPS), f32(DECAY)
    m, v = [F(0)] * N, [F(0)] * N
    w = through(weights, specs["master"], draw_of("master", 0))
    power1 = power2 = 1.0
    for step, gradient in enumerate(gradients, 1):
        power1, power2 = power1 * BETA1, power2 * BETA2
        unbias1, unbias2 = f32(1 / (1 - power1)), f32(1 / (1 - power2))
        lr = f32(LR * step / WARMUP)
        m = [fp32(fp32(b1 * a) + fp32(fp32(1 - b1) * g)) for a, g in zip(m, gradient)]
        v = [fp32(fp32(b2 * a) + fp32(fp32(fp32(1 - b2) * g) * g)) for a, g in zip(v, gradient)]
        fresh = m, v
        m, v = through(m, specs["m"], draw_of("m", step)), through(v, specs["v"], draw_of("v", step))
        for i, (a, b) in enumerate(zip(*(fresh if unrounded else (m, v)))):
            update = fp32(fp32(a * unbias1) / fp32(root(fp32(b * unbias2)) + eps))
            w[i] = fp32(w[i] - fp32(lr * fp32(update + fp32(decay * w[i]))))
        w = through(w, specs["master"], draw_of("master", step))
    return m, v, w


CASES = [("fp32", "fp32", "fp32", False),
         ("bf16", "bf16", "fp32", False),
         ("fp16", "fp16", "fp32", False),
         ("e4m3:tensor", "e5m2:tensor", "fp32", False),
         ("e4m3:tensor", "e4m3:tensor", "fp32", True),
         ("e4m3:1x128", "e4m3:1x128", "fp32", False),
         ("e5m2:none", "e5m2:none", "bf16", False),
         ("bf16:stochastic", "fp32", "bf16:stochastic", False)]


# --- all-reduces ------------------------------------------------------------------------------------------


def ordered(order, parts, add):
    """parts by rank, for one piece that a ring begins with rank `parts[0]`."""
    parts = list(parts)
    if order in ("sequential", "ring"):
        total = parts[0]
        for x in parts[1:]:
            total = add(total, x)
        return total
    if order == "tree":
        d = 1
        while d < len(parts):
            for r in range(0, len(parts) - d, 2 * d):
                parts[r] = add(parts[r], parts[r + d])
            d *= 2
        return parts[0]
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return add(ordered(order, parts[:half], add), ordered(order, parts[half:], add))


def reduce_(shares, spec, order, headroom, scale):
    name, grain = (spec.split(":") + ["none"])[:2]
    amax = max(abs(x) for share in shares for x in share)
    if scale == "shared" and grain == "tensor":
        room = {"ranks": F(RANKS), "sqrt": root(F(RANKS)), "none": F(1)}[headroom]
        s = fp32(FORMATS[name][2] / fp32(room * amax))
    else:
        s = F(1)

    def cast(x):
        if scale == "own":
            return through(x, spec)
        if name == "fp32":
            return x
        return [fp32(rounded(fp32(a * s), name) * fp32(1 / s)) for a in x]

    def add(a, b):
        return cast([fp32(x + y) for x, y in zip(a, b)])

    length = -(-N // RANKS) if order == "ring" else N
    out = []
    for c in range(-(-N // length)):
        first = (c + 1) % RANKS if order == "ring" else 0
        ranks = [(first + i) % RANKS for i in range(RANKS)]
        out += ordered(order, [cast(shares[r][c * length:(c + 1) * length]) for r in ranks], add)
    return out


REDUCES = [(spec, order, headroom, scale)
           for spec, headroom, scale in [("fp32", "ranks", "shared"), ("bf16", "ranks", "shared"),
                                         ("e4m3:tensor", "ranks", "shared"), ("e5m2:tensor", "sqrt", "shared"),
                                         ("e4m3:tensor", "none", "shared"), ("e4m3:none", "ranks", "shared"),
                                         ("e4m3:tensor", "ranks", "own"), ("e5m2:1x128", "ranks", "own")]
           for order in ("sequential", "ring", "tree", "pairwise")]


# --- the file -----------------------------------------------------------------------------------------------


def line(*fields):
    print(",".join(f if isinstance(f, str) else hex32(f) for f in fields))


def main():
    draw = random.Random(11)

    def numbers(spread):
        return [F(draw.randint(-255, 255)) * F(2) ** -draw.randint(8, 8 + spread) for _ in range(N)]

    print("# python3 tests/train/state.py > tests/train/state.csv")
    print("# inputs; then adam,m,v,master,update_from and m, v, w after three steps; "
          "reduce,wire,order,headroom,scale and the sum")
    weights, gradients = numbers(4), [numbers(16) for _ in range(3)]
    shares = [numbers(8) for _ in range(RANKS)]
    line("weights", *weights)
    for g in gradients:
        line("gradient", *g)
    for share in shares:
        line("share", *share)
    for m, v, master, unrounded in CASES:
        line("adam", m, v, master, "unrounded" if unrounded else "stored")
        for name, x in zip(("m", "v", "w"),
                           adam(weights, gradients, {"m": m, "v": v, "master": master}, unrounded)):
            line(name, *x)
    for case in REDUCES:
        line("reduce", *case)
        line("sum", *reduce_(shares, *case))


main()
