"""What training asks of pooling, against torch: places of greatest elements, and the gradients of windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tilesmith as ts  # noqa: E402
from tilesmith.tensor.oracle.reference import evaluate  # noqa: E402

ATEN = torch.ops.aten
WINDOWS = [
    (3, 2, 1, 1, False), (2, 2, 0, 1, False), (3, 1, 1, 1, False), (3, 2, 1, 2, False), (3, 3, 1, 1, True),
    (2, 3, 0, 1, False),
]  # fmt: skip


class Called(torch.nn.Module):  # type: ignore[misc]
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Any) -> Any:
        return self.function(*given)


def check(function: Callable[..., Any], *given: Any) -> None:
    """The oracle of the imported program against torch."""
    wanted = function(*given)
    model = ts.from_torch(Called(function).eval(), given)
    found = evaluate(model.program, [one.numpy() for one in given])
    for one, other in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-5)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation", "ceil"), WINDOWS)
def test_greatest_elements_their_places_and_their_gradients(
    kernel: int, stride: int, padding: int, dilation: int, ceil: bool
) -> None:
    window = [kernel] * 2, [stride] * 2, [padding] * 2, [dilation] * 2, ceil
    x = torch.randn(2, 3, 11, 9)
    values, places = ATEN.max_pool2d_with_indices(x, *window)
    check(lambda x: ATEN.max_pool2d_with_indices(x, *window), x)
    check(lambda g, x, i: ATEN.max_pool2d_with_indices_backward(g, x, *window, i), torch.randn_like(values), x, places)


@pytest.mark.parametrize("size", [(3, 6), (3, 3), (4, 5), (2, 7)])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_images_with_fewer_windows_than_hold_an_element(size: tuple[int, int], stride: int) -> None:
    x = torch.randn(1, 2, *size)
    window = [2, 3], [stride] * 2, [0, 1], [1, 1], True
    values, places = ATEN.max_pool2d_with_indices(x, *window)
    check(lambda g, x, i: ATEN.max_pool2d_with_indices_backward(g, x, *window, i), torch.randn_like(values), x, places)
    mean = [2, 3], [stride] * 2, [0, 1], True, False, None
    gradient = torch.randn_like(ATEN.avg_pool2d(x, *mean))
    check(lambda g, x: ATEN.avg_pool2d_backward(g, x, *mean), gradient, x)


def test_of_equal_elements_the_first_is_the_greatest_and_infinities_count() -> None:
    x = torch.tensor([[[[0.0, 0.0, -torch.inf, -torch.inf], [0.0, 0.0, -torch.inf, -torch.inf]]]])
    check(lambda x: ATEN.max_pool2d_with_indices(x, [2, 2], [2, 2]), x)
    check(lambda x: ATEN.max_pool2d_with_indices(x, [3, 3], [1, 1], [1, 1]), x)
    check(lambda x: ATEN.max_pool2d_with_indices(x, [2, 2], [2, 2]), torch.relu(torch.randn(3, 6, 8)))


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation", "ceil"), [w for w in WINDOWS if w[3] == 1])
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("divisor", [None, 5])
def test_gradients_of_means(
    kernel: int, stride: int, padding: int, dilation: int, ceil: bool, include: bool, divisor: int | None
) -> None:
    window = [kernel] * 2, [stride] * 2, [padding] * 2, ceil, include, divisor
    x = torch.randn(2, 3, 11, 9)
    check(lambda g, x: ATEN.avg_pool2d_backward(g, x, *window), torch.randn_like(ATEN.avg_pool2d(x, *window)), x)


@pytest.mark.parametrize("to", [[1, 1], [3, 4], [11, 9], [7, 7]])
def test_gradients_of_adaptive_means(to: list[int]) -> None:
    check(ATEN._adaptive_avg_pool2d_backward.default, torch.randn(2, 3, *to), torch.randn(2, 3, 11, 9))
    check(ATEN._adaptive_avg_pool2d_backward.default, torch.randn(3, *to), torch.randn(3, 11, 9))
