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


# --- randomness -----------------------------------------------------------------------------------


MASK32, MASK64 = 2**32 - 1, 2**64 - 1


def philox(seed, stream, index):
    """Four words of Philox4x32-10: key = seed, counter = (index, stream)."""
    c = [index & MASK32, index >> 32, stream & MASK32, stream >> 32]
    k = [seed & MASK32, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK32, (a >> 32) ^ c[3] ^ k[1], a & MASK32]
        k = [(k[0] + 0x9E3779B9) & MASK32, (k[1] + 0xBB67AE85) & MASK32]
    return c


def stream_of(name):
    """FNV-1a, 64 bits."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 & MASK64
    return h


def stream_at(stream, step):
    """Output `step` of SplitMix64, whose state starts at stream."""
    z = (stream + step * 0x9E3779B97F4A7C15) & MASK64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
    return z ^ z >> 31


def stochastic(x, name, word):
    """Up with the probability of the distance: if word < floor(f 2^32)."""
    bits, least, largest = FORMATS[name]
    if x == 0:
        return F(0)
    step = F(2) ** (max(exponent(abs(x)), least) - bits)
    below = abs(x) / step // 1
    f = abs(x) / step - below
    magnitude = (below + (1 if word < f * 2**32 // 1 else 0)) * step
    assert magnitude <= largest
    return magnitude if x > 0 else -magnitude
