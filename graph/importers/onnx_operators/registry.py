"""Which function stands for an ONNX operator, and the node as such a function sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from ....common.errors import ArgumentError
from ....common.outside import let_through
from ....tensor.dtype import DType
from ....tensor.program import Tensor
from ...functions.function import NotCovered, axis_of
from ...functions.operands import Operand
from ..onnx_file import numpy_name

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Held:
    """Numbers of an element type that is not here, in a wider one: 4 bits, or 16 without a sign, between quantization and its
    inverse. No other operator takes them."""

    tensor: Tensor
    name: str  # of the type, in NumPy

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return self.tensor.shape


# Computed when the model is called, known now, held in another type, or left out.
OnnxValue = Tensor | Array | Held | None
Converter = Callable[["Node"], Any]
F = TypeVar("F", bound=Converter)

CONVERTERS: dict[str, Converter] = {}  # "Gemm", "com.domain:Name" -> function

_FAMILIES = (
    "pointwise", "activations", "integers", "shapes", "creation", "choices", "scatter", "reductions", "products",
    "convolutions", "quantized", "pools", "norms", "images", "recurrent", "signals", "grids",
)  # fmt: skip


def onnx(*names: str) -> Callable[[F], F]:
    """Registers a function for operators, as in @onnx("Gemm"); those of other domains as "domain:Name"."""

    def register(function: F) -> F:
        CONVERTERS.update(dict.fromkeys(names, function))
        return function

    return register


@cache
def converters() -> dict[str, Converter]:
    """All of them, their files imported."""
    for family in _FAMILIES:
        import_module(f".{family}", __package__)
    return CONVERTERS


def converted(convert: Converter, node: Node) -> Any:
    """Returns what stands for a node.

    Errors: those of the function; ArgumentError where it fails otherwise, as nothing has checked that the inputs and attributes
    of a file are such as its operators have.
    """
    try:
        return convert(node)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        let_through(error)
        raise ArgumentError(
            "its inputs or attributes are none that it has", found=f"{type(error).__name__}: {error}"
        ) from error


@dataclass(frozen=True)
class Node:
    """One node of a graph: values of its inputs, and its attributes."""

    operator: str
    version: int  # of the operator set
    inputs: Sequence[OnnxValue]
    names: Sequence[str]  # of the inputs
    outputs: Sequence[str]  # names; empty for one that is left out
    attributes: Mapping[str, Any]
    constant: Callable[[Array], Tensor]  # a known value as a tensor of the model
    element: Callable[[str], DType | None]  # the dtype of a name of NumPy
    element_of: Callable[[int], str]  # the name in NumPy of an element type of ONNX

    def given(self, place: int) -> OnnxValue:
        """An input as it is; None where it is left out."""
        return self.inputs[place] if place < len(self.inputs) else None

    def has(self, place: int) -> bool:
        """Says whether an input is there."""
        return self.given(place) is not None

    def wants(self, place: int) -> bool:
        """Says whether an output is used."""
        return place < len(self.outputs) and bool(self.outputs[place])

    def tensor(self, place: int) -> Tensor:
        """An input that has to be there, as a tensor."""
        value = self.given(place)
        if value is None:
            raise ArgumentError(f"input {place} is missing")
        if isinstance(value, Held):
            raise NotCovered(f"the dtype {value.name}")
        return value if isinstance(value, Tensor) else self.constant(value)

    def maybe(self, place: int) -> Tensor | None:
        """An input that may be left out, as a tensor."""
        return self.tensor(place) if self.has(place) else None

    def tensors(self) -> list[Tensor]:
        """All inputs as tensors."""
        return [self.tensor(place) for place in range(len(self.inputs))]

    def operand(self, place: int) -> Operand:
        """An input as an operand: a known scalar as a number, whose dtype is that of the others."""
        value = self.given(place)
        if isinstance(value, np.ndarray) and value.shape == () and self.element(value.dtype.name) is not None:
            kind = value.dtype.kind
            return bool(value) if kind == "b" else int(value) if kind in "iu" else float(value)
        return self.tensor(place)

    def operands(self) -> list[Operand]:
        """All inputs as operands, one of them at least a tensor."""
        found = [self.operand(place) for place in range(len(self.inputs))]
        if not any(isinstance(one, Tensor) for one in found):
            found[0] = self.tensor(0)
        return found

    def known(self, place: int) -> Array:
        """An input whose value has to be known now. Errors: NotCovered, for shapes that depend on data."""
        value = self.given(place)
        if isinstance(value, Tensor | Held):
            raise NotCovered(f"a shape or choice that depends on the data of {self.names[place]}")
        if value is None:
            raise ArgumentError(f"input {place} is missing")
        return value

    def numbers(self, place: int) -> list[int] | None:
        """A known input as whole numbers; None where it is left out."""
        return [int(one) for one in self.known(place).reshape(-1)] if self.has(place) else None

    def number(self, place: int, default: float) -> float:
        """A known input of one element; the default where it is left out."""
        return self.known(place).reshape(-1)[0].item() if self.has(place) else default

    def shape(self, place: int) -> tuple[int, ...]:
        """The shape of an input."""
        value = self.given(place)
        if value is None:
            raise ArgumentError(f"input {place} is missing")
        return tuple(value.shape)

    def name_of(self, place: int) -> str:
        """The name in NumPy of the element type of an input."""
        value = self.given(place)
        if value is None:
            raise ArgumentError(f"input {place} is missing")
        if isinstance(value, Held):
            return value.name
        return numpy_name(value.dtype) if isinstance(value, Tensor) else str(value.dtype.name)

    def dtype_of(self, place: int) -> DType:
        """The dtype of an input. Errors: NotCovered for one that is not here."""
        name = self.name_of(place)
        found = self.element(name)
        if found is None:
            raise NotCovered(f"the dtype {name}")
        return found

    def rank(self, place: int = 0) -> int:
        """The number of axes of an input."""
        return len(self.shape(place))

    def integer(self, name: str, default: int = 0) -> int:
        """An attribute."""
        return int(self.attributes.get(name, default))

    def real(self, name: str, default: float = 0.0) -> float:
        """An attribute."""
        return float(self.attributes.get(name, default))

    def text(self, name: str, default: str = "") -> str:
        """An attribute."""
        return str(self.attributes.get(name, default))

    def ints(self, name: str) -> list[int] | None:
        """An attribute; None where it is not given."""
        found = self.attributes.get(name)
        return None if found is None else [int(one) for one in found]

    def axis(self, default: int = 0, place: int = 0) -> int:
        """The attribute `axis`, counted from the front."""
        return axis_of(self.integer("axis", default), self.rank(place))

    def dtype(self, name: str, default: DType | None = None) -> DType:
        """An attribute that is an element type. Errors: NotCovered for one that is not here."""
        if name not in self.attributes and default is not None:
            return default
        called = self.element_of(self.integer(name, 1))
        found = self.element(called)
        if found is None:
            raise NotCovered(f"the dtype {called}")
        return found
