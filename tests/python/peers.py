"""plumb's formats beside those of ml_dtypes, NumPy, gfloat and, where it is installed, PyTorch.

    peers.py FOLDER [--write]     FOLDER: what dump wrote

Every code is decoded and every input rounded by both.  Where they differ the difference must be in
differences.csv with a reason, and all that is listed there must be seen: a difference that appears or
disappears fails.  --write rewrites the list and keeps the reasons; new rows say "?" and fail until
somebody has looked at them.  PyTorch's rules for what is out of range change with its version, so it is
compared within the range and not listed.
"""

import csv
import importlib
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "differences.csv")
FIELDS = ["peer", "format", "mode", "case", "count", "input", "ours", "theirs", "why"]

ML_DTYPES = {
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
    "e3m2": "float6_e3m2fn",
    "e2m3": "float6_e2m3fn",
    "e2m1": "float4_e2m1fn",
    "e8m0": "float8_e8m0fnu",
    "bf16": "bfloat16",
}
GFLOAT = {
    "e4m3": "format_info_ocp_e4m3",
    "e5m2": "format_info_ocp_e5m2",
    "e3m2": "format_info_ocp_e3m2",
    "e2m3": "format_info_ocp_e2m3",
    "e2m1": "format_info_ocp_e2m1",
    "e8m0": "format_info_ocp_e8m0",
    "fp16": "format_info_binary16",
    "bf16": "format_info_bfloat16",
}
TORCH = {
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
    "bf16": "bfloat16",
    "fp16": "float16",
}
FORMATS = ["bf16", "fp16", "e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "e3m2", "e2m3", "e2m1", "e8m0"]
WITHOUT_NAN = ("e3m2", "e2m3", "e2m1")
CODES_OF = {"bf16": 65536, "fp16": 65536, "e3m2": 64, "e2m3": 64, "e2m1": 16}


class Tables:
    """What dump wrote for one format."""

    def __init__(self, folder, name):
        def read(what, kind):
            return np.fromfile(os.path.join(folder, f"{name}.{what}"), dtype=kind)

        self.name = name
        self.values = read("values", np.float32)
        self.inputs = read("inputs", np.float32)
        self.rounded = {
            mode: self.values[read(mode, np.uint32)]
            for mode in ("nearest", "nearest-saturating", "zero", "zero-saturating")
        }
        finite = np.unique(np.abs(self.values[np.isfinite(self.values)]).astype(np.float64))
        self.largest = finite[-1]
        self.least = finite[finite > 0][0]
        self.ties = (finite[1:] + finite[:-1]) / 2


def classes(t):
    """The kind of each input, for the list of differences."""
    x = t.inputs.astype(np.float64)
    size = np.abs(x)
    sign = np.where(np.signbit(x), "negative ", "")
    kinds = np.select(
        [
            np.isnan(x),
            np.isinf(x),
            x == 0,
            size > t.largest,
            size < t.least,
            np.isin(size, t.ties),
        ],
        ["NaN", "infinity", "zero", "above the largest", "below the least", "tie"],
        "between",
    )
    return np.where(np.isnan(x), "NaN", np.char.add(sign, kinds))


def same(a, b):
    """Equal as values: NaN is one, the zeros are two."""
    a = a.astype(np.float64)
    b = b.astype(np.float64)
    return (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))


def differ(peer, name, mode, kinds, inputs, ours, theirs):
    """One row for each kind of input that comes out differently."""
    rows = []
    wrong = ~same(ours, theirs)
    for kind in sorted(set(kinds[wrong])):
        at = np.flatnonzero(wrong & (kinds == kind))
        first = at[0]
        row = [peer, name, mode, kind, len(at)]
        row += [float(v[first]) for v in (inputs, ours, theirs)]
        rows.append([f"{v:.9g}" if isinstance(v, float) else str(v) for v in row])
    return rows


def codes(t):
    return np.arange(CODES_OF.get(t.name, 256))


def decoded(peer, t, theirs):
    all_codes = codes(t)
    kinds = np.full(len(all_codes), "code")
    ours = t.values[all_codes]
    return differ(peer, t.name, "decode", kinds, all_codes.astype(np.float32), ours, theirs)


def with_numpy_type(peer, t, kind):
    raw = np.uint16 if t.name in ("bf16", "fp16") else np.uint8
    rows = decoded(peer, t, codes(t).astype(raw).view(kind).astype(np.float32))
    theirs = t.inputs.astype(kind).astype(np.float32)
    return rows + differ(
        peer, t.name, "nearest", classes(t), t.inputs, t.rounded["nearest"], theirs
    )


def with_gfloat(t):
    import gfloat
    import gfloat.formats

    info = getattr(gfloat.formats, GFLOAT[t.name])
    rows = decoded("gfloat", t, gfloat.decode_ndarray(info, codes(t)))
    kinds = classes(t)
    rounding = {"nearest": gfloat.RoundMode.TiesToEven, "zero": gfloat.RoundMode.TowardZero}
    for mode, ours in t.rounded.items():
        base = mode.split("-")[0]
        saturate = mode != base
        # gfloat refuses what a format without infinity and NaN cannot say.
        takes = np.full(len(kinds), True)
        if t.name == "e8m0":  # rounded as if it had a sign
            takes = ~np.signbit(t.inputs)
        if t.name in WITHOUT_NAN:
            takes = ~np.isnan(t.inputs) if saturate else np.abs(t.inputs) <= t.largest
        theirs = gfloat.round_ndarray(
            info, t.inputs[takes].astype(np.float64), rounding[base], saturate
        )
        rows += differ("gfloat", t.name, mode, kinds[takes], t.inputs[takes], ours[takes], theirs)
    return rows


def with_torch(t):
    """Differences within the range, as sentences."""
    try:
        torch = importlib.import_module("torch")
        kind = getattr(torch, TORCH[t.name])
    except (ImportError, AttributeError, KeyError):
        return []
    theirs = torch.from_numpy(t.inputs.copy()).to(kind).to(torch.float32).numpy()
    inside = np.abs(t.inputs) <= t.largest
    wrong = int((~same(t.rounded["nearest"], theirs) & inside).sum())
    print(f"# torch {torch.__version__} {t.name}: {wrong} of {int(inside.sum())} differ in range")
    return [f"torch {t.name}: {wrong} differ"] if wrong else []


def compare(folder):
    ml_dtypes = importlib.import_module("ml_dtypes")
    rows, torch_rows = [], []
    for name in FORMATS:
        t = Tables(folder, name)
        if name in ML_DTYPES:
            rows += with_numpy_type("ml_dtypes", t, getattr(ml_dtypes, ML_DTYPES[name]))
        if name == "fp16":
            rows += with_numpy_type("numpy", t, np.float16)
        if name in GFLOAT:
            rows += with_gfloat(t)
        torch_rows += with_torch(t)
        print(f"# {name}: {len(codes(t))} codes, {len(t.inputs)} inputs")
    return rows, torch_rows


def read_list():
    if not os.path.exists(LIST):
        return {}
    with open(LIST, newline="", encoding="utf-8") as file:
        return {tuple(r[f] for f in FIELDS[:-1]): r["why"] for r in csv.DictReader(file)}


def write_list(rows, known):
    reasons = {key[:4]: why for key, why in known.items()}
    with open(LIST, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(FIELDS)
        for row in rows:
            out.writerow(row + [reasons.get(tuple(row[:4]), "?")])


def main():
    with np.errstate(all="ignore"):
        rows, torch_rows = compare(sys.argv[1])
    known = read_list()
    if "--write" in sys.argv:
        write_list(rows, known)
        return 0
    seen = {tuple(row) for row in rows}
    bad = [f"not in differences.csv: {','.join(row)}" for row in sorted(seen - set(known))]
    bad += [f"listed, but not seen: {','.join(row)}" for row in sorted(set(known) - seen)]
    bad += [f"not reviewed: {','.join(k)}" for k, why in known.items() if why in ("", "?")]
    bad += torch_rows
    for line in bad:
        print("# " + line)
    verdict = "not ok" if bad else "ok"
    print(f"{verdict} 1 - {len(seen)} kinds of difference, {len(bad)} not as listed\n1..1")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
