"""What tests of the emulation share: casts in NumPy, from a list of all values of a format, and lines of TAP."""

import numpy as np

LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}


def magnitudes(form):
    """All finite magnitudes, ascending."""
    exponent_bits, fraction_bits, bias = {"e4m3": (4, 3, 7), "e5m2": (5, 2, 15)}[form]
    values = [m * 2.0 ** (1 - bias - fraction_bits) for m in range(2**fraction_bits)]
    for exponent in range(1, 2**exponent_bits):
        values += [
            (1 + m / 2**fraction_bits) * 2.0 ** (exponent - bias) for m in range(2**fraction_bits)
        ]
    return np.array([v for v in values if v <= LARGEST[form]])


def nearest(x, form):
    """To the nearest value, a tie to the even code, saturating; numbers only."""
    values = magnitudes(form)
    size = np.minimum(np.abs(x).astype(np.float64), values[-1])
    high = np.searchsorted(values, size)
    low = np.maximum(high - 1, 0)
    to_low, to_high = size - values[low], values[high] - size
    code = np.where(
        to_low < to_high, low, np.where(to_high < to_low, high, np.where(low % 2 == 0, low, high))
    )
    return np.copysign(values[code], x)


def quantised(x, form, block=None, scale=None, pow2=False):
    """x in fp64 after a cast in blocks of (height, width), scaled by the amax of each in fp32, or by a scale."""
    rows, cols = x.shape
    height, width = block or (rows, cols)
    out = np.zeros((rows, cols))
    for r in range(0, rows, height):
        for c in range(0, cols, width):
            part = x[r : r + height, c : c + width].astype(np.float32)
            amax = np.abs(part).max()
            s = np.float32(LARGEST[form]) / amax if scale is None else np.float32(scale)
            s = np.float32(1) if scale is None and amax == 0 else s
            s = np.float32(2.0 ** np.floor(np.log2(np.float64(s)))) if pow2 else s
            d = np.float32(1) / s
            out[r : r + height, c : c + width] = (
                nearest(part * s, form).astype(np.float32) * d
            ).astype(np.float64)
    return out


def agree(ours, a, b):
    """ours = a b, both fp64, within the bound of sums in fp32."""
    bound = a.shape[1] * 2.0**-23 * (np.abs(a) @ np.abs(b)) + 1e-30
    return bool((np.abs(ours.detach().double().numpy() - a @ b) <= bound).all())


CHECKS = []


def check(name, holds, seen=""):
    CHECKS.append(bool(holds))
    print(
        "%s %d - %s%s"
        % ("ok" if holds else "not ok", len(CHECKS), name, "" if holds else " # %s" % (seen,))
    )


def finish():
    print("1..%d" % len(CHECKS))
    return 0 if all(CHECKS) else 1
