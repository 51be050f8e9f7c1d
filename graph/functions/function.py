"""What a function of tensors is here, and what all of them refuse."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from ...common.errors import ArgumentError
from ...tensor.collect import own_names

P = ParamSpec("P")
R = TypeVar("R")


def function(build: Callable[P, R]) -> Callable[P, R]:
    """A function from tensors to tensors: those that it makes have names of their own, however often it is called."""

    @wraps(build)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        with own_names():
            return build(*args, **kwargs)

    return called


class NotCovered(ArgumentError):
    """Says that what an operator is asked for is right, and that nothing here computes it."""


def axis_of(axis: int, rank: int) -> int:
    """The number of an axis, counted from the front; a scalar has an axis 0 and -1 too, as in torch. Errors: ArgumentError."""
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise ArgumentError("there is no such axis", expected=f"{-rank} .. {rank - 1}", found=str(axis))
    return axis % max(rank, 1)


def axes_of(axes: int | list[int] | tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """Axes in order: all, where none are given. Errors: ArgumentError for one that there is not, or is twice."""
    given = () if axes is None else (axes,) if isinstance(axes, int) else tuple(axes)
    found = tuple(sorted({axis_of(axis, rank) for axis in given})) if given else tuple(range(rank))
    if given and len(found) < len(given):
        raise ArgumentError("an axis is given twice", found=str(given))
    return tuple(axis for axis in found if axis < rank)
