"""Builders of elementwise operators from a formula."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ...common.errors import ArgumentError
from ..build import compute
from ..dtype import boolean
from ..expr import Expr
from ..precision import rounded_once
from ..program import Program
from .operator import Operands, operator

FORMULAS: dict[str, Callable[..., Expr]] = {}  # operator -> body(an element of each operand, **parameters)


def elementwise(
    name: str, operands: str, meaning: str, body: Callable[..., Expr], parameters: Mapping[str, float] | None = None,
    dtype: str = "f32", more: str = "",
) -> None:  # fmt: skip
    """Registers the builder of out[...] = body(an element of each operand, **parameters).

    Args:
        operands: a letter each; the condition `c` is bool.
        meaning: the formula as people read it.
        parameters: numbers that the formula has besides, with their defaults.
        dtype: the default dtype.
        more: what else there is to say, in sentences.
    """
    options = dict(parameters or {})
    FORMULAS[name] = body

    def build(**given: object) -> Program:
        arguments = {"size": None, "shape": None, "dtype": dtype, "constants": ()} | options | given
        sizes = sizes_of(name, arguments["size"], arguments["shape"])  # type: ignore[arg-type]
        operand = Operands(arguments["dtype"], arguments["constants"])  # type: ignore[arg-type]
        tensors = [operand(letter, *sizes, dtype=boolean if letter == "c" else None) for letter in operands]
        numbers = {key: arguments[key] for key in options}
        formula = partial(body, **numbers)
        return operand.program(compute(sizes, lambda *i: rounded_once(formula, *(t[i] for t in tensors)), name="out"))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"out[...] = {meaning}, over `size` elements or a `shape`." + (f"\n\n{more}" if more else "")
    build.__signature__ = _signature(options, dtype)  # type: ignore[attr-defined]
    build.__module__ = sys._getframe(1).f_globals["__name__"]
    operator(_by_signature(build))


def sizes_of(name: str, size: int | None, shape: Sequence[int] | None) -> tuple[int, ...]:
    """The shape that is given as a number of elements, or as a shape. Errors: ArgumentError for none or both."""
    if (size is None) == (shape is None):
        raise ArgumentError(f"{name} needs either size or shape", expected="size=1024 or shape=64x32")
    return (size,) if size is not None else tuple(shape or ())


def _by_signature(build: Callable[..., Program]) -> Callable[..., Program]:
    """`build`, called by position too."""
    signature = inspect.signature(build)

    def called(*args: object, **kwargs: object) -> Program:
        return build(**signature.bind(*args, **kwargs).arguments)

    called.__name__ = called.__qualname__ = build.__name__
    called.__doc__, called.__module__ = build.__doc__, build.__module__
    called.__signature__ = signature  # type: ignore[attr-defined]
    return called


def _signature(options: Mapping[str, float], dtype: str) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    told: list[tuple[str, object, str]] = [("size", None, "Size | None"), ("shape", None, "Shape | None")]
    told += [(name, default, "float") for name, default in options.items()]
    told += [("dtype", dtype, "str"), ("constants", (), "Sequence[str]")]
    return inspect.Signature(
        [inspect.Parameter(name, kind, default=default, annotation=note) for name, default, note in told],
        return_annotation="Program",
    )
