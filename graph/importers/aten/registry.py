"""Which function stands for an ATen operator. Its parameters are those of the operator, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from ....tensor.program import Tensor

Converter = Callable[..., Any]
F = TypeVar("F", bound=Converter)

CONVERTERS: dict[str, Converter] = {}  # "add.Tensor" -> function

_FAMILIES = (
    "pointwise",
    "activations",
    "creation",
    "shapes",
    "choices",
    "reductions",
    "products",
    "windows",
    "norms",
    "recurrent",
    "quantized",
)


@dataclass(frozen=True, slots=True)
class Missing:
    """A result of an operator that has several, which is not computed: who uses it is refused."""

    why: str


@dataclass(frozen=True, slots=True)
class Empty:
    """A tensor without elements, which no program has: a cache before the first token. Joined to others it is nothing."""


def aten(*names: str) -> Callable[[F], F]:
    """Registers a function for operators, as in @aten("add.Tensor", "add.Scalar")."""

    def register(function: F) -> F:
        CONVERTERS.update(dict.fromkeys(names, function))
        return function

    return register


def result(outcome: object) -> tuple[Tensor, ...]:
    """The tensors among the results of a converter."""
    items: Sequence[object] = outcome if isinstance(outcome, tuple | list) else (outcome,)
    return tuple(item for item in items if isinstance(item, Tensor))


@cache
def converters() -> dict[str, Converter]:
    """All of them, their files imported."""
    for family in _FAMILIES:
        import_module(f".{family}", __package__)
    return CONVERTERS
