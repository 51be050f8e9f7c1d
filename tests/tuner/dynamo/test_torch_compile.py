"""torch.compile(module, backend="tilesmith"): inference, parts that stay in torch, training, and what it says."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tilesmith.common.errors import ArgumentError  # noqa: E402
from tilesmith.tuner.apply.compile import compile as compile_model  # noqa: E402
from tilesmith.tuner.dynamo.backend import backend  # noqa: E402

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No graphs of the test before, and what is compiled and left said on stderr."""
    monkeypatch.setenv("TILESMITH_DEBUG", "1")
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def ours(module: Any, **options: Any) -> Any:
    return torch.compile(module, backend=backend, options={"threads": 1, **options})


def mlp() -> Any:
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8))


def convolutions() -> Any:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(2048, 4))


@pytest.mark.parametrize(("make", "shape"), [(mlp, (4, 16)), (convolutions, (2, 3, 16, 16))])
def test_inference_is_one_model(make: Any, shape: tuple[int, ...], capfd: pytest.CaptureFixture[str]) -> None:
    module, x = make().eval(), torch.randn(shape)
    with torch.no_grad():
        torch.testing.assert_close(ours(module)(x), module(x))
    said = capfd.readouterr().err
    assert "1 parts are compiled" in said and "stays in torch" not in said


@pytest.mark.parametrize(("make", "shape"), [(mlp, (4, 16)), (convolutions, (2, 3, 16, 16))])
@pytest.mark.parametrize("freeze", [False, True])
def test_parameters_that_change_are_read_again(make: Any, shape: tuple[int, ...], freeze: bool) -> None:
    module, x = make().eval(), torch.randn(shape)
    compiled = ours(module, freeze=freeze)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x))
        for parameter in module.parameters():
            parameter.mul_(2)
        torch.testing.assert_close(compiled(x), module(x))


def test_what_is_not_covered_stays_in_torch(capfd: pytest.CaptureFixture[str]) -> None:
    def function(x: Any) -> tuple[Any, Any]:
        square = (x @ x.t()).tanh()
        return torch.special.i0(square).sin() * 2, square.t()

    x = torch.randn(4, 16)
    for found, wanted in zip(ours(function)(x), function(x), strict=True):
        torch.testing.assert_close(found, wanted)
        assert found.stride() == wanted.stride()
    said = capfd.readouterr().err
    assert "2 parts are compiled" in said
    assert [line for line in said.splitlines() if "stays in torch" in line] == ["  i0 stays in torch: i0.default"]


@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="torch has no products of groups")
def test_products_of_groups_stay_in_torch_where_weights_may_change(capfd: pytest.CaptureFixture[str]) -> None:
    def function(x: Any, weights: Any, ends: Any) -> Any:
        return torch._grouped_mm(x.tanh(), weights, offs=ends).sin() * 2

    x, weights = (torch.randn(shape).bfloat16() for shape in ((24, 16), (3, 16, 32)))
    given = x, weights, torch.tensor([8, 8, 24], dtype=torch.int32)
    torch.testing.assert_close(ours(function)(*given), function(*given))
    assert "a product of groups of rows" in capfd.readouterr().err


def test_tensors_written_into_a_function_are_read() -> None:
    def function(x: Any) -> Any:
        return (x * torch.tensor([1.0, 2.0, 3.0])).relu() + torch.tensor(0.5)

    x = torch.randn(4, 3)
    torch.testing.assert_close(ours(function)(x), function(x))


def test_views_that_negate_what_is_in_memory() -> None:
    x = torch._neg_view(torch.randn(8))
    assert x.is_neg() and x.is_contiguous()
    torch.testing.assert_close(ours(lambda a: a * 2 + 1)(x), x * 2 + 1)


def test_results_lie_in_memory_as_in_torch() -> None:
    x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    found = ours(lambda x: x.exp() + 1)(x)
    torch.testing.assert_close(found, x.exp() + 1)
    assert found.stride() == x.stride()


def gradients(module: Any, call: Any, x: Any) -> list[Any]:
    module.zero_grad()
    x = x.clone().requires_grad_()
    call(x).square().mean().backward()
    return [x.grad, *(parameter.grad.clone() for parameter in module.parameters())]


def normalised() -> Any:
    return nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.SiLU(), nn.Linear(32, 8), nn.LogSoftmax(-1))


@pytest.mark.parametrize(("make", "shape"), [(mlp, (4, 16)), (convolutions, (2, 3, 16, 16)), (normalised, (4, 16))])
def test_gradients_are_those_of_eager(make: Any, shape: tuple[int, ...], capfd: pytest.CaptureFixture[str]) -> None:
    module, x = make(), torch.randn(shape)
    wanted = gradients(module, module, x)
    for one, other in zip(gradients(module, ours(module), x), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    said = capfd.readouterr().err
    assert said.count("parts are compiled") == 2 and "0 parts" not in said
    assert "stays in torch" not in said


def test_a_part_that_cannot_be_compiled_runs_in_torch(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refused(*args: object, **kwargs: object) -> None:
        raise ArgumentError("no kernel of this")

    monkeypatch.setattr("tilesmith.tuner.dynamo.backend.compile", refused)
    module, x = mlp().eval(), torch.randn(4, 16)
    torch.testing.assert_close(ours(module)(x), module(x))
    assert "stays in torch: no kernel of this" in capfd.readouterr().err


def test_frozen_parameters_are_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []

    def kept(model: Any, **kwargs: Any) -> Any:
        found.append(model)
        return compile_model(model, **kwargs)

    monkeypatch.setattr("tilesmith.tuner.dynamo.backend.compile", kept)
    with torch.no_grad():
        ours(mlp().eval(), freeze=True)(torch.randn(4, 16))
    assert [len(model.constants) for model in found] == [4]
    assert [tensor.shape for tensor in found[0].program.dynamic_inputs] == [(4, 16)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trails": 3}, "no option 'trails'.*did you mean trials"),
        ({"trials": -1}, "trials is no number"),
        ({"freeze": 1}, "freeze is neither"),
        ({"db": 3}, "db is no path"),
        ({"accuracy": "sloppy"}, "accuracy"),
    ],
)
def test_options_that_there_are_not(options: dict[str, Any], said: str) -> None:
    with pytest.raises(Exception, match=f"(?s){said}"):
        torch.compile(mlp(), backend=backend, options=options)(torch.randn(4, 16))


def test_torch_finds_it_by_an_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["torch_dynamo_backends"]["tilesmith"].partition(":")
    assert getattr(import_module(module), name) is backend
