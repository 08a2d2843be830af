"""faults.py - bugs to plant into gpt.py, of kinds that real FP8 training code has had.

gpt.py passes each cast to 8 bits through cast(); a bug acts from its step on, at its places, and only
there: where the cast runs in bf16 it is never asked, so that a cast back heals it, as it heals a bug in
an FP8 kernel.  plumb knows nothing of this file.
"""
import fnmatch
from typing import Callable, NamedTuple, Optional

# Casts gone wrong: (cast, x, amax) to values.  cast(x, amax) is what the healthy code does.


def turned(cast, x, amax):
    """The neighbour's rows: an index that is off by one."""
    return cast(x, amax).roll(1, 0)


def times(factor):
    """A scale that is of something else, or applied with the wrong sign."""
    return lambda cast, x, amax: cast(x, amax) * factor


def unscaled(cast, x, amax):
    """The scale is left out: what is small becomes zero."""
    return cast(x, amax * 0 + 57344)


def inflated(octaves):
    """An amax that is far too large: what is left of the range is its end."""
    return lambda cast, x, amax: cast(x, amax * 2.0**octaves)


class Fault(NamedTuple):
    first: int  # step
    places: str  # glob over module and part
    cast: Optional[Callable] = None  # None: not in a cast, planted() is asked


FAULTS = {
    "activation-rows": Fault(33, "h.0.mlp.down/fprop/x", turned),
    "weight-rows": Fault(33, "h.0.mlp.down/fprop/w", turned),
    "frozen-scale": Fault(11, "head"),
    "dgrad-scale": Fault(31, "h.1.mlp.up/dgrad/dy", times(-4.0)),
    "wgrad-sign": Fault(32, "head/wgrad/dy", times(-1.0)),
    "v-unscaled": Fault(1, "optimizer/v", unscaled),
    "v-inflated": Fault(36, "optimizer/v", inflated(30)),
    "m-rows": Fault(31, "optimizer/m", turned),
    "allreduce-sign": Fault(31, "collective/grad", times(-1.0)),
    "learning-rate": Fault(25, "optimizer"),
    "data-order": Fault(1, "loader"),
}

_planted, _step, _first = {}, 0, 1


def plant(names):
    """What --fault says: names with commas between."""
    for name in filter(None, names.split(",")):
        if name not in FAULTS:
            raise SystemExit(f"--fault '{name}'; allowed: {' '.join(FAULTS)}")
        _planted[name] = FAULTS[name]


def begin(step, first):
    """Step `step` of a process that began with step `first`."""
    global _step, _first
    _step, _first = step, first


def _acts(fault, place):
    return _step >= fault.first and fnmatch.fnmatchcase(place, fault.places)


def planted(name, place):
    return name in _planted and _acts(_planted[name], place)


def cast(place, healthy, x, amax):
    for fault in _planted.values():
        if fault.cast is not None and _acts(fault, place):
            return fault.cast(healthy, x, amax)
    return healthy(x, amax)


def rate(value):
    """A learning rate in other units."""
    return value * 300 if planted("learning-rate", "optimizer") else value


def batch_number(number):
    """A loader that begins at its beginning when a run is resumed."""
    return number - _first + 1 if planted("data-order", "loader") else number
