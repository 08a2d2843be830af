"""plumb_run.py without PyTorch: requests, globs, policies, names of sites, and whole runs of
trainer.py beside this file.  The oracles are the contract's text and the C library's fnmatch.
"""
import contextlib
import ctypes
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

ROOT = os.environ["PLUMB_SOURCE_DIR"]
TRAINER = os.path.join(ROOT, "tests/python/run/trainer.py")
for name in list(os.environ):
    if name.startswith("PLUMB_") and name != "PLUMB_SOURCE_DIR":
        del os.environ[name]
sys.modules["torch"] = None
sys.path.insert(0, os.path.join(ROOT, "python"))
import plumb_run


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def whole(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Base(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.place)

    def path(self, name):
        return os.path.join(self.place, name)

    def refused(self, function, *arguments):
        """The one sentence on standard error."""
        err = io.StringIO()
        with contextlib.redirect_stderr(err), self.assertRaises(SystemExit) as caught:
            function(*arguments)
        self.assertEqual(caught.exception.code, 3)
        self.assertEqual(err.getvalue().count("\n"), 1, err.getvalue())
        return err.getvalue()


class Requests(Base):
    GOOD = [
        ("seed", 0, 0), ("seed", "18446744073709551615", 2**64 - 1), ("seed", "", None),
        ("data_seed", 5, 5), ("micro_order", "7", 7), ("stop_at", 0, 0), ("stop_at", "+12", 12),
        ("policy", "/a b", "/a b"), ("start", "a ref", "a ref"), ("start", None, None),
        ("checkpoint_at", "100,200", [100, 200]), ("checkpoint_at", [200, 100], [100, 200]),
        ("lr_scale", 0.5, 0.5), ("lr_scale", "1e-3", 0.001), ("warmup_scale", ".5", 0.5),
        ("clip_scale", 1000000, 1e6), ("skip", "70", (70, 70)), ("skip", 70, (70, 70)),
        ("skip", "70-72", (70, 72)), ("observe_every", 3, 3),
    ]
    BAD = [
        ("seed", -1), ("seed", "18446744073709551616"), ("seed", "1.0"), ("seed", 1.5),
        ("seed", "x"), ("seed", True), ("seed", [1, 2]), ("seed", {}), ("seed", "1 "),
        ("seed", "\u0661"), ("seed", "9" * 5000), ("data_seed", "0x1"), ("micro_order", "1e3"),
        ("stop_at", -1), ("stop_at", 10**15 + 1), ("stop_at", "1\n"), ("policy", "rules.json"),
        ("policy", "/" + "x" * 4096), ("policy", "/a\0b"), ("start", "x" * 4097),
        ("checkpoint_at", "1,,2"), ("checkpoint_at", "0"), ("checkpoint_at", []),
        ("checkpoint_at", [1.5]), ("checkpoint_at", [True]), ("checkpoint_at", "1, 2"),
        ("checkpoint_at", ",".join(["1"] * 10001)),
        ("lr_scale", 0), ("lr_scale", -1), ("lr_scale", "nan"), ("lr_scale", "inf"),
        ("lr_scale", float("nan")), ("lr_scale", "1e7"), ("lr_scale", "0x1p0"),
        ("lr_scale", "1_0"), ("lr_scale", "."), ("warmup_scale", "1e999"), ("clip_scale", "1,5"),
        ("skip", "0"), ("skip", "72-70"), ("skip", "70-"), ("skip", "-70"), ("skip", "1-2-3"),
        ("observe_every", "often"),
    ]

    def read(self, asked=None, text=None, **environment):
        if asked is not None:
            text = json.dumps(asked)
        if text is not None:
            with open(self.path("request.json"), "w", encoding="utf-8") as file:
                file.write(text)
        with unittest.mock.patch.dict(os.environ, environment, PLUMB_RUN_DIR=self.place):
            return plumb_run._Request()

    def test_values(self):
        for key, value, wanted in self.GOOD:
            with self.subTest(key=key, value=value):
                self.assertEqual(getattr(self.read({key: value}), key), wanted)
        os.remove(self.path("request.json"))
        for key, value, wanted in self.GOOD:
            if isinstance(value, str):
                got = self.read(**{"PLUMB_" + key.upper(): value})
                self.assertEqual(getattr(got, key), wanted)

    def test_nonsense(self):
        for key, value in self.BAD:
            with self.subTest(key=key, value=str(value)[:40]):
                said = self.refused(self.read, {key: value})
                self.assertIn("PLUMB_%s is '" % key.upper(), said)
                self.assertIn("; allowed: ", said)
                self.assertTrue(said.isascii() and len(said) < 1000)

    def test_file_wins(self):
        got = self.read({"seed": None, "strange": [{}]}, PLUMB_SEED="9", PLUMB_STOP_AT="x")
        self.assertIsNone(got.seed)
        self.assertIsNone(got.stop_at)

    def test_no_request(self):
        for text in ("", "[1]", "{", "[" * 100000, '{"seed": \xff', "{}" + " " * (1 << 20)):
            with self.subTest(text=text[:10]):
                self.refused(self.read, None, text)
        self.assertIn("contract version", self.refused(self.read, {"contract": 2}))
        with unittest.mock.patch.dict(os.environ, PLUMB_RUN_DIR=self.path("none")):
            self.assertIn("no directory", self.refused(plumb_run._Request))

    def test_refused_is_in_end_json(self):
        said = self.refused(self.read, {"seed": "x"})
        end = whole(self.path("end.json"))
        self.assertEqual((end["reason"], end["step"]), ("refused", 0))
        self.assertIn(end["why"], said)


class Globs(Base):
    def test_as_libc(self):
        libc = ctypes.CDLL(None)
        libc.fnmatch.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
        draw = random.Random(1)
        matched = 0
        for _ in range(60000):
            glob = "".join(draw.choice("abc-,*?[]!^\\/") for _ in range(draw.randrange(8)))
            name = "".join(draw.choice("abc-,[]!\\/^*") for _ in range(draw.randrange(6)))
            wanted = libc.fnmatch(glob.encode(), name.encode(), 0) == 0
            got = plumb_run.glob_pattern(glob).fullmatch(name) is not None
            matched += wanted
            self.assertEqual(got, wanted, "glob %r, name %r" % (glob, name))
        self.assertGreater(matched, 2000)


class Layer:
    def __init__(self, **parts):
        self.precision = {part.replace("_", "/"): use for part, use in parts.items()}


class Modules:
    """Looks like a torch module: all that is needed of one is named_modules."""

    def __init__(self, named):
        self.named = named

    def named_modules(self):
        return self.named.items()


class Sites(Base):
    NAMES = [
        ("transformer.h.3.mlp.c_proj", 3, "layer.3/mlp.c_proj"),
        ("layers.3.feed_forward.w2", 3, "layer.3/feed_forward.w2"),
        ("model.layers.3.mlp.down_proj", 3, "layer.3/mlp.down_proj"),
        ("blocks.30.attn.qkv", 30, "layer.30/attn.qkv"),
        ("module.transformer.h.1.attn.c_attn", 1, "layer.1/attn.c_attn"),
        ("_orig_mod.module.layers.2.fc", 2, "layer.2/fc"),
        ("layers.4._fsdp_wrapped_module.fc", 4, "layer.4/fc"),
        ("model.layers.5.experts.7.w1", 5, "layer.5/experts.7.w1"),
        ("lm_head", None, "lm_head"), ("head.v2", None, "head.v2"), ("net.0", 0, "layer.0/net"),
        ("0", 0, "layer.0/module"), ("conv1d", None, "conv1d"),
    ]

    def test_names(self):
        for name, layer, wanted in self.NAMES:
            site = plumb_run.find_sites([Modules({name: Layer(fprop_x="e4m3")})])[0]
            self.assertEqual((site.layer, site.name), (layer, wanted + "/fprop/x"))
            self.assertEqual((site.kind, site.gemm, site.operand), ("forward", "fprop", "x"))

    def test_layers_argument(self):
        model = Modules({"stage_2.conv": Layer(wgrad_dy="e5m2")})
        site = plumb_run.find_sites([model], r"stage_(\d+)")[0]
        self.assertEqual((site.layer, site.name, site.kind), (2, "layer.2/conv/wgrad/dy", "backward"))

    def test_unique(self):
        parts = {"encoder.layers.3.fc": Layer(fprop_x="e4m3"),
                 "decoder.layers.3.fc": Layer(fprop_x="e4m3"), "x" * 200 + ".a": Layer(m="e4m3"),
                 "x" * 200 + ".b": Layer(m="e4m3"), "a b\u00e9": Layer(fprop_x="e4m3")}
        names = [site.name for site in plumb_run.find_sites([Modules(parts)])]
        self.assertEqual(names[:2], ["layer.3/encoder.layers.fc/fprop/x",
                                     "layer.3/decoder.layers.fc/fprop/x"])
        self.assertEqual(len(set(names)), 5)
        self.assertTrue(all(len(n) < 128 and n.isascii() and " " not in n for n in names), names)

    def test_one_dict_for_many(self):
        class Shared:
            precision = {"fprop/x": "e4m3"}
        a, b = Shared(), Shared()
        sites = plumb_run.find_sites([Modules({"a": a, "b": b})])
        sites[0].set("bf16")
        self.assertEqual((a.precision["fprop/x"], b.precision["fprop/x"]), ("bf16", "e4m3"))

    def test_other_owners(self):
        optimizer, hook = Layer(m="e4m3", v="e5m2"), Layer(grad="e5m2")
        optimizer.param_groups = []
        optimizer.precision["model.layers.2.fc.weight/m"] = "e4m3"
        optimizer.precision_uses = {"m": ("bf16", "fp32")}
        hook.precision_class = "collective"
        found = {s.name: s for s in plumb_run.find_sites([optimizer, hook])}
        self.assertEqual([(n, s.kind, s.layer, s.operand) for n, s in found.items()],
                         [("optimizer/m", "optimizer", None, "m"),
                          ("optimizer/v", "optimizer", None, "v"),
                          ("layer.2/optimizer/fc.weight/m", "optimizer", 2, "m"),
                          ("collective/grad", "collective", None, None)])
        self.assertEqual(found["optimizer/m"].declared()["uses"], ["bf16", "fp32"])
        self.assertEqual(found["optimizer/v"].declared()["uses"], ["bf16"])

    def test_shares(self):
        layer = Layer(fprop_x="e4m3", wgrad_x="e4m3")
        layer.precision_shares = {"wgrad/x": "fprop/x"}
        sites = plumb_run.find_sites([Modules({"fc": layer})])
        self.assertEqual(sites[1].declared()["shares_storage_with"], "fc/fprop/x")

    def test_no_dict(self):
        for precision in ("bf16", {}, {"x": 1}, {1: "e4m3"}, None):
            layer = Layer()
            layer.precision = precision
            self.assertEqual(plumb_run.find_sites([Modules({"a": layer})]), [])


class Policies(Base):
    def effective(self, rules, own="e4m3:delayed", uses=("bf16", "e5m2", "e5m2:delayed"), **more):
        layer = Layer(fprop_x=own, dgrad_dy="fp32")
        layer.precision_uses = uses
        for name, value in more.items():
            setattr(layer, name, value)
        with open(self.path("rules"), "w", encoding="utf-8") as file:
            json.dump(rules, file)
        sites = plumb_run.find_sites([Modules({"layers.1.fc": layer})])
        self.unmatched = plumb_run.apply_rules(sites, plumb_run._load_rules(self.path("rules")))
        return layer.precision["fprop/x"], layer.precision["dgrad/dy"]

    def test_last_match_wins(self):
        rules = [{"sites": "*", "use": "bf16"}, {"sites": ["none", "*/fprop/*"], "use": "own"},
                 {"sites": "layer.2/*", "use": "bf16"}]
        self.assertEqual(self.effective(rules), ("e4m3:delayed", "bf16"))
        self.assertEqual(self.unmatched, [{"rule": 2, "sites": ["layer.2/*"]}])
        self.assertEqual(self.effective(rules[:1]), ("bf16", "bf16"))

    def test_raise(self):
        lift = {"sites": "*", "use": "bf16", "raise": True}
        self.assertEqual(self.effective([lift]), ("bf16", "fp32"))
        self.assertEqual(self.effective([lift], own="bf16"), ("bf16", "fp32"))
        self.assertEqual(self.effective([lift], own="fp16"), ("fp16", "fp32"))
        self.assertEqual(self.effective([lift], own="mine"), ("bf16", "fp32"))
        same = {"sites": "*fprop*", "use": "e5m2", "raise": True}
        self.assertEqual(self.effective([lift, same]), ("bf16", "fp32"))

    def test_bare_format(self):
        bare = [{"sites": "*fprop*", "use": "e5m2"}]
        self.assertEqual(self.effective(bare)[0], "e5m2:delayed")
        self.assertEqual(self.effective(bare, own="mine")[0], "e5m2")
        self.assertEqual(self.effective(bare, uses=("e5m2",))[0], "e5m2")
        reads = lambda part, use, own: "%s for %s of %s" % (use, part, own)
        self.assertEqual(self.effective(bare, uses=(), precision_reads=reads)[0],
                         "e5m2 for fprop/x of e4m3:delayed")
        self.refused(self.effective, bare, "e4m3:delayed", (), **{})

    def test_nonsense(self):
        rules = [
            {}, 1, {"sites": "*"}, {"use": "bf16"}, {"sites": [], "use": "bf16"},
            {"sites": [1], "use": "bf16"}, {"sites": "*", "use": ""}, {"sites": "*", "use": 1},
            {"sites": "x" * 257, "use": "bf16"}, {"sites": "*", "use": "b f"},
            {"sites": "*", "use": "bf16", "raise": 1}, {"sites": ["x"] * 10001, "use": "bf16"},
            {"sites": "*", "use": "e2m1"}, {"sites": "[[:alpha:]]", "use": "bf16"},
        ]
        for rule in rules:
            with self.subTest(rule=str(rule)[:60]):
                self.refused(self.effective, [rule])
        self.refused(self.effective, [{"sites": "none", "use": "bf16"}] * 10001)
        self.refused(self.effective, {"sites": "*"})
        self.refused(plumb_run._load_rules, self.path("missing"))
        said = self.refused(self.effective, [{"sites": "*fprop*", "use": "fp8"}])
        self.assertIn("rule 1 of the policy: site layer.1/fc/fprop/x cannot run in 'fp8'; "
                      "allowed: e4m3:delayed bf16 e5m2 e5m2:delayed", said)


class Runs(Base):
    def begin(self, *arguments, request=None, **environment):
        if request is not None:
            os.makedirs(self.path("run"), exist_ok=True)
            with open(self.path("run/request.json"), "w", encoding="utf-8") as file:
                json.dump(dict({"contract": 1, "run_dir": self.path("run")}, **request), file)
            environment["PLUMB_RUN_DIR"] = self.path("run")
        return subprocess.Popen([sys.executable, TRAINER, *arguments], cwd=self.place,
                                stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})

    def go(self, *arguments, request=None, **environment):
        process = self.begin(*arguments, request=request, **environment)
        self.err = process.communicate(timeout=60)[1]
        return process.returncode

    def clear(self):
        shutil.rmtree(self.path("run"), ignore_errors=True)

    def end(self):
        end = whole(self.path("run/end.json"))
        return end["reason"], end["step"]

    def files(self):
        return sorted(os.listdir(self.path("run")))

    def test_outside(self):
        self.assertEqual(self.go("--promises=checkpoint"), 0)
        self.assertEqual(os.listdir(self.place), [])
        self.assertEqual(self.err, "")

    def test_look(self):
        self.assertEqual(self.go("--promises=state_hash", request={"stop_at": 0}), 0, self.err)
        self.assertEqual(self.end(), ("reached", 0))
        self.assertEqual(lines(self.path("run/metrics.jsonl")), [])
        run = whole(self.path("run/run.json"))
        self.assertEqual((run["contract"], run["trainer"], run["world_size"], run["schedule_steps"],
                          run["features"]), (1, "one weight", 1, 30, ["state_hash"]))
        self.assertEqual([(s["name"], s["class"], s["own"], s["uses"]) for s in run["sites"]],
                         [("gemm/fprop/w", "forward", "e4m3:current", ["bf16", "e4m3"]),
                          ("gemm/dgrad/dy", "backward", "e4m3:current", ["bf16", "e4m3"])])

    def test_whole_run(self):
        every = "state_hash,batch_hash,data_seed,micro_order,lr_scale,skip"
        rules = self.path("rules")
        with open(rules, "w", encoding="utf-8") as file:
            json.dump([{"sites": "*/dgrad/*", "use": "bf16"}, {"sites": "none", "use": "bf16"}], file)
        asked = {"stop_at": 12, "seed": 3, "policy": rules}
        self.assertEqual(self.go("--promises=" + every, request=asked), 0, self.err)
        self.assertEqual(self.end(), ("reached", 12))
        log = lines(self.path("run/metrics.jsonl"))
        self.assertEqual([line["step"] for line in log], list(range(1, 13)))
        self.assertTrue(all({"loss", "grad_norm", "batch_hash", "state_hash"} <= set(line)
                            for line in log))
        events = {event["event"]: event for event in lines(self.path("run/events.jsonl"))}
        self.assertEqual(events["policy"]["unmatched"], [{"rule": 1, "sites": ["none"]}])
        self.assertEqual(events["effective"]["sites"], {"gemm/fprop/w": "e4m3:current",
                                                        "gemm/dgrad/dy": "bf16"})
        self.compare(every, asked, log)

    def compare(self, every, asked, log):
        """What each value of the request changes, and what it leaves alone."""
        for more, same, other in (
                ({}, ["loss", "batch_hash", "state_hash"], []),
                ({"seed": 5}, ["batch_hash"], ["loss", "state_hash"]),
                ({"data_seed": 8}, [], ["batch_hash", "state_hash"]),
                ({"micro_order": 1}, ["batch_hash"], []),
                ({"lr_scale": 0.5}, ["batch_hash"], ["state_hash"])):
            self.clear()
            self.assertEqual(self.go("--promises=" + every, request={**asked, **more}), 0, self.err)
            got = lines(self.path("run/metrics.jsonl"))
            for key in same:
                self.assertEqual([g[key] for g in got], [w[key] for w in log], (more, key))
            for key in other:
                self.assertNotEqual(got[0][key], log[0][key], (more, key))
        self.clear()
        self.assertEqual(self.go("--promises=" + every, request={**asked, "skip": "5-6"}), 0, self.err)
        got = lines(self.path("run/metrics.jsonl"))
        changed = [g["step"] for g, w in zip(got, log) if g["batch_hash"] != w["batch_hash"]]
        self.assertEqual(changed, [5, 6])

    def test_not_promised(self):
        for asked in ({"data_seed": 1}, {"micro_order": 1}, {"lr_scale": 0.5}, {"clip_scale": 2},
                      {"warmup_scale": 2}, {"skip": "3"}, {"start": "x"}, {"observe_every": 1}):
            self.clear()
            self.assertEqual(self.go("--promises=state_hash", request=asked), 3, asked)
            self.assertIn("PLUMB_%s is set" % list(asked)[0].upper(), self.err)
            self.assertEqual(self.err.count("\n"), 1, self.err)
            self.assertEqual(self.files(), ["end.json", "request.json"])

    def test_broken_promises(self):
        self.assertEqual(self.go("--promises=data_seed", "--forgets", request={"data_seed": 1}), 1)
        self.assertIn("run.data_seed(own) was not called", self.err)
        self.assertEqual(self.end(), ("error", 1))
        self.clear()
        self.assertEqual(self.go("--promises=lr_scale", "--forgets", request={"lr_scale": 0.5}), 1)
        self.assertIn("run.lr(value) was not called", self.err)
        self.clear()
        self.assertEqual(self.go("--seedless", request={"seed": 1}), 3)
        self.assertIn("plumb_run.seed(OWN_SEED)", self.err)
        self.clear()
        self.assertEqual(self.go("--promises=speed", request={}), 3)
        self.assertIn("'speed'; allowed: checkpoint", self.err)

    def test_stop(self):
        request = {"stop_at": 20}
        os.makedirs(self.path("run"))
        with open(self.path("run/stop"), "w", encoding="utf-8"):
            pass
        self.assertEqual(self.go(request=request), 0)
        self.assertEqual(self.end(), ("stopped", 1))
        self.clear()
        self.assertEqual(self.go("--kills=3", request=request), 0)
        self.assertEqual(self.end(), ("stopped", 3))
        self.assertEqual(whole(self.path("run/flight-rank00000.json"))["why"], "SIGTERM")

    def test_children(self):
        self.assertEqual(self.go("--forks=3", request={"stop_at": 5}), 0, self.err)
        self.assertEqual(self.end(), ("reached", 5))
        self.assertNotIn("flight-rank00000.json", self.files())

    def test_config(self):
        plumb_run._config_hash({"b": [1, 2.5, None], "a": "x"})
        self.assertEqual(plumb_run._config_hash({"a": 1, "b": 2}),
                         plumb_run._config_hash({"b": 2, "a": 1}))
        self.assertNotEqual(plumb_run._config_hash({"a": 1}), plumb_run._config_hash({"a": 2}))
        self.assertRaisesRegex(TypeError, "what JSON can hold", plumb_run._config_hash, object())

    def test_other_ends(self):
        for arguments, status, wanted in (
                (["--nan=4"], 0, ("nonfinite", 4)), (["--nan=4", "--endless"], 0, ("nonfinite", 4)),
                (["--raises=4"], 1, ("error", 3)), (["--exits=4"], 5, ("error", 3)),
                (["--endless"], 0, ("reached", 30)), ([], 0, ("reached", 30))):
            self.clear()
            self.assertEqual(self.go(*arguments, request={}), status, arguments)
            self.assertEqual(self.end(), wanted, arguments)
        self.clear()
        self.go("--nan=4", request={})
        self.assertEqual(lines(self.path("run/metrics.jsonl"))[3]["loss"], "NaN")

    def test_flight(self):
        self.go("--raises=4", request={})
        flight = whole(self.path("run/flight-rank00000.json"))
        steps = [record["step"] for record in flight["records"] if record["what"] == "step"]
        self.assertEqual((flight["why"], steps), ("exception", [1, 2, 3]))
        self.assertIn("ValueError", self.err)
        self.clear()
        process = self.begin("--hangs=3", "--patience=0.3", request={})
        deadline = time.monotonic() + 30
        while not os.path.exists(self.path("run/flight-rank00000.json")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        flight = whole(self.path("run/flight-rank00000.json"))
        self.assertEqual(flight["why"], "nothing happened for 0.3 s")
        self.assertTrue(any("trainer.py" in call and "main" in call for call in flight["stacks"][0]))
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def test_rank(self):
        self.assertEqual(self.go(request={"stop_at": 2}, RANK="1", WORLD_SIZE="2"), 0, self.err)
        self.assertEqual(self.files(), ["events-rank00001.jsonl", "request.json"])

    def test_same_directory_again(self):
        self.assertEqual(self.go(request={"stop_at": 2}), 0)
        before = whole(self.path("run/end.json"))
        self.assertEqual(self.go(request={"stop_at": 2}), 3)
        self.assertIn("already holds a run", self.err)
        self.assertEqual(whole(self.path("run/end.json")), before)
        self.assertEqual(len(lines(self.path("run/metrics.jsonl"))), 2)
        os.remove(self.path("run/run.json"))  # half a run is one, too; and each rank has a file
        self.assertEqual(self.go(request={"stop_at": 2}), 3)
        self.assertIn("already holds a run (metrics.jsonl)", self.err)
        self.assertEqual([self.go(request={"stop_at": 2}, RANK="1") for _ in range(2)], [0, 3])

    def test_hostile_text(self):
        self.assertEqual(self.go("--word=a\n\u2028\"\\", request={"stop_at": 2}), 0, self.err)
        self.assertEqual(lines(self.path("run/metrics.jsonl"))[0]["word"], "a\n\u2028\"\\")


if __name__ == "__main__":
    unittest.main()
