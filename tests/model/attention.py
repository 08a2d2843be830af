"""Golden values of attention with operands in few bits, in exact rational arithmetic.

Scores are either the largest of their row or so far below it that their exponential is 0, and 1, 2 or
4 of a row are the largest, so that every probability is 1, 1/2, 1/4 or 0.  All other numbers are small
dyadic ones.  So nothing is rounded but the operands, and the order of sums does not matter.

    python3 tests/model/attention.py > tests/model/attention.csv
"""
import random
import sys
from fractions import Fraction as F
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from exact import FORMATS, fp32, hex32, lanes, rounded

T, D, HEADS = 6, 4, 2
SCALE = F(1, 2)  # 1 / sqrt(D)
ROLES = ["qk/q", "qk/k", "pv/p", "pv/v", "dp/do", "dp/v", "dv/p", "dv/do", "dq/ds", "dq/k", "dk/ds",
         "dk/q"]
ALONG_ROWS = {"pv/v", "dv/p", "dv/do", "dq/k", "dk/ds", "dk/q"}  # the product contracts the row index


def few(count):
    return count in (1, 2, 4)


def signs(draw):
    """Of keys and queries, such that each row has 1, 2 or 4 largest scores."""
    while True:
        key = [draw.choice([1, -1]) for _ in range(T)]
        query = [draw.choice([1, -1]) for _ in range(T)]
        ties = [sum(k == query[i] for k in key[:i + 1]) or i + 1 for i in range(T)]
        if all(map(few, ties)):
            return key, query


def dyadic(draw):
    return F(draw.randint(-63, 63), 16)


def inputs(seed):
    """q, k, v, do of each head: column 0 makes the scores, of 2 and 3 only k and q have something."""
    draw = random.Random(seed)
    heads = []
    for _ in range(HEADS):
        key, query = signs(draw)
        q = [[F(16 * s), F(0), F(0), dyadic(draw)] for s in query]
        k = [[F(16 * s), F(0), dyadic(draw), F(0)] for s in key]
        v = [[dyadic(draw) for _ in range(D)] for _ in range(T)]
        do = [[dyadic(draw) for _ in range(D)] for _ in range(T)]
        heads.append({"q": q, "k": k, "v": v, "do": do})
    return heads


# --- operands: (codes, decode scale of each element) -----------------------------------------


def scale_of(amax, largest):
    return fp32(largest / amax) if amax else F(1)


def quantise(matrices, spec, along_rows):
    """All heads of one operand.  spec: format and what shares a scale (none, tensor, line)."""
    name, grain = spec
    largest = FORMATS[name][2]
    everything = max(abs(x) for m in matrices for row in m for x in row)
    result = []
    for m in matrices:
        rows, columns = len(m), len(m[0])

        def encode_scale(i, j):
            if grain == "none":
                return F(1)
            if grain == "tensor":
                return scale_of(everything, largest)
            line = [m[r][j] for r in range(rows)] if along_rows else m[i]
            return scale_of(max(map(abs, line)), largest)

        s = [[encode_scale(i, j) for j in range(columns)] for i in range(rows)]
        codes = [[rounded(fp32(m[i][j] * s[i][j]), name) for j in range(columns)] for i in range(rows)]
        d = None if grain == "none" else [[fp32(1 / x) for x in row] for row in s]
        result.append((codes, d))
    return result


def turned(m):
    return None if m is None else [list(row) for row in zip(*m)]


def product(a, b):
    """a b^T of rows: exact sums of codes, then the scales, as plumb/matmul.h joins them."""
    (codes_a, d_a), (codes_b, d_b) = a, b
    out = []
    for i, x in enumerate(codes_a):
        row = []
        for j, y in enumerate(codes_b):
            total = sum(p * q for p, q in zip(x, y))
            if d_a is not None or d_b is not None:
                factor = fp32((d_a[i][0] if d_a else F(1)) * (d_b[j][0] if d_b else F(1)))
                total = fp32(total * factor)
            row.append(fp32(total))
            assert d_a is not None or d_b is not None or row[-1] == total
        out.append(row)
    return out


def flip(operand):
    return turned(operand[0]), turned(operand[1])


# --- attention ---------------------------------------------------------------------------------


def softmax(scores):
    p = []
    for i, row in enumerate(scores):
        seen = row[:i + 1]
        most = max(seen)
        assert all(s == most or (s - most) * SCALE < -110 for s in seen)
        ties = sum(s == most for s in seen)
        assert few(ties)
        p.append([F(1, ties) if j <= i and row[j] == most else F(0) for j in range(T)])
    return p


def attention(heads, spec, delta):
    def operand(role, name):
        return quantise([h[name] for h in heads], spec[role], role in ALONG_ROWS)

    q, k = operand("qk/q", "q"), operand("qk/k", "k")
    for h in range(HEADS):
        heads[h]["p"] = softmax(product(q[h], k[h]))
    p, v = operand("pv/p", "p"), operand("pv/v", "v")
    for h in range(HEADS):
        heads[h]["o"] = product(p[h], flip(v[h]))
    do, v, p, do2 = operand("dp/do", "do"), operand("dp/v", "v"), operand("dv/p", "p"), operand("dv/do", "do")
    for h, head in enumerate(heads):
        dp = product(do[h], v[h])
        head["dv"] = product(flip(p[h]), flip(do2[h]))
        exact_dp = product((head["do"], None), (head["v"], None))
        exact_p = softmax(product((head["q"], None), (head["k"], None)))
        ds = []
        for i in range(T):
            if delta == "matched":
                d = lanes([fp32(x * y) for x, y in zip(head["p"][i], dp[i])])
            elif delta == "output":
                d = lanes([fp32(x * y) for x, y in zip(head["do"][i], head["o"][i])])
            else:
                d = fp32(sum(x * y for x, y in zip(exact_p[i], exact_dp[i])))
            ds.append([fp32(fp32(x * fp32(y - d)) * SCALE) for x, y in zip(head["p"][i], dp[i])])
        head["ds"] = ds
    ds, k, ds2, q = operand("dq/ds", "ds"), operand("dq/k", "k"), operand("dk/ds", "ds"), operand("dk/q", "q")
    for h, head in enumerate(heads):
        head["dq"] = product(ds[h], flip(k[h]))
        head["dk"] = product(flip(ds2[h]), flip(q[h]))
    return heads


def everywhere(name, grain):
    return {role: (name, grain) for role in ROLES}


def with_one(role, name, grain="none"):
    return {**everywhere("fp32", "none"), role: (name, grain)}


MIXED = {"qk/q": ("e5m2", "none"), "qk/k": ("bf16", "none"), "pv/p": ("e2m1", "none"),
         "pv/v": ("e4m3", "none"), "dp/do": ("e3m2", "none"), "dp/v": ("e5m2", "none"),
         "dv/p": ("fp32", "none"), "dv/do": ("e4m3", "none"), "dq/ds": ("e4m3", "none"),
         "dq/k": ("e3m2", "none"), "dk/ds": ("e5m2", "none"), "dk/q": ("e2m3", "none")}

CASES = [("all-e4m3", everywhere("e4m3", "none"), "matched"),
         ("all-e5m2", everywhere("e5m2", "none"), "output"),
         ("all-e5m2-exact", everywhere("e5m2", "none"), "exact"),
         ("mixed", MIXED, "matched"),
         ("mixed-output", MIXED, "output"),
         ("tensor", everywhere("e4m3", "tensor"), "matched"),
         ("lines", everywhere("e4m3", "line"), "matched"),
         ("lines-e5m2", everywhere("e5m2", "line"), "output")]
CASES += [("only-" + role.replace("/", "-"), with_one(role, "e3m2"), "matched") for role in ROLES]


def written(spec):
    name, grain = spec
    if name in ("fp32", "bf16"):
        return name
    return name + {"none": ":none", "tensor": ":tensor:current", "line": ":1x128:current"}[grain]


def show(heads, names):
    for name in names:
        for h, head in enumerate(heads):
            for i, row in enumerate(head[name]):
                print(",".join([name, str(h), str(i)] + [hex32(x) for x in row]))


def main():
    print("# python3 tests/model/attention.py > tests/model/attention.csv")
    print("# tensor,head,row,values; then of each case its delta, the specs of the twelve sites, and results")
    show(inputs(1), ["q", "k", "v", "do"])
    for case, spec, delta in CASES:
        print(",".join(["case", case, delta] + [written(spec[role]) for role in ROLES]))
        show(attention(inputs(1), spec, delta), ["o", "dq", "dk", "dv"])


main()
