"""A small PyTorch training with an FP8 layer of its own, for the tests of plumb_run.  Options come from the
command line; it prints a hash of the weights that it ends with.
"""
import argparse
import hashlib
import os
import signal
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.environ["PLUMB_SOURCE_DIR"], "python"))
import plumb_run

STEPS, WIDTH, MICRO = 12, 16, 2


def few_bits(x):
    """To four bits of significand with a scale of the tensor; below 2^-6 the step is constant."""
    scale = 448 / x.abs().max().clamp(min=1e-20)
    y = x * scale
    step = torch.exp2(torch.floor(torch.log2(y.abs().clamp(min=2.0**-6))) - 3)
    return (torch.round(y / step) * step).clamp(-448, 448) / scale, scale


class Cast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, layer, part, back):
        ctx.layer, ctx.back = layer, back
        return layer.cast(x, part) if part else x.clone()

    @staticmethod
    def backward(ctx, dy):
        return ctx.layer.cast(dy, ctx.back) if ctx.back else dy, None, None, None


class Linear8(torch.nn.Linear):
    plumb_observer = None
    precision_uses = ("bf16", "fp32")

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.precision = {"fprop/x": "e4m3", "fprop/w": "e4m3", "dgrad/dy": "e4m3"}

    def cast(self, x, part):
        use, scale = self.precision[part], None
        y = x if use == "fp32" else x.bfloat16().float()
        if use == "e4m3":
            y, scale = few_bits(x)
        if self.plumb_observer is not None:
            self.plumb_observer(part, x, y, use, scale)
        return y

    def forward(self, x):
        x = Cast.apply(x, self, "fprop/x", None)
        w = Cast.apply(self.weight, self, "fprop/w", None)
        return Cast.apply(torch.nn.functional.linear(x, w, self.bias), self, None, "dgrad/dy")


class Block(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.up, self.down = linear(WIDTH, 2 * WIDTH), linear(2 * WIDTH, WIDTH)
        self.drop = torch.nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.down(torch.relu(self.up(x))))


class Model(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(linear) for _ in range(2)])
        self.big = torch.nn.Parameter(torch.zeros(9000))
        self.head = linear(WIDTH, 8)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x) + self.big[:8]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--emulate")
    parser.add_argument("--ddp", action="store_true")
    parser.add_argument("--seedless", action="store_true")
    parser.add_argument("--late", action="store_true", help="the scheduler is made after start()")
    parser.add_argument("--shadow", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--hang", type=int, default=0, help="rank 1 leaves the others alone there")
    parser.add_argument("--raises", type=int, default=0)
    parser.add_argument("--kill", type=int, default=0, help="rank 0 alone is told to stop there")
    parser.add_argument("--patience", type=float, default=300)
    parser.add_argument("--config", default="")
    return parser.parse_args()


def make(args):
    torch.manual_seed(1 if args.seedless else plumb_run.seed(1))
    model = Model(torch.nn.Linear if args.emulate else Linear8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    if args.emulate:
        plumb_run.emulate(model, optimizer, args.emulate)
    if args.ddp:
        model = torch.nn.parallel.DistributedDataParallel(model)
    return model, optimizer


def schedule_of(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 5))


def batch_of(seed, step, micro, rank):
    generator = torch.Generator().manual_seed(((seed * 1000 + step) * 100 + micro) * 10 + rank)
    x = torch.randn(8, WIDTH, generator=generator)
    return x, x[:, :8].argmax(1)


def step_of(args, run, model, optimizer, step, seed, rank):
    optimizer.zero_grad()
    total = 0.0
    for micro in run.micro_order(MICRO):
        x, y = batch_of(seed, step, micro, rank)
        run.batch(x)
        loss = torch.nn.functional.cross_entropy(model(x), y) / MICRO
        if step == args.hang and rank == 1:
            time.sleep(60)
        if step == args.raises and rank == 0:
            raise RuntimeError("no space left")
        loss.backward()
        total += float(loss.detach())
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return total, norm


def main():
    args = arguments()
    torch.set_num_threads(1)
    rank = int(os.environ.get("RANK", 0))
    if args.ddp:
        torch.distributed.init_process_group("gloo")
    model, optimizer = make(args)
    schedule = None if args.late else schedule_of(optimizer)
    run = plumb_run.start(model, optimizer, schedule, schedule_steps=STEPS, config=args.config,
                          promises="batch_hash data_seed micro_order checkpoint exact_resume",
                          shadow=args.shadow, state_hash="full" if args.full else "sampled",
                          patience=args.patience)
    schedule = schedule or schedule_of(optimizer)
    seed = run.data_seed(5)
    for step in range(run.first_step, STEPS + 1):
        loss, norm = step_of(args, run, model, optimizer, step, seed, rank)
        lr = optimizer.param_groups[0]["lr"]
        schedule.step()
        run.log(step, loss, grad_norm=norm, lr=lr)
        if step == args.kill and rank == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        if run.should_stop(step):
            break
    run.end()
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print("final", hashlib.sha256(weights).hexdigest(), flush=True)


main()
