"""plumb_run.py with PyTorch: toy.py beside this file, alone and on two ranks.  Runs of one process are
forks of this one, which has PyTorch loaded already.
"""
import atexit
import contextlib
import functools
import glob
import io
import json
import math
import os
import re
import runpy
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import types
import unittest

import torch

ROOT = os.environ["PLUMB_SOURCE_DIR"]
TOY = os.path.join(ROOT, "tests/python/run/toy.py")
for name in list(os.environ):
    if name.startswith("PLUMB_") and name != "PLUMB_SOURCE_DIR":
        del os.environ[name]
sys.path.insert(0, os.path.join(ROOT, "python"))
import plumb_run

torch.set_num_threads(1)


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def whole(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def contents(path):
    with open(path, "rb") as file:
        return file.read()


@functools.lru_cache(None)
def reader():
    """The reader of .pls files that docs/run-contract.md shows."""
    with open(os.path.join(ROOT, "docs/run-contract.md"), encoding="utf-8") as file:
        text = re.search(r"```python\n(# pls.py.*?)\nsites, rows = ", file.read(), re.DOTALL).group(1)
    space = {}
    exec(text.replace('open(path, "rb").read()', 'contents(path)'), space)
    space["contents"] = contents
    return space["read"]


class Base(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.place)

    def path(self, name):
        return os.path.join(self.place, name)

    def ask(self, name, **request):
        """A run directory with a request in it."""
        directory = self.path(name)
        os.makedirs(directory)
        with open(os.path.join(directory, "request.json"), "w", encoding="utf-8") as file:
            json.dump(dict(request, contract=1, run_dir=directory), file)
        return directory

    def child(self, arguments, environment, out):
        with open(out, "w", encoding="utf-8") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.environ.update(environment)
        sys.argv = [TOY, *arguments]
        del sys.modules["plumb_run"]
        status = 0
        try:
            runpy.run_path(TOY, run_name="__main__")
        except SystemExit as end:
            status = end.code or 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
            status = 1
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    def go(self, directory, *arguments, status=0):
        """Runs toy.py; gives what it printed."""
        environment = {"PLUMB_RUN_DIR": directory} if directory else {}
        out = self.path("out")
        process = os.fork()
        if process == 0:
            try:
                self.child(arguments, environment, out)
            finally:
                os._exit(99)
        got = os.waitpid(process, 0)[1]
        with open(out, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(os.waitstatus_to_exitcode(got), status, text)
        return text

    def log(self, name):
        return lines(self.path(name + "/metrics.jsonl"))

    def events(self, name, kind):
        return [e for e in lines(self.path(name + "/events.jsonl")) if e["event"] == kind]


class Alone(Base):
    def test_nothing_moves(self):
        """Outside plumb, inside, watched, shadowed: the same weights."""
        outside = self.go(None)
        self.assertEqual(os.listdir(self.place), ["out"])
        self.assertTrue(outside.startswith("final "))
        wanted = None
        for name, asked, arguments in (("plain", {}, []), ("watched", {"observe_every": 1}, []),
                                       ("third", {"observe_every": 3}, []),
                                       ("shadow", {"observe_every": 1}, ["--shadow"])):
            self.assertEqual(self.go(self.ask(name, **asked), *arguments), outside, name)
            got = self.log(name)
            self.assertEqual(wanted or got, got, name)
            wanted = got
        self.assertEqual([line["step"] for line in wanted], list(range(1, 13)))
        self.check_statistics()

    def check_statistics(self):
        sites, rows = reader()(self.path("third/sites-rank00000.pls"))
        declared = [site["name"] for site in whole(self.path("third/run.json"))["sites"]]
        self.assertEqual(sites, declared)
        self.assertEqual(sorted({row["step"] for row in rows}), [1, 3, 6, 9, 12])
        self.assertEqual(len(rows), 5 * len(sites))
        for row in rows:
            name = sites[row["site"]]
            rows_in = {"x": 8, "w": None, "dy": 8}[name.rpartition("/")[2]]
            width = {"blocks": 1}.get("blocks", 1)
            self.assertEqual(row["total"] % (8 * width), 0, name)
            self.assertEqual((row["saturated"], row["nonfinite"]), (0, 0), name)
            self.assertAlmostEqual(row["headroom"], 1, places=4, msg=name)
            self.assertAlmostEqual(row["amax"] / row["decoded_amax"], 1, places=5, msg=name)
            if rows_in is None and "up" in name:
                self.assertEqual(row["total"], 2 * 2 * 16 * 16)  # two micro-batches
        shadow = reader()(self.path("shadow/sites-rank00000.pls"))[1]
        seen = [row["shadow"] for row in shadow if sites[row["site"]].endswith("fprop/x")]
        self.assertEqual(len(seen), 12 * 5)
        self.assertTrue(all(0.002 < value < 0.2 for value in seen), seen)  # steps of 2^-4, averaged

    def test_emulated(self):
        outside = self.go(None, "--emulate=te-delayed")
        for name, asked in (("plain", {}), ("watched", {"observe_every": 2})):
            self.assertEqual(self.go(self.ask(name, **asked), "--emulate=te-delayed"), outside)
        self.assertEqual(self.log("plain"), self.log("watched"))
        features = whole(self.path("plain/run.json"))["features"]
        self.assertLessEqual({"observe", "lr_scale", "state_hash", "exact_resume"}, set(features))
        rules = self.path("rules")
        with open(rules, "w", encoding="utf-8") as file:
            json.dump([{"sites": "*", "use": "e5m2"}, {"sites": "optimizer/v", "use": "bf16"},
                       {"sites": "layer.1/*/dgrad/*", "use": "bf16", "raise": True}], file)
        self.go(self.ask("policy", policy=rules), "--emulate=te-delayed")
        effective = self.events("policy", "effective")[0]["sites"]
        self.assertEqual(effective["layer.0/up/fprop/x"], "e5m2:tensor:delayed:history=1024")
        self.assertEqual(effective["layer.1/up/dgrad/dy"], "bf16")
        self.assertEqual(effective["optimizer/v"], "bf16")

    def test_resume(self):
        for arguments in ([], ["--emulate=te-delayed"]):
            with self.subTest(arguments=arguments):
                names = ["whole%d" % len(arguments), "rest%d" % len(arguments)]
                self.go(self.ask(names[0], checkpoint_at=[5, 8], observe_every=1), *arguments)
                saved = self.events(names[0], "checkpoint")
                self.assertEqual([event["step"] for event in saved], [5, 8])
                self.assertGreater(saved[0]["bytes"], 9000 * 4)
                self.go(self.ask(names[1], start=saved[0]["ref"]), *arguments)
                self.assertEqual(self.log(names[0])[5:], self.log(names[1]))
        self.bad_checkpoints(self.events("whole0", "checkpoint")[0]["ref"])

    def bad_checkpoints(self, ref):
        def refused(name, ref, *arguments):
            said = self.go(self.ask(name, start=ref), *arguments, status=3)
            self.assertEqual(said.count("\n"), 1, said)
            return said
        self.assertIn("no checkpoint", refused("missing", self.path("none")))
        self.assertIn("of another configuration", refused("other", ref, "--config=b"))
        tensors, note = (os.path.join(ref, "rank00000" + end) for end in (".pt", ".json"))
        with open(tensors, "rb") as file:
            data = file.read()
        with open(tensors, "wb") as file:
            file.write(data[:-100] + bytes([data[-100] ^ 1]) + data[-99:])
        self.assertIn("torn", refused("torn", ref))
        with open(tensors, "wb") as file:
            file.write(data)
        for number, text in enumerate(("{", "[]", '{"plumb_run": 1, "step": "5"}')):
            with open(note, encoding="utf-8") as file:
                kept = file.read()
            with open(note, "w", encoding="utf-8") as file:
                file.write(text)
            refused("note%d" % number, ref)
            with open(note, "w", encoding="utf-8") as file:
                file.write(kept)
        damaged = dict(json.loads(kept), tree=["exec", "1"])
        with open(note, "w", encoding="utf-8") as file:
            json.dump(damaged, file)
        self.assertIn("cannot be loaded", refused("tree", ref))

    def test_lr_scale(self):
        half = self.go(None, "--lr=0.005")
        self.assertNotEqual(half, self.go(None))
        for name, arguments in (("before", []), ("late", ["--late"])):
            self.assertEqual(self.go(self.ask(name, lr_scale=0.5), *arguments), half)
        self.assertEqual([line["lr"] for line in self.log("before")][:3], [0.001, 0.002, 0.003])

    def test_seeds(self):
        first = self.go(self.ask("one", seed=1))
        self.assertEqual(first, self.go(None))
        self.assertNotEqual(first, self.go(self.ask("two", seed=2)))
        self.assertIn("plumb_run.seed(OWN_SEED)",
                      self.go(self.ask("less", seed=2), "--seedless", status=3))
        self.assertEqual(first, self.go(self.ask("same", seed=1), "--seedless"))
        self.go(self.ask("order", micro_order=3, stop_at=6))
        one, order = self.log("one")[:6], self.log("order")
        self.assertEqual([l["batch_hash"] for l in one], [l["batch_hash"] for l in order])
        self.assertNotEqual([l["state_hash"] for l in one], [l["state_hash"] for l in order])
        self.assertLess(max(abs(a["loss"] - b["loss"]) for a, b in zip(one, order)), 0.1)

    def test_exception(self):
        self.go(self.ask("run"), "--raises=3", status=1)
        self.assertEqual(whole(self.path("run/end.json")), {"reason": "error", "step": 2})
        flight = whole(self.path("run/flight-rank00000.json"))
        self.assertEqual(flight["records"][-1]["text"], "no space left")


class Ranks(Base):
    def begin(self, directory, *arguments):
        """toy.py on two ranks.  Debian 12's torchrun dies without -r and -t: PyTorch 1.13 does not find
        its zero under Python 3.11.
        """
        environment = {**os.environ, "PLUMB_RUN_DIR": directory, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "-r=1", "-t=1",
             "--log_dir=" + self.path("logs"), "--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:0", TOY, "--ddp", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
            start_new_session=True)

    def finish(self, process, status=0):
        try:
            out = process.communicate(timeout=60)[0]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        self.assertEqual(process.returncode, status, out)
        return out

    def await_file(self, process, path, seconds=60):
        deadline = time.monotonic() + seconds
        while not os.path.exists(path):
            if process.poll() is not None or time.monotonic() > deadline:
                self.fail("no %s: %s" % (path, self.finish(process)))
            time.sleep(0.05)

    def test_two(self):
        directory = self.ask("run", stop_at=5, checkpoint_at=[2], observe_every=4)
        out = self.finish(self.begin(directory))
        self.assertEqual(len(set(re.findall("final (.*)", out))), 1, out)
        self.assertEqual(sorted(os.listdir(directory)),
                         ["checkpoints", "end.json", "events-rank00001.jsonl", "events.jsonl",
                          "metrics.jsonl", "request.json", "run.json", "sites-rank00000.pls",
                          "sites-rank00001.pls"])
        self.assertEqual(whole(self.path("run/end.json")), {"reason": "reached", "step": 5})
        self.assertEqual(whole(self.path("run/run.json"))["world_size"], 2)
        log = self.log("run")
        self.assertEqual([line["step"] for line in log], [1, 2, 3, 4, 5])
        self.alone_for_comparison(log)
        rest = self.ask("rest", stop_at=5, start=self.events("run", "checkpoint")[0]["ref"])
        self.finish(self.begin(rest))
        self.assertEqual(self.log("rest"), log[2:])

    def alone_for_comparison(self, log):
        """The loss of step 1 is the mean over ranks: dropout aside, of two runs of one rank each."""
        self.go(self.ask("alone", stop_at=1))
        alone = self.log("alone")[0]
        self.assertNotEqual(alone["loss"], log[0]["loss"])
        self.assertLess(abs(alone["loss"] - log[0]["loss"]), 1)
        self.assertNotEqual(alone["batch_hash"], log[0]["batch_hash"])

    def test_stop(self):
        """Only rank 0 knows, and no rank waits for one that has left."""
        self.finish(self.begin(self.ask("run"), "--kill=2"))
        self.assertEqual(whole(self.path("run/end.json")), {"reason": "stopped", "step": 2})

    def test_hang(self):
        """Rank 1 does not come to the gradients of step 3; rank 0 cannot go on and says where it is."""
        directory = self.ask("run")
        process = self.begin(directory, "--hang=3", "--patience=1")
        self.await_file(process, os.path.join(directory, "flight-rank00000.json"))
        self.await_file(process, os.path.join(directory, "flight-rank00001.json"))
        flights = [whole(os.path.join(directory, "flight-rank%05d.json" % rank)) for rank in (0, 1)]
        for rank, flight in enumerate(flights):
            self.assertEqual(flight["why"], "nothing happened for 1 s")
            self.assertEqual([r["step"] for r in flight["records"] if r["what"] == "step"], [1, 2])
        self.assertTrue(any("backward" in call or "clip_grad" in call or "all_" in call
                            for call in flights[0]["stacks"][0]), flights[0])
        self.assertTrue(any("step_of" in call for call in flights[1]["stacks"][0]))
        os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + 20
        while whole(os.path.join(directory, "flight-rank00000.json"))["why"] != "SIGTERM":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


class Hashes(unittest.TestCase):
    def test_sampled_sees_all_in_turn(self):
        model = torch.nn.Linear(100, 100)
        before = [plumb_run.state_hash([model], step) for step in range(3)]
        with torch.no_grad():
            model.weight[57, 3] += 1
        after = [plumb_run.state_hash([model], step) for step in range(3)]
        self.assertEqual(sum(a != b for a, b in zip(before, after)), 1)  # 10000 / 4096: 3 in turn
        full = plumb_run.state_hash([model], 1, full=True)
        with torch.no_grad():
            model.weight[57, 3] -= 1
        self.assertNotEqual(full, plumb_run.state_hash([model], 1, full=True))

    def test_what_is_in_it(self):
        model = torch.nn.BatchNorm1d(4)
        optimizer = torch.optim.AdamW(model.parameters())
        seen = {plumb_run.state_hash([model, optimizer], 1)}
        model(torch.randn(8, 4)).sum().backward()  # running averages
        seen.add(plumb_run.state_hash([model, optimizer], 1))
        optimizer.step()
        weights = plumb_run.state_hash([model], 1)
        seen.add(plumb_run.state_hash([model, optimizer], 1))
        next(iter(optimizer.state.values()))["exp_avg"][1] += 1
        seen.add(plumb_run.state_hash([model, optimizer], 1))
        self.assertEqual(len(seen), 4)
        self.assertEqual(weights, plumb_run.state_hash([model], 1))

    def test_kinds_of_tensors(self):
        for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool):
            model = torch.nn.Module()
            model.register_buffer("x", torch.zeros(3, 2, dtype=dtype).t())
            model.register_buffer("none", torch.zeros(0, dtype=dtype))
            before = plumb_run.state_hash([model], 1)
            model.x[1, 2] = 1
            self.assertNotEqual(before, plumb_run.state_hash([model], 1), dtype)

    def test_tokens(self):
        numbers = [[1, 2], [3, 4]]
        self.assertEqual(plumb_run._token_bytes(torch.tensor(numbers)),
                         plumb_run._token_bytes(numbers))
        self.assertNotEqual(plumb_run._token_bytes(numbers), plumb_run._token_bytes([[2, 1], [3, 4]]))

    def test_crc(self):
        crc_of = reader().__globals__["crc32c"]
        self.assertEqual(plumb_run.crc32c(b"123456789"), 0xE3069283)
        for size in (0, 1, 16383, 16384, 16385, 50000):
            data = os.urandom(size)
            self.assertEqual(plumb_run.crc32c(data), crc_of(data), size)

    def test_trees(self):
        import collections
        tree = {"a": [1, -2.5, math.inf, None, True], (1, 2): ({3}, "x"), 5: torch.arange(3),
                "c": collections.Counter({7: 2}), "big": 2**70}
        tensors = []
        packed = json.loads(json.dumps(plumb_run._pack(tree, tensors)))
        got = plumb_run._unpack(packed, tensors)
        self.assertTrue(torch.equal(got.pop(5), tree.pop(5)))
        self.assertEqual(got, tree)
        self.assertIs(type(got["c"]), collections.Counter)
        with self.assertRaises(TypeError):
            plumb_run._pack({"f": print}, [])


class Sensors(Base):
    def sensors(self, owner, every=1):
        sites = plumb_run.find_sites([owner])
        return plumb_run._Sensors(sites, every, self.path("x.pls"), False)

    def owner(self, **precision):
        return types.SimpleNamespace(precision={k.replace("_", "/"): v for k, v in precision.items()},
                                     plumb_observer=None)

    def test_counts(self):
        owner = self.owner(fprop_x="e4m3:none", fprop_w="mine")
        sensors = self.sensors(owner)
        sensors.arm(1)
        x = torch.tensor([0.0, -0.0, 2.0**-10, -2.0**-9, 448.0, -464.0, 465.0, math.nan])
        owner.plumb_observer("fprop/x", x, torch.tensor([0, -0.0, 0, -2.0**-9, 448, -448, 448, math.nan]),
                             "e4m3:none", None)
        owner.plumb_observer("fprop/x", torch.tensor([1000.0]), torch.tensor([448.0]), "e4m3:none", None)
        owner.plumb_observer("fprop/w", torch.tensor([1.0, 2.0, 1e-9]),
                             torch.tensor([1.0, math.inf, 0.0]), "mine", None)
        owner.plumb_observer("unknown", x, x, "bf16", None)
        owner.plumb_observer("fprop/x", x[:0], x[:0], "e4m3:none", None)
        sensors.flush(1)
        sensors.arm(2)
        sensors.flush(2)  # nothing was cast
        sensors.close()
        self.assertIsNone(owner.plumb_observer)
        sites, (first, second) = reader()(self.path("x.pls"))
        self.assertEqual([s.partition("/")[2] for s in sites], ["fprop/x", "fprop/w"])
        keys = ("step", "site", "amax", "decoded_amax", "scale", "total", "saturated", "flushed",
                "zero", "nonfinite")
        self.assertEqual([first[key] for key in keys], [1, 0, 1000, 448, 1, 9, 2, 1, 2, 1])
        self.assertEqual(first["headroom"], struct.unpack("f", struct.pack("f", 0.448))[0])
        self.assertEqual([second[key] for key in keys if key != "scale"], [1, 1, 2, 1, 3, 1, 1, 0, 0])
        self.assertTrue(math.isnan(second["scale"]) and math.isnan(second["headroom"]))

    def test_when(self):
        owner = self.owner(fprop_x="e4m3")
        sensors = self.sensors(owner, every=4)
        armed = []
        for step in range(1, 13):
            sensors.arm(step)
            armed += [step] if owner.plumb_observer else []
        self.assertEqual(armed, [1, 4, 8, 12])
        sensors.close()

    def test_chunks(self):
        """More rows than fit into one chunk."""
        file = plumb_run.PlsFile(self.path("x.pls"), ["a"], [("step", "u64"), ("site", "u32")])
        with unittest.mock.patch.object(plumb_run, "_MOST_CHUNK", 40):
            file.write([{"step": step, "site": 0} for step in range(8)])
        file.close()
        sites, rows = reader()(self.path("x.pls"))
        self.assertEqual([row["step"] for row in rows], list(range(8)))


if __name__ == "__main__":
    import unittest.mock
    unittest.main()
