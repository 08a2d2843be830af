"""plumb_run.py with torchao, Transformer Engine and its debug tools, none of which is here: fakes that have
their names, fields and checks as far as the adaptors touch them.  And torch.autocast, which is here.
"""
import contextlib
import dataclasses
import enum
import json
import os
import shutil
import sys
import tempfile
import types
import unittest
import unittest.mock

import torch

ROOT = os.environ["PLUMB_SOURCE_DIR"]
sys.path.insert(0, os.path.join(ROOT, "python"))
import plumb_run


def fake(name, **fields):
    module = types.ModuleType(name)
    module.__dict__.update(fields)
    sys.modules[name] = module
    return module


def of(module, *classes):
    for one in classes:
        one.__module__ = module


class ScalingType(enum.Enum):
    DYNAMIC, DISABLED = "dynamic", "disabled"


class ScalingGranularity(enum.Enum):
    TENSORWISE, AXISWISE = "tensorwise", "axiswise"


@dataclasses.dataclass(frozen=True)
class CastConfig:
    scaling_type: ScalingType = ScalingType.DYNAMIC
    scaling_granularity: ScalingGranularity = ScalingGranularity.TENSORWISE
    target_dtype: object = None


@dataclasses.dataclass(frozen=True)
class Float8LinearConfig:
    """Both operands of a product are disabled or none is, as in torchao."""

    cast_config_input: CastConfig = CastConfig()
    cast_config_input_for_grad_weight: object = None
    cast_config_weight: CastConfig = CastConfig()
    cast_config_weight_for_grad_input: object = None
    cast_config_grad_output: CastConfig = CastConfig()
    cast_config_grad_output_for_grad_weight: object = None

    def __post_init__(self):
        for name in ("input_for_grad_weight", "weight_for_grad_input", "grad_output_for_grad_weight"):
            if getattr(self, "cast_config_" + name) is None:
                whole = getattr(self, "cast_config_" + name.partition("_for_")[0])
                object.__setattr__(self, "cast_config_" + name, whole)
        for pair in self.products().values():
            assert pair[0] == pair[1], "incompatible operand precision"

    def products(self):
        off = {f.name: getattr(self, f.name).scaling_type is ScalingType.DISABLED
               for f in dataclasses.fields(self)}
        return {"fprop": (off["cast_config_input"], off["cast_config_weight"]),
                "dgrad": (off["cast_config_grad_output"], off["cast_config_weight_for_grad_input"]),
                "wgrad": (off["cast_config_input_for_grad_weight"],
                          off["cast_config_grad_output_for_grad_weight"])}


class Float8Linear(torch.nn.Linear):
    def __init__(self, config):
        super().__init__(4, 4)
        self.config = config


of("torchao.float8.float8_linear", Float8Linear)


class TransformerEngineBaseModule(torch.nn.Module):
    fp8_is_on = True  # what the autocast says

    def __init__(self, name=None):
        super().__init__()
        self.name = name
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.ran_in = []

    def forward(self, x, scale=1.0):
        self.ran_in.append("fp8" if TransformerEngineBaseModule.fp8_is_on else "high")
        return x * self.weight * scale


class LayerNormLinear(TransformerEngineBaseModule):
    pass


class DotProductAttention(TransformerEngineBaseModule):
    pass


of("transformer_engine.pytorch.module.base", TransformerEngineBaseModule)
of("transformer_engine.pytorch.module.layernorm_linear", LayerNormLinear, DotProductAttention)


@contextlib.contextmanager
def te_autocast(enabled=True):
    before = TransformerEngineBaseModule.fp8_is_on
    TransformerEngineBaseModule.fp8_is_on = enabled
    try:
        yield
    finally:
        TransformerEngineBaseModule.fp8_is_on = before


class Base(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.place)
        hook = sys.excepthook
        self.addCleanup(setattr, sys, "excepthook", hook)

    def start(self, *objects, rules=(), **options):
        path = os.path.join(self.place, "rules")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(list(rules), file)
        self.run_dir = tempfile.mkdtemp(dir=self.place)
        plumb_run._the_request, plumb_run._Run.current = None, None
        with unittest.mock.patch.dict(os.environ, PLUMB_RUN_DIR=self.run_dir, PLUMB_POLICY=path):
            return plumb_run.start(*objects, **options)

    def sites(self):
        with open(os.path.join(self.run_dir, "run.json"), encoding="utf-8") as file:
            return [(s["name"], s["class"], s.get("gemm"), s["own"], s["uses"])
                    for s in json.load(file)["sites"]]


class Torchao(Base):
    def model(self, *configs):
        return torch.nn.Sequential(*map(Float8Linear, configs))

    def test_products(self):
        model = self.model(Float8LinearConfig(), Float8LinearConfig())
        self.start(model, rules=[{"sites": "*dgrad*", "use": "bf16", "raise": True},
                                 {"sites": "layer.1/*/fprop", "use": "bf16"}]).end()
        self.assertEqual(self.sites()[:3], [
            ("layer.0/module/fprop", "forward", "fprop", "e4m3:current", ["bf16"]),
            ("layer.0/module/dgrad", "backward", "dgrad", "e5m2:current", ["bf16"]),
            ("layer.0/module/wgrad", "backward", "wgrad", "e5m2:current", ["bf16"])])
        self.assertEqual([module.config.products() for module in model],
                         [{"fprop": (False,) * 2, "dgrad": (True,) * 2, "wgrad": (False,) * 2},
                          {"fprop": (True,) * 2, "dgrad": (True,) * 2, "wgrad": (False,) * 2}])

    def test_without_a_policy(self):
        config = Float8LinearConfig()
        model = self.model(config)
        self.start(model).end()
        self.assertIs(model[0].config, config)

    def test_own(self):
        row = CastConfig(scaling_granularity=ScalingGranularity.AXISWISE, target_dtype="float8_e4m3fn")
        off = CastConfig(scaling_type=ScalingType.DISABLED)
        config = Float8LinearConfig(row, off, row, row, row, off)
        self.start(self.model(config)).end()
        self.assertEqual([site[3] for site in self.sites()], ["e4m3:row:current"] * 2 + ["bf16"])

    def test_older_field(self):
        """Before ScalingType.DISABLED a flag said so."""
        class Kind(enum.Enum):
            DYNAMIC = "dynamic"

        @dataclasses.dataclass(frozen=True)
        class Cast:
            scaling_type: Kind = Kind.DYNAMIC
            scaling_granularity: ScalingGranularity = ScalingGranularity.TENSORWISE
            keep_in_original_precision: bool = False

        names = [f.name for f in dataclasses.fields(Float8LinearConfig)]
        config = dataclasses.make_dataclass("Config", [(n, Cast, Cast()) for n in names])()
        model = self.model(config)
        self.start(model, rules=[{"sites": "*wgrad*", "use": "bf16"}]).end()
        self.assertEqual([getattr(model[0].config, n).keep_in_original_precision for n in names],
                         ["grad_weight" in n for n in names])


class TransformerEngine(Base):
    def setUp(self):
        super().setUp()
        te = fake("transformer_engine.pytorch", autocast=te_autocast)
        fake("transformer_engine", pytorch=te, __file__="/te/__init__.py")
        TransformerEngineBaseModule.fp8_is_on = True

    def model(self):
        return torch.nn.ModuleDict({"layers": torch.nn.ModuleList(
            [LayerNormLinear("first"), LayerNormLinear("a.b'c"), DotProductAttention("attention")])})

    def test_modules(self):
        for old in (False, True):
            if old:
                fake("transformer_engine.pytorch", fp8_autocast=te_autocast)
            model = self.model()
            run = self.start(model, rules=[{"sites": "layer.1/*", "use": "bf16", "raise": True}])
            run.end()
            self.assertEqual(self.sites(), [
                ("layer.%d/layers/fp8" % k, "forward", None, "fp8", ["bf16"]) for k in (0, 1)])
            x = torch.ones(4)
            for module in model["layers"]:
                self.assertEqual(float(module(x, scale=2.0).sum()), 8)
            self.assertEqual([m.ran_in for m in model["layers"]], [["fp8"], ["high"], ["fp8"]])
            self.assertTrue(TransformerEngineBaseModule.fp8_is_on)

    def test_debug_tools(self):
        said = []
        api = fake("nvdlfw_inspect.api", initialize=lambda **named: said.append(named),
                   step=lambda: said.append("step"))
        fake("nvdlfw_inspect", api=api)
        rules = [{"sites": ["*/dgrad", "layer.1/*"], "use": "bf16", "raise": True},
                 {"sites": "layer.1/*/wgrad", "use": "own"}]
        run = self.start(self.model(), rules=rules, te_debug=True)
        run.log(1, 2.5)
        run.end()
        self.assertEqual([site[:3] for site in self.sites()[:2]],
                         [("layer.0/layers/fprop", "forward", "fprop"),
                          ("layer.0/layers/dgrad", "backward", "dgrad")])
        self.assertEqual(said[0]["feature_dirs"], ["/te/debug/features"])
        self.assertEqual(said[1:], ["step"])
        with open(said[0]["config_file"], encoding="utf-8") as file:
            self.assertEqual(file.read(), """\
plumb_0:
  enabled: True
  layers:
    layer_name_regex_pattern: '^(first)$'
  transformer_engine:
    DisableQuantizationGEMM:
      enabled: True
      gemms: [dgrad]
plumb_1:
  enabled: True
  layers:
    layer_name_regex_pattern: '^(a\\.b''c)$'
  transformer_engine:
    DisableQuantizationGEMM:
      enabled: True
      gemms: [dgrad, fprop]
""")
        self.assertEqual(plumb_run.te_debug_yaml({"x": []}), "{}\n")


class Autocast(Base):
    def test_one_site(self):
        cast, linear = plumb_run.Autocast("cpu", torch.bfloat16), torch.nn.Linear(4, 4)
        x = torch.ones(1, 4)
        with cast:
            self.assertEqual(linear(x).dtype, torch.bfloat16)
        self.start(cast, rules=[{"sites": "*", "use": "fp32"}]).end()
        self.assertEqual(self.sites(), [("autocast/all", "forward", None, "bf16", ["fp32"])])
        with cast:
            self.assertEqual(linear(x).dtype, torch.float32)

    def test_half(self):
        """A bf16 twin, which raises, reaches fp16: it lacks range, not bits."""
        cast = plumb_run.Autocast("cuda")
        self.start(cast, rules=[{"sites": "*", "use": "bf16", "raise": True}]).end()
        self.assertEqual((self.sites()[0][3], cast.precision["all"]), ("autocast-fp16", "bf16"))


if __name__ == "__main__":
    unittest.main()
