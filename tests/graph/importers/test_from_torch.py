"""What an imported model says of itself: names, order, origins, constants in the module's own memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tilesmith as ts  # noqa: E402
from helpers.torch_models import agrees, array, randomised, results  # noqa: E402
from tilesmith.common.errors import UserError  # noqa: E402
from tilesmith.graph.importers import torch_export  # noqa: E402

HERE = Path(__file__)


class Block(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.register_buffer("scale", torch.full((width,), 0.5))

    def forward(self, x: Any, *, mask: Any = None, times: int = 1) -> Any:
        y = x + self.inner(x) * self.scale * times  # the line of the test below
        return y if mask is None else y.masked_fill(mask, 0)


class Returns(nn.Module):
    """A module of one function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def test_names_are_those_of_the_module() -> None:
    x, mask = torch.randn(3, 6), torch.rand(3, 6) < 0.5
    module = Block().eval()
    model = ts.from_torch(module, (x,), {"mask": mask})
    program = model.program
    assert [t.name for t in program.dynamic_inputs] == ["x", "mask"]
    assert {"inner_0_weight", "inner_0_bias", "inner_2_weight", "inner_2_bias", "scale"} == set(model.constants)
    assert model.name == "Block"
    assert program.outputs[0].startswith("masked_fill")
    agrees(model, module, (x,), {"mask": mask}, 1e-6)


def test_results_are_called_by_their_keys() -> None:
    model = ts.from_torch(Returns(lambda x: {"sum": x + 1, "parts": [x * 2, x * 3]}), (torch.ones(3),))
    assert sorted(model.program.outputs) == ["parts_0", "parts_1", "sum_"]  # sum is a word of the text form


def test_origins_are_operator_layer_and_line() -> None:
    model = ts.from_torch(Block().eval(), (torch.randn(3, 6),))
    origins = [stage.origin for stage in model.program.stages]
    line = next(n for n, text in enumerate(HERE.read_text().splitlines(), 1) if "the line of the test below" in text)
    assert [o.operator for o in origins] == ["linear", "linear", "gelu", "linear", "linear", "mul", "mul", "add"]
    assert origins[0].layer == "inner.0" and origins[2].layer == "inner.1" and origins[-1].layer == ""
    assert {(Path(o.file).name, o.line) for o in origins} == {(HERE.name, line)}


def test_constants_share_the_memory_of_parameters() -> None:
    module = nn.Linear(4, 5, bias=False)
    weight = ts.from_torch(module, (torch.randn(2, 4),)).constants["weight"]
    assert np.shares_memory(weight, module.weight.detach().numpy())


def test_a_parameter_that_is_used_twice_is_one_constant() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    module[1].weight = module[0].weight
    model = ts.from_torch(module, (torch.randn(2, 4),))
    assert len(model.constants) == 3
    assert sorted(name.rpartition("_")[2] for name in model.constants) == ["bias", "bias", "weight"]


def test_parameters_in_another_order_of_memory_are_copied_right() -> None:
    module = nn.Linear(4, 5)
    module.weight = nn.Parameter(torch.randn(4, 5).t())
    args = (torch.randn(2, 4),)
    agrees(ts.from_torch(module, args), module, args, close=1e-6)


@pytest.mark.parametrize(("dtype", "close"), [(torch.bfloat16, 2e-2), (torch.float16, 3e-3)])
def test_narrow_floats(dtype: Any, close: float) -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.Flatten(), nn.Linear(36, 5), nn.LayerNorm(5)
    )
    module, args = module.eval().to(dtype), (torch.randn(2, 3, 5, 5).to(dtype),)
    model = ts.from_torch(module, args)
    assert all(model.constants[t.name].dtype == t.dtype.numpy for t in model.program.constant_inputs)
    assert str(model.program.tensors[model.program.outputs[0]].dtype) in ("bf16", "f16")
    agrees(model, module, args, close=close)


def test_what_is_no_tensor_is_fixed() -> None:
    x = torch.randn(3, 6)
    model = ts.from_torch(Block().eval(), (x,), {"times": 3})
    assert [t.name for t in model.program.dynamic_inputs] == ["x"]


def test_results_that_are_inputs_or_the_same_are_copies() -> None:
    x = torch.randn(3)
    model = ts.from_torch(Returns(lambda x: (x, x + 1, x)), (x,))
    found = results(model, x)
    assert len(set(model.program.outputs)) == 3
    assert [np.allclose(a, b) for a, b in zip(found, [x, x + 1, x], strict=True)] == [True] * 3


def test_stages_without_readers_are_left_out() -> None:
    def function(x: Any) -> Any:
        _ = x.exp().sum()
        return x.max(0)[0]  # of both results one

    model = ts.from_torch(Returns(function), (torch.randn(4, 3),))
    assert [stage.origin.operator for stage in model.program.stages] == ["max"]


def test_inputs_that_nothing_reads_are_inputs() -> None:
    model = ts.from_torch(Returns(lambda x, y: y * 2), (torch.randn(2), torch.randn(3)))
    assert len(model.program.dynamic_inputs) == 2


def test_parts_without_gradients_are_parts() -> None:
    class Quiet(nn.Module):
        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                y = x * 2
            return y + 1

    x = torch.randn(3)
    agrees(ts.from_torch(Quiet(), (x,)), Quiet(), (x,), close=1e-6)


def test_an_exported_program_is_taken_as_it_is() -> None:
    module, args = randomised(Block()), (torch.randn(3, 6, dtype=torch.float64),)
    agrees(ts.from_torch(torch.export.export(module, args)), module, args)


class Anchored(nn.Module):
    """Keeps what depends on the size of its input for the next one, as detectors keep anchors."""

    size: Any = None
    anchors: Any = torch.empty(0)

    def forward(self, x: Any) -> Any:
        if self.size != x.shape:
            self.size, self.anchors = x.shape, torch.arange(x.shape[-1], dtype=x.dtype) * 0.5
        return x + self.anchors


def test_a_module_that_keeps_tensors_can_be_called_afterwards() -> None:
    module = Anchored()
    model = ts.from_torch(nn.Sequential(module), (torch.zeros(2, 5),))
    assert module.size is None
    agrees(model, nn.Sequential(module), (torch.randn(2, 5),), close=1e-6)


class Hooked(nn.Module):
    """Collects what its layer gives by a hook, which it installs when it is first called, as those of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.found, self.installed = nn.ReLU(), [], False

    def forward(self, x: Any) -> Any:
        if not self.installed:
            self.layer.register_forward_hook(lambda module, args, result: self.found.append(result))
            self.installed = True
        self.found.clear()
        return self.layer(self.layer(x) - 1) + len(self.found)


def test_a_module_that_installs_hooks_can_be_called_afterwards() -> None:
    module, x = Hooked(), torch.randn(2, 5)
    model = ts.from_torch(module, (x,))
    assert not module.installed and not module.layer._forward_hooks and not module.found
    agrees(model, module, (x,), close=1e-6)
    assert len(module.layer._forward_hooks) == 1 and len(module.found) == 2


def test_putting_no_elements_anywhere_changes_nothing() -> None:
    def function(x: Any, y: Any) -> Any:
        x = x.clone()
        x[:, 5:5] = 1
        x[2:2] = y[0:0]
        x.index_add_(0, torch.empty(0, dtype=torch.int64), y[0:0])
        x.scatter_add_(1, torch.empty(4, 0, dtype=torch.int64), y)
        x[torch.empty(0, dtype=torch.int64)] = 2
        return x + 1, x

    args = torch.randn(4, 6), torch.randn(4, 6)
    agrees(ts.from_torch(Returns(function), args), Returns(function), args, close=1e-6)


def test_stages_stand_in_the_order_of_the_module() -> None:
    def function(x: Any) -> Any:
        first = x.exp()
        second = x.sin()
        return second.cos() + first

    model = ts.from_torch(Returns(function), (torch.randn(3),))
    assert [stage.origin.operator for stage in model.program.stages] == ["exp", "sin", "cos", "add"]


def test_bfloat16_inputs_are_bits() -> None:
    x = torch.randn(3).bfloat16()
    model = ts.from_torch(Returns(lambda x: x * 2), (x,))
    assert np.array_equal(results(model, x)[0], (x.double() * 2).numpy())
    assert array(x).dtype == np.uint16


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(torch_export, "import_module", missing)
    with pytest.raises(UserError, match=r"pip install 'tilesmith\[torch\]'"):
        ts.from_torch(object(), ())
