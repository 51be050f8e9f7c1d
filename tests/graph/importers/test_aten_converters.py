"""What stands for ATen's operators, held against NumPy: where torch is not installed too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from helpers.aten_cases import ELEMENTS
from helpers.aten_layers import LAYERS, REFUSED
from helpers.graph_functions import holds
from tilesmith import placeholder
from tilesmith.graph.functions.function import NotCovered
from tilesmith.graph.importers.aten.registry import converters, result

CASES = [*ELEMENTS, *LAYERS]


def arrays_of(arguments: Any) -> Iterator[np.ndarray]:
    """The arrays among arguments, those in lists too."""
    for one in arguments:
        if isinstance(one, np.ndarray):
            yield one
        elif isinstance(one, list):
            yield from arrays_of(one)


def with_tensors(argument: Any, tensors: Iterator[Any]) -> Any:
    """The same arguments, each array a tensor."""
    if isinstance(argument, np.ndarray):
        return next(tensors)
    return [with_tensors(one, tensors) for one in argument] if isinstance(argument, list) else argument


@pytest.mark.parametrize(("name", "arguments", "wanted"), CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)])
def test_operators_compute_what_numpy_computes(name: str, arguments: tuple[Any, ...], wanted: Any) -> None:
    def convert(*tensors: Any) -> Any:
        given = iter(tensors)
        return result(converters()[name](*[with_tensors(argument, given) for argument in arguments]))

    holds(convert, wanted, *arrays_of(arguments))


@pytest.mark.parametrize(("name", "arguments", "why"), REFUSED)
def test_what_no_program_computes_is_refused(name: str, arguments: tuple[Any, ...], why: str) -> None:
    tensors = [placeholder(array.shape, "f64", f"x{n}") for n, array in enumerate(arrays_of(arguments))]
    given = iter(tensors)
    with pytest.raises(NotCovered, match=why):
        converters()[name](*[with_tensors(argument, given) for argument in arguments])
