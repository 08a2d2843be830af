"""The casts of python/plumb_run.py beside those of libplumb: equal bytes.

    emulated.py PROGRAM [SHARE]     PROGRAM: made from emulated.c; SHARE of 10^7 fp32 inputs for each spec (0.01)

Every spec of a list (all formats, scale rules and roundings that both have) is asked for the codes, the decode scales,
the decoded values and the counts of all bf16 numbers and of fp32 numbers: random bits, values as trainers have them, and
midpoints between codes.  NaN is compared as NaN.  Spec texts, delayed scales and recipes are compared, too.
"""

import functools
import itertools
import os
import subprocess
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import plumb_run as pr  # noqa: E402

NARROW = ["e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "e3m2", "e2m3", "e2m1"]
WIDE = ["fp32", "tf32", "bf16", "fp16"]
RULES = """none none:overflow none:toward-zero none:overflow:toward-zero
static=0.37 static=1e30:overflow row:static=3 1x128:static=0.001 128x128:none
current current:overflow current:pow2 current:margin=3 current:floor=1e-3 current:toward-zero
current:pow2:margin=32:overflow:toward-zero current:divide current:divide:pow2:overflow
current:divide:floor=1e-4:margin=1 delayed delayed:overflow delayed:overflow:toward-zero
row row:pow2:floor=1e-12 row:divide:pow2 1x128 1x128:divide 1x128:divide:floor=1e-4 1x128:divide:pow2:toward-zero
1x128:pow2:margin=2:overflow 128x128 128x128:divide:floor=1e-12 128x128:pow2:overflow
mx32:mx-floor mx32:mx-ceil mx32:mx-even mx32:mx-rceil mx32:mx-floor:overflow mx32:mx-even:toward-zero""".split()
DELAYED = ["0x1p+0", "0x1.8p+9", "0x1p+100", "0x1p-140", "0x0p+0", "inf", "nan", "-0x1p+3"]
FAILURES = []


def specs():
    """Texts, and the scales of a state to try them with."""
    for form in NARROW:
        for rule in RULES + (
            ["nvfp4", "nvfp4:overflow", "nvfp4:toward-zero"] if form == "e2m1" else []
        ):
            for scale in DELAYED if "delayed" in rule else DELAYED[:1]:
                yield form + ":" + rule, scale
    for form in WIDE:
        for rule in ("", ":toward-zero") if form != "fp32" else ("",):
            yield form + rule, DELAYED[0]


class Program:
    """What libplumb says."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *words, data=b""):
        self.process.stdin.write(" ".join(str(w) for w in words).encode() + b"\n" + data)
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().split()

    def read(self, bytes_, kind):
        data = bytearray(self.process.stdout.read(bytes_))
        return torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)


def bits(x):
    """The bits of fp32 values, every NaN as one."""
    x = x.contiguous().reshape(-1)
    return torch.where(x.isnan(), torch.full_like(x.view(torch.int32), 0x7FC00000), x.view(torch.int32))


def differs(what, context, ours, theirs, x=None):
    if ours.shape == theirs.shape and bool((ours == theirs).all()):
        return
    text = "%s: %s" % (" ".join(str(c) for c in context), what)
    if ours.shape == theirs.shape:
        at = int((ours != theirs).nonzero()[0])
        text += " %d of %d differ, first [%d]: ours %s, plumb's %s" % (
            int((ours != theirs).sum()),
            ours.numel(),
            at,
            hex(int(ours[at])),
            hex(int(theirs[at])),
        )
        text += " of %s" % float(x.reshape(-1)[at]).hex() if x is not None else ""
    FAILURES.append(text)


def compare_counts(context, answer, x, decoded, text, scale):
    ours = pr.site_counts(x, decoded, text, scale)
    names = ["amax", "saturated", "flushed", "zero", "nonfinite", "scale"]
    theirs = dict(zip(names, answer[2:8]))
    for name in names:
        told = float.fromhex(theirs[name]) if name in ("amax", "scale") else int(theirs[name])
        if float(ours[name]) != told and not (told != told and ours[name].isnan()):
            FAILURES.append(
                "%s: %s is %s, plumb's %s" % (" ".join(context), name, ours[name].item(), told)
            )
    if int(ours["total"]) != x.numel():
        FAILURES.append("%s: total" % context)


def compare(program, text, state_scale, x, axis):
    rows, cols = x.shape
    context = (text, state_scale, "%dx%d" % (rows, cols), "axis %d" % axis)
    data = x.contiguous().view(torch.int32).numpy().tobytes()
    answer = program.ask("cast", text, rows, cols, axis, state_scale, data=data)
    width = int(answer[0]) // max(x.numel(), 1)
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[width]
    codes, scales = program.read(int(answer[0]), kind), program.read(4 * int(answer[1]), torch.float32)
    decoded = program.read(4 * x.numel(), torch.float32)
    state = pr.ScaleState()
    state.values[0] = float.fromhex(state_scale)
    ours = pr.encode(x, text, state, axis == 1)
    value, scale = pr._cast(x, pr.parse_spec(text), state, axis == 1)
    differs("codes", context, ours.codes.reshape(-1), codes, x)
    differs(
        "scales", context, bits(ours.scales if ours.scales is not None else scales[:0]), bits(scales)
    )
    differs("values", context, bits(value), bits(decoded), x)
    if ours.tensor_scale is not None:
        differs(
            "scale of the tensor",
            context,
            bits(ours.tensor_scale),
            bits(torch.tensor(float.fromhex(answer[8]))),
        )
    if "delayed" in text:
        differs("pending", context, bits(state.values[1]), bits(torch.tensor(float.fromhex(answer[9]))))
    compare_counts(context, answer, x, value, text, scale)


def fixed_inputs():
    """All bf16 numbers, as they lie and mixed; zeros, NaN, infinities; where nvfp4 must not divide by 6."""
    every = (torch.arange(65536, dtype=torch.int64) << 16).to(torch.int32).view(torch.float32)
    finite = every[every.isfinite()]
    shuffled = finite[torch.randperm(finite.numel(), generator=torch.Generator().manual_seed(1))]
    yield every.reshape(512, 128)
    yield finite[:65280].reshape(255, 256)
    yield shuffled.reshape(-1, 480)
    zero = torch.zeros(130, 260)
    zero[1::2] = -0.0
    yield zero
    yield torch.where(zero.abs() == 0, torch.full_like(zero, float("nan")), zero)
    mixed = every[
        torch.randperm(65536, generator=torch.Generator().manual_seed(2))[: 130 * 260]
    ].reshape(130, 260)
    mixed[:, 128:160], mixed[128:], mixed[0], mixed[:, 0] = -0.0, 0.0, float("nan"), float("-inf")
    odd = torch.tensor([0x7F800001, 0x7FFFFFFF, -0x7FFFFF, -1, 0x7F801000], dtype=torch.int32)
    mixed[5, 5:10] = odd.view(torch.float32)
    yield mixed
    near_tie = torch.full((16, 32), 0.01)
    near_tie[0, 0], near_tie[1, 0] = float.fromhex("0x1.9ce8dp+0"), float.fromhex("0x1.35ae9cp-4")
    yield near_tie


@functools.lru_cache(maxsize=10)
def fp32_inputs(n, seed, form):
    """n numbers: random bits; normal deviates with an exponent for each row; midpoints of codes and their neighbours."""
    draw = torch.Generator().manual_seed(seed)
    cols = 333 if n < 10**6 else 1000
    rows = max(n // cols, 3)
    wild = (
        torch.randint(-(2**31), 2**31, (rows, cols), generator=draw, dtype=torch.int64)
        .to(torch.int32)
        .view(torch.float32)
    )
    wild = torch.where(
        wild.abs() < (3e38 if seed % 2 else float("inf")), wild, torch.zeros_like(wild)
    )  # every second has NaN
    tame = torch.randn(rows, cols, generator=draw) * 2.0 ** torch.randint(
        -30, 12, (rows, 1), generator=draw
    )
    steps = torch.randint(0, 2 << min(form.bits, 12), (rows, cols), generator=draw)
    half = _midpoints(form, steps) * 2.0 ** torch.randint(-2, 3, (rows, 1), generator=draw)
    near = torch.randint(-1, 2, (rows, cols), generator=draw, dtype=torch.int32)
    half = (half.view(torch.int32) + near * (half > 0)).view(torch.float32) * (1 - 2 * (steps % 2))
    kinds = torch.arange(rows)[:, None] * 3 // rows
    return torch.where(kinds == 0, wild, torch.where(kinds == 1, tame, half))


def _midpoints(form, steps):
    """The values and midpoints that lie `steps` half steps above zero, counted through the exponents."""
    fraction = form.fraction_bits + 1
    exponent = (steps >> fraction).clamp(min=1)
    significand = (steps & ((1 << fraction) - 1)) + ((steps >> fraction) > 0) * (1 << fraction)
    exponent = exponent % (2**form.exponent_bits) + form.emin - 1 - fraction
    return (significand.double() * 2.0 ** exponent.double()).float()


def compare_casts(program, share):
    fixed, asked = list(fixed_inputs()), 0
    for text, scale in specs():
        turning = pr.parse_spec(text).grain not in ("tensor", "128x128")
        for axis in (0, 1) if turning else (0,):
            for x in fixed:
                compare(program, text, scale, x, axis)
        left, seed = int(1e7 * share) // (8 if "delayed" in text else 1), 1
        while left > 0:
            x = fp32_inputs(min(left, 10**6), seed, pr.FORMATS[text.split(":")[0]])
            compare(program, text, scale, x, seed % 2 if turning else 0)
            left, seed = left - x.numel(), seed + 1
            asked += x.numel()
    print("# %d specs and states, %d fp32 inputs" % (len(list(specs())), asked))


def compare_texts(program):
    """All pairs of attributes behind some formats, with and without a base."""
    words = list(pr._WORDS)
    words = [
        w + v
        for w in words
        for v in (("0.5", "1e-4", "0", "3", "1.5e-45", "") if w.endswith("=") else ("",))
    ]
    bases = [
        "-",
        "e4m3:1x128:divide:floor=1e-4:overflow",
        "e5m2:delayed:history=7:recent:margin=2:pow2",
        "e2m1:nvfp4",
        "bf16",
        "e4m3:static=0.1:toward-zero",
        "e4m3:mx32:mx-even",
    ]
    pairs = (
        [""] + [":" + a for a in words] + [":%s:%s" % pair for pair in itertools.product(words, words)]
    )
    count = 0
    over = [("e4m3", base) for base in bases]
    over += itertools.product(["fp32", "bf16", "e2m1"], bases[:2])
    for (form, base), pair in itertools.product(over, pairs):
        text = form + pair
        theirs = program.ask("parse", text, base)[0]
        try:
            ours = pr.spec_text(pr.parse_spec(text, None if base == "-" else base))
        except ValueError:
            ours = "refused"
        count += 1
        if ours != theirs:
            FAILURES.append("%s over %s: %s, plumb's %s" % (text, base, ours, theirs))
    for text in (
        "e4m3:history=1024:delayed",
        "e4m3:delayed:history=1025",
        "e4m3:margin=33",
        "e6m9",
        "e4m3:",
        "e4m3:currant",
        "E4M3",
        "e8m0",
        "e4m3:static=3.402823466e38",
        "e4m3:static=3.5e38",
        "e4m3:static=1.17549435e-38",
        "e4m3:static",
        "e4m3:static=1e-9",
        "e4m3:static=12345678.9",
        "e4m3:static=0.000123456789",
        "e4m3:static=1234567890123456",
        "e4m3:static=0001.50e+2",
        "e4m3:static=.5",
        "e4m3:static=5.",
        "e4m3:static=1e-001",
        "e4m3:" + "rne:" * 40,
    ):
        theirs = program.ask("parse", text, "-")[0]
        try:
            ours = pr.spec_text(pr.parse_spec(text))
        except ValueError:
            ours = "refused"
        if ours != theirs:
            FAILURES.append("%s: %s, plumb's %s" % (text, ours, theirs))
    print("# %d spec texts" % count)


def compare_numbers(program):
    draw = torch.Generator().manual_seed(5)
    for value in torch.exp2(torch.rand(2000, generator=draw) * 250 - 125).tolist():
        text = "e4m3:static=%.*g" % (int(value * 1e6) % 9 + 1 if value < 1e6 else 9, value)
        ours, theirs = pr.spec_text(pr.parse_spec(text)), program.ask("parse", text, "-")[0]
        if ours != theirs:
            FAILURES.append("%s: %s, plumb's %s" % (text, ours, theirs))


def compare_updates(program):
    draw = torch.Generator().manual_seed(7)
    amax = torch.randn(200, generator=draw).abs() * 2.0 ** torch.randint(-8, 8, (200,), generator=draw)
    amax[::17], amax[5], amax[40], amax[41], amax[90:93] = 0.0, -1.0, float("inf"), 1e-44, 3e38
    for rule in (
        "history=1",
        "history=3:recent",
        "history=16:margin=2:pow2",
        "history=1024",
        "recent:floor=1e-1",
        "history=4",
    ):
        text = "e5m2:delayed:" + rule
        program.ask("update", text, amax.numel(), data=amax.numpy().tobytes())
        theirs, state, scales = program.read(4 * amax.numel(), torch.float32), pr.ScaleState(), []
        for value in amax:
            state.values[1] = value
            state.update(pr.parse_spec(text))
            scales.append(float(state.values[0]))
        differs("scales", (text,), bits(torch.tensor(scales)), bits(theirs))


def compare_recipes(program):
    """What presets say of a layer, of the head and of moments; what they do not say of moments is fp32."""
    for name in pr.RECIPES:
        linear, moments = pr.recipe_precision(name)
        asked = [("layer.1/attn.q/" + part, text) for part, text in linear.items()]
        asked += [("head/" + part, "bf16") for part in linear]
        asked += [("layer.1/attn.q/optimizer/" + part, text) for part, text in moments.items()]
        for site, text in asked:
            ours = pr.spec_text(pr.parse_spec(text))
            theirs = program.ask("recipe", name, site, "fp32" if "optimizer" in site else "bf16")[0]
            if ours != theirs:
                FAILURES.append("%s of %s: %s, plumb's %s" % (site, name, ours, theirs))


def main():
    torch.set_num_threads(1)
    program = Program(sys.argv[1])
    compare_texts(program)
    compare_numbers(program)
    compare_updates(program)
    compare_recipes(program)
    compare_casts(program, float(sys.argv[2]) if len(sys.argv) > 2 else 0.01)
    for line in FAILURES[:40]:
        print("# " + line)
    print("%s 1 - %d differences\n1..1" % ("not ok" if FAILURES else "ok", len(FAILURES)))
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
