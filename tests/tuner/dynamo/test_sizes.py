"""Sizes that torch leaves open: a graph is compiled for each that is met, up to a limit, and is what eager torch computes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tilesmith.tuner.dynamo import backend as backends  # noqa: E402
from tilesmith.tuner.dynamo import sizes  # noqa: E402


class Rows(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 5)

    def forward(self, x: Any) -> Any:
        return torch.softmax(self.linear(x), -1).sum(0) * x.shape[0]


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows that models are compiled for, as it happens."""
    torch._dynamo.reset()
    found: list[int] = []

    def compile(model: Any, **options: Any) -> Any:
        found.append(
            next(one.shape[0] for one in model.program.dynamic_inputs if one.shape[1:] == (6,) and one.shape != (5, 6))
        )
        return real(model, **options)

    real = backends.compile
    monkeypatch.setattr(backends, "compile", compile)
    return found


@pytest.mark.parametrize("how", ["after a second size", "asked for", "marked"])
def test_each_size_is_compiled_once(shapes: list[int], how: str) -> None:
    module = Rows()
    compiled = torch.compile(module, backend="tilesmith", dynamic=True if how == "asked for" else None)
    for rows in (3, 4, 7, 4, 3, 7):
        x = torch.randn(rows, 6)
        if how == "marked":
            torch._dynamo.mark_dynamic(x, 0)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), module(x))
    assert sorted(set(shapes)) == [3, 4, 7] and len(shapes) <= 4


def test_gradients_of_open_sizes(shapes: list[int]) -> None:
    module = Rows()
    compiled = torch.compile(module, backend="tilesmith", dynamic=True)
    for rows in (3, 4):
        x = torch.randn(rows, 6, requires_grad=True)
        found = torch.autograd.grad(compiled(x).square().sum(), [x, *module.parameters()])
        wanted = torch.autograd.grad(module(x).square().sum(), [x, *module.parameters()])
        for got, want in zip(found, wanted, strict=True):
            torch.testing.assert_close(got, want)


def test_further_sizes_stay_in_torch(shapes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "MOST", 2)
    module = Rows()
    compiled = torch.compile(module, backend="tilesmith", dynamic=True)
    with torch.no_grad():
        for rows in (3, 4, 5, 4, 6):
            x = torch.randn(rows, 6)
            torch.testing.assert_close(compiled(x), module(x))
    assert shapes == [3, 4]


def test_numbers_that_change_from_call_to_call_are_read_when_they_run() -> None:
    """torch hands on such a float as a tensor, out of which the graph reads it."""
    torch._dynamo.reset()

    def scaled(x: Any, by: int, more: float) -> Any:
        return x * by + more

    compiled = torch.compile(scaled, backend="tilesmith")
    for by, more in ((2, 0.5), (3, 0.25), (4, 0.125)):
        x = torch.randn(3, 4)
        torch.testing.assert_close(compiled(x, by, more), scaled(x, by, more))
