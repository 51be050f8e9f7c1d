"""`--input` of the command line: the shape and dtype of one input of a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ....common.errors import ArgumentError
from ....common.near import did_you_mean

if TYPE_CHECKING:
    from ....tensor.dtype import DType

_NAMED = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<rest>.+)", re.ASCII | re.DOTALL)
_PLAIN = re.compile(r"\d+(x\d+)*", re.ASCII)
_TYPED = re.compile(r"(?P<dtype>[a-z]+\d*)\[(?P<sizes>[\d,\s]*)\]", re.ASCII)
_ELEMENTS = 1 << 31  # of an example input: more is a slip of the keyboard
_EXPECTED = "1x3x224x224 (f32), i64[1,128], or with the name of an argument: mask=bool[1,128]"


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input. `name`: of the argument that it is given as; "" where it is given in order."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    def __str__(self) -> str:
        said = f"{self.dtype.name}[{','.join(map(str, self.shape))}]"
        return f"{self.name}={said}" if self.name else said


def read_inputs_given(texts: Sequence[str]) -> tuple[InputSpec, ...]:
    """The inputs that a person names. Errors: ArgumentError, also for one that has no name behind one that has."""
    found = tuple(map(_read, texts))
    named = [one.name for one in found if one.name]
    if len(set(named)) < len(named):
        raise ArgumentError("an input is given twice", found=", ".join(map(str, found)))
    if any(not one.name for one in found[next((n for n, one in enumerate(found) if one.name), len(found)) :]):
        raise ArgumentError(
            "an input without a name stands behind one with a name", found=", ".join(map(str, found)),
            advice="give those without a name first, in the order of the arguments",
        )  # fmt: skip
    return found


def _read(text: str) -> InputSpec:
    from ....tensor.dtype import DTYPES, f32

    match = _NAMED.fullmatch(text.strip())
    rest = match["rest"].strip() if match else ""
    if match is None or not (_PLAIN.fullmatch(rest) or _TYPED.fullmatch(rest)):
        raise ArgumentError(f"cannot read --input {text!r}", expected=_EXPECTED)
    typed = _TYPED.fullmatch(rest)
    sizes = [part.strip() for part in (typed["sizes"].split(",") if typed else rest.split("x"))]
    if typed and sizes == [""]:
        sizes = []  # one number
    if typed and typed["dtype"] not in DTYPES:
        near = did_you_mean(typed["dtype"], DTYPES)
        raise ArgumentError(
            f"--input {text!r} has no dtype of ours", expected="one of " + ", ".join(DTYPES), advice=near
        )
    if any(not size or int(size) < 1 for size in sizes):
        raise ArgumentError(f"cannot read --input {text!r}", expected="sizes of at least 1, as in " + _EXPECTED)
    shape = tuple(map(int, sizes))
    if prod(shape) > _ELEMENTS:
        raise ArgumentError(f"--input {text!r} is too large", expected=f"at most {_ELEMENTS} elements")
    return InputSpec(match["name"] or "", DTYPES[typed["dtype"]] if typed else f32, shape)
