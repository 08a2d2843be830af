"""What plumb_run costs a step: prints the table of python/README.md.

    overhead.py [WIDTH [TOKENS]]      four blocks of two emulated FP8 linear layers, one thread

Each row is a process of its own (a fork); CPU time, the least of 12 steps.
"""
import json
import os
import sys
import tempfile
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../python"))

ROWS = [
    ("outside plumb", None, {}),
    ("log, sampled `state_hash`", {}, {}),
    ("log, full `state_hash`", {}, {"state_hash": "full"}),
    ("sensors on", {"observe_every": 1}, {}),
    ("sensors and shadow", {"observe_every": 1}, {"shadow": True}),
]


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def train(width, tokens, asked, options):
    """Seconds of each step."""
    if asked is not None:
        directory = tempfile.mkdtemp()
        os.environ["PLUMB_RUN_DIR"] = directory
        with open(os.path.join(directory, "request.json"), "w", encoding="utf-8") as file:
            json.dump(asked, file)
    import plumb_run
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[Block(width) for _ in range(4)])
    optimizer = torch.optim.AdamW(model.parameters())
    plumb_run.emulate(model, optimizer, "te-current")
    run = plumb_run.start(model, optimizer, **options)
    seconds = []
    for step in range(1, 16):
        begin = time.process_time()
        x = torch.randn(tokens, width)
        optimizer.zero_grad()
        loss = (model(x) - x.roll(1, 1)).square().mean()
        loss.backward()
        optimizer.step()
        run.log(step, loss, batch=x)
        run.should_stop(step)
        seconds.append(time.process_time() - begin)
    run.end()
    return seconds[3:]


def measure(*arguments):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        seconds = train(*arguments)
        os.write(writer, json.dumps(min(seconds)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return json.loads(os.read(reader, 100))


def main():
    width, tokens = [int(text) for text in sys.argv[1:]] + [256, 1024][len(sys.argv) - 1:]
    own = None
    print("| width %d, %d tokens | ms a step | of the step |\n| --- | ---: | ---: |" % (width, tokens))
    for name, asked, options in ROWS:
        seconds = measure(width, tokens, asked, options)
        own = own or seconds
        print("| %s | %.1f | %+.0f %% |" % (name, 1e3 * seconds, 100 * (seconds / own - 1)), flush=True)


main()
