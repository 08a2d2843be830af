"""gpt.py - a small GPT in FP8, in one file, as a lab would write it: python3 gpt.py [--help]

Its own FP8 linear layer, its own Adam with moments in FP8 and, under torchrun, its own all-reduce in
FP8.  FP8 is emulated (a cast to 8 bits and back, products in fp32), so that it runs on any CPU with
PyTorch 1.13 or later, a run in a few seconds.  Each place that casts has a dict `precision`; with
that and the lines marked PLUMB, `plumb diagnose -- python3 gpt.py` can tell whether the arithmetic is
to blame for a run.  --fault plants a bug of faults.py into it, which plumb knows nothing of.
"""
import argparse
import contextlib
import math
import os
import random
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import faults

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import plumb_run  # PLUMB: or copy plumb_run.py beside the script

# --- FP8 ----------------------------------------------------------------------------------

# fraction bits, exponent of the least normal number, largest number
FORMATS = {"e4m3": (3, -6, 448.0), "e5m2": (2, -14, 57344.0)}


def round_to(x, name):
    """To nearest even in a format of 8 bits; what is too large becomes the largest."""
    fraction_bits, least, largest = FORMATS[name]
    binade = (x.view(torch.int32) & 0x7F800000).view(torch.float32)
    step = binade.clamp(min=2.0**least) * 2.0**-fraction_bits
    return (torch.round(x / step) * step).clamp(-largest, largest)


def quantise(x, amax, name):
    """x in 8 bits and back, with a scale that takes amax to the largest number."""
    scale = FORMATS[name][2] / amax.clamp(min=1e-30)
    return round_to(x * scale, name) / scale


class Product8(torch.autograd.Function):
    """x times weight, transposed; each of the three products casts its own two operands."""

    @staticmethod
    def forward(ctx, x, weight, layer):
        ctx.layer = layer
        ctx.save_for_backward(x, weight)
        return layer.cast(x, "fprop/x") @ layer.cast(weight, "fprop/w").T

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        layer, dy = ctx.layer, dy.flatten(0, -2)
        dx = layer.cast(dy, "dgrad/dy") @ layer.cast(weight, "dgrad/w")
        dw = layer.cast(dy, "wgrad/dy").T @ layer.cast(x.flatten(0, -2), "wgrad/x")
        return dx.view_as(x), dw, None


class Linear8(nn.Linear):
    """Activations and gradients are scaled by their own amax, weights by the largest of the last steps,
    which end_step() records.
    """

    HISTORY = 4
    precision_uses = {"fprop/w": ("bf16", "e4m3:current")}

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, bias=False)
        self.precision = {"fprop/x": "e4m3", "fprop/w": "e4m3:delayed",
                          "dgrad/dy": "e5m2", "dgrad/w": "e4m3",
                          "wgrad/dy": "e5m2", "wgrad/x": "e4m3"}
        self.register_buffer("amaxes", torch.zeros(self.HISTORY))
        self.place = None  # its name in the model

    def forward(self, x):
        return Product8.apply(x, self.weight, self)

    def cast(self, x, part):
        name, _, rule = self.precision[part].partition(":")
        if name == "bf16":
            return x.bfloat16().float()
        amax = self.amaxes.max() if rule == "delayed" else x.abs().max()
        return faults.cast(f"{self.place}/{part}", lambda x, amax: quantise(x, amax, name), x, amax)

    def end_step(self):
        """Behind each update, and before the first step."""
        amax = self.weight.detach().abs().max()
        if not faults.planted("frozen-scale", self.place):
            self.amaxes.copy_(torch.cat((amax[None], self.amaxes[:-1])))


class Adam8(torch.optim.Optimizer):
    """AdamW whose moments are kept in 8 bits, each 128 elements with a scale of their own."""

    BLOCK = 128

    def __init__(self, parameters, lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        self.precision = {"m": "e4m3:1x128", "v": "e5m2:1x128"}

    def keep(self, x, part):
        name = self.precision[part].partition(":")[0]
        if name == "bf16":
            return x.bfloat16().float()
        blocks = F.pad(x.flatten(), (0, -x.numel() % self.BLOCK)).view(-1, self.BLOCK)
        blocks = faults.cast(f"optimizer/{part}", lambda x, amax: quantise(x, amax, name), blocks,
                             blocks.abs().amax(1, keepdim=True))
        return blocks.flatten()[:x.numel()].view_as(x)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                self.update(parameter, self.state[parameter], group)

    def update(self, parameter, state, group):
        (beta1, beta2), grad = group["betas"], parameter.grad
        if not state:
            state.update(step=0, m=torch.zeros_like(grad), v=torch.zeros_like(grad))
        state["step"] += 1
        m = state["m"].lerp(grad, 1 - beta1)
        v = state["v"].lerp(grad * grad, 1 - beta2)
        state["m"], state["v"] = self.keep(m, "m"), self.keep(v, "v")
        m = state["m"] / (1 - beta1 ** state["step"])
        v = state["v"] / (1 - beta2 ** state["step"])
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.sub_(group["lr"] * m / (v.sqrt() + group["eps"]))


class AllReduce8:
    """Gradients travel in FP8, with one scale for a bucket on all ranks: a hook of DDP."""

    def __init__(self):
        self.precision = {"grad": "e5m2"}

    def reduce(self, _, bucket):
        grad = bucket.buffer() / dist.get_world_size()
        amax = grad.abs().max()
        dist.all_reduce(amax, dist.ReduceOp.MAX)
        name = self.precision["grad"]
        if name == "bf16":
            grad = grad.bfloat16().float()
        else:
            grad = faults.cast("collective/grad", lambda x, amax: quantise(x, amax, name), grad, amax)
        return dist.all_reduce(grad, async_op=True).get_future().then(lambda f: f.value()[0])


# --- model --------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = Linear8(width, 3 * width), Linear8(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width / self.heads)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        y = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = Linear8(width, 4 * width), Linear8(4 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.norm2, self.mlp = nn.LayerNorm(width), MLP(width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, layers, width, heads, context):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), Linear8(width, vocabulary)
        for name, module in self.named_modules():
            if isinstance(module, (nn.Embedding, nn.Linear)):
                nn.init.normal_(module.weight, std=0.02 if "token" in name else 0.05)
            if isinstance(module, Linear8):
                module.place = name
                if name.endswith(("proj", "down", "head")):  # blocks begin as the identity
                    nn.init.zeros_(module.weight)
                module.end_step()

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position.weight[:tokens.shape[1]]
        for block in self.h:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


# --- data ---------------------------------------------------------------------------------

ALPHABET = " abcdefghijklmnopqrstuvwxyz"


def make_text(words=4000, lexicon=60):
    """Words of a small language, common ones more often: the same text in every run."""
    dice = random.Random(5)
    known = ["".join(dice.choices(ALPHABET[1:], k=dice.randint(2, 6))) for _ in range(lexicon)]
    text = " ".join(dice.choices(known, [1 / (k + 2) for k in range(lexicon)], k=words))
    return torch.tensor([ALPHABET.index(c) for c in text])


def entropy(text):
    share = text.bincount().double() / len(text)
    return -float((share * share.clamp(min=1e-9).log()).sum())


def draw_batch(text, seed, number, size, context):
    """Batch `number` of the order that `seed` gives: nothing to remember between steps."""
    dice = torch.Generator().manual_seed(seed * 1000003 + number)
    starts = torch.randint(len(text) - context - 1, (size,), generator=dice)
    return text[starts[:, None] + torch.arange(context + 1)]


# --- training -----------------------------------------------------------------------------


def read_arguments():
    parser = argparse.ArgumentParser(description="Trains a small GPT in emulated FP8.")
    for name, default, what in (("steps", 80, "optimizer steps"), ("layers", 2, "blocks"),
                                ("width", 32, "of the residual stream"), ("heads", 4, "of attention"),
                                ("context", 32, "characters"), ("seed", 1337, "of everything"),
                                ("batch", 4, "sequences in a micro-batch"),
                                ("micro", 3, "micro-batches of a rank in a step")):
        parser.add_argument("--" + name, type=int, default=default, help=f"{what} ({default})")
    parser.add_argument("--lr", type=float, default=4e-3, help="largest learning rate (4e-3)")
    parser.add_argument("--fault", default="", help="bugs to plant: " + " ".join(faults.FAULTS))
    return parser.parse_args()


def rate(step, arguments, warmup):
    """Linear warm-up, then a cosine down to a tenth."""
    if step <= warmup:
        return arguments.lr * step / warmup
    done = (step - warmup) / (arguments.steps - warmup)
    return arguments.lr * (0.55 + 0.45 * math.cos(math.pi * min(done, 1)))


def main():
    arguments = read_arguments()
    torch.set_num_threads(1)  # a second one costs more than it gives at this size
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    torch.manual_seed(plumb_run.seed(arguments.seed))  # PLUMB: else arguments.seed
    faults.plant(arguments.fault)

    text = make_text()
    model = GPT(len(ALPHABET), arguments.layers, arguments.width, arguments.heads, arguments.context)
    optimizer = Adam8(model.parameters(), arguments.lr)
    linears = [module for module in model.modules() if isinstance(module, Linear8)]
    hook, parallel = None, model
    if world > 1:
        hook = AllReduce8()
        parallel = nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)
        parallel.register_comm_hook(None, hook.reduce)

    run = plumb_run.start(  # PLUMB: the first of three lines
        model, optimizer, hook, trainer="examples/pytorch/gpt.py", config=vars(arguments),
        schedule_steps=arguments.steps, warmup_steps=10, unigram_entropy=entropy(text),
        promises="batch_hash data_seed micro_order checkpoint exact_resume skip warmup_scale clip_scale")
    data_seed, warmup, clip = run.data_seed(arguments.seed), run.warmup(10), run.clip(1.0)  # PLUMB

    for step in range(run.first_step, arguments.steps + 1):  # PLUMB: else from 1
        faults.begin(step, run.first_step)
        number = faults.batch_number(run.batch_number(step))  # PLUMB: else step
        size = arguments.batch * arguments.micro * world
        tokens = draw_batch(text, data_seed, number, size, arguments.context)
        parts = tokens.chunk(world)[rank].chunk(arguments.micro)
        loss = 0.0
        order = run.micro_order(arguments.micro)  # PLUMB: else range(arguments.micro)
        for k in order:
            last = k == order[-1] or world == 1
            with contextlib.nullcontext() if last else parallel.no_sync():
                part = parallel(parts[k][:, :-1], parts[k][:, 1:]) / arguments.micro
                part.backward()
            loss += part.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
        lr = faults.rate(rate(step, arguments, warmup))
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
        optimizer.zero_grad()
        for linear in linears:
            linear.end_step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step:4d}  loss {loss:.4f}  gradient {norm:.3f}", flush=True)
        run.log(step, loss, grad_norm=norm, batch=tokens, lr=lr)  # PLUMB: the second line
        if run.should_stop(step):  # PLUMB
            break
    run.end()  # PLUMB: the third line


if __name__ == "__main__":
    main()
