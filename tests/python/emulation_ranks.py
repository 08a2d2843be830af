"""Gradients between ranks under python/plumb_run.py: two processes with gloo, beside what NumPy makes of their shares."""

import copy
import os
import sys
import tempfile

import numpy as np
import torch
from emulation_tools import check, finish, quantised

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import plumb_run as pr  # noqa: E402


def rank_main(rank, folder, results):
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method="file://" + os.path.join(folder, "meet"), rank=rank, world_size=2
    )
    found = {}
    for name, precision, shared in (
        ("plain", None, True),
        ("fp32", {"grad": "fp32"}, True),
        ("shared", {"grad": "e4m3"}, True),
        ("own", {"grad": "e4m3"}, False),
        ("blocks", {"grad": "e4m3:1x128", "1.bias/grad": "fp32"}, True),
    ):
        torch.manual_seed(6)
        model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Linear(30, 3))
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        if precision is not None:
            pr.GradientCast(precision, shared).install(ddp)
        x = torch.randn(6, 20, generator=torch.Generator().manual_seed(rank)) * (1 + 9 * rank)
        ddp(x).square().sum().backward()
        alone = copy.deepcopy(model)
        alone.zero_grad()
        alone(x).square().sum().backward()
        found[name] = [p.grad.numpy() for p in model.parameters()], [
            p.grad.numpy() for p in alone.parameters()
        ]
    found["delayed"] = delayed_over_ranks(rank)
    torch.save(found, os.path.join(folder, "rank%d" % rank))
    torch.distributed.destroy_process_group()


def delayed_over_ranks(rank):
    """Two steps of two micro-batches; the largest amax is that of rank 1, in the first of them."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    pr.emulate(model, optimizer, "te-delayed", group=torch.distributed.group.WORLD)
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    for step in (1, 2):
        with ddp.no_sync():
            ddp(torch.full((2, 4), 2.0 * step * (1 + rank))).sum().backward()
        ddp(torch.full((2, 4), 0.5)).sum().backward()
        optimizer.step()
    return model[0].plumb_states["fprop/x"].values[:4].tolist()


def test_ranks():
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank_main, (folder, None), 2)
        a, b = (torch.load(os.path.join(folder, "rank%d" % rank)) for rank in (0, 1))
    check(
        "both ranks have the same gradients",
        all(
            np.array_equal(p, q)
            for name in a
            if name != "delayed"
            for p, q in zip(a[name][0], b[name][0])
        ),
    )
    check(
        "fp32 gives the bits of no hook",
        all(np.array_equal(p, q) for p, q in zip(a["plain"][0], a["fp32"][0])),
    )
    for name in ("shared", "own", "blocks"):
        for i, (got, mine, other) in enumerate(zip(a[name][0], a[name][1], b[name][1])):
            want = reduced(name, i, mine.reshape(1, -1), other.reshape(1, -1))
            check(
                "%s scales, parameter %d" % (name, i),
                np.array_equal(want.reshape(got.shape), got.astype(np.float64)),
            )
    check(
        "delayed scales take the largest amax of the ranks",
        a["delayed"] == b["delayed"] == [56.0, -1.0, 8.0, 4.0],
        (a["delayed"], b["delayed"]),
    )


def reduced(name, i, mine, other):
    """Half of each cast share, added in fp32."""
    if name == "blocks" and i == 3:
        parts = [mine, other]
    elif name == "own":
        parts = [quantised(g, "e4m3") for g in (mine, other)]
    else:
        width = 128 if name == "blocks" else mine.size
        parts = [np.zeros(mine.shape), np.zeros(mine.shape)]
        for c in range(0, mine.size, width):
            shares = [g[:, c : c + width] for g in (mine, other)]
            s = np.float32(448) / max(np.abs(g).max() for g in shares)
            for part, share in zip(parts, shares):
                part[:, c : c + width] = quantised(share, "e4m3", scale=s)
    return (parts[0].astype(np.float32) / 2 + parts[1].astype(np.float32) / 2).astype(np.float64)


def main():
    test_ranks()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
