"""Rounding to number formats in exact rational arithmetic: the oracle of the golden files beside it.

It knows the formats by their bits (significand, exponents, largest value) and shares nothing with the
code under test.  Values are fractions.Fraction; None stands for what no test here reaches.
"""
from fractions import Fraction as F

# name: bits after the leading one, smallest normal exponent, largest finite value
FORMATS = {
    "fp32": (23, -126, F(2) ** 128 - F(2) ** 104),
    "bf16": (7, -126, F(2) ** 128 - F(2) ** 120),
    "fp16": (10, -14, F(65504)),
    "e4m3": (3, -6, F(448)),
    "e5m2": (2, -14, F(57344)),
    "e3m2": (2, -2, F(28)),
    "e2m3": (3, 0, F(15, 2)),
    "e2m1": (1, 0, F(6)),
}


def exponent(x):
    """floor(log2 x) for x > 0."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if F(2) ** e <= x else e - 1


def nearest_even(x):
    """The integer nearest to x >= 0, ties to even."""
    below = x.numerator // x.denominator
    rest = x - below
    return below + (1 if rest > F(1, 2) or (rest == F(1, 2) and below % 2 == 1) else 0)


def rounded(x, name):
    """x in the format, ties to even, saturating."""
    bits, least, largest = FORMATS[name]
    if x == 0:
        return F(0)
    step = F(2) ** (max(exponent(abs(x)), least) - bits)
    magnitude = min(nearest_even(abs(x) / step) * step, largest)
    return magnitude if x > 0 else -magnitude


def fp32(x):
    return rounded(x, "fp32")


def hex32(x):
    """x, which must be an fp32 number, as C writes it."""
    assert fp32(x) == x, x
    digits, power = float(x).hex().split("p")
    return (digits.rstrip("0").rstrip(".") if x else "0x0") + "p" + power


def lanes(terms):
    """Sum of at most 16 fp32 numbers in the lane order of plumb/reduce.h."""
    lane = list(terms) + [F(0)] * (16 - len(terms))
    half = 8
    while half:
        lane = [fp32(lane[i] + lane[i + half]) for i in range(half)]
        half //= 2
    return lane[0]
