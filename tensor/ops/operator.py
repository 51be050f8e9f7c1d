"""What a builder of an operator is: a checked, registered function from sizes to a program. The builders are in ops.py."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import ParamSpec

from ...common.errors import ArgumentError
from ...common.near import did_you_mean
from ..build import constant, placeholder
from ..collect import program
from ..dtype import DTYPES, DType
from ..program import Program, Tensor
from .arguments import check_argument, read_argument

P = ParamSpec("P")

OPERATORS: dict[str, Callable[..., Program]] = {}


def operator(builder: Callable[P, Program]) -> Callable[P, Program]:
    """Registers a builder under its name; its arguments are checked by their annotations, its stages carry its name."""
    name, signature = builder.__name__, inspect.signature(builder)

    @wraps(builder)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Program:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{name}: {error}", expected=_usage(name)) from None
        for argument, value in bound.arguments.items():
            check_argument(name, argument, str(signature.parameters[argument].annotation), value)
        made = builder(*args, **kwargs)
        return made.replacing(tuple(replace(s, origin=replace(s.origin, operator=name)) for s in made.stages))

    OPERATORS[name] = checked
    return checked


def find_operator(name: str) -> Callable[..., Program]:
    """The builder of this name. Errors: ArgumentError that names the close ones."""
    found = OPERATORS.get(name)
    if found is None:
        raise ArgumentError(
            f"unknown operator {name!r}",
            expected="one of those that `tune ops` lists",
            advice=did_you_mean(name, OPERATORS, 3) or "write the program in a .tensor file",
        )
    return found


def build_operator(name: str, arguments: Mapping[str, object], constants: Sequence[str] = ()) -> Program:
    """The program of an operator from named arguments, as the command line has them: see `read_arguments`."""
    return find_operator(name)(**read_arguments(name, arguments, constants))


def read_arguments(name: str, arguments: Mapping[str, object], constants: Sequence[str] = ()) -> dict[str, object]:
    """The arguments of an operator's builder.

    Args:
        arguments: values may be texts: "1024", "true", "f32", and "64x32" for a shape.
        constants: names of operands that are known when the program is compiled.

    Errors: ArgumentError for an unknown operator, an argument that is missing, unknown or of the wrong kind.
    """
    parameters = inspect.signature(find_operator(name)).parameters
    given: dict[str, object] = {}
    for argument, value in arguments.items():
        if argument not in parameters or argument == "constants":
            raise ArgumentError(
                f"{name} has no argument {argument!r}",
                expected=_usage(name),
                advice=did_you_mean(argument, parameters),
            )
        given[argument] = read_argument(name, argument, str(parameters[argument].annotation), value)
    missing = [p.name for p in parameters.values() if p.default is p.empty and p.name not in given]
    if missing:
        raise ArgumentError(f"{name} needs {', '.join(missing)}", expected=_usage(name))
    return given | ({"constants": list(constants)} if constants else {})


class Operands:
    """Makes the operands of one program: constants where the caller asked for it."""

    def __init__(self, dtype: str | DType, constants: Sequence[str]) -> None:
        if str(dtype) not in DTYPES:
            near = did_you_mean(str(dtype), DTYPES)
            raise ArgumentError(f"unknown dtype {dtype!r}", expected="one of " + " ".join(DTYPES), advice=near)
        self.dtype = DTYPES[str(dtype)]
        self._constants = (constants,) if isinstance(constants, str) else tuple(constants)
        self._made: list[Tensor] = []

    def __call__(self, name: str, *shape: int, dtype: DType | None = None) -> Tensor:
        """An operand of this name and shape; of the program's dtype unless another is given."""
        make = constant if name in self._constants else placeholder
        self._made.append(make(shape, dtype or self.dtype, name))
        return self._made[-1]

    def program(self, *outputs: Tensor) -> Program:
        """The program of these outputs, its inputs in the order in which they were made."""
        unknown = [name for name in self._constants if name not in (t.name for t in self._made)]
        if unknown:
            names = [tensor.name for tensor in self._made]
            near = did_you_mean(unknown[0], names)
            raise ArgumentError(
                f"no operand is called {unknown[0]!r}", expected="one of " + ", ".join(names), advice=near
            )
        return program(outputs, inputs=self._made)


def floats(name: str, dtype: str, constants: Sequence[str]) -> Operands:
    """The operands of an operator that divides or has functions. Errors: ArgumentError for a dtype without fractions."""
    operand = Operands(dtype, constants)
    if not operand.dtype.is_float:
        raise ArgumentError(f"{name} needs floats", expected="f32, f64, f16 or bf16", found=str(operand.dtype))
    return operand


def _usage(name: str) -> str:
    shown = []
    for parameter in inspect.signature(OPERATORS[name]).parameters.values():
        if parameter.name == "constants":
            continue
        optional = parameter.default is not parameter.empty
        value = str(parameter.default).lower() if isinstance(parameter.default, bool) else parameter.default
        shown.append(f"[{parameter.name}={value}]" if optional else f"{parameter.name}=...")
    return f"{name} {' '.join(shown)}"
