"""What cannot be a program is one clear error that lists all of it, with its nodes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tilesmith import from_torch  # noqa: E402
from tilesmith.common.errors import ArgumentError  # noqa: E402

X = torch.randn(4, 3)


class Calls(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def refused(function: Any, *args: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        from_torch(Calls(function), args or (X,))
    return str(caught.value)


def test_all_operators_that_are_not_covered_are_listed_with_their_nodes() -> None:
    def function(x: Any) -> Any:
        square = x @ x.t()
        return torch.linalg.inv(square) + torch.special.i0(x @ x.t()) + torch.special.i0(square)

    said = refused(function)
    assert "linalg_inv_ex.default: linalg_inv_ex" in said
    assert "i0.default: i0, i0_1" in said
    assert "matmul" not in said and "add" not in said


@pytest.mark.parametrize("function", [torch.nonzero, lambda x: x[x > 0], lambda x: x[: int(x.sum().item())]])
def test_shapes_that_depend_on_data(function: Any) -> None:
    said = refused(function)
    assert "depend on data" in said


def test_places_that_depend_on_data() -> None:
    assert "depends on data" in refused(torch.tensor_split, X, torch.tensor([1, 3]))


def test_shapes_that_are_left_open() -> None:
    program = torch.export.export(
        nn.Linear(3, 4), (X,), dynamic_shapes={"input": {0: torch.export.Dim("rows", min=2, max=9)}}
    )
    with pytest.raises(ArgumentError, match="left open"):
        from_torch(program)


def test_complex_numbers() -> None:
    assert "complex numbers" in refused(lambda x: torch.view_as_real(torch.fft.fft(x)))


def test_control_flow_that_depends_on_data() -> None:
    said = refused(lambda x: torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,)))
    assert "higher_order.cond" in said
    assert "torch.export cannot trace" in refused(lambda x: x.sin() if x.sum() > 0 else x)


def test_results_that_are_no_tensors() -> None:
    assert "no tensor" in refused(lambda x: (x + 1, 3))
    said = refused(lambda x: (torch.special.i0(x), x.sum().item()))
    assert "i0.default: i0" in said and "a number that depends on data: output" in said


def test_random_numbers() -> None:
    said = refused(lambda x: torch.rand_like(x) + nn.functional.dropout(x, 0.5, True))
    assert "rand" in said and "dropout in training; call module.eval()" in said


def test_buffers_that_change() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)buffer mutation.*running_mean|call module.eval\(\)"):
        from_torch(nn.BatchNorm1d(3), (X,))


def test_results_of_an_operator_that_are_not_computed() -> None:
    said = refused(lambda x: nn.functional.adaptive_max_pool1d(x[None], 2, return_indices=True))
    assert "places of greatest elements of windows" in said


def test_strides_over_memory_in_another_order() -> None:
    for view in (lambda x: x.t(), lambda x: x[1:]):
        assert "do not lie row by row" in refused(lambda x, view=view: view(x).as_strided((2, 2), (1, 2), 1))


@pytest.mark.parametrize(
    ("module", "args", "why"),
    [
        (3, (X,), "that is no module"),
        (nn.ReLU(), X, "example inputs are a tuple"),
        (nn.ReLU(), (), "does not take these arguments"),
        (nn.ReLU(), (X, X), "does not take these arguments"),
    ],
)
def test_what_is_no_call_of_a_module(module: Any, args: Any, why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        from_torch(module, args)
