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

try:
    import torch
except ImportError:
    torch = None

__version__ = "0.1.0"
__all__ = ["start", "seed", "Run", "Refused"]

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
            _write_whole(end, {"reason": "error", "step": 0, "status": 3, "why": sentence})
        except OSError:
            pass  # the sentence and the status have to do
    if _Run.current is not None:
        _Run.current._close("error", {"status": 3, "why": sentence})
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
    for value in _state_of(objects):
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
    digest.update(repr((versions, config)).encode())
    return digest.hexdigest()


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
_BITS = {"fp32": 32, "tf32": 19, "bf16": 16, "fp16": 16, "e4m3": 8, "e5m2": 8, "e4m3fnuz": 8,
         "e5m2fnuz": 8, "e3m2": 6, "e2m3": 6, "e2m1": 4}


def _bits_of(use):
    """Bits of a format by its name; None for names of the trainer's own."""
    return _BITS.get(use.partition(":")[0])


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


def _owners(objects, layers):
    """(layer, short name, long name, owner) of everything that has a `precision`."""
    for thing in objects:
        if hasattr(thing, "named_modules"):
            for name, module in thing.named_modules():
                if _has_precision(module):
                    yield _place(name, layers) + (module,)
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


def find_sites(objects, layers=_LAYER):
    """The sites of everything with a `precision`, in the order of the objects."""
    owners = list(_owners(objects, layers))
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
    accepts = getattr(site.owner, "precision_accepts", None)
    if ":" not in use and (_bits_of(use) or 99) <= 8 and (_bits_of(site.own) or 99) <= 8:
        kept = use + "".join(site.own.partition(":")[1:])  # a bare format keeps the scale rule
        if kept in site.uses or (accepts is not None and accepts(site.part, kept)):
            return kept
    if use in site.uses or use == "bf16" or (accepts is not None and accepts(site.part, use)):
        return use
    return None


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
        self.step = self.last = 0
        self.first_step, self.finite, self.stopping, self.ended = 1, True, False, False
        self.metrics = self.events = None
        self.schedule_steps = options["schedule_steps"]
        self.sites = find_sites(objects, options["layers"] or _LAYER)
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
        self._scale_lr()
        if self.request.stop_at == 0:
            self._close("reached")
            sys.exit(0)
        self._catch()

    def _declare(self):
        options = self.options
        main = getattr(sys.modules.get("__main__"), "__file__", None) or "python"
        fields = {"contract": 1, "trainer": options["trainer"] or os.path.basename(main),
                  "version": options["version"], "config_hash": _config_hash(options["config"]),
                  "world_size": self.world, "schedule_steps": self.schedule_steps,
                  "warmup_steps": options["warmup_steps"],
                  "unigram_entropy": options["unigram_entropy"], "features": self.features,
                  "sites": [site.declared() for site in self.sites],
                  "state_hash": self.options["state_hash"], "plumb_run": __version__}
        _write_whole(os.path.join(self.request.run_dir, "run.json"),
                     {key: value for key, value in fields.items() if value is not None})

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
        if threading.current_thread() is not threading.main_thread():
            return
        earlier = signal.getsignal(signal.SIGTERM)

        def asked(number, frame):
            self.stopping = True
            if callable(earlier):
                earlier(number, frame)

        signal.signal(signal.SIGTERM, asked)
        taken = signal.set_wakeup_fd(self.flight.writer, warn_on_full_buffer=False)
        if taken != -1:
            signal.set_wakeup_fd(taken)

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
        if first:
            self._after_first(step, fields)

    def _after_first(self, step, fields):
        """The promises that the request relies on must have been kept by now."""
        self.event("effective", step=step,
                   sites={site.name: site.owner.precision[site.part] for site in self.sites})
        for key in ("data_seed", "micro_order", "warmup_scale", "clip_scale", "skip"):
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
        for file in (self.metrics, self.events):
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
                "config_hash": _config_hash(self.options["config"]),
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
        if note.get("config_hash") != _config_hash(self.options["config"]):
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

    def step(self, *arguments, **named):
        own = [group["lr"] for group in self.param_groups]
        for group in self.param_groups:
            group["lr"] = group["lr"] * scale
        try:
            return inner(*arguments, **named)
        finally:
            for group, lr in zip(self.param_groups, own):
                group["lr"] = lr

    step._with_counter = True  # schedulers look for it
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
          patience=300.0):
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
