"""Golden values of sums and elements that are rounded as they are computed, in exact rational arithmetic.

squares   terms and partial sums of the squares of a row, by index
softmax   scores of a row (times the scale); numerators exp(s - max) rounded one by one, their sum rounded
          term by term, and the quotient in fp32
loss      the sum of equal losses, log 256 each

    python3 tests/model/casts.py > tests/model/casts.csv
"""
import random
import sys
from decimal import Decimal, getcontext
from fractions import Fraction as F
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from exact import fp32, hex32, rounded

getcontext().prec = 60


def cast(x, name, scale):
    """Through the format with an encode scale that is a power of two."""
    return rounded(x * scale, name) / scale


def sum_in(terms, name, scale=F(1)):
    if name == "fp32":
        total = sum(terms, F(0))
        assert fp32(total) == total
        return total
    terms = [cast(x, name, scale) for x in terms]
    total = terms[0]
    for x in terms[1:]:
        total = cast(fp32(total + x), name, scale)
    return total


def squares(draw):
    for name, scale, size in [("e4m3", 1, 4), ("e4m3", 1, 24), ("e5m2", 1, 8), ("bf16", 1, 8),
                              ("fp16", 1, 40), ("e4m3", F(1, 16), 24), ("e5m2", 256, 1)]:
        x = [F(draw.randint(-16 * size, 16 * size), 16) for _ in range(16)]
        total = sum_in([fp32(a * a) for a in x], name, F(scale))
        spec = name if name in ("bf16", "fp16") else name + (
            ":none" if scale == 1 else ":static=" + format(float(scale), "g"))
        print(",".join(["squares", spec, hex32(total)] + [hex32(a) for a in x]))


def exponential(x):
    """exp of a rational, to 60 digits; never near a tie of the formats used here."""
    return F(*(Decimal(x.numerator) / Decimal(x.denominator)).exp().as_integer_ratio())


def softmax(draw):
    for numerator, sums in [("e4m3", "e4m3"), ("e4m3", "fp32"), ("bf16", "e4m3"), ("e5m2", "e5m2"),
                            ("bf16", "bf16"), ("e5m2", "bf16")]:
        for count in (1, 7, 40):
            scores = [F(draw.choice([0, 0, -1, -2, -5, -9, -16, -64]), draw.choice([1, 2, 4]))
                      for _ in range(count)]
            most = max(scores)
            e = [rounded(exponential(s - most), numerator) for s in scores]
            total = sum_in(e, sums)
            specs = [s if s in ("bf16", "fp32") else s + ":none" for s in (numerator, sums)]
            print(",".join(["softmax"] + specs + [str(count)] + [hex32(s) for s in scores]
                           + [hex32(fp32(x / total)) for x in e]))


def loss():
    log256 = F(*(Decimal(256).ln()).as_integer_ratio())
    for name in ("bf16", "fp16", "e4m3"):
        for count in (4, 64):
            print(",".join(["loss", name if name != "e4m3" else "e4m3:none", str(count),
                            hex32(sum_in([fp32(log256)] * count, name))]))


def main():
    print("# python3 tests/model/casts.py > tests/model/casts.csv")
    print("# squares,spec,sum,16 values; softmax,numerator,sum,count,scores,probabilities; "
          "loss,spec,tokens,sum")
    draw = random.Random(3)
    squares(draw)
    softmax(draw)
    loss()


main()
