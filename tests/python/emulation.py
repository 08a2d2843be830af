"""Emulated layers and optimizers of python/plumb_run.py beside plain PyTorch and NumPy.

Casts are worked again in fp64 from a list of all values of a format and their midpoints.  Products are compared with those of
fp64: K terms added in fp32 err by at most K 2^-23 times the sum of their magnitudes, for any order (Higham, Accuracy and
Stability, section 3.1, with room for the factor 1 / (1 - K 2^-24) and one more rounding).
"""

import copy
import os
import sys
import warnings

import numpy as np
import torch
from emulation_tools import agree, check, finish, quantised

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import plumb_run as pr  # noqa: E402


def same(a, b):
    """The same bits."""
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


# --- linear layers -------------------------------------------------------------------------------


def pair(precision, bias=True, sizes=(200, 150)):
    """A plain layer, and the same one emulated."""
    torch.manual_seed(3)
    plain = torch.nn.Linear(*sizes, bias=bias)
    return plain, pr.EmulatedLinear.convert(copy.deepcopy(plain), precision)


def run(layer, x, dy):
    x = x.clone().requires_grad_()
    y = layer(x)
    layer.zero_grad()
    y.backward(dy)
    return y, x.grad, layer.weight.grad.clone(), None if layer.bias is None else layer.bias.grad.clone()


def all_same(a, b):
    return all((p is None and q is None) or same(p, q) for p, q in zip(a, b))


def test_without_casts():
    torch.manual_seed(1)
    for shape in ((70, 200), (5, 14, 200), (200,)):
        for bias in (True, False):
            plain, emulated = pair(dict.fromkeys(pr.LINEAR_PARTS, "fp32"), bias)
            x, dy = torch.randn(shape), torch.randn(*shape[:-1], 150)
            check(
                "fp32 gives the bits of torch.nn.Linear %s bias=%s" % (shape, bias),
                all_same(run(plain, x, dy), run(emulated, x, dy)),
            )
    plain, emulated = pair(dict.fromkeys(pr.LINEAR_PARTS, "bf16"))
    x, dy = torch.randn(70, 200), torch.randn(70, 150)

    def half(t):
        return t.bfloat16().float()

    rounded = copy.deepcopy(plain)
    rounded.weight.data = half(plain.weight.data)
    y, dx, dw, db = run(emulated, x, dy)
    check(
        "bf16 gives the bits of torch.nn.Linear on operands in bf16",
        same(y, rounded(half(x)))
        and same(dx, run(rounded, half(x), half(dy))[1])
        and same(dw, run(rounded, half(x), half(dy))[2]),
    )
    check("the gradient of the bias is left alone", same(db, run(plain, x, dy)[3]))


def test_six_parts():
    """Each operand in a spec of its own, the others in fp32."""
    torch.manual_seed(2)
    x, dy = torch.randn(300, 200) * 3, torch.randn(300, 150) * 1e-4
    fp64 = [t.double().numpy() for t in (x, dy)]
    cases = {  # text, format, block as the product has it: along the contraction
        "fprop/x": ("e4m3:1x128", "e4m3", (1, 128)),
        "fprop/w": ("e4m3:128x128", "e4m3", (128, 128)),
        "dgrad/dy": ("e5m2:row", "e5m2", (1, 150)),
        "dgrad/w": ("e4m3:1x128", "e4m3", (128, 1)),
        "wgrad/dy": ("e5m2:1x128", "e5m2", (128, 1)),
        "wgrad/x": ("e4m3:row", "e4m3", (300, 1)),
    }
    for part, (text, form, block) in cases.items():
        for other in (text, "e4m3:current:pow2" if form == "e4m3" else "e5m2:current"):
            plain, emulated = pair({part: other}, bias=False)
            w = plain.weight.detach().double().numpy()
            operands = {
                "fprop/x": fp64[0],
                "wgrad/x": fp64[0],
                "fprop/w": w,
                "dgrad/w": w,
                "dgrad/dy": fp64[1],
                "wgrad/dy": fp64[1],
            }
            operands[part] = quantised(
                operands[part], form, block if other == text else None, pow2="pow2" in other
            )
            y, dx, dw, _ = run(emulated, x, dy)
            check(
                "%s in %s" % (part, other),
                agree(y, operands["fprop/x"], operands["fprop/w"].T)
                and agree(dx, operands["dgrad/dy"], operands["dgrad/w"])
                and agree(dw, operands["wgrad/dy"].T, operands["wgrad/x"]),
            )


def test_all_parts():
    """All operands at once, where two products may read one copy and where they may not."""
    torch.manual_seed(2)
    x, dy = torch.randn(300, 200) * 3, torch.randn(300, 150) * 1e-4
    for grain, block, turned in (("tensor", None, None), ("1x128", (1, 128), (128, 1))):
        texts = {"x": "e4m3:" + grain, "w": "e4m3:" + grain, "dy": "e5m2:" + grain}
        precision = {part: texts[part.split("/")[1]] for part in pr.LINEAR_PARTS}
        plain, emulated = pair(precision, bias=False)
        w = plain.weight.detach().numpy()
        x8, w8, dy8 = (
            [quantised(t, form, b) for b in (block, turned)]
            for t, form in ((x.numpy(), "e4m3"), (w, "e4m3"), (dy.numpy(), "e5m2"))
        )
        y, dx, dw, _ = run(emulated, x, dy)
        right = agree(y, x8[0], w8[0].T) and agree(dx, dy8[0], w8[1]) and agree(dw, dy8[1].T, x8[1])
        check("all parts in %s" % grain, right)


def test_kinds():
    """Number types, autocast, checkpointing, what needs no gradient."""
    plain, emulated = pair(pr.recipe_precision("te-current")[0])
    x, dy = torch.randn(40, 200), torch.randn(40, 150)
    seen = []
    emulated.plumb_observer = lambda part, *_: seen.append(part)
    expected = run(emulated, x, dy)
    check("each part is observed once, whoever reads its copy", sorted(seen) == sorted(pr.LINEAR_PARTS))
    emulated.plumb_observer = None
    with torch.autocast("cpu", torch.bfloat16):
        check(
            "autocast says what comes out, not what is computed",
            same(emulated(x), expected[0].bfloat16()) and plain(x).dtype == emulated(x).dtype,
        )
    low = copy.deepcopy(emulated).bfloat16()
    y, dx, dw, db = run(low, x.bfloat16(), dy.bfloat16())
    check("a layer in bf16 gives bf16", {t.dtype for t in (y, dx, dw, db)} == {torch.bfloat16})
    again = copy.deepcopy(emulated)
    z = x.clone().requires_grad_()
    torch.utils.checkpoint.checkpoint(again, z).backward(dy)
    check(
        "recomputed in backward, the same bits",
        same(z.grad, expected[1]) and same(again.weight.grad, expected[2]),
    )
    turned = [t.t().contiguous().t() for t in (x, dy)]
    check("columns that lie one after the other", all_same(run(emulated, *turned)[:3], expected[:3]))
    large = torch.randn(700, 300)
    check(
        "a large matrix",
        same(pr.cast(large.t(), "e4m3:row"), pr.cast(large.t().contiguous(), "e4m3:row")),
    )
    emulated.weight.requires_grad_(False)
    z = x.clone().requires_grad_()
    emulated(z).backward(dy)
    check("a frozen weight", same(z.grad, expected[1]))
    emulated.weight.requires_grad_(True)
    emulated.zero_grad()
    emulated(x).backward(dy)
    check("an input without gradient", same(emulated.weight.grad, expected[2]))
    emulated.compute_dtype = torch.bfloat16
    check(
        "products in bf16 are near",
        (emulated(x) - expected[0]).abs().max() < 0.05 and emulated(x).dtype == torch.float32,
    )
    check("no rows", emulated(x[:0]).shape == (0, 150))


# --- delayed scales ---------------------------------------------------------------------------------


def expected_scales(amaxes, history):
    """The scale after each step, from the steps' amaxes."""
    scales = []
    for step in range(len(amaxes)):
        window = [a for a in amaxes[max(0, step + 1 - history) : step + 1]]
        scales.append(float(np.float32(448) / np.float32(max(window))))
    return scales


def test_delayed():
    text = "e4m3:delayed:history=2"
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 16, bias=False), torch.nn.ReLU(), torch.nn.Linear(16, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    pr.emulate(model, optimizer, "te-delayed")
    for part in ("fprop/x", "wgrad/x"):
        model[0].precision[part] = text
    sizes, amaxes, scales, second = [1.0, 8.0, 0.5, 0.25, 0.125], [], [], []
    for size in sizes:
        batches = [torch.randn(8, 32) * size, torch.randn(8, 32) * size]
        amaxes.append(max(float(b.abs().max()) for b in batches))
        for batch in batches:
            second.append(model[0].plumb_states["fprop/x"].values[0].item() if scales else 1.0)
            model(batch).sum().backward()
        with torch.no_grad():
            model(torch.full((8, 32), 1e6))
        model.eval()(torch.full((8, 32), 1e6))
        model.train()
        optimizer.step()
        scales.append(model[0].plumb_states["fprop/x"].values[0].item())
    check(
        "scales follow the largest of two micro-batches, and no validation",
        scales == expected_scales(amaxes, 2),
        scales,
    )
    check("no scale moves within a step", second[::2] == second[1::2])
    check(
        "both parts of x have a state each",
        same(*(model[0].plumb_states[p].values for p in ("fprop/x", "wgrad/x"))),
    )
    x = torch.randn(8, 32) * 100
    want = quantised(x.numpy(), "e4m3", scale=scales[-1])
    check(
        "the scale of earlier steps is used, and saturates",
        agree(model[0].eval()(x), want, cast_weight(model[0])),
    )
    alone = copy.deepcopy(model[0]).train()
    alone.plumb_steps_itself, alone.plumb_states = True, {}
    for size in sizes[:2]:
        alone(torch.full((8, 32), size)).sum().backward()
    alone(torch.ones(8, 32))
    alone(torch.full((8, 32), 3.0))
    check(
        "without an optimizer, the scale moves at the forward pass behind a backward pass",
        alone.plumb_states["fprop/x"].values.tolist() == [56.0, 3.0, 8.0, 1.0],
        alone.plumb_states["fprop/x"].values,
    )


def cast_weight(layer):
    state = layer.plumb_states["fprop/w"].values
    return quantised(layer.weight.detach().numpy(), "e4m3", scale=float(state[0])).T


def test_state_dict():
    _, layer = pair(pr.recipe_precision("te-delayed")[0])
    layer(torch.randn(9, 200, requires_grad=True)).sum().backward()
    pr.update_scales([layer])
    saved = copy.deepcopy(layer.state_dict())
    _, fresh = pair(pr.recipe_precision("te-delayed")[0])
    fresh.load_state_dict(saved)
    check(
        "scales are in the state dict",
        all(same(fresh.plumb_states[p].values, layer.plumb_states[p].values) for p in pr.LINEAR_PARTS),
    )
    check(
        "and are no buffers",
        not list(layer.buffers())
        and layer.half().plumb_states["fprop/x"].values.dtype == torch.float32,
    )
    plain, fresh = pair(pr.recipe_precision("te-delayed")[0])
    fresh.load_state_dict(plain.state_dict())
    check(
        "a checkpoint without them loads", same(fresh.weight, plain.weight) and not fresh.plumb_states
    )
    model = torch.nn.Sequential(fresh)
    model.load_state_dict({"0." + key: value for key, value in saved.items()})
    check(
        "within a model, too",
        same(fresh.plumb_states["dgrad/dy"].values, saved["plumb_scale.dgrad/dy"]),
    )


# --- optimizers --------------------------------------------------------------------------------------


def make_optimizer(model, scheduled_first=False):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    if scheduled_first:
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2)
    return optimizer, None


def test_optimizer():
    for first in (False, True):
        torch.manual_seed(4)
        plain = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.Linear(30, 7))
        cast = copy.deepcopy(plain)
        a, b = make_optimizer(plain), make_optimizer(cast, first)
        pr.cast_optimizer(
            b[0], {"m": "e4m3:1x128", "v": "fp32", "1.weight/m": "e5m2:row", "1.weight/v": "e5m2"}, cast
        )
        scheduler = b[1] or torch.optim.lr_scheduler.StepLR(b[0], 2)
        x = torch.randn(16, 40)
        for model, optimizer in ((plain, a[0]), (cast, b[0])):
            model(x).square().sum().backward()
            optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scheduler.step()
        check(
            "the first step moves weights by moments before they are rounded",
            all(same(p, q) for p, q in zip(plain.parameters(), cast.parameters())),
        )
        moments = [
            (a[0].state[p], b[0].state[q]) for p, q in zip(plain.parameters(), cast.parameters())
        ]
        flat = quantised(moments[0][0]["exp_avg"].reshape(1, -1).numpy(), "e4m3", (1, 128))
        check(
            "m in blocks of consecutive elements",
            np.array_equal(flat.reshape(30, 40), moments[0][1]["exp_avg"].double().numpy()),
        )
        check("v in fp32", same(moments[0][0]["exp_avg_sq"], moments[0][1]["exp_avg_sq"]))
        for field, block in (("exp_avg", (1, 30)), ("exp_avg_sq", None)):
            want = quantised(moments[2][0][field].numpy(), "e5m2", block)
            check(
                "%s of one parameter" % field,
                np.array_equal(want, moments[2][1][field].double().numpy()),
            )
    check("a momentum is an m", momentum_is_cast())
    each = pr.cast_optimizer(
        torch.optim.Adam(plain.parameters()), {"m": "bf16", "v": "e5m2"}, plain, each=True
    )
    want = [
        "0.weight/m",
        "0.weight/v",
        "0.bias/m",
        "0.bias/v",
        "1.weight/m",
        "1.weight/v",
        "1.bias/m",
        "1.bias/v",
    ]
    check(
        "a site for each parameter",
        list(each.precision) == want and each.precision["1.bias/v"] == "e5m2",
    )


def momentum_is_cast():
    layer = torch.nn.Linear(8, 8, bias=False)
    optimizer = pr.cast_optimizer(
        torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9), {"m": "e5m2"}
    )
    layer(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    buffer = optimizer.state[layer.weight]["momentum_buffer"]
    return np.array_equal(quantised(layer.weight.grad.numpy(), "e5m2"), buffer.double().numpy())


# --- whole models --------------------------------------------------------------------------------------


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 8)
        self.h = torch.nn.ModuleList([torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)])
        self.same = self.h[0]
        self.lm_head = torch.nn.Linear(8, 11, bias=False)
        self.lm_head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.h:
            x = x + torch.relu(layer(x))
        return self.lm_head(x)


def test_emulate():
    model = Tied()
    optimizer = torch.optim.Adam(model.parameters())
    parameters = list(model.parameters())
    pr.emulate(model, optimizer, "deepseek-v3")
    check(
        "parameters, ties and aliases stay",
        all(p is q for p, q in zip(parameters, model.parameters()))
        and model.lm_head.weight is model.embedding.weight
        and model.same is model.h[0]
        and type(model.h[1]) is pr.EmulatedLinear,
    )
    check("the head runs in bf16", set(model.lm_head.precision.values()) == {"bf16"})
    check("each layer has a dict of its own", model.h[0].precision is not model.h[1].precision)
    model(torch.arange(11)).square().sum().backward()
    optimizer.step()
    moment = optimizer.state[model.h[0].weight]["exp_avg"]
    check("moments in bf16", same(moment, moment.bfloat16().float()))
    sites = {site.name: site for site in pr.find_sites([model, optimizer])}
    check(
        "sites",
        {"layer.0/h/fprop/x", "layer.1/h/wgrad/dy", "lm_head/dgrad/w", "optimizer/v"} <= set(sites)
        and len(sites) == 20,
        sorted(sites),
    )
    rules = [
        pr._Rule({"sites": "layer.0/*", "use": "bf16"}, ""),
        pr._Rule({"sites": "*/fprop/w", "use": "e5m2"}, ""),
    ]
    pr.apply_rules(list(sites.values()), rules)
    check(
        "a policy is obeyed",
        model.h[0].precision["fprop/x"] == "bf16"
        and model.h[1].precision["fprop/x"].startswith("e4m3:1x128"),
    )
    check(
        "a bare format keeps the scale rule",
        model.h[1].precision["fprop/w"] == "e5m2:128x128:current:divide:floor=0.0001",
        model.h[1].precision,
    )
    seen = {}
    for owner in (model.h[1], optimizer):
        owner.plumb_observer = lambda part, x, decoded, text, scale: seen.setdefault(
            part, pr.site_counts(x, decoded, text, scale)
        )
    model(torch.arange(11)).square().sum().backward()
    optimizer.step()
    check(
        "each cast is observed",
        set(seen) == set(pr.LINEAR_PARTS) | {"m", "v"} and int(seen["fprop/w"]["total"]) == 64,
        seen.keys(),
    )
    check(
        "and all counts have no dimension",
        all(v.dim() == 0 for counts in seen.values() for v in counts.values()),
    )


def refused(action, words):
    try:
        action()
    except ValueError as error:
        return words in str(error)
    return False


def test_refusals():
    layer = torch.nn.Linear(2, 2)
    sgd = torch.optim.SGD(layer.parameters(), lr=0.1)
    check(
        "no recipe of that name", refused(lambda: pr.emulate(layer, recipe="fp4"), '"fp4" is no recipe')
    )
    check("nothing to emulate", refused(lambda: pr.emulate(torch.nn.ReLU()), "no torch.nn.Linear"))
    check(
        "no part of that name",
        refused(lambda: pr.EmulatedLinear(2, 2, precision={"x": "bf16"}), 'no part "x"'),
    )
    check(
        "no format of that name",
        refused(lambda: pr.EmulatedLinear(2, 2, precision={"fprop/x": "e9m9"}), '"e9m9" is no format'),
    )
    check(
        "no delayed moments",
        refused(lambda: pr.cast_optimizer(sgd, {"m": "e4m3:delayed"}), "has no history"),
    )
    check(
        "no delayed gradients",
        refused(lambda: pr.GradientCast({"grad": "e4m3:delayed"}), "has no history"),
    )
    check(
        "no stochastic rounding",
        refused(lambda: pr.cast(torch.ones(2), "e4m3:stochastic"), "stochastic"),
    )
    reads = pr.EmulatedLinear(2, 2).precision_reads
    check(
        "what a policy may say",
        [
            reads("fprop/x", use, "e4m3:delayed:history=4")
            for use in ("e5m2", "bf16", "e4m3:current", "e4m3:stochastic", "fp8")
        ]
        == ["e5m2:tensor:delayed:history=4", "bf16", "e4m3:tensor:current", None, None],
    )


def main():
    torch.set_num_threads(1)
    for test in (
        test_without_casts,
        test_six_parts,
        test_all_parts,
        test_kinds,
        test_delayed,
        test_state_dict,
        test_optimizer,
        test_emulate,
        test_refusals,
    ):
        test()
    return finish()


if __name__ == "__main__":
    import torch.utils.checkpoint  # noqa: F401

    sys.exit(main())
