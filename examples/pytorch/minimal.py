"""minimal.py - a training script that keeps the least of plumb's contract, by the lines marked PLUMB.

One switch between FP8 and bf16, a line of step and loss for each step; no plumb_run.py, no sites, no
checkpoints, no hashes.  That is enough for the first two questions: does the run do the same again,
and does it fail in bf16 as well?  --fault makes its FP8 path forget a sign from step 40 on.
"""
import json
import os
import sys

import torch
from torch import nn

FP8 = "PLUMB_POLICY" not in os.environ  # PLUMB: whatever the policy says, it says bf16


class Cast8(torch.autograd.Function):
    """To four bits of significand and back; what comes back in the backward pass in three."""

    @staticmethod
    def forward(ctx, x):
        return round_to(x, 3)

    @staticmethod
    def backward(ctx, dy):
        sign = -1 if "--fault" in sys.argv and Cast8.step >= 40 else 1
        return round_to(dy, 2) * sign


def round_to(x, bits):
    unit = (x.view(torch.int32) & 0x7F800000).view(torch.float32) * 2.0**-bits
    return torch.where(unit > 0, torch.round(x / unit) * unit, x)


class Linear(nn.Linear):
    def forward(self, x):
        return super().forward(Cast8.apply(x) if FP8 else x.bfloat16().float())


def main():
    torch.manual_seed(1337)
    torch.set_num_threads(1)
    teacher = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    model = nn.Sequential(Linear(16, 64), nn.GELU(), Linear(64, 64), nn.GELU(), Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    directory = os.environ.get("PLUMB_RUN_DIR")  # PLUMB
    metrics = open(os.path.join(directory, "metrics.jsonl"), "a") if directory else None  # PLUMB
    for step in range(1, int(os.environ.get("PLUMB_STOP_AT", 120)) + 1):  # PLUMB: else 120
        Cast8.step = step
        x = torch.randn(64, 16)
        with torch.no_grad():
            label = (teacher(x) * 8).argmax(-1)
        loss = nn.functional.cross_entropy(model(x), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if metrics:  # PLUMB
            metrics.write(json.dumps({"step": step, "loss": loss.item()}) + "\n")
            metrics.flush()
        elif step % 20 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
