"""plumb_run.py - plumb's run contract inside any Python training script, with three lines.

    run = plumb_run.start(model, optimizer)          # before step 1
    for step in range(run.first_step, steps + 1):
        ...                                          # forward, backward, optimizer.step()
        run.log(step, loss, grad_norm=norm, batch=tokens)
        if run.should_stop(step):
            break
    run.end()

Every rank runs the same lines; rank 0 writes the files of the run.  Outside plumb (PLUMB_RUN_DIR is
not set) each call returns at once and touches nothing.  PyTorch is used where it is there, else
only the contract part works.  The contract is docs/run-contract.md of plumb; python/README.md says
how to use this file.  Anything with a dict `precision` is a place whose precision can be chosen.
"""
import atexit
import collections
import dataclasses
import functools
import hashlib
import json
import math
import os
import random
import re
import select
import signal
import struct
import sys
import threading
import time
import traceback
import types
from typing import NamedTuple, Optional

try:
    import torch
except ImportError:
    torch = None

__version__ = "0.1.0"
__all__ = ["start", "seed", "Run", "Refused", "Autocast", "emulate", "cast", "encode", "parse_spec",
           "spec_text", "EmulatedLinear", "GradientCast", "cast_optimizer"]

# --- request ------------------------------------------------------------------------------
# What this run is asked to do.  A value that cannot be read ends the run with status 3 and one
# sentence, never with something near.

_MOST_STEPS = 10**15
_LONGEST_TEXT = 4096
_MOST_CHECKPOINTS = 10000


class Refused(SystemExit):
    """The run cannot be done as asked: exit status 3, one sentence on standard error."""

    def __init__(self, sentence):
        super().__init__(3)
        self.sentence = sentence


def _refuse(sentence):
    """Ends the run with status 3.  The sentence also stands in end.json, since launchers replace the
    exit status of what they started by their own.
    """
    sentence = "".join(c if " " <= c <= "~" else "?" for c in sentence)[:900]
    print("plumb_run: " + sentence, file=sys.stderr, flush=True)
    directory = os.environ.get("PLUMB_RUN_DIR")
    end = os.path.join(directory or "", "end.json")
    if directory and _rank_and_world()[0] == 0 and _Run.current is None and \
            not os.path.exists(end):
        try:
            _write_whole(end, {"reason": "refused", "step": 0, "why": sentence})
        except OSError:
            pass  # the sentence and the status have to do
    if _Run.current is not None:
        _Run.current._close("refused", {"why": sentence})
    raise Refused(sentence)


def _whole_number(text, least, most):
    if not re.fullmatch("[+-]?[0-9]{1,40}", text) or not least <= int(text) <= most:
        raise ValueError
    return int(text)


def _read_seed(text):
    return _whole_number(text, 0, 2**64 - 1)


def _read_step(text):
    return _whole_number(text, 0, _MOST_STEPS)


def _read_steps(text):
    words = text.split(",")
    if len(words) > _MOST_CHECKPOINTS:
        raise ValueError
    return sorted({_whole_number(word, 1, _MOST_STEPS) for word in words})


def _read_path(text):
    if not text.startswith("/") or len(os.fsencode(text)) > _LONGEST_TEXT or "\0" in text:
        raise ValueError
    return text


def _read_text(text):
    if len(os.fsencode(text)) > _LONGEST_TEXT or "\0" in text:
        raise ValueError
    return text


def _read_scale(text):
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        raise ValueError
    if not 0 < float(text) <= 1e6:
        raise ValueError
    return float(text)


def _read_span(text):
    first, dash, last = text.partition("-")
    first = _whole_number(first, 1, _MOST_STEPS)
    return first, _whole_number(last, first, _MOST_STEPS) if dash else first


_SEED = "0 to 18446744073709551615"
_STEP = "0 to 1000000000000000"
_SCALE = "above 0, at most 1000000"

# key of request.json, what is allowed, how its text is read.  The variable is PLUMB_ and the key.
_VALUES = [
    ("seed", _SEED, _read_seed),
    ("data_seed", _SEED, _read_seed),
    ("micro_order", _SEED, _read_seed),
    ("stop_at", _STEP, _read_step),
    ("policy", "an absolute path", _read_path),
    ("start", "the ref of a checkpoint, at most 4096 bytes", _read_text),
    ("checkpoint_at", "at most 10000 steps from 1 on, as in 100,200", _read_steps),
    ("lr_scale", _SCALE, _read_scale),
    ("warmup_scale", _SCALE, _read_scale),
    ("clip_scale", _SCALE, _read_scale),
    ("skip", "a step or a span of steps from 1 on, as in 70 or 70-72", _read_span),
    ("observe_every", _STEP, _read_step),
]


def _text_of(value):
    """A value of request.json as the text that the variable would have."""
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value)
    if isinstance(value, list) and value and all(type(item) is int for item in value):
        return ",".join(map(str, value))
    return "no number and no text"


def _load_json(path, most):
    """The JSON of a file of at most `most` bytes; None where there is no such file."""
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        _refuse("cannot read %s: %s" % (path, error.strerror))
    if len(data) > most:
        _refuse("%s has more than %d bytes" % (path, most))
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        _refuse("%s is not JSON" % path)


class _Request:
    """One attribute for each value, None where it is unset."""

    def __init__(self):
        self.run_dir = os.environ.get("PLUMB_RUN_DIR") or None
        for key, _, _ in _VALUES:
            setattr(self, key, None)
        if self.run_dir is None:
            return
        if not os.path.isdir(self.run_dir):
            _refuse("PLUMB_RUN_DIR is '%s', which is no directory" % self.run_dir)
        self.run_dir = os.path.abspath(self.run_dir)
        path = os.path.join(self.run_dir, "request.json")
        asked = _load_json(path, 1 << 20)
        if asked is None:
            asked = {key: os.environ.get("PLUMB_" + key.upper()) for key, _, _ in _VALUES}
        elif not isinstance(asked, dict):
            _refuse("%s is no JSON object" % path)
        elif asked.get("contract", 1) != 1:
            _refuse("%s: contract version other than 1, the one known here" % path)
        self._read(asked)

    def _read(self, asked):
        for key, allowed, read in _VALUES:
            value = asked.get(key)
            if value is None or value == "":
                continue
            text = _text_of(value)
            try:
                setattr(self, key, read(text))
            except ValueError:
                _refuse("PLUMB_%s is '%.80s'; allowed: %s" % (key.upper(), text, allowed))


_the_request = None


def _request():
    global _the_request
    if _the_request is None:
        _the_request = _Request()
    return _the_request


def _seed_all(value):
    """Python, NumPy where it was imported, PyTorch on all devices."""
    random.seed(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed([value & 0xFFFFFFFF, value >> 32])
    if torch is not None:
        torch.manual_seed(value)


_seed_was_asked = False


def seed(own):
    """The seed to use: plumb's where it gives one, else `own`.  Call it before the model is made:
    torch.manual_seed(plumb_run.seed(1337)).
    """
    global _seed_was_asked
    _seed_was_asked = True
    return own if _request().seed is None else _request().seed


def _check_seed():
    """A model that was made from another seed than the one asked for is refused."""
    asked = _request().seed
    if asked is None or _seed_was_asked:
        return
    if torch is None or torch.initial_seed() != asked:
        _refuse("PLUMB_SEED is %d, but this script does not use it: write plumb_run.seed(OWN_SEED) "
                "where it seeds, before the model is made" % asked)


# --- files --------------------------------------------------------------------------------
# Whole files are written under another name and renamed; lines are appended with one write each.


def _plain(value):
    """What JSON can say: tensors and NumPy numbers as numbers, non-finite ones as text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    if not isinstance(value, float):
        value = value.item() if hasattr(value, "item") else float(value)
        return _plain(value) if isinstance(value, (bool, int, float)) else str(value)
    if math.isfinite(value):
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _write_all(descriptor, data):
    while data:
        data = data[os.write(descriptor, data):]


def _write_whole(path, record, durable=False):
    part = "%s.part-%d" % (path, os.getpid())
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        _write_all(descriptor, (json.dumps(_plain(record)) + "\n").encode())
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(part, path)


class _Lines:
    """A file of lines that must not exist yet: no file has two writers."""

    def __init__(self, path):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            self.descriptor = os.open(path, flags, 0o666)
        except FileExistsError:
            _refuse("%s already holds a run (%s): each run needs a directory of its own, also when a "
                    "launcher starts its processes again"
                    % (os.path.dirname(path), os.path.basename(path)))
        except OSError as error:
            _refuse("cannot create %s: %s" % (path, error.strerror))

    def write(self, record):
        _write_all(self.descriptor, (json.dumps(_plain(record)) + "\n").encode())

    def close(self):
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1


class _Flight:
    """The last things that happened on this rank, kept in memory.  Written by a thread of its own when
    SIGTERM comes, when nothing happens for `patience` seconds, and when the run breaks: a main
    thread that hangs in a collective cannot write, and its stack says where it hangs.
    """

    def __init__(self, path, rank, patience, length=64):
        self.path, self.rank, self.patience = path, rank, patience
        self.records = collections.deque(maxlen=length)
        self.last, self.quiet_written = time.monotonic(), False
        self.main = threading.main_thread().ident
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        self.thread = threading.Thread(target=self._watch, name="plumb-flight", daemon=True)
        self.thread.start()

    def note(self, what, **fields):
        self.last, self.quiet_written = time.monotonic(), False
        self.records.append(dict({"what": what, "time": time.time()}, **fields))

    def _watch(self):
        while True:
            ready, _, _ = select.select([self.reader], [], [], min(self.patience, 5) / 4)
            if ready:
                signals = os.read(self.reader, 64)
                if signal.SIGTERM in signals:
                    self.write("SIGTERM")
                if not signals or 0 in signals:
                    return  # closed
            elif time.monotonic() - self.last > self.patience and not self.quiet_written:
                self.quiet_written = True
                self.write("nothing happened for %g s" % self.patience)

    def _stacks(self):
        """Of every thread, innermost call last; the main thread first."""
        frames = sys._current_frames()
        order = sorted(frames, key=lambda ident: (ident != self.main, ident))
        return [["%s:%d %s" % (f.filename, f.lineno, f.name)
                 for f in traceback.extract_stack(frames[ident])]
                for ident in order if ident != self.thread.ident]

    def write(self, why):
        try:
            _write_whole(self.path, {"why": why, "rank": self.rank, "pid": os.getpid(),
                                     "time": time.time(), "records": list(self.records),
                                     "stacks": self._stacks()})
        except OSError:
            pass  # a recorder must not end the run

    def close(self):
        try:
            os.write(self.writer, b"\0")
        except OSError:
            return
        if threading.current_thread() is not self.thread:
            self.thread.join(5)


# --- hashes -------------------------------------------------------------------------------
# Hashes are only ever compared, so any good one will do: BLAKE2b to 64 bits.

_SAMPLE = 4096  # elements of a tensor that a sampled hash reads in one step


def _hex(digest):
    return "0x" + digest.hex()


def _is_tensor(value):
    return torch is not None and isinstance(value, torch.Tensor)


def _flat_bytes(tensor):
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8) if flat.numel() else flat.to(torch.uint8)


def _fetch(flat):
    """Bytes on any device as bytes of this process: one transfer.  PyTorch may come without NumPy."""
    flat = flat.cpu()
    return flat.numpy().tobytes() if "numpy" in sys.modules else bytes(flat.tolist())


def _token_bytes(value):
    """Token ids in order, from a tensor, an array, bytes, text, or numbers in lists."""
    if _is_tensor(value):
        return _fetch(_flat_bytes(value))
    if hasattr(value, "tobytes"):
        return value.tobytes()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, int):
        return struct.pack("<q", value)
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, dict):
        return b"".join(_token_bytes(value[key]) for key in sorted(value))
    return b"".join(_token_bytes(item) for item in value)


def _state_of(objects):
    """Every tensor and number of weights and optimizer state, in an order that the model fixes."""
    for thing in objects:
        if torch is not None and isinstance(thing, torch.nn.Module):
            for _, tensor in thing.named_parameters():
                yield tensor
            for _, tensor in thing.named_buffers():
                yield tensor
        elif hasattr(thing, "param_groups"):
            for group in thing.param_groups:
                for parameter in group["params"]:
                    state = thing.state.get(parameter, {})
                    for key in sorted(state):
                        yield state[key]


def _here(value):
    """Of a tensor in shards the one of this rank: only rank 0 hashes, and may wait for no other."""
    return value.to_local() if hasattr(value, "to_local") else value


def _sampled(tensor, step):
    """Every k-th element from a place that moves with the step, so that in k steps each is read."""
    count = tensor.numel()
    if count <= _SAMPLE:
        return tensor.reshape(-1)
    stride = -(-count // _SAMPLE)
    return tensor.reshape(-1)[step % stride::stride]


def state_hash(objects, step, full=False):
    """The hash of what `objects` hold.  Sampled: of each tensor with more than 4096 elements every k-th
    element, k the least that leaves at most 4096, beginning at element step modulo k: which are
    read depends on nothing but step and size, and k steps read all.
    """
    rest, pieces = [], {}
    for value in map(_here, _state_of(objects)):
        if _is_tensor(value):
            piece = _flat_bytes(value if full else _sampled(value.detach(), step))
            pieces.setdefault(piece.device, []).append(piece)
        else:
            rest.append(repr(value))
    digest = hashlib.blake2b("\n".join(rest).encode(), digest_size=8)
    for device in sorted(pieces, key=str):  # one transfer a device
        digest.update(_fetch(torch.cat(pieces[device])))
    return _hex(digest.digest())


def _config_hash(config):
    """Of the script, of the modules beside it, of this file and of what the script says it runs with:
    an edited trainer is another trainer.  The command is no part of it; plumb knows that.
    """
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    files = {os.path.abspath(__file__)}
    if main:
        root = os.path.dirname(os.path.abspath(main)) + os.sep
        files.add(os.path.abspath(main))
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None) or ""
            if path.startswith(root) and path.endswith(".py") and "-packages" not in path:
                files.add(path)
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(files, key=os.path.basename):
        with open(path, "rb") as file:
            digest.update(hashlib.blake2b(file.read()).digest())
    versions = [sys.version_info[:2], torch.__version__ if torch else None]
    try:
        said = json.dumps(config, sort_keys=True)
    except (TypeError, ValueError) as trouble:
        raise TypeError("config is for what JSON can hold (vars(args), say): %s" % trouble) from None
    digest.update(repr((versions, said)).encode())
    return digest.hexdigest()


# --- casts ---------------------------------------------------------------------------------
# A spec text says how a tensor is quantised: the grammar of docs/run-contract.md, section 3.  A
# tensor is seen as a matrix [rows, cols]: its last dimension are the columns, all others the rows.
# Blocks run along the axis that the product contracts: the columns, or with along_rows the rows.


class Format(NamedTuple):
    """A number format: the row of src/format/rows.h, and what follows from it."""

    name: str
    exponent_bits: int
    fraction_bits: int
    bias: int
    special: str  # which codes are no finite numbers: ieee, nan, fnuz, none
    largest_code: int
    nan_code: int

    @property
    def bits(self):
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def emin(self):
        return 1 - self.bias

    @property
    def emax(self):
        return (self.largest_code >> self.fraction_bits) - self.bias

    @property
    def largest(self):
        fraction = self.largest_code & ((1 << self.fraction_bits) - 1)
        return 2.0**self.emax * (1 + fraction / (1 << self.fraction_bits))

    @property
    def least(self):
        return 2.0 ** (self.emin - self.fraction_bits)

    @property
    def scaled(self):
        return self.bits <= 8


FORMATS = {
    row[0]: Format(*row)
    for row in (
        ("fp32", 8, 23, 127, "ieee", 0x7F7FFFFF, 0x7FC00000),
        ("tf32", 8, 10, 127, "ieee", 0x3FBFF, 0x3FE00),
        ("bf16", 8, 7, 127, "ieee", 0x7F7F, 0x7FC0),
        ("fp16", 5, 10, 15, "ieee", 0x7BFF, 0x7E00),
        ("e4m3", 4, 3, 7, "nan", 0x7E, 0x7F),
        ("e5m2", 5, 2, 15, "ieee", 0x7B, 0x7F),
        ("e4m3fnuz", 4, 3, 8, "fnuz", 0x7F, 0x80),
        ("e5m2fnuz", 5, 2, 16, "fnuz", 0x7F, 0x80),
        ("e3m2", 3, 2, 3, "none", 0x1F, 0x1F),
        ("e2m3", 2, 3, 1, "none", 0x1F, 0x1F),
        ("e2m1", 2, 1, 1, "none", 0x7, 0x7),
    )
}

FLT_MIN, FLT_MAX = 2.0**-126, (2 - 2.0**-23) * 2.0**127
MAX_HISTORY, SPEC_TEXT, BLOCK = 1024, 128, 128


class Spec(NamedTuple):
    """How one tensor is quantised; the fields are those of plumb_spec."""

    format: str
    grain: str = "tensor"
    rule: str = "current"
    static: float = 1.0
    history: int = 16
    margin: int = 0
    recent: bool = False
    saturate: bool = True
    pow2: bool = False
    divide: bool = False
    floor: float = 0.0
    mx: str = "mx-rceil"
    rounding: str = "rne"


# Every word that may follow a format: the field that it sets, and to what (None: to the number
# behind it).
_WORDS = {
    "tensor": ("grain", "tensor"),
    "row": ("grain", "row"),
    "1x128": ("grain", "1x128"),
    "128x128": ("grain", "128x128"),
    "mx32": ("grain", "mx32"),
    "nvfp4": ("grain", "nvfp4"),
    "none": ("rule", "none"),
    "static=": ("rule", None),
    "current": ("rule", "current"),
    "delayed": ("rule", "delayed"),
    "history=": ("history", None),
    "margin=": ("margin", None),
    "max": ("recent", False),
    "recent": ("recent", True),
    "saturate": ("saturate", True),
    "overflow": ("saturate", False),
    "pow2": ("pow2", True),
    "nopow2": ("pow2", False),
    "divide": ("divide", True),
    "multiply": ("divide", False),
    "floor=": ("floor", None),
    "mx-floor": ("mx", "mx-floor"),
    "mx-ceil": ("mx", "mx-ceil"),
    "mx-even": ("mx", "mx-even"),
    "mx-rceil": ("mx", "mx-rceil"),
    "rne": ("rounding", "rne"),
    "toward-zero": ("rounding", "toward-zero"),
    "stochastic": ("rounding", "stochastic"),
    "stochastic8": ("rounding", "stochastic8"),
    "stochastic8-centred": ("rounding", "stochastic8-centred"),
}

# What goes with some rules, grains or formats only, as sentences name it.
_ADAPTIVE = "rules current and delayed only, and not with grains mx32 and nvfp4"
_GOES_WITH = {
    "grain": "nvfp4 goes with format e2m1 only",
    "history": "history goes with rule delayed only",
    "recent": "recent goes with rule delayed only",
    "margin": "margin goes with " + _ADAPTIVE,
    "pow2": "pow2 goes with " + _ADAPTIVE,
    "floor": "floor goes with " + _ADAPTIVE,
    "divide": "divide goes with rule current only, and not with grains mx32 and nvfp4",
    "mx": "a rounding of block scales goes with grain mx32 only",
}


def _power10(x, e):
    """x * 10^e in fp64, in the steps of src/quant/decimal.c."""
    while e > 22:
        x, e = x * 1e22, e - 22
    while e < -22:
        x, e = x / 1e22, e + 22
    return x * float(10**e) if e >= 0 else x / float(10**-e)


def _fp32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def _read_decimal(text):
    """0 or a number of 2^-126 to FLT_MAX, or None: at most 15 significant digits, whatever the
    locale.
    """
    match = re.fullmatch(r"([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,2}))?", text)
    digits = (match[1] + (match[2] or "")) if match else ""
    if not 1 <= len(digits) <= 99 or len(digits.lstrip("0")) > 15:
        return None
    x = _power10(float(int(digits)), int(match[3] or 0) - len(match[2] or ""))
    if x != 0 and not FLT_MIN * (1 - 2.0**-26) <= x <= FLT_MAX * (1 + 2.0**-26):
        return None
    return max(_fp32(x), FLT_MIN) if x != 0 else 0.0


def _place_point(digits, exponent):
    """digits * 10^exponent, with a point where that is short."""
    if 0 <= exponent <= 4:
        return digits + "0" * exponent
    if exponent < 0 and -exponent < len(digits):
        return digits[:exponent] + "." + digits[exponent:]
    if exponent < 0 and -exponent < len(digits) + 4:
        return "0." + "0" * (-exponent - len(digits)) + digits
    return "%se%d" % (digits, exponent)


def _write_decimal(value):
    """The shortest text that reads back as value."""
    if value == 0:
        return "0"
    top = 0
    while _power10(1.0, top + 1) <= value:
        top += 1
    while _power10(1.0, top) > value:
        top -= 1
    for count in range(1, 16):
        digits = "%d" % round(_power10(value, count - 1 - top))
        short = digits.rstrip("0")
        text = _place_point(short, top - (count - 1) + len(digits) - len(short))
        if _read_decimal(text) == value:
            break
    return text


def _normal(spec):
    """spec with every field at its default that its format and rule do not use."""
    usual = _default(spec.format)
    if spec.format == "fp32":
        return usual
    if not FORMATS[spec.format].scaled:
        return usual._replace(rounding=spec.rounding)
    grain = "tensor" if spec.grain == "nvfp4" and spec.format != "e2m1" else spec.grain
    own_rule = grain in ("mx32", "nvfp4")
    unused = set() if spec.rule == "static" else {"static"}
    if spec.rule != "delayed":
        unused |= {"history", "recent"}
    if own_rule or spec.rule not in ("current", "delayed"):
        unused |= {"margin", "pow2", "floor"}
    if own_rule or spec.rule != "current":
        unused |= {"divide"}
    if grain != "mx32":
        unused |= {"mx"}
    return spec._replace(grain=grain, **{field: getattr(usual, field) for field in unused})


def _default(name):
    return Spec(name) if FORMATS[name].scaled else Spec(name, rule="none", saturate=False)


def _whole(text, least, most):
    number = int(text) if re.fullmatch("[0-9]{1,4}", text) else -1
    return number if least <= number <= most else None


def _number_of(word, text):
    """The value behind a word that ends in "="."""
    if word == "history=":
        value, allowed = _whole(text, 1, MAX_HISTORY), "a whole number of 1 to 1024"
    elif word == "margin=":
        value, allowed = _whole(text, 0, 32), "a whole number of 0 to 32"
    else:
        value, allowed = (
            _read_decimal(text),
            "a positive decimal number of 1.2e-38 to 3.4e38, up to 15 digits",
        )
        if value == 0 and word == "static=":
            value, allowed = None, "a scale above 0"
    if value is None:
        raise ValueError('"%s%s": %s must be followed by %s' % (word, text, word, allowed))
    return value


def _set_attribute(fields, given, text):
    word = text if text in _WORDS and not text.endswith("=") else text.partition("=")[0] + "="
    if word not in _WORDS or "=" not in text and word.endswith("="):
        raise ValueError('"%s" is no attribute of a format; allowed: %s' % (text, " ".join(_WORDS)))
    field, value = _WORDS[word]
    if field in given:
        raise ValueError('"%s" repeats or contradicts an earlier attribute' % text)
    given.add(field)
    if value is None and field == "rule":
        fields["rule"], fields["static"] = "static", _number_of(word, text[len(word) :])
    else:
        fields[field] = _number_of(word, text[len(word) :]) if value is None else value


def _check_spec(spec):
    if spec.rule == "delayed" and spec.grain != "tensor":
        raise ValueError("delayed scaling has one scale: it goes with grain tensor only")
    if spec.grain in ("mx32", "nvfp4") and spec.rule != "current":
        raise ValueError("grains mx32 and nvfp4 go with rule current only")


@functools.lru_cache(maxsize=4096)
def _parse(text, base):
    if len(text) >= SPEC_TEXT:
        raise ValueError(
            'a spec of %d characters ("%.40s..."); allowed are %d' % (len(text), text, SPEC_TEXT - 1)
        )
    name, *attributes = text.split(":")
    if name not in FORMATS:
        raise ValueError('"%s" is no format; allowed: %s' % (name, " ".join(FORMATS)))
    if name == "fp32" and attributes:
        raise ValueError('fp32 takes no attributes, but "%s" was given' % ":".join(attributes))
    spec = _default(name)
    if base is not None and FORMATS[name].scaled and FORMATS[base.format].scaled:
        spec = _normal(base)._replace(format=name)
    fields, given = spec._asdict(), set()
    for attribute in attributes:
        _set_attribute(fields, given, attribute)
    if given - {"rounding"} and not FORMATS[name].scaled:
        raise ValueError("%s takes a rounding and no other attribute" % name)
    spec = Spec(**fields)
    normal = _normal(spec)
    for field in _GOES_WITH:
        if field in given and getattr(spec, field) != getattr(normal, field):
            raise ValueError(_GOES_WITH[field])
    _check_spec(normal)
    return normal


def parse_spec(text, base=None):
    """The spec that a text means; what it does not say comes from base (a spec or its text), as in
    a policy.

    ValueError with one sentence where plumb refuses the text.
    """
    if isinstance(text, Spec):
        return text
    return _parse(text, _parse(base, None) if isinstance(base, str) else base)


def spec_text(spec):
    """The canonical text of a spec: format, grain, rule, and then only what differs from the
    defaults.
    """
    normal, usual = _normal(spec), _default(spec.format)
    if not FORMATS[spec.format].scaled:
        return normal.format + ("" if normal.rounding == "rne" else ":" + normal.rounding)
    words = [normal.format, normal.grain]
    words += ["static=" + _write_decimal(normal.static) if normal.rule == "static" else normal.rule]
    words += ["history=%d" % normal.history] if normal.rule == "delayed" else []
    for field in ("margin", "recent", "saturate", "pow2", "divide", "floor", "mx", "rounding"):
        value = getattr(normal, field)
        if value == getattr(usual, field):
            continue
        number = (
            _write_decimal(value) if field == "floor" else "%d" % value if field == "margin" else None
        )
        words += [
            (
                field + "=" + number
                if number
                else {w[1]: k for k, w in _WORDS.items() if w[0] == field}[value]
            )
        ]
    return ":".join(words)


def spec_bits(spec):
    """Bits of a code: what "raise" in a policy compares."""
    return FORMATS[parse_spec(spec).format].bits


class Scale(NamedTuple):
    """What became of the scales of a tensor; a block is [height, width], tensors are [down, 1,
    across, 1].
    """

    factor: Optional["torch.Tensor"]  # codes are of x * factor; None: of x
    divide: bool  # or of x / factor
    decode: Optional["torch.Tensor"]  # values are codes * decode
    tensor: Optional["torch.Tensor"]  # nvfp4: * this one, too
    height: int
    width: int


class Encoded(NamedTuple):
    codes: "torch.Tensor"  # uint8, int16 or int32 (the bits), in the shape of x
    scales: Optional["torch.Tensor"]  # decode scales of the blocks, [down, across]
    tensor_scale: Optional["torch.Tensor"]  # nvfp4: second factor


_LENGTHS = {
    "tensor": (0, 0),
    "row": (0, 1),
    "1x128": (BLOCK, 1),
    "128x128": (BLOCK, BLOCK),
    "mx32": (32, 1),
    "nvfp4": (16, 1),
}
_PAST = {
    "ieee": float("inf"),
    "nan": float("nan"),
    "fnuz": float("nan"),
    "none": None,
}  # beyond the largest, unsaturated
_PIECE = 1 << 16  # elements, which stay in the cache from one operation to the next
_INFINITY_BITS, _MAGNITUDE, _FRACTION, _HALF = 0x7F800000, 0x7FFFFFFF, 0x007FFFFF, 0x00400000


def _bits(x):
    return x.view(torch.int32)


def _number(bits):
    return bits.view(torch.float32)


def _like(x, value):
    """A constant where x is: division by a Python number is multiplication by its inverse on some
    devices.
    """
    return torch.full_like(x, value)


# Rounding.


def _round_narrow(p, form, spec):
    """To formats whose exponents end before those of fp32, in place.

    The sum of a number and 1.5 * 2^k, |number| < 2^(k-1), is a multiple of 2^(k-23), rounded to
    nearest even: that is the step of the format where k is the number's exponent (or the least one)
    and 23 less the fraction bits.  The first subtraction is exact.
    """
    toward_zero = spec.rounding == "toward-zero"
    past = None if spec.saturate else _PAST[form.special]
    most = form.largest if past is None or toward_zero else 2 * form.largest
    over = p.isinf() if toward_zero and past is not None else None
    if form.special == "none":
        p.nan_to_num_(nan=form.largest)
    p.clamp_(-most, most)
    unit = _number((_bits(p) & _INFINITY_BITS).clamp_(min=(form.emin + 127) << 23))
    if toward_zero:
        step = unit.mul_(2.0**-form.fraction_bits)
        rounded = (p / step).trunc_().mul_(step)
    else:
        unit.mul_(1.5 * 2.0 ** (23 - form.fraction_bits))
        rounded = (p + unit).sub_(unit)
    if past is not None:
        rounded.masked_fill_(rounded.abs() > form.largest if over is None else over, past)
    return (
        torch.add(rounded, 0.0, out=p) if form.special == "fnuz" else torch.copysign(rounded, p, out=p)
    )


def _round_wide(p, form, spec):
    """To formats with the exponents of fp32: fewer bits of the same pattern."""
    drop = 23 - form.fraction_bits
    bits = _bits(p)
    if spec.rounding == "rne":
        bits = bits + (((bits >> drop) & 1) + ((1 << (drop - 1)) - 1))
    return torch.where(p.isnan(), p, _number(bits & -(1 << drop)))


def _round(p, spec, own=True):
    """The values of the codes of p, in the memory of p where that is as good and p is ours."""
    form = FORMATS[spec.format]
    if spec.rounding.startswith("stochastic"):
        raise ValueError(
            "%s: stochastic rounding is not emulated here; allowed: rne, toward-zero" % spec_text(spec)
        )
    if form.name == "fp32":
        return p
    if spec.rounding == "rne" and form.name in ("bf16", "fp16"):
        return p.to(torch.bfloat16 if form.name == "bf16" else torch.float16).float()
    if form.exponent_bits == 8:
        return _round_wide(p, form, spec)
    p = p if own else p.clone()
    whole = p.numel() <= _PIECE or p.device.type != "cpu"
    for piece in (p,) if whole else p.view(-1).split(_PIECE):
        _round_narrow(piece, form, spec)
    return p


def _codes(value, form):
    """The codes of values that are in the format."""
    magnitude = _bits(value) & _MAGNITUDE
    shift = 23 - form.fraction_bits
    codes = magnitude >> shift
    if form.exponent_bits < 8:
        steps = (
            (value.abs() * (1 / form.least)).nan_to_num(0.0).clamp(max=2.0**form.fraction_bits).int()
        )
        normal = (magnitude - ((127 - form.bias) << 23)) >> shift
        codes = torch.where(value.abs() < 2.0**form.emin, steps, normal)
        codes = torch.where(value.isinf(), _like(codes, form.largest_code + 1), codes)
    codes = codes | torch.where(
        _bits(value) < 0, _like(codes, 1 << (form.bits - 1) if form.bits < 32 else -(2**31)), 0 * codes
    )
    codes = torch.where(value.isnan(), _like(codes, form.nan_code), codes)
    if form.bits <= 8:
        return codes.to(torch.uint8)
    return codes.to(torch.int16) if form.bits == 16 else codes << (13 if form.name == "tf32" else 0)


# Scales.


def _with_floor(spec, amax):
    if spec.floor == 0:
        return amax
    return torch.where(amax < spec.floor, _like(amax, spec.floor), amax)


def _from_amax(spec, amax, otherwise):
    """s of an amax, as TransformerEngine computes it; `otherwise` where the amax is 0 or not finite."""
    amax = _with_floor(spec, amax)
    s = (_like(amax, FORMATS[spec.format].largest * 2.0**-spec.margin) / amax).clamp(FLT_MIN, FLT_MAX)
    if spec.pow2:
        s = _number(_bits(s) & ~_FRACTION)
    return torch.where((amax > 0) & ~amax.isinf(), s, otherwise)


def _d_from_amax(spec, amax):
    """d of an amax, as DeepSeek's kernel computes it."""
    amax = _with_floor(spec, amax)
    d = amax / _like(amax, FORMATS[spec.format].largest * 2.0**-spec.margin)
    if spec.pow2:
        d = d.clamp(FLT_MIN, 2.0**127)
        d = _number((_bits(d) + _FRACTION) & ~_FRACTION)
    return torch.where(amax > 0, d, _like(d, 1.0))


def _e8m0_code(spec, amax):
    """The code of the power of two of a block, from the bits of its amax: plumb_mx_scale."""
    form, bits = FORMATS[spec.format], _bits(amax)
    if spec.mx == "mx-rceil":
        v = _bits(amax * _fp32(1 / form.largest))
        exponent = v >> 23
        code = exponent + ((v & _FRACTION) > torch.where(exponent == 0, _like(v, _HALF), 0 * v)).int()
    else:
        near = bits + (1 << (22 - form.fraction_bits)) if spec.mx == "mx-even" else bits
        up = ((bits & _FRACTION) != 0).int() if spec.mx == "mx-ceil" else 0
        code = ((near >> 23) + up - form.emax).clamp(min=0)
    return torch.where(bits == _INFINITY_BITS, _like(code, 254), code)


def _e8m0_value(code):
    return _number(torch.where(code == 0, _like(code, _HALF), code << 23))


def _nvfp4_scales(amax):
    """Factors of blocks, their scales in UE4M3, and the scale of the tensor: TransformerEngine's
    NVFP4BlockScaling.
    """
    whole = amax.amax()
    s = (_like(whole, 6.0 * 448.0) / whole).clamp(max=FLT_MAX)
    s = torch.where((whole == 0) | (s == 0), _like(s, 1.0), s)
    back = _like(s, 1.0) / s
    d = _round(amax * (s * _fp32(1 / 6)), Spec("e4m3"))
    exact = _like(d, 1.0) / (d * back)
    return exact.clamp(max=FLT_MAX), d, back


def _blocks_of(spec, along_rows, rows, cols):
    """Height and width of the blocks that share a scale."""
    along, beside = _LENGTHS[spec.grain]
    height, width = (along, beside) if along_rows else (beside, along)
    return height or max(rows, 1), width or max(cols, 1)


def _split(x, height, width):
    """x [rows, cols] as [down, height, across, width], zeros behind the edges."""
    below, right = -x.shape[0] % height, -x.shape[1] % width
    if below or right:
        x = torch.nn.functional.pad(x, (0, right, 0, below))
    return x.reshape(x.shape[0] // height, height, x.shape[1] // width, width)


def _join(blocks, shape, rows, cols):
    down, height, across, width = blocks.shape
    return blocks.reshape(down * height, across * width)[:rows, :cols].reshape(shape)


def _amax(blocks):
    """Largest magnitude of each block; NaN is ignored, infinity is not."""
    if blocks.device.type == "cpu":  # elsewhere to look for NaN is to wait
        amax = torch.maximum(blocks.amax((1, 3), keepdim=True), -blocks.amin((1, 3), keepdim=True))
        if not bool(amax.isnan().any()):
            return amax.abs_()
    return blocks.abs().nan_to_num_(nan=0.0, posinf=float("inf")).amax((1, 3), keepdim=True)


def _scale_of(spec, blocks, amax, delayed):
    """The scales of a tensor: amax is used by rule current, delayed is the scale of rule delayed."""
    height, width, tensor = blocks.shape[1], blocks.shape[3], None
    if not FORMATS[spec.format].scaled or spec.rule == "none":
        return Scale(None, False, None, None, height, width)
    if spec.rule == "static":
        every = (blocks.shape[0], 1, blocks.shape[2], 1)
        factor = torch.full(every, spec.static, dtype=torch.float32, device=blocks.device)
    elif spec.rule == "delayed":
        factor = delayed
    elif spec.grain == "mx32":
        code = _e8m0_code(spec, amax)
        return Scale(_e8m0_value(254 - code), False, _e8m0_value(code), None, height, width)
    elif spec.grain == "nvfp4":
        factor, decode, tensor = _nvfp4_scales(amax)
        return Scale(factor, False, decode, tensor, height, width)
    elif spec.divide:
        d = _d_from_amax(spec, amax)
        return Scale(d, True, d, None, height, width)
    else:
        factor = _from_amax(spec, amax, _like(amax, 1.0))
    return Scale(factor, False, _like(factor, 1.0) / factor, tensor, height, width)


class ScaleState:
    """Delayed scaling of one tensor: plumb_scale_state as the numbers scale, pending amax, history
    (newest first).
    """

    def __init__(self, values=None):
        self.values = torch.tensor([1.0, -1.0], dtype=torch.float32) if values is None else values

    def scale(self, x):
        if self.values.device != x.device:
            self.values = self.values.to(x.device)
        return self.values[0].reshape(1, 1, 1, 1)

    def see(self, amax):
        """An amax of this step."""
        self.values[1] = torch.maximum(self.values[1], amax.reshape(()))

    def update(self, spec):
        """Once a step, after backward."""
        self.values = _next_states(self.values, spec)


def _next_states(values, spec):
    """States [..., scale, pending, history] after a step: the amax that was seen enters the
    history, the scale follows.
    """
    scale, newest, history = values[..., 0], values[..., 1], values[..., 2:]
    history = torch.nn.functional.pad(history, (0, max(spec.history - history.shape[-1], 0)))
    rolled = torch.cat((newest[..., None], history), -1)[..., : spec.history]
    seen = newest > 0
    moved = _from_amax(spec, newest if spec.recent else rolled.amax(-1), scale)
    scale = torch.where(seen, moved, scale)
    history = torch.where(seen[..., None], rolled, history[..., : spec.history])
    return torch.cat((scale[..., None], _like(scale, -1.0)[..., None], history), -1)


def _matrix(x):
    """x as fp32 [rows, cols], without gradient."""
    x = x.detach().to(torch.float32)
    return (x.reshape(-1, x.shape[-1]) if x.dim() > 1 else x.reshape(1, -1)).contiguous()


def _quantise(x, spec, state, along_rows, update, amax):
    """Values of codes in blocks, and their Scale."""
    at, x = x.data_ptr(), _matrix(x)
    blocks = _split(x, *_blocks_of(spec, along_rows, *x.shape))
    delayed, scaled = None, FORMATS[spec.format].scaled
    update = update and state is not None and spec.rule == "delayed"
    if amax is None and scaled and (spec.rule == "current" or update):
        amax = _amax(blocks)
    if scaled and spec.rule == "delayed":
        delayed = (ScaleState() if state is None else state).scale(x)
        if update:
            state.see(amax)
    scale = _scale_of(spec, blocks, amax, delayed)
    if scale.factor is not None:
        blocks = blocks / scale.factor if scale.divide else blocks * scale.factor
    return _round(blocks, spec, own=blocks.data_ptr() != at), scale


def _cast(x, spec, state=None, along_rows=False, update=True, amax=None):
    """What cast() gives, and the Scale."""
    rows, cols = (
        (x.numel() // x.shape[-1], x.shape[-1]) if x.dim() > 1 and x.shape[-1] else (1, x.numel())
    )
    if spec.format == "fp32" or x.numel() == 0:
        return x.detach().float(), Scale(None, False, None, None, 1, 1)
    values, scale = _quantise(x, spec, state, along_rows, update, amax)
    if scale.decode is not None:
        values = values.mul_(scale.decode)
    if scale.tensor is not None:
        values = values.mul_(scale.tensor)
    return _join(values, x.shape, rows, cols), scale


def cast(x, spec, state=None, along_rows=False, update=True):
    """x as it comes out of a format: fp32 of the shape of x, without gradient.

    spec is a Spec or its text.  With rule delayed, state is the ScaleState whose scale is used and,
    with update, whose pending amax is raised; without one the scale is 1.
    """
    return _cast(x, parse_spec(spec), state, along_rows, update)[0]


def encode(x, spec, state=None, along_rows=False, update=True):
    """The codes and scales of x."""
    spec = parse_spec(spec)
    if x.numel() == 0:
        return Encoded(x.to(torch.uint8), None, None)
    values, scale = _quantise(x, spec, state, along_rows, update, None)
    cols = x.shape[-1] if x.dim() > 1 else x.numel()
    codes = _join(_codes(values, FORMATS[spec.format]), x.shape, x.numel() // cols, cols)
    return Encoded(codes, None if scale.decode is None else scale.decode[:, 0, :, 0], scale.tensor)


# What a cast did.


def _products(x, scale):
    """x and what was rounded of it, in blocks."""
    x = _matrix(x)
    if not isinstance(scale, Scale):
        return x, (
            x if scale is None else x * torch.as_tensor(scale, dtype=torch.float32, device=x.device)
        )
    if scale.factor is None:
        return x, x
    x = _split(x, scale.height, scale.width)
    return x, x / scale.factor if scale.divide else x * scale.factor


def _largest_multiplier(scale, x):
    """The encode multiplier 1 / d, the largest over blocks."""
    if not isinstance(scale, Scale):
        return torch.as_tensor(
            1.0 if scale is None else scale, dtype=torch.float32, device=x.device
        ).amax()
    if scale.decode is None:
        return torch.ones((), device=x.device)
    d = scale.decode if scale.tensor is None else scale.decode * scale.tensor
    return (_like(d, 1.0) / d).amax()


def _largest_magnitude(x, infinity=float("inf")):
    return x.abs().nan_to_num(nan=0.0, posinf=infinity).amax()


def site_counts(x, decoded, spec, scale):
    """What a cast did to x: the columns of a .pls file (but step and site) as tensors without
    dimension on the device of x.

    scale is what plumb_observer was given; from other people's casts None (unscaled), a number, or
    a tensor that can be multiplied with x as a matrix.  Nothing here waits for the device.
    """
    spec = parse_spec(spec)
    form, toward_zero = FORMATS[spec.format], spec.rounding == "toward-zero"
    x, p = _products(x, scale)
    p = p.abs()
    step = 2.0 ** (form.emax - form.fraction_bits)
    bound = form.largest + (step if toward_zero else step / 2)
    bound = bound if bound <= FLT_MAX else float("inf")
    past = (
        p > bound if form.largest_code % 2 == 0 and not toward_zero else p >= bound
    )  # a tie goes to the even code
    flushed = p < form.least if toward_zero else p <= form.least / 2
    worst, zero, some = _largest_magnitude(p), x == 0, 0 if form.name == "fp32" else 1
    return {
        "amax": _largest_magnitude(x),
        "decoded_amax": _largest_magnitude(decoded.detach().float(), infinity=0.0),
        "headroom": _like(worst, form.largest) / worst,
        "scale": _largest_multiplier(scale, x),
        "total": torch.full_like(zero.sum(), decoded.numel()),
        "saturated": (past & x.isfinite()).sum() * some,
        "flushed": (flushed & ~zero).sum() * some,
        "zero": zero.sum() - (x.numel() - decoded.numel()),  # without the padding of blocks
        "nonfinite": (~x.isfinite()).sum(),
    }


# --- emulation -----------------------------------------------------------------------------
# Whatever has a dict `precision`, from the part to the text of a spec, can be told what to run in.
# It looks there each time it casts, and tells plumb_observer(part, x, decoded, format, scale) of
# the cast where that is not None; a part that is missing runs in fp32.  `precision_uses` are other
# formats for its parts.

_Module = torch.nn.Linear if torch is not None else object
_Function = torch.autograd.Function if torch is not None else object

# The operands of the three products of a linear layer, and whether the product contracts their rows.
LINEAR_PARTS = {
    "fprop/x": False,
    "fprop/w": False,
    "dgrad/dy": False,
    "dgrad/w": True,
    "wgrad/dy": True,
    "wgrad/x": True,
}
_USES = (
    "fp32",
    "bf16",
    "e4m3",
    "e5m2",
    "e4m3:current",
    "e5m2:current",
    "e4m3:1x128:current",
    "e5m2:1x128:current",
)


def cast_part(owner, part, x, along_rows=False, state=None, update=False, amax=None):
    """x as a part of an object with `precision` has it."""
    text = owner.precision.get(part, "fp32")
    decoded, scale = _cast(x, parse_spec(text), state, along_rows, update, amax)
    if owner.plumb_observer is not None and x.numel() > 0:
        owner.plumb_observer(part, x, decoded, text, scale)
    return decoded


def _reads(use, own, stateless):
    """The text that a policy's `use` means where `own` runs; None where it cannot be done."""
    try:
        spec = parse_spec(use, own)
    except ValueError:
        return None
    if spec.rounding.startswith("stochastic") or stateless and spec.rule == "delayed":
        return None
    return use if use == "bf16" else spec_text(spec)


# Linear layers.


def _turns(spec):
    """Whether the blocks of the two contraction axes differ."""
    along, beside = _LENGTHS[spec.grain]
    return FORMATS[spec.format].scaled and spec.rule != "none" and along != beside


class _LinearProducts(_Function):
    """y = x w^T + b, dx = dy w, dw = dy^T x of cast operands; bias and its gradient are left alone."""

    @staticmethod
    def forward(ctx, x, weight, bias, layer, update):
        rows = x.reshape(-1, x.shape[-1])
        xq, kept_x = layer.cast_two("fprop/x", "wgrad/x", rows, update)
        wq, kept_w = layer.cast_two("fprop/w", "dgrad/w", weight, update)
        ctx.save_for_backward(rows if kept_x is None else kept_x, weight if kept_w is None else kept_w)
        ctx.is_cast = kept_x is not None, kept_w is not None
        ctx.layer, ctx.update, ctx.shape = layer, update, x.shape
        xq, wq = xq.to(layer.compute_dtype), wq.to(layer.compute_dtype)
        y = torch.nn.functional.linear(xq, wq, None if bias is None else bias.to(xq.dtype))
        return y.reshape(*x.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(ctx, dy):
        layer, (x, weight), dx, dw = ctx.layer, ctx.saved_tensors, None, None
        dy = dy.reshape(-1, dy.shape[-1])
        need_x, need_w, need_bias = ctx.needs_input_grad[:3]
        layer.plumb_ran_backward = True
        dyq, turned = layer.cast_two("dgrad/dy", "wgrad/dy", dy, ctx.update) if need_x else (None, None)
        if need_x:
            wq = weight if ctx.is_cast[1] else layer.cast_one("dgrad/w", weight, ctx.update)
            dx = layer.product(dyq, wq).reshape(ctx.shape)
        if need_w:
            dyq = layer.cast_one("wgrad/dy", dy, ctx.update) if turned is None else turned
            xq = x if ctx.is_cast[0] else layer.cast_one("wgrad/x", x, ctx.update)
            dw = layer.product(dyq.t(), xq)
        return dx, dw, dy.sum(0) if need_bias else None, None, None


class EmulatedLinear(_Module):
    """torch.nn.Linear whose six operands are cast, each as `precision` says, to what FP8 products
    would read.

    Products are of the decoded values in fp32, or in bf16 with compute_dtype; x, w and dy in high
    precision are kept for the backward pass, where each operand is cast along its own axis.
    Delayed scales are in the state dict ("plumb_scale.PART", missing ones are no error); they are
    no buffers, as DDP would overwrite those and half() would round them.
    """

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None, precision=None):
        super().__init__(in_features, out_features, bias, device, dtype)
        self._emulate(precision or {})

    @classmethod
    def convert(cls, linear, precision):
        """Turns a torch.nn.Linear into an emulated one in place: parameters, hooks and references
        to it stay.
        """
        linear.__class__ = cls
        linear._emulate(precision)
        return linear

    def _emulate(self, precision):
        for part, text in precision.items():
            if part not in LINEAR_PARTS:
                raise ValueError(
                    'a linear layer has no part "%s"; it has: %s' % (part, " ".join(LINEAR_PARTS))
                )
            parse_spec(text)
        self.precision = dict(precision)
        self.precision_uses = _USES + ("e4m3:saturate", "e5m2:saturate")
        self.plumb_observer = None
        self.compute_dtype = torch.float32
        self.plumb_states = {}  # of delayed scaling: part to ScaleState
        self.plumb_ran_backward = False
        self.plumb_steps_itself = True  # no optimizer says when a step is over

    def precision_reads(self, part, use, own):
        """What start() writes into `precision` for the `use` of a policy; None is refused."""
        return _reads(use, own, stateless=False)

    def extra_repr(self):
        return (
            super().extra_repr() + ", " + ", ".join("%s=%s" % item for item in self.precision.items())
        )

    def _spec(self, part):
        return parse_spec(self.precision.get(part, "fp32"))

    def cast_one(self, part, x, update):
        """One operand."""
        state = (
            self.plumb_states.setdefault(part, ScaleState())
            if self._spec(part).rule == "delayed"
            else None
        )
        return cast_part(self, part, x, LINEAR_PARTS[part], state, update)

    def cast_two(self, part, other, x, update):
        """An operand, and the same tensor for another product where that has the same values; else
        None.
        """
        decoded, spec = self.cast_one(part, x, update), self._spec(part)
        if self._spec(other) != spec or spec.rule == "delayed" or _turns(spec):
            return decoded, None
        if self.plumb_observer is not None:
            self.cast_one(other, x, update)
        return decoded, decoded

    def product(self, a, b):
        return torch.mm(a.to(self.compute_dtype), b.to(self.compute_dtype))

    def forward(self, x):
        update = self.training and torch.is_grad_enabled()
        if update and self.plumb_ran_backward and self.plumb_steps_itself:
            update_scales([self])
        kind, on = _autocast_dtype(x)
        if not on:
            return _LinearProducts.apply(x, self.weight, self.bias, self, update).to(kind)
        with torch.autocast(x.device.type, enabled=False):
            return _LinearProducts.apply(x, self.weight, self.bias, self, update).to(kind)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for part, state in self.plumb_states.items():
            destination[prefix + "plumb_scale." + part] = state.values

    def _load_from_state_dict(self, state_dict, prefix, *others):
        for part in LINEAR_PARTS:
            values = state_dict.get(prefix + "plumb_scale." + part)
            if values is not None and values.dim() == 1 and 2 <= values.numel() <= 2 + MAX_HISTORY:
                self.plumb_states[part] = ScaleState(values.detach().float().clone())
        mine = {k: v for k, v in state_dict.items() if not k.startswith(prefix + "plumb_scale.")}
        super()._load_from_state_dict(mine, prefix, *others)


def _autocast_dtype(x):
    """What a linear layer gives for x, and whether autocast says so."""
    if x.device.type == "cuda" and torch.is_autocast_enabled():
        return torch.get_autocast_gpu_dtype(), True
    if x.device.type == "cpu" and torch.is_autocast_cpu_enabled():
        return torch.get_autocast_cpu_dtype(), True
    return x.dtype, False


def update_scales(modules, group=None):
    """Ends a step of delayed scaling: amaxes enter the histories, scales follow.

    With a process group, the amax is the largest of its ranks: all of them must call this.
    """
    layers = [m for m in modules if isinstance(m, EmulatedLinear)]
    alike = {}
    for layer in layers:
        layer.plumb_ran_backward = False
        for part, state in sorted(layer.plumb_states.items()):
            key = layer._spec(part), state.values.shape, state.values.device
            alike.setdefault(key, []).append(state)
    for (spec, _, _), states in alike.items():
        values = torch.stack([state.values for state in states])
        if group is not None:
            newest = values[:, 1].contiguous()
            torch.distributed.all_reduce(newest, torch.distributed.ReduceOp.MAX, group)
            values[:, 1] = newest
        for state, row in zip(states, _next_states(values, spec).unbind()):
            state.values = row.clone()


# The state of an optimizer.

_MOMENTS = {"m": ("exp_avg", "momentum_buffer"), "v": ("exp_avg_sq",)}


def _after_step(optimizer, action):
    """Runs action() behind each optimizer.step(), also under schedulers that wrap it themselves."""
    plain = optimizer.step

    @functools.wraps(plain)
    def step(_, *args, **kwargs):
        result = plain(*args, **kwargs)
        action()
        return result

    optimizer.step = types.MethodType(step, optimizer)


def _as_stored(x, spec):
    """Nothing contracts a moment: small blocks are consecutive elements of the flattened tensor, as
    in COAT.
    """
    flat = _LENGTHS[spec.grain][0] != 0 and _turns(spec)
    return x.reshape(1, -1) if flat or x.dim() < 2 else x.reshape(x.shape[0], -1)


def _key_for(precision, name, part):
    """The key that says what a parameter's part runs in: its own, or that of all."""
    own = "%s/%s" % (name, part)
    return own if own in precision else part


def _cast_moments(optimizer, names):
    for parameter, state in optimizer.state.items():
        for part, fields in _MOMENTS.items():
            key = _key_for(optimizer.precision, names.get(parameter), part)
            spec = parse_spec(optimizer.precision.get(key, "fp32"))
            for field in fields:
                x = state.get(field)
                if (
                    not isinstance(x, torch.Tensor)
                    or spec.format == "fp32"
                    and optimizer.plumb_observer is None
                ):
                    continue
                x.copy_(cast_part(optimizer, key, _as_stored(x.detach(), spec)).reshape(x.shape))


def _check_stateless(precision, what):
    for part, text in precision.items():
        if parse_spec(text).rule == "delayed":
            raise ValueError(
                '%s: "%s" of %s has no history of amaxes; allowed: none, static, current'
                % (text, part, what)
            )


def cast_optimizer(optimizer, precision, model=None, each=False):
    """Keeps the moments of a torch.optim optimizer in formats: {"m": ..., "v": ...}.

    They are cast in place behind each step, so the weights were moved by the moments before they
    were rounded, as in MS-AMP and COAT.  m is exp_avg or momentum_buffer, v exp_avg_sq.  With the
    model, "PARAMETER/m" is the m of one parameter; with `each`, "m" becomes one for each of them.
    """
    _check_stateless(precision, "an optimizer")
    names = {} if model is None else {p: name for name, p in model.named_parameters()}
    if each:
        precision = {f"{name}/{part}": precision[part] for name in names.values() for part in precision}
    optimizer.precision = dict(precision)
    optimizer.precision_uses = _USES
    optimizer.precision_reads = lambda part, use, own: _reads(use, own, stateless=True)
    optimizer.plumb_observer = None

    def action():
        with torch.no_grad():
            _cast_moments(optimizer, names)

    _after_step(optimizer, action)
    return optimizer


# Gradients between ranks.


class GradientCast:
    """A communication hook of DistributedDataParallel: gradients travel in the format of
    precision["grad"].

    Each rank's gradient of each parameter is cast as a flat tensor, with scales of the largest amax
    of all ranks (shared) or of its own; sums are fp32 and averages as DDP's own.  "PARAMETER/grad"
    is the gradient of one parameter.

        hook = plumb_run.GradientCast({"grad": "e5m2"}).install(ddp_model)
    """

    def __init__(self, precision=None, shared=True):
        self.precision = dict(precision or {"grad": "bf16"})
        _check_stateless(self.precision, "a gradient")
        self.precision_uses = _USES
        self.plumb_observer = None
        self.shared = shared
        self.names, self.group = {}, None

    def precision_reads(self, part, use, own):
        return _reads(use, own, stateless=True)

    def install(self, model):
        """Registers the hook; model is a DistributedDataParallel."""
        self.names = {p: name for name, p in model.module.named_parameters()}
        self.group = model.process_group
        model.register_comm_hook(None, self.reduce)
        return self

    def _shared_amaxes(self, gradients, specs):
        """The amaxes of the blocks of each gradient, over all ranks, in one message; None where no
        scale needs one.
        """
        found = [
            (
                _amax(_split(_matrix(g.reshape(1, -1)), *_blocks_of(spec, False, 1, g.numel())))
                if FORMATS[spec.format].scaled and spec.rule == "current" and g.numel() > 0
                else None
            )
            for g, spec in zip(gradients, specs)
        ]
        some = [amax for amax in found if amax is not None]
        if not some:
            return found
        flat = torch.cat([amax.reshape(-1) for amax in some])
        torch.distributed.all_reduce(flat, torch.distributed.ReduceOp.MAX, self.group)
        parts = iter(flat.split([amax.numel() for amax in some]))
        return [None if amax is None else next(parts).reshape(amax.shape) for amax in found]

    def reduce(self, _, bucket):
        """The hook itself."""
        gradients = bucket.gradients()
        keys = [_key_for(self.precision, self.names.get(p), "grad") for p in bucket.parameters()]
        specs = [parse_spec(self.precision.get(key, "fp32")) for key in keys]
        amaxes = self._shared_amaxes(gradients, specs) if self.shared else [None] * len(keys)
        for gradient, key, amax in zip(gradients, keys, amaxes):
            gradient.copy_(
                cast_part(self, key, gradient.reshape(1, -1), amax=amax).reshape(gradient.shape)
            )
        buffer = bucket.buffer().div_(self.group.size())
        work = torch.distributed.all_reduce(buffer, group=self.group, async_op=True)
        return work.get_future().then(lambda future: future.value()[0])


# Recipes.

_DEEPSEEK = "current:divide:floor="

# Name to the specs of x, w and dy in all their products, and of the moments: src/policy/presets.c,
# which has the sources.
RECIPES = {
    "bf16": ("bf16", "bf16", "bf16", "fp32"),
    "te-delayed": (
        "e4m3:tensor:delayed:history=1024",
        "e4m3:tensor:delayed:history=1024",
        "e5m2:tensor:delayed:history=1024",
        "fp32",
    ),
    "te-current": ("e4m3:tensor:current", "e4m3:tensor:current", "e5m2:tensor:current", "fp32"),
    "deepseek-v3": (
        "e4m3:1x128:" + _DEEPSEEK + "1e-4",
        "e4m3:128x128:" + _DEEPSEEK + "1e-4",
        "e4m3:1x128:" + _DEEPSEEK + "1e-12",
        "bf16",
    ),
    "te-mxfp8": ("e4m3:mx32:current",) * 3 + ("fp32",),
    "ocp-mx": ("e4m3:mx32:current:mx-floor",) * 3 + ("fp32",),
    "torchao-rowwise": ("e4m3:row:current:pow2:floor=1e-12",) * 3 + ("fp32",),
}
HEAD = r"(^|\.)(lm_head|head|output|output_layer|embed_out|unembed|classifier)$"


def recipe_precision(recipe):
    """What a recipe says of the parts of a linear layer and of an optimizer: two dicts."""
    if recipe not in RECIPES:
        raise ValueError('"%s" is no recipe; allowed: %s' % (recipe, " ".join(RECIPES)))
    x, w, dy, moments = RECIPES[recipe]
    return {part: {"x": x, "w": w, "dy": dy}[part.split("/")[1]] for part in LINEAR_PARTS}, {
        "m": moments,
        "v": moments,
    }


def emulate(model, optimizer=None, recipe="te-current", head=HEAD, group=None):
    """Makes every torch.nn.Linear of a model an EmulatedLinear in place, and the optimizer keep its
    moments as the recipe says.

    Layers whose name matches head, the output of a language model, run in bf16 as in every recipe.
    With an optimizer, delayed scales move behind its steps, by the largest amax in `group` (the
    data-parallel ranks) where there is one; without, at the first forward pass behind a backward
    pass.  Call it before DDP or torch.compile wrap the model.
    """
    linear, moments = recipe_precision(recipe)
    layers = [
        (name, module) for name, module in model.named_modules() if type(module) is torch.nn.Linear
    ]
    if not layers:
        raise ValueError("the model has no torch.nn.Linear to emulate")
    for name, module in layers:
        EmulatedLinear.convert(
            module, dict.fromkeys(LINEAR_PARTS, "bf16") if re.search(head, name) else linear
        )
    if optimizer is None:
        return model
    emulated = [module for _, module in layers]
    for module in emulated:
        module.plumb_steps_itself = False
    cast_optimizer(optimizer, moments, model)
    _after_step(optimizer, functools.partial(update_scales, emulated, group))
    return model


# --- sites --------------------------------------------------------------------------------
# Whatever has a dict `precision` from parts to formats is a place whose precision can be chosen; a
# policy rewrites the values of the dict before step 1.

_LONGEST_NAME = 127
_WRAPPERS = re.compile(r"(^|\.)(module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)"
                       r"(?=\.|$)")
_LAYER = r"(?:^|\.)(\d+)(?:\.|$)"

# first word of a part: class of the site
_CLASSES = {
    "fprop": "forward", "qk": "forward", "pv": "forward",
    "dgrad": "backward", "wgrad": "backward",
    "dp": "backward", "dv": "backward", "dq": "backward", "dk": "backward",
    "m": "optimizer", "v": "optimizer", "grad": "collective",
    "loss": "loss", "norm": "norm", "softmax": "softmax",
}
_GEMMS = ("fprop", "dgrad", "wgrad", "qk", "pv", "dp", "dv", "dq", "dk")


def _bits_of(use):
    """Bits of a format by its name; None for names of the trainer's own."""
    form = FORMATS.get(use.partition(":")[0])
    return None if form is None else form.bits


class _Site:
    """One entry of one `precision`."""

    def __init__(self, owner, part, name, layer, module):
        self.owner, self.part, self.name, self.layer, self.module = owner, part, name, layer, module
        self.own = owner.precision[part]
        words = part.split("/")
        kind = getattr(owner, "precision_class", None)
        kind = kind.get(part) if isinstance(kind, dict) else kind
        last = words[-1]
        self.kind = kind or _CLASSES.get(words[0]) or _CLASSES.get(last) or "forward"
        self.gemm = words[0] if words[0] in _GEMMS else None
        self.operand = last if len(words) > 1 or last in ("m", "v") else None
        uses = getattr(owner, "precision_uses", ("bf16",))
        uses = uses.get(part, ("bf16",)) if isinstance(uses, dict) else uses
        self.uses = [use for use in dict.fromkeys(uses) if use != self.own][:64]
        self.shares = None  # a site whose quantised data are the same memory

    def set(self, use):
        self.owner.precision[self.part] = use

    def declared(self):
        fields = {"name": self.name, "class": self.kind, "own": self.own, "uses": self.uses,
                  "layer": self.layer, "gemm": self.gemm, "operand": self.operand,
                  "shares_storage_with": self.shares, "module": self.module}
        return {key: value for key, value in fields.items() if value is not None}


def _has_precision(thing):
    places = getattr(thing, "precision", None)
    return isinstance(places, dict) and bool(places) and all(
        isinstance(part, str) and isinstance(use, str) for part, use in places.items())


def _clean(name):
    return "".join(c if "!" <= c <= "~" else "_" for c in name)


def _place(name, layers):
    """Layer and short name of a module: "transformer.h.3.mlp.c_proj" is 3 and "mlp.c_proj"."""
    name = _WRAPPERS.sub("", name).strip(".")
    found = re.search(layers, name)
    if found is None or not found.group(1).isdigit() or len(found.group(1)) > 6:
        return None, name, name
    rest = name[found.end():].strip(".")
    return int(found.group(1)), rest or name[:found.start()].rpartition(".")[2] or "module", name


def _owners(objects, layers, te_debug):
    """(layer, short name, long name, owner) of everything that has a `precision`."""
    for thing in objects:
        if hasattr(thing, "named_modules"):
            for name, module in thing.named_modules():
                owner = module if _has_precision(module) else _adapt(module, te_debug)
                if owner is not None:
                    yield _place(name, layers) + (owner,)
        elif _has_precision(thing):
            name = "optimizer" if hasattr(thing, "param_groups") else \
                getattr(thing, "precision_name", None) or type(thing).__name__.lower()
            if any(part.split("/")[0] == "grad" for part in thing.precision):
                name = getattr(thing, "precision_name", None) or "collective"
            yield None, name, name, thing


def _own_dicts(owners):
    """A dict that several share (one written in the class, say) becomes one for each."""
    seen = set()
    for *_, owner in owners:
        if id(owner.precision) in seen or "precision" not in getattr(owner, "__dict__", {}):
            owner.precision = dict(owner.precision)
        seen.add(id(owner.precision))


def _shorten(name):
    if len(name) <= _LONGEST_NAME:
        return name
    mark = hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
    return name[:40] + "~" + mark + "~" + name[-70:]


def _part_name(prefix, layer, part, layers):
    """An optimizer's part may name a parameter: "h.3.mlp.weight/m" is of layer 3."""
    parameter, slash, state = part.rpartition("/")
    if prefix.startswith("optimizer") and slash:
        layer, short, _ = _place(parameter, layers)
        part = "%s/%s/%s" % (prefix, short, state)
    else:
        part = "%s/%s" % (prefix, part) if prefix else part
    return layer, _clean(part if layer is None else "layer.%d/%s" % (layer, part))


def find_sites(objects, layers=_LAYER, te_debug=False):
    """The sites of everything with a `precision`, in the order of the objects."""
    owners = list(_owners(objects, layers, te_debug))
    _own_dicts(owners)
    count = collections.Counter((layer, short) for layer, short, _, _ in owners)
    sites, names = [], set()
    for layer, short, long, owner in owners:
        if count[layer, short] > 1:  # of two layers 3 each keeps what stands before the number
            short = re.sub(r"\.?\d+\.?", ".", long, count=1).strip(".") if layer is not None else long
        mine = {}
        for part in owner.precision:
            at, name = _part_name(short, layer, part, layers)
            name = base = _shorten(name)
            number = 1
            while name in names:
                number += 1
                name = "%s~%d" % (base[:_LONGEST_NAME - 12], number)
            names.add(name)
            mine[part] = _Site(owner, part, name, at, long)
        for part, other in (getattr(owner, "precision_shares", None) or {}).items():
            if part in mine and other in mine:
                mine[part].shares = mine[other].name
        sites += mine.values()
    return sites


def _bracket(glob, at):
    """The bracket expression that begins at glob[at] as (set of characters, where it ends)."""
    end = at + 1
    negated = glob[end:end + 1] in ("!", "^")
    end += negated
    chosen, first = set(), True
    while end < len(glob) and (glob[end] != "]" or first):
        if glob[end] == "[" and glob[end + 1:end + 2] in (":", ".", "="):
            _refuse("the policy's glob '%s' has a character class, which is not known here" % glob)
        low_at = end + (glob[end] == "\\" and end + 1 < len(glob))
        end = low_at + 1
        low = high = glob[low_at]
        if glob[end:end + 1] == "-" and glob[end + 1:end + 2] not in ("", "]"):
            high_at = end + 1 + (glob[end + 1] == "\\" and end + 2 < len(glob))
            high, end = glob[high_at], high_at + 1
        chosen.update(map(chr, range(ord(low), min(ord(high), 0x7E) + 1)))
        first = False
    if end >= len(glob):
        return None, at + 1  # never closed: it stands for itself
    every = set(map(chr, range(0x20, 0x7F)))
    return every - chosen if negated else chosen & every, end + 1


def glob_pattern(glob):
    """POSIX fnmatch without flags as a compiled pattern: `*` also crosses `/`."""
    at, parts = 0, []
    while at < len(glob):
        c = glob[at]
        at += 1
        if c == "*":
            parts.append("" if parts and parts[-1] == ".*" else ".*")
        elif c == "?":
            parts.append(".")
        elif c == "[":
            chosen, after = _bracket(glob, at - 1)
            if chosen is None:
                parts.append(re.escape(c))
            else:
                inside = "".join(map(re.escape, sorted(chosen)))
                parts.append("[%s]" % inside if chosen else "(?!)")
                at = after
        elif c == "\\":
            parts.append(re.escape(glob[at]) if at < len(glob) else "(?!)")
            at += 1
        else:
            parts.append(re.escape(c))
    return re.compile("".join(parts), re.DOTALL)


class _Rule:
    def __init__(self, record, where):
        globs = record.get("sites") if isinstance(record, dict) else None
        globs = [globs] if isinstance(globs, str) else globs
        use = record.get("use") if isinstance(record, dict) else None
        lift = record.get("raise", False) if isinstance(record, dict) else None
        if not isinstance(globs, list) or not globs or len(globs) > 10000 or not all(
                isinstance(glob, str) and len(glob.encode()) <= 256 for glob in globs):
            _refuse("%s: 'sites' must be a glob or a list of at most 10000 globs of 256 bytes" % where)
        if not isinstance(use, str) or not re.fullmatch("[!-~]{1,127}", use):
            _refuse("%s: 'use' must be a name of 1 to 127 printable characters" % where)
        if not isinstance(lift, bool):
            _refuse("%s: 'raise' must be true or false" % where)
        self.globs, self.use, self.lift = globs, use, lift
        self.patterns = [glob_pattern(glob) for glob in globs]

    def matches(self, name):
        return any(pattern.fullmatch(name) for pattern in self.patterns)

    def applies(self, site):
        """A rule that raises leaves alone what has as many bits already."""
        if not self.lift:
            return True
        if self.use == "own":
            return False
        here, there = _bits_of(site.own), _bits_of(self.use)
        return self.use != site.own if here is None or there is None else there > here


def _load_rules(path):
    records = _load_json(path, 64 << 20)
    if records is None:
        _refuse("PLUMB_POLICY is '%s': there is no such file" % path)
    if not isinstance(records, list) or len(records) > 10000:
        _refuse("%s: the policy must be a list of at most 10000 rules" % path)
    return [_Rule(record, "%s: rule %d" % (path, k + 1)) for k, record in enumerate(records)]


def _resolve(site, use):
    """What to write into the dict; None where the site cannot run so."""
    if use in ("own", site.own):
        return site.own
    reads = getattr(site.owner, "precision_reads", None)
    if reads is not None:
        return reads(site.part, use, site.own)
    if ":" not in use and (_bits_of(use) or 99) <= 8 and (_bits_of(site.own) or 99) <= 8:
        kept = use + "".join(site.own.partition(":")[1:])  # a bare format keeps the scale rule
        if kept in site.uses:
            return kept
    return use if use in site.uses or use == "bf16" else None


def apply_rules(sites, rules):
    """The last rule that matches a site wins.  Gives the rules that match nothing."""
    used = set()
    for site in sites:
        chosen, number = "own", 0
        for index, rule in enumerate(rules):
            if rule.matches(site.name):
                used.add(index)
                if rule.applies(site):
                    chosen, number = rule.use, index + 1
        effective = _resolve(site, chosen)
        if effective is None:
            _refuse("rule %d of the policy: site %s cannot run in '%s'; allowed: %s"
                    % (number, site.name, chosen, " ".join([site.own] + site.uses)))
        site.set(effective)
    return [{"rule": index, "sites": rule.globs} for index, rule in enumerate(rules)
            if index not in used]


# --- backends -----------------------------------------------------------------------------
# Precision that other libraries choose, made to look like objects with a `precision`.  They are known
# by the names of their classes and modules; nothing is imported that the script has not imported.


class _Adaptor:
    """A `precision` for a module of another library; precision_changed() carries it over."""

    precision_uses = ("bf16",)

    def __init__(self, module, precision):
        self.module, self.precision = module, precision
        self.own = dict(precision)

    def low(self, part):
        """Whether the part runs as the module came."""
        return self.precision[part] == self.own[part]


class _Torchao(_Adaptor):
    """Float8Linear of torchao: both operands of a product are in float8, or both are as they came, so a
    product is one site.
    """

    CASTS = {"fprop": ("cast_config_input", "cast_config_weight"),
             "dgrad": ("cast_config_grad_output", "cast_config_weight_for_grad_input"),
             "wgrad": ("cast_config_input_for_grad_weight", "cast_config_grad_output_for_grad_weight")}
    FORMATS = {"fprop": "e4m3", "dgrad": "e5m2", "wgrad": "e5m2"}

    def __init__(self, module):
        super().__init__(module, {part: self._own(module.config, part) for part in self.CASTS})
        self.config = module.config

    @staticmethod
    def _disabled(cast):
        kind = getattr(cast.scaling_type, "value", None)
        return kind == "disabled" or getattr(cast, "keep_in_original_precision", False)

    def _own(self, config, part):
        """The format of dY, or of X and W; of no granularity but the two that torchao has."""
        cast = getattr(config, self.CASTS[part][part == "wgrad"])
        if self._disabled(cast):
            return "bf16"
        target = str(getattr(cast, "target_dtype", None) or "")
        name = "e5m2" if "e5m2" in target else "e4m3" if "e4m3" in target else self.FORMATS[part]
        rule = getattr(cast.scaling_type, "value", "dynamic")
        row = ":row" if getattr(cast.scaling_granularity, "value", "") == "axiswise" else ""
        return name + row + (":delayed" if rule == "delayed" else ":current")

    def precision_changed(self):
        changed = {}
        for part, casts in self.CASTS.items():
            for name in () if self.low(part) else casts:
                cast = getattr(self.config, name)
                kinds = type(cast.scaling_type)
                if hasattr(kinds, "DISABLED"):
                    changed[name] = dataclasses.replace(cast, scaling_type=kinds.DISABLED)
                else:
                    changed[name] = dataclasses.replace(cast, keep_in_original_precision=True)
        if changed:
            self.module.config = dataclasses.replace(self.config, **changed)


def _te_autocast(enabled):
    """Transformer Engine's context under its new or its old name."""
    te = sys.modules["transformer_engine.pytorch"]
    return (getattr(te, "autocast", None) or te.fp8_autocast)(enabled=enabled)


class _TransformerEngine(_Adaptor):
    """A module of Transformer Engine runs in high precision, forward and backward, where its forward runs
    outside the autocast: one site.
    """

    precision_class = "forward"

    def __init__(self, module):
        super().__init__(module, {"fp8": "fp8"})

    def precision_changed(self):
        if self.low("fp8"):
            return
        inner = self.module.forward

        def forward(*arguments, **named):
            with _te_autocast(False):
                return inner(*arguments, **named)

        self.module.forward = forward


class _TransformerEngineDebug(_Adaptor):
    """The same with the debug tools (nvdlfw_inspect): a site for each product.  te_debug_yaml() says what
    is switched off.
    """

    def __init__(self, module, name):
        super().__init__(module, {part: "fp8" for part in ("fprop", "dgrad", "wgrad")})
        self.name = name


def te_debug_yaml(off):
    """The file for nvdlfw_inspect that runs products in high precision: {layer name: [gemms]}.  A layer may
    stand in one section only, so layers with the same products share one.
    """
    sections = {}
    for name, gemms in off.items():
        if gemms:
            sections.setdefault(tuple(sorted(gemms)), []).append(name)
    text = []
    for number, (gemms, names) in enumerate(sorted(sections.items())):
        pattern = "^(%s)$" % "|".join(re.escape(name) for name in sorted(names))
        text.append("""plumb_%d:
  enabled: True
  layers:
    layer_name_regex_pattern: '%s'
  transformer_engine:
    DisableQuantizationGEMM:
      enabled: True
      gemms: [%s]
""" % (number, pattern.replace("'", "''"), ", ".join(gemms)))
    return "".join(text) or "{}\n"


class _DebugTools:
    """nvdlfw_inspect, told what the policy switches off.  It reads its file once, before the first step."""

    def __init__(self, directory, owners):
        import nvdlfw_inspect.api as api
        import transformer_engine
        self.api = api
        path = os.path.join(directory, "te-debug-rank%05d.yaml" % _rank_and_world()[0])
        off = {owner.name: [part for part in owner.precision if not owner.low(part)]
               for owner in owners}
        with open(path, "w", encoding="utf-8") as file:
            file.write(te_debug_yaml(off))
        features = os.path.join(os.path.dirname(transformer_engine.__file__), "debug", "features")
        api.initialize(config_file=path, feature_dirs=[features], log_dir=directory)

    def step(self):
        self.api.step()


class Autocast:
    """torch.autocast as a place whose precision can be chosen, for scripts whose only low precision it is:
    `with cast: loss = model(...)`.  One site, "autocast".
    """

    precision_class, precision_name = "forward", "autocast"
    precision_uses = ("bf16", "fp32")

    def __init__(self, device="cuda", dtype=None):
        self.device = device
        self.dtype = torch.float16 if dtype is None else dtype
        name = {torch.float16: "fp16", torch.bfloat16: "bf16"}.get(self.dtype, str(self.dtype))
        # Not "fp16": a policy that raises would leave 16 bits alone, and range is what fp16 lacks.
        self.precision = {"all": "bf16" if name == "bf16" else "autocast-" + name}
        self.contexts = []

    def __enter__(self):
        use = self.precision["all"]
        dtype = torch.bfloat16 if use == "bf16" else self.dtype
        self.contexts.append(torch.autocast(self.device, dtype=dtype, enabled=use != "fp32"))
        return self.contexts[-1].__enter__()

    def __exit__(self, *error):
        return self.contexts.pop().__exit__(*error)


def _is_of(module, class_name, package):
    return any(c.__name__ == class_name and c.__module__.split(".")[0] == package
               for c in type(module).__mro__)


def _adapt(module, te_debug):
    """The adaptor of another library's module, or None."""
    if _is_of(module, "Float8Linear", "torchao"):
        return _Torchao(module)
    if _is_of(module, "TransformerEngineBaseModule", "transformer_engine") and \
            re.search("Linear|MLP", type(module).__name__):  # attention and norms are left alone
        name = getattr(module, "name", None)
        return _TransformerEngineDebug(module, name) if te_debug and name else \
            _TransformerEngine(module)
    return None


# --- sensors ------------------------------------------------------------------------------
# Whatever casts and has an attribute `plumb_observer` can be watched: at a step that is sampled it is
# a function (part, x, decoded, format, scale) to call behind each cast, else None.  What is counted stays
# on the device until the step ends: one transfer a step.

_REALS = ("amax", "decoded_amax", "headroom", "scale")
_COUNTS = ("total", "saturated", "flushed", "zero", "nonfinite")
_MOST_CHUNK = 32 << 20
_LANES = 256


def _crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _crc_table()


def _crc_lanes(numpy, data):
    """State after `data`, a multiple of 256 bytes: its 256 parts go side by side, and each is moved past
    those behind it.  What moving does to each bit is found with 32 lanes of zeros.
    """
    table, length = numpy.array(_CRC, dtype=numpy.uint32), len(data) // _LANES
    columns = numpy.zeros((length, _LANES + 32), dtype=numpy.uint8)
    columns[:, :_LANES] = numpy.frombuffer(data, dtype=numpy.uint8).reshape(_LANES, length).T
    state = numpy.zeros(_LANES + 32, dtype=numpy.uint32)
    state[0] = 0xFFFFFFFF
    state[_LANES:] = 1 << numpy.arange(32, dtype=numpy.uint32)
    for column in columns:
        state = state >> 8 ^ table[(state ^ column) & 0xFF]
    state = state.tolist()
    moved, crc = state[_LANES:], state[0]
    for lane in state[1:_LANES]:
        for bit in range(32):
            if crc >> bit & 1:
                lane ^= moved[bit]
        crc = lane
    return crc


def crc32c(data):
    """CRC-32C of the .pls format.  A byte at a time takes 0.1 us; long data go 256 bytes at a time."""
    crc, done, numpy = 0xFFFFFFFF, 0, sys.modules.get("numpy")
    if numpy is not None and len(data) >= 16384:
        done = len(data) // _LANES * _LANES
        crc = _crc_lanes(numpy, data[:done])
    for byte in data[done:]:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class PlsFile:
    """sites-rank%05d.pls: `columns` are (name, type) with step and site among them."""

    CODES = {"u32": "I", "i32": "i", "f32": "f", "u64": "Q", "i64": "q", "f64": "d"}

    def __init__(self, path, names, columns):
        self.columns = columns
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self.descriptor = os.open(path, flags, 0o666)
        text = json.dumps({"sites": names, "columns": [list(column) for column in columns]}).encode()
        _write_all(self.descriptor,
                   struct.pack("<8sIII", b"PLUMBPLS", 1, len(text), crc32c(text)) + text)

    def write(self, rows):
        """Rows are dicts; as few chunks as the format allows."""
        width = sum(struct.calcsize("<" + self.CODES[kind]) for _, kind in self.columns)
        most = max(1, _MOST_CHUNK // width)
        for at in range(0, len(rows), most):
            self._chunk(rows[at:at + most])

    def _chunk(self, rows):
        body = b"".join(struct.pack("<%d%s" % (len(rows), self.CODES[kind]),
                                    *[row[name] for row in rows]) for name, kind in self.columns)
        steps = [row["step"] for row in rows]
        tail = struct.pack("<IIQQ", len(rows), 0, min(steps), max(steps)) + body
        _write_all(self.descriptor, struct.pack("<II", len(body), crc32c(tail)) + tail)

    def close(self):
        os.close(self.descriptor)


def _plain_counts(x, decoded):
    """Of a cast to a format that is not known here: past the largest value is what became infinite or
    no number; of scale and headroom nothing is known.
    """
    x, decoded = x.detach().float(), decoded.detach().float().reshape(x.shape)
    finite, unknown = x.isfinite(), x.new_full((), math.nan)
    return {"amax": x.abs().nan_to_num(nan=0.0, posinf=math.inf).amax(),
            "decoded_amax": decoded.abs().nan_to_num(nan=0.0, posinf=0.0).amax(),
            "headroom": unknown, "scale": unknown,
            "total": torch.full_like((x == 0).sum(), x.numel()),
            "saturated": (finite & ~decoded.isfinite()).sum(),
            "flushed": ((x != 0) & (decoded == 0)).sum(),
            "zero": (x == 0).sum(), "nonfinite": (~finite).sum()}


def _counts_of(x, decoded, name, scale):
    try:
        return site_counts(x, decoded, name, scale)
    except ValueError:  # a name of the script's own
        return _plain_counts(x, decoded)


def _joined(a, b):
    """Two samples of a site in one step: another micro-batch."""
    joined = {key: a[key] + b[key] for key in _COUNTS}
    for key in a:
        if key not in joined:
            lesser, greater = (b[key], a[key]) if b[key] < a[key] else (a[key], b[key])
            joined[key] = lesser if key == "headroom" else greater
    return joined


class _Sensors:
    """Site statistics of step 1 and of every k-th step."""

    def __init__(self, sites, every, path, shadow):
        self.every, self.shadow, self.rows, self.shades, self.hooks = every, shadow, [], [], []
        self.index = {(id(site.owner), site.part): k for k, site in enumerate(sites)}
        self.owners = list({id(site.owner): site.owner for site in sites
                            if hasattr(site.owner, "plumb_observer")}.values())
        columns = [("step", "u64"), ("site", "u32")] + [(key, "f32") for key in _REALS]
        columns += [(key, "u64") for key in _COUNTS]
        columns += [("shadow", "f32")] if shadow else []
        self.file = PlsFile(path, [site.name for site in sites], columns)

    def arm(self, step):
        """Before a step: watch, or look away."""
        watch = step == 1 or step % self.every == 0
        for owner in self.owners:
            owner.plumb_observer = functools.partial(self.see, id(owner)) if watch else None
        for hook in self.hooks:
            hook.remove()
        self.hooks = [owner.register_forward_hook(self.shade) for owner in self.owners
                      if hasattr(owner, "register_forward_hook")] if watch and self.shadow else []

    def see(self, owner, part, x, decoded, name, scale=None):
        number = self.index.get((owner, part))
        if number is None or x.numel() == 0:
            return
        with torch.no_grad():
            counts = _counts_of(x, decoded, name, scale)
            self.rows.append((number, torch.stack([counts[key].float() for key in _REALS]),
                              torch.stack([counts[key] for key in _COUNTS])))

    def shade(self, module, inputs, output):
        """The module once more in bf16 on the same inputs: |y - y'| / |y'| of its output."""
        number = self.index.get((id(module), next(iter(module.precision))))
        if number is None or not _is_tensor(output) or not torch.is_grad_enabled() or \
                hasattr(module, "precision_changed"):
            return
        kept, observer = dict(module.precision), module.plumb_observer
        buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
        devices = [output.device] if output.device.type == "cuda" else []
        module.plumb_observer = None
        module.precision.update(dict.fromkeys(kept, "bf16"))
        try:
            with torch.no_grad(), torch.random.fork_rng(devices):
                other = module.forward(*inputs).float()
                distance = (output.float() - other).norm() / other.norm()
        finally:
            module.precision.update(kept)
            module.plumb_observer = observer
            for buffer, before in buffers:
                buffer.data.copy_(before)  # autograd may have kept the buffer: its version stays
        self.shades.append((number, distance.float()))

    def _fetch(self):
        """Everything of the step in one transfer: counts and reals as bytes side by side."""
        if not self.rows:
            return []
        device = self.rows[0][1].device
        reals = torch.stack([reals.to(device) for _, reals, _ in self.rows])
        counts = torch.stack([counts.to(device) for _, _, counts in self.rows])
        shades = torch.stack([value.to(device) for _, value in self.shades] or
                             [reals.new_zeros(())])
        data = _fetch(torch.cat([_flat_bytes(reals), _flat_bytes(counts), _flat_bytes(shades)]))
        n, found = len(self.rows), []
        reals = struct.unpack_from("<%df" % (4 * n), data)
        counts = struct.unpack_from("<%dq" % (5 * n), data, 16 * n)
        shades = struct.unpack_from("<%df" % len(self.shades), data, 56 * n)
        for k, (number, _, _) in enumerate(self.rows):
            found.append((number, {**dict(zip(_REALS, reals[4 * k:])),
                                   **dict(zip(_COUNTS, counts[5 * k:]))}))
        self.shadow_of = {}
        for (number, _), value in zip(self.shades, shades):
            self.shadow_of[number] = max(value, self.shadow_of.get(number, value))
        return found

    def flush(self, step):
        """Behind a step."""
        rows = {}
        for number, row in self._fetch():
            rows[number] = _joined(rows[number], row) if number in rows else row
        if rows:
            more = {"step": step}
            self.file.write([{**row, **more, "site": number,
                              "shadow": self.shadow_of.get(number, math.nan)}
                             for number, row in sorted(rows.items())])
        self.rows, self.shades = [], []

    def close(self):
        for owner in self.owners:
            owner.plumb_observer = None
        for hook in self.hooks:
            hook.remove()
        self.file.close()


# --- run ----------------------------------------------------------------------------------
# start() reads the request and writes run.json; the Run writes a line for each step and the end.

# What a script may promise beyond what this file does by itself, and the call that keeps the promise.
_PROMISES = {
    "checkpoint": "first_step",
    "exact_resume": "first_step",
    "state_hash": "log(state=...)",
    "batch_hash": "batch(tokens) or log(batch=tokens)",
    "data_seed": "data_seed(own)",
    "micro_order": "micro_order(count)",
    "lr_scale": "lr(value)",
    "warmup_scale": "warmup(steps)",
    "clip_scale": "clip(threshold)",
    "skip": "batch_number(step)",
}


def _rank_and_world():
    """From torch.distributed where it runs, else from what launchers leave in the environment."""
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    for rank, world in (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                        ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
        if re.fullmatch("[0-9]{1,9}", os.environ.get(rank, "")):
            size = os.environ.get(world, "")
            size = int(size) if re.fullmatch("[0-9]{1,9}", size) else 1
            return int(os.environ[rank]), max(size, int(os.environ[rank]) + 1)
    return 0, 1


class Run:
    """Outside plumb: every call gives what the script has anyway."""

    active = False
    first_step = 1
    sites = ()

    def batch(self, tokens):
        """Token ids of this step's batch, or of one of its micro-batches, for batch_hash."""

    def log(self, step, loss, grad_norm=None, batch=None, state=None, **more):
        """The line of a step, after the optimizer's step."""

    def should_stop(self, step):
        """At the end of a step: whether to leave the loop."""
        return False

    def checkpoint(self, step, ref=None):
        """Saves a checkpoint, or tells of one that the script saved under the name `ref`."""

    def end(self, reason=None):
        """After the loop."""

    def event(self, name, **fields):
        """A line of events.jsonl."""

    def data_seed(self, own):
        """The seed of the data order."""
        return own

    def micro_order(self, count):
        """The order in which to take the micro-batches of this step, from 0."""
        return list(range(count))

    def lr(self, value):
        """A learning rate as it is to be used.  Only where no optimizer was given to start()."""
        return value

    def warmup(self, steps):
        """The length of the warm-up, in steps."""
        return steps

    def clip(self, threshold):
        """The threshold of gradient clipping."""
        return threshold

    def batch_number(self, step):
        """Which batch to use in a step, counted from 1."""
        return step


class _Run(Run):
    """A run that plumb asked for."""

    active = True
    current = None

    def __init__(self, objects, options):
        self.request, self.options = _request(), options
        self.objects = objects
        self.rank, self.world = _rank_and_world()
        self.calls, self.hashes, self.group = set(), [], None
        self.config_hash, self.on_term = "", None
        self.step = self.last = 0
        self.first_step, self.finite, self.stopping, self.ended = 1, True, False, False
        self.metrics = self.events = None
        self.schedule_steps = options["schedule_steps"]
        self.sites = find_sites(objects, options["layers"] or _LAYER, options["te_debug"])
        self.sensors = self.tools = None
        self.features = self._features()
        self._check_request()
        directory = self.request.run_dir
        if self.rank == 0:
            if os.path.exists(os.path.join(directory, "run.json")):
                _refuse("%s already holds a run (run.json): each run needs a directory of its own, "
                        "also when a launcher starts its processes again" % directory)
            self.metrics = _Lines(os.path.join(directory, "metrics.jsonl"))
        name = "events.jsonl" if self.rank == 0 else "events-rank%05d.jsonl" % self.rank
        self.events = _Lines(os.path.join(directory, name))
        self.flight = _Flight(os.path.join(directory, "flight-rank%05d.json" % self.rank),
                              self.rank, options["patience"])
        self.flight.note("start")
        _Run.current = self

    # what it can do

    def _optimizers(self):
        return [thing for thing in self.objects
                if hasattr(thing, "param_groups") and hasattr(thing, "step")]

    def _features(self):
        promised = self.options["promises"]
        promised = promised.split() if isinstance(promised, str) else list(promised)
        for word in promised:
            if word not in _PROMISES:
                _refuse("start(promises=...) has '%s'; allowed: %s" % (word, " ".join(_PROMISES)))
        if "exact_resume" in promised and "checkpoint" not in promised:
            _refuse("start(promises=...) has exact_resume without checkpoint")
        if any(True for _ in _state_of(self.objects)):
            promised.append("state_hash")
        self.scales_lr = bool(self._optimizers()) and "lr_scale" not in promised
        if self.scales_lr:
            promised.append("lr_scale")
        if any(hasattr(site.owner, "plumb_observer") for site in self.sites):
            promised.append("observe")
        if "checkpoint" in promised and torch is None and self.options["load"] is None:
            _refuse("start(promises=...) has checkpoint, which without PyTorch needs load=")
        return list(dict.fromkeys(promised))

    def _check_request(self):
        """What is asked must be promised: a value that is not obeyed is refused."""
        for key, feature in (("data_seed",) * 2, ("micro_order",) * 2, ("warmup_scale",) * 2,
                             ("clip_scale",) * 2, ("lr_scale",) * 2, ("skip",) * 2,
                             ("start", "checkpoint")):
            value = getattr(self.request, key)
            asked = value is not None and not (key.endswith("_scale") and value == 1)
            if asked and feature not in self.features:
                _refuse("PLUMB_%s is set, but this script does not promise '%s' (python/README.md "
                        "says how: run.%s)" % (key.upper(), feature, _PROMISES[feature]))
        if self.request.observe_every and "observe" not in self.features:
            _refuse("PLUMB_OBSERVE_EVERY is set, but no site of this script can be observed")
        _check_seed()

    # before step 1

    def prepare(self):
        self.config_hash = _config_hash(self.options["config"])
        if self.request.start is not None:
            self._resume(self.request.start)
        unmatched = []
        rules = _load_rules(self.request.policy) if self.request.policy else None
        if rules is not None:
            unmatched = apply_rules(self.sites, rules)
        if self.rank == 0:
            self._declare()
        if rules is not None:
            self.event("policy", rules=len(rules), unmatched=unmatched)
        if self.request.stop_at == 0:
            self._close("reached")
            sys.exit(0)
        self._scale_lr()
        self._carry_over()
        self._catch()

    def _declare(self):
        options = self.options
        main = getattr(sys.modules.get("__main__"), "__file__", None) or "python"
        fields = {"contract": 1, "trainer": options["trainer"] or os.path.basename(main),
                  "version": options["version"], "config_hash": self.config_hash,
                  "world_size": self.world, "schedule_steps": self.schedule_steps,
                  "warmup_steps": options["warmup_steps"],
                  "unigram_entropy": options["unigram_entropy"], "features": self.features,
                  "sites": [site.declared() for site in self.sites],
                  "state_hash": self.options["state_hash"], "plumb_run": __version__}
        _write_whole(os.path.join(self.request.run_dir, "run.json"),
                     {key: value for key, value in fields.items() if value is not None})

    def _carry_over(self):
        """Tells what does not read its `precision` by itself, and switches the sensors on."""
        owners = {id(site.owner): site.owner for site in self.sites}.values()
        for owner in owners:
            if hasattr(owner, "precision_changed"):
                owner.precision_changed()
        debugged = [owner for owner in owners if isinstance(owner, _TransformerEngineDebug)]
        if debugged:
            self.tools = _DebugTools(self.request.run_dir, debugged)
        if self.request.observe_every:
            path = os.path.join(self.request.run_dir, "sites-rank%05d.pls" % self.rank)
            self.sensors = _Sensors(self.sites, self.request.observe_every, path,
                                    self.options["shadow"])
            self.sensors.arm(self.first_step)

    def _scale_lr(self):
        """The factor is in the groups only while the optimizer steps, so that no schedule sees it."""
        scale = self.request.lr_scale
        if scale in (None, 1.0) or not self.scales_lr:
            return
        for optimizer in self._optimizers():
            _wrap_step(optimizer, scale)

    def _catch(self):
        """An end of any kind leaves end.json: exceptions, the end of the interpreter, SIGTERM."""
        before = sys.excepthook

        def broken(kind, value, trace):
            self.flight.note("exception", kind=kind.__name__, text=str(value)[:500])
            self.flight.write("exception")
            self._close("error")
            before(kind, value, trace)

        sys.excepthook = broken
        atexit.register(self._at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave)
        if threading.current_thread() is not threading.main_thread():
            return
        earlier = signal.getsignal(signal.SIGTERM)

        def asked(number, frame):
            self.stopping = True
            if callable(earlier):
                earlier(number, frame)

        self.on_term = asked
        signal.signal(signal.SIGTERM, asked)
        taken = signal.set_wakeup_fd(self.flight.writer, warn_on_full_buffer=False)
        if taken != -1:
            signal.set_wakeup_fd(taken)

    def _leave(self):
        """A child that was forked (a worker of a DataLoader) is no part of the run: it ends by SIGTERM,
        and its end is not the run's.
        """
        if self.ended:
            return
        self.ended = True
        on_main = threading.current_thread() is threading.main_thread()
        if on_main and self.on_term is not None and \
                signal.getsignal(signal.SIGTERM) is self.on_term:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)

    def _at_exit(self):
        """The script left without end(): it is believed only as far as its log goes."""
        if self.ended:
            return
        reason = self._reason()
        goal = self.request.stop_at or self.schedule_steps
        if reason == "reached" and not (goal and self.last >= goal):
            reason = "error"
        self._close(reason)

    # the loop

    def batch(self, tokens):
        self.hashes.append(hashlib.blake2b(_token_bytes(tokens), digest_size=8).digest())

    def _batch_digest(self):
        """Of the micro-batches in any order, since micro_order changes it and not the batch."""
        hashes, self.hashes = sorted(self.hashes), []
        return hashlib.blake2b(b"".join(hashes), digest_size=8).digest() if hashes else None

    def log(self, step, loss, grad_norm=None, batch=None, state=None, **more):
        step = int(step)
        if batch is not None:
            self.batch(batch)
        if step <= self.last or (self.last == 0 and step < self.first_step):
            raise ValueError("step %d was logged, but step %d was to come" %
                             (step, max(self.last + 1, self.first_step)))
        digest, loss = self._join(step, self._batch_digest(), float(loss))
        fields = {"step": step, "loss": loss}
        if grad_norm is not None:
            fields["grad_norm"] = float(grad_norm)
        if digest is not None:
            fields["batch_hash"] = _hex(digest)
        if more.get("lr") is not None and self.scales_lr:
            more["lr"] = float(more["lr"]) * (self.request.lr_scale or 1.0)
        if self.rank == 0:
            if state is not None:
                fields["state_hash"] = _hex(hashlib.blake2b(_token_bytes(state),
                                                            digest_size=8).digest())
            elif "state_hash" in self.features:
                fields["state_hash"] = state_hash(self.objects, step,
                                                  self.options["state_hash"] == "full")
            fields.update((key, value) for key, value in more.items() if value is not None)
            self.metrics.write(fields)
        self.finite = math.isfinite(loss) and math.isfinite(fields.get("grad_norm", 0.0))
        first, self.last = self.last == 0, step
        self.flight.note("step", step=step, loss=loss)
        if self.sensors is not None:
            self.sensors.flush(step)
            self.sensors.arm(step + 1)
        if self.tools is not None:
            self.tools.step()
        if first:
            self._after_first(step, fields)

    def _after_first(self, step, fields):
        """The promises that the request relies on must have been kept by now."""
        self.event("effective", step=step,
                   sites={site.name: site.owner.precision[site.part] for site in self.sites})
        by_calls = ["data_seed", "micro_order", "warmup_scale", "clip_scale", "skip"]
        if not self.scales_lr:
            by_calls.append("lr_scale")
        for key in by_calls:
            if getattr(self.request, key) is not None and key not in self.calls:
                raise RuntimeError("start() was told of '%s', but run.%s was not called by the end of "
                                   "step %d" % (key, _PROMISES[key], step))
        if self.first_step != step:
            raise RuntimeError("the run was to begin at step %d (run.first_step) but began at step %d"
                               % (self.first_step, step))
        for feature in ("batch_hash", "state_hash"):
            if feature in self.features and feature not in fields and self.rank == 0:
                raise RuntimeError("start() was told of '%s', but step %d has none: run.%s"
                                   % (feature, step, _PROMISES[feature]))

    def should_stop(self, step):
        if self.request.checkpoint_at and step in self.request.checkpoint_at \
                and "checkpoint" in self.features and self.options["load"] is None:
            self.checkpoint(step)
        stop_at = self.request.stop_at
        asked = self.stopping or os.path.exists(os.path.join(self.request.run_dir, "stop"))
        self.stopping = self._agree(step, asked)
        return self.stopping or (stop_at is not None and step >= stop_at)

    def event(self, name, **fields):
        self.flight.note("event", event=name)
        self.events.write(dict({"event": name}, **fields))

    def _reason(self):
        stop_at = self.request.stop_at
        if not self.finite:
            return "nonfinite"
        if self.stopping and not (stop_at and self.last >= stop_at):
            return "stopped"
        return "reached"

    def end(self, reason=None):
        if reason not in (None, "reached", "nonfinite", "stopped", "error"):
            raise ValueError("end('%s'); allowed: reached nonfinite stopped error" % reason)
        self._close(reason or self._reason())

    def _close(self, reason, more=None):
        if self.ended:
            return
        self.ended = True
        if self.rank == 0:
            end = {"reason": reason, "step": self.last}
            _write_whole(os.path.join(self.request.run_dir, "end.json"), dict(end, **(more or {})))
        for file in (self.metrics, self.events, self.sensors):
            if file is not None:
                file.close()
        self.flight.close()

    # what the script obeys

    def data_seed(self, own):
        self.calls.add("data_seed")
        return own if self.request.data_seed is None else self.request.data_seed

    def micro_order(self, count):
        self.calls.add("micro_order")
        order = list(range(count))
        if self.request.micro_order is not None:
            step = max(self.last + 1, self.first_step)
            random.Random("%d %d" % (self.request.micro_order, step)).shuffle(order)
        return order

    def lr(self, value):
        self.calls.add("lr_scale")
        return value * (self.request.lr_scale or 1.0)

    def warmup(self, steps):
        self.calls.add("warmup_scale")
        return steps * (self.request.warmup_scale or 1.0)

    def clip(self, threshold):
        self.calls.add("clip_scale")
        return threshold * (self.request.clip_scale or 1.0)

    def batch_number(self, step):
        self.calls.add("skip")
        first, last = self.request.skip or (0, -1)
        return step + (self.schedule_steps or 1000000) if first <= step <= last else step

    # ranks

    def _collective(self):
        """A group of processes that talk through the CPU, or None for a single process."""
        if torch is None or not torch.distributed.is_available() or \
                not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1:
            return None
        if self.group is None:
            if torch.distributed.get_backend() == "gloo":
                self.group = torch.distributed.group.WORLD
            else:
                self.group = torch.distributed.new_group(backend="gloo")
        return self.group

    def _join(self, step, digest, loss):
        """Batch hash and mean loss over all ranks; every rank logs every step."""
        group = self._collective()
        if group is None:
            return digest, loss
        mine = torch.tensor([loss, digest is not None, 0], dtype=torch.float64)
        if digest is not None:
            mine[2:].view(torch.uint8).copy_(torch.frombuffer(bytearray(digest), dtype=torch.uint8))
        every = [torch.empty_like(mine) for _ in range(torch.distributed.get_world_size())]
        self.flight.note("all_gather of loss and batch hash", step=step)
        torch.distributed.all_gather(every, mine, group=group)
        loss = sum(float(one[0]) for one in every) / len(every)
        if not all(float(one[1]) for one in every):
            return None, loss
        joined = b"".join(bytes(one[2:].view(torch.uint8).numpy()) for one in every)
        return hashlib.blake2b(joined, digest_size=8).digest(), loss

    def _agree(self, step, asked):
        """Rank 0 decides, so that no rank waits for one that has left."""
        group = self._collective()
        if group is None:
            return asked
        word = torch.tensor([int(asked)])
        self.flight.note("broadcast of the decision to stop", step=step)
        torch.distributed.broadcast(word, 0, group=group)
        return bool(word.item())

    # checkpoints

    def checkpoint(self, step, ref=None):
        if "checkpoint" not in self.features:
            raise RuntimeError("run.checkpoint() needs start(promises='checkpoint')")
        size = None
        if ref is None:
            ref = os.path.join(self.request.run_dir, "checkpoints", "step-%d" % step)
            size = self._save(ref, step)
            group = self._collective()
            if group is not None:
                self.flight.note("barrier after a checkpoint", step=step)
                torch.distributed.barrier(group=group)
        if self.rank == 0:
            self.event("checkpoint", step=int(step), ref=str(ref), bytes=size)

    def _file_of(self, ref):
        return os.path.join(ref, "rank%05d" % self.rank)

    def _save(self, ref, step):
        os.makedirs(ref, exist_ok=True)
        path = self._file_of(ref)
        tensors = []
        tree = _pack({"state": [thing.state_dict() if hasattr(thing, "state_dict") else None
                                for thing in self.objects],
                      "random": _random_state()}, tensors)
        with open(path + ".part", "wb") as file:
            torch.save(tensors, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".part", path + ".pt")
        note = {"plumb_run": 1, "step": int(step), "world_size": self.world,
                "config_hash": self.config_hash,
                "bytes": os.path.getsize(path + ".pt"), "blake2b": _file_hash(path + ".pt"),
                "tree": tree}
        _write_whole(path + ".json", note, durable=True)
        _sync_directory(ref)
        return note["bytes"]

    def _resume(self, ref):
        load = self.options["load"]
        if load is not None:
            try:
                step = load(ref)
            except (OSError, ValueError, KeyError, RuntimeError) as error:
                _refuse("the checkpoint '%s' cannot be loaded: %s" % (ref, error))
            if type(step) is not int or step < 0:
                _refuse("load('%s') gave %r, which is no step" % (ref, step))
        else:
            step = self._load(ref)
        self.first_step = step + 1

    def _load(self, ref):
        path = self._file_of(ref)
        note = _load_json(path + ".json", 1 << 28)
        if not isinstance(note, dict) or note.get("plumb_run") != 1 or \
                type(note.get("step")) is not int:
            _refuse("PLUMB_START is '%s', which is no checkpoint of this script" % ref)
        if note.get("config_hash") != self.config_hash:
            _refuse("the checkpoint '%s' is of another configuration or of other sources" % ref)
        if note.get("world_size") != self.world:
            _refuse("the checkpoint '%s' is of %s processes; this run has %d"
                    % (ref, note.get("world_size"), self.world))
        try:
            if _file_hash(path + ".pt") != note.get("blake2b"):
                _refuse("the checkpoint '%s' is torn: its hash is not the one noted" % ref)
            tensors = torch.load(path + ".pt", map_location="cpu", weights_only=True)
            saved = _unpack(note["tree"], tensors)
            for thing, state in zip(self.objects, saved["state"]):
                if state is not None:
                    thing.load_state_dict(state)
            _set_random_state(saved["random"])
        except Exception as error:  # whatever a damaged file makes of itself
            _refuse("the checkpoint '%s' cannot be loaded: %s" % (ref, str(error).partition("\n")[0]))
        return note["step"]


def _wrap_step(optimizer, scale):
    inner = optimizer.step

    @functools.wraps(inner)  # schedulers look for marks of their own on it
    def step(self, *arguments, **named):
        own = [group["lr"] for group in self.param_groups]
        for group in self.param_groups:
            group["lr"] = group["lr"] * scale
        try:
            return inner(*arguments, **named)
        finally:
            for group, lr in zip(self.param_groups, own):
                group["lr"] = lr

    optimizer.step = types.MethodType(step, optimizer)


def _file_hash(path):
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _sync_directory(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# A checkpoint is a file of tensors and a tree of plain values in JSON, so that loading one executes
# nothing, whatever it holds.
_KINDS = {"list": list, "tuple": tuple, "set": set, "dict": dict, "Counter": collections.Counter}


def _pack(value, tensors):
    """A tree that JSON can say; tensors go into the list."""
    if _is_tensor(value):
        tensors.append(value.detach())
        return ["tensor", len(tensors) - 1]
    if isinstance(value, float):
        return ["float", value.hex()]
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    for name in ("Counter", "dict"):
        if isinstance(value, _KINDS[name]):
            return [name, [[_pack(key, tensors), _pack(item, tensors)]
                           for key, item in value.items()]]
    for name in ("list", "tuple", "set"):
        if isinstance(value, _KINDS[name]):
            return [name, [_pack(item, tensors) for item in value]]
    raise TypeError("a checkpoint cannot hold a %s: save it yourself and give start() load="
                    % type(value).__name__)


def _unpack(tree, tensors):
    if not isinstance(tree, list):
        return tree
    kind, value = tree
    if kind == "tensor":
        return tensors[value]
    if kind == "float":
        return float.fromhex(value)
    if kind in ("dict", "Counter"):
        return _KINDS[kind]({_unpack(key, tensors): _unpack(item, tensors) for key, item in value})
    return _KINDS[kind](_unpack(item, tensors) for item in value)


def _random_state():
    _, words, gauss = random.getstate()
    state = {"python": torch.tensor(words), "gauss": gauss, "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        _, words, *rest = numpy.random.get_state()
        state["numpy"] = [torch.tensor(words.tolist()), *rest]
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def _set_random_state(state):
    random.setstate((3, tuple(state["python"].tolist()), state["gauss"]))
    torch.set_rng_state(state["torch"])
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        words, *rest = state["numpy"]
        words = numpy.array(words.tolist(), dtype=numpy.uint32)
        numpy.random.set_state(("MT19937", words, *rest))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def start(*objects, promises=(), schedule_steps=None, warmup_steps=None, unigram_entropy=None,
          trainer=None, version=None, config=None, layers=None, load=None, state_hash="sampled",
          shadow=False, te_debug=False, patience=300.0):
    """Before step 1.  `objects`: the model, the optimizer, and whatever else has state that a resumed run
    needs (state_dict) or a precision that can be chosen (`precision`).

    promises        what the script itself obeys, from the list in python/README.md
    schedule_steps  length of the schedule; warmup_steps of its warm-up
    unigram_entropy nats per token of the training data
    trainer, version  names for people
    config          whatever else makes this run another one, for config_hash
    layers          regular expression whose group 1 is the number of the layer in a module's name
    load            for checkpoints of the script's own: load(ref) restores and gives the step
    state_hash      "sampled" or "full"
    shadow          with sensors on, each layer's output beside that in bf16: a second forward pass
    te_debug        Transformer Engine's debug tools switch single products, not whole modules
    patience        seconds without a step after which the flight recorder is written
    """
    if _request().run_dir is None:
        return Run()
    if _Run.current is not None:
        raise RuntimeError("plumb_run.start() was called twice")
    options = {key: value for key, value in locals().items() if key != "objects"}
    run = _Run([thing for thing in objects if thing is not None], options)
    run.prepare()
    return run


if os.environ.get("PLUMB_RUN_DIR") and _request().seed is not None:
    _seed_all(_request().seed)
