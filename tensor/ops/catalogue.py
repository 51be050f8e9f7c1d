"""What operators there are, for people: names, parameters, inputs, formulas."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass

from ...common.errors import UserError
from ..dtype import DTYPES
from ..program import Program
from . import OPERATORS
from .arguments import KINDS
from .operator import find_operator


@dataclass(frozen=True, slots=True)
class Entry:
    """One operator.

    Attributes:
        group: what the operators of its file are.
        parameters: name -> default as a text; None for one that must be given.
        inputs: names of the operands, with default attributes.
        formula: the first line of its docstring.
        meaning: all of its docstring.
    """

    name: str
    group: str
    parameters: dict[str, str | None]
    inputs: tuple[str, ...]
    formula: str
    meaning: str

    @property
    def usage(self) -> str:
        """`n c h w kernel=2 padding=0`: what must be given first."""
        given = self.parameters.items()
        required = [name for name, default in given if default is None]
        return " ".join([*required, *(f"{name}={default}" for name, default in given if default is not None)])


# Files of operators in the order in which people want them.
_FILES = (
    "linear", "einsum", "conv", "pool", "norm", "softmax", "reduce", "scan", "sort", "scatter", "pointwise", "activation",
    "movement", "resize", "loss",
)  # fmt: skip


def catalogue() -> tuple[Entry, ...]:
    """All operators, those of a file together."""
    order = {name: number for number, name in enumerate(_FILES)}
    names = sorted(OPERATORS, key=lambda name: order[find_operator(name).__module__.rpartition(".")[2]])
    return tuple(entry_of(name) for name in names)


def entry_of(name: str) -> Entry:
    """One operator. Errors: ArgumentError for an unknown one."""
    builder = find_operator(name)
    meaning = inspect.cleandoc(builder.__doc__ or "")
    group = (sys.modules[builder.__module__].__doc__ or "").strip().splitlines()[0].rstrip(".")
    parameters = {
        p.name: None if p.default is p.empty else _text(p.default)
        for p in inspect.signature(builder).parameters.values()
        if p.name != "constants"
    }
    inputs = tuple(item.tensor.name for item in example(name).inputs)
    return Entry(name, group, parameters, inputs, meaning.splitlines()[0], meaning)


def example(name: str, dtype: str | None = None) -> Program:
    """The program of an operator at small sizes: everything that must be given, as its kind has it."""
    builder = find_operator(name)
    parameters = inspect.signature(builder).parameters
    given = {p.name: KINDS[str(p.annotation)].sample for p in parameters.values() if p.default is p.empty}
    if not given:  # one way of saying the shape of several
        first = next(name for name in ("size", "rows") if name in parameters)
        given = {"rows": 8, "columns": 8} if first == "rows" else {first: 8}
    return builder(**given, **({} if dtype is None else {"dtype": dtype}))


def dtypes_of(name: str) -> tuple[str, ...]:
    """The dtypes that an operator takes."""
    found = []
    for dtype in DTYPES:
        try:
            example(name, dtype)
        except UserError:
            continue
        found.append(dtype)
    return tuple(found)


def _text(value: object) -> str:
    """Returns it as it is written on the command line; a default of None is something that follows from the others."""
    return "..." if value is None else str(value).lower() if isinstance(value, bool) else str(value)
