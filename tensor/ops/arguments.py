"""What arguments of operators may be: kinds by which builders annotate them, read from texts and checked.

A kind is the name of a type alias below. `Size | None` says that an argument may be left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...common.errors import ArgumentError
from ...common.near import did_you_mean
from ..limits import AXES, EXTENT

Size = int  # a positive integer
Offset = int  # an integer >= 0
Index = int  # any integer; a negative one counts from the end where it names an axis
Sizes = int | Sequence[int]  # a positive integer for all dimensions, or one for each
Offsets = int | Sequence[int]  # the same of integers >= 0
Shape = Sequence[int]  # positive integers
Integers = Sequence[int]  # any integers
Shapes = Sequence[Sequence[int]]  # several shapes
Equation = str  # "ij,jk->ik"


@dataclass(frozen=True, slots=True)
class ArgumentKind:
    """Says how texts are read as values (ValueError where they are none), which are right, how both are told, and one of
    them."""

    read: Callable[[str], object]
    holds: Callable[[object], bool]
    text: str  # what a text must be: "m of matmul is not {text}"
    rule: str  # what a value must be: "m of matmul must be {rule}"
    example: str
    sample: object = None


def read_argument(operator: str, name: str, annotation: str, value: object) -> object:
    """A text as the kind asks for; what is no text stays. Errors: ArgumentError."""
    kind = KINDS[_bare(annotation)]
    if not isinstance(value, str):
        return value
    try:
        return kind.read(value.strip())
    except ValueError:
        raise ArgumentError(
            f"{name} of {operator} is not {kind.text}", expected=kind.example, found=repr(value)
        ) from None


def check_argument(operator: str, name: str, annotation: str, value: object) -> None:
    """Errors: ArgumentError for a value that is not of the kind."""
    kind = KINDS.get(_bare(annotation))
    if kind is None or (value is None and _bare(annotation) != annotation):
        return
    if not kind.holds(value):
        most = f", at most {EXTENT}" if "integer" in kind.rule else ""
        raise ArgumentError(
            f"{name} of {operator} must be {kind.rule}", expected=kind.example + most, found=repr(value)[:100]
        )


def per_dimension(operator: str, name: str, value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """One number for each of `rank` dimensions. Errors: ArgumentError for another number of numbers."""
    numbers = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(numbers) != rank:
        raise ArgumentError(
            f"{name} of {operator} has the wrong number of values",
            expected=f"one, or {rank} as in {'x'.join(str(v) for v in (3, 5, 7)[:rank])}", found=repr(value),
        )  # fmt: skip
    return numbers


def few(operator: str, name: str, value: int, most: int) -> None:
    """Errors: ArgumentError for a number of tensors, or of windows of different sizes, that takes all day to write down."""
    if value > most:
        raise ArgumentError(f"{name} of {operator} is too large", expected=f"at most {most}", found=str(value))


def axis_of(operator: str, name: str, value: int, rank: int) -> int:
    """The number of an axis, counted from the front. Errors: ArgumentError for none of the `rank` axes."""
    if not -rank <= value < rank:
        raise ArgumentError(
            f"{name} of {operator} names no axis", expected=f"{-rank} .. {rank - 1} for {rank} axes", found=str(value)
        )
    return value % rank


def choose(operator: str, name: str, value: str, choices: Sequence[str]) -> str:
    """`value`, if it is one of the choices. Errors: ArgumentError."""
    if value not in choices:
        near = did_you_mean(value, choices)
        raise ArgumentError(f"unknown {name} of {operator}", expected=" or ".join(choices), found=value, advice=near)
    return value


def _bare(annotation: str) -> str:
    return annotation.removesuffix(" | None")


def _is_integer(value: object, least: float) -> bool:
    return type(value) is int and least <= value <= EXTENT and value >= -EXTENT


def _are_integers(value: object, least: float) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return False
    return len(value) <= AXES and all(_is_integer(v, least) for v in value)


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("x"))


def _one_or_several(text: str) -> int | tuple[int, ...]:
    return _integers(text) if "x" in text else int(text)


def _truth(text: str) -> bool:
    found = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(text.lower())
    if found is None:
        raise ValueError(text)
    return found


def _shapes(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(_integers(part) for part in re.split(r"\s*,\s*", text))


def _one(least: float, rule: str, sample: int) -> ArgumentKind:
    return ArgumentKind(int, lambda v: _is_integer(v, least), "an integer", rule, rule, sample)


def _several(least: float, rule: str, sample: int) -> ArgumentKind:
    return ArgumentKind(
        _one_or_several,
        lambda v: _is_integer(v, least) or (_are_integers(v, least) and v != ()),
        "an integer, or several as in 3x5", rule, f"{rule}, or several as in 3x5", sample,
    )  # fmt: skip


KINDS: dict[str, ArgumentKind] = {
    "Size": _one(1, "a positive integer", 8),
    "Offset": _one(0, "an integer >= 0", 1),
    "Index": _one(-math.inf, "an integer", 1),
    "Sizes": _several(1, "a positive integer", 4),
    "Offsets": _several(0, "an integer >= 0", 1),
    "Shape": ArgumentKind(
        _integers, lambda v: _are_integers(v, 1), "sizes as in 64x32", "positive integers", "sizes as in 64x32", (8, 8)
    ),
    "Integers": ArgumentKind(
        _integers, lambda v: _are_integers(v, -math.inf), "integers as in 1x0x2", "integers", "integers as in 1x0x2", (1, 0)
    ),
    "Shapes": ArgumentKind(
        _shapes,
        lambda v: isinstance(v, Sequence) and len(v) > 0 and all(_are_integers(shape, 1) for shape in v),
        "shapes as in 4x5,5x6", "several shapes", "shapes as in 4x5,5x6", ((8, 8), (8, 8)),
    ),
    "bool": ArgumentKind(_truth, lambda v: isinstance(v, bool), "true or false", "True or False", "true or false"),
    "float": ArgumentKind(
        float, lambda v: isinstance(v, int | float) and not isinstance(v, bool), "a number", "a number", "a number"
    ),
    "Equation": ArgumentKind(str, lambda v: isinstance(v, str), "an equation", "an equation", "ij,jk->ik", "ij,jk->ik"),
    "str": ArgumentKind(str, lambda v: isinstance(v, str), "a word", "a word", "a word"),
}  # fmt: skip
