"""The products of a model: sums of data times weights, whatever operator has made them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...tensor.dtype import f32
from ...tensor.expr import Cast, Const, Expr, Op, Read, Var, variables
from ...tensor.program import Axis, Program, Stage
from ...tensor.stage_edits import factors

LEAST_WEIGHTS = 256  # of a constant: fewer cost nothing worth saving
LEAST_DEPTH = 8  # terms of a sum


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """A sum of products of one element of data and one of a constant.

    Args:
        stage: the sum, in f32.
        value: the element of data, as f32.
        data: what is read of the data.
        guard: the condition under which it is, with zero elsewhere; None where it always is.
        weights: what is read of the constant.
    """

    stage: Stage
    value: Expr
    data: Read
    guard: Expr | None
    weights: Read

    @property
    def summed(self) -> tuple[int, ...]:
        """Dimensions of the weights along which the sum goes."""
        names = {axis.name for axis in self.stage.reduction}
        return tuple(d for d, index in enumerate(self.weights.indices) if names & variables(index))

    @property
    def kept(self) -> tuple[int, ...]:
        """Dimensions of the weights that have scales of their own."""
        return tuple(d for d in range(len(self.weights.indices)) if d not in self.summed)

    @property
    def depth(self) -> Axis | None:
        """The axis of a plain product: all of the sum, one index of the data and one of the weights; None elsewhere."""
        if len(self.stage.reduction) != 1:
            return None
        (axis,) = self.stage.reduction
        plain = all(
            [index for index in read.indices if axis.name in variables(index)] == [axis.var]
            for read in (self.data, self.weights)
        )
        return axis if plain and self.guard is None else None

    @property
    def terms(self) -> int:
        """Counts the products of one sum."""
        return prod(axis.extent for axis in self.stage.reduction)

    @property
    def rows(self) -> tuple[int, ...] | None:
        """Dimensions of the data that count its rows, where each row has a depth of its own; None where rows overlap."""
        axis = self.depth
        if axis is None:
            return None
        found = tuple(d for d, index in enumerate(self.data.indices) if index != axis.var)
        plain = all(isinstance(self.data.indices[d], (Var, Const)) for d in found)
        return found if plain else None


def weighted_sums(program: Program) -> tuple[WeightedSum, ...]:
    """All of them, in order."""
    found = (weighted_sum(program, stage) for stage in program.stages)
    return tuple(one for one in found if one is not None)


def weighted_sum(program: Program, stage: Stage) -> WeightedSum | None:
    """A stage as a sum of products of data and weights; None for any other."""
    if stage.combiner != "sum" or stage.tensors[0].dtype != f32:
        return None
    parts = factors(stage.bodies[0])
    if len(parts) != 2:
        return None
    constants = {tensor.name for tensor in program.constant_inputs}
    for first, second in (parts, parts[::-1]):
        data, weights = _element(first), _element(second)
        if data is None or weights is None or weights[1] is not None:
            continue
        if weights[0].tensor in constants and data[0].tensor not in constants:
            found = WeightedSum(stage, first, data[0], data[1], weights[0])
            return found if _pays(program, found) else None
    return None


def _element(expr: Expr) -> tuple[Read, Expr | None] | None:
    """A read of a float as f32, and the condition under which it counts, with zero elsewhere."""
    match expr:
        case Read(dtype=dtype) if dtype == f32:
            return expr, None
        case Cast(arg=arg):
            inner = _element_of(arg)
            return inner if expr.dtype == f32 and inner is not None and inner[0].dtype.is_float else None
        case Op(name="select"):
            return _element_of(expr)
    return None


def _element_of(expr: Expr) -> tuple[Read, Expr | None] | None:
    match expr:
        case Read():
            return expr, None
        case Op(name="select", args=(guard, inner, Const(value=0))):
            found = _element(inner) if not isinstance(inner, Read) else (inner, None)
            return None if found is None or found[1] is not None else (found[0], guard)
    return None


def _pays(program: Program, found: WeightedSum) -> bool:
    count = prod(program.tensors[found.weights.tensor].shape)
    return count >= LEAST_WEIGHTS and found.terms >= LEAST_DEPTH and bool(found.summed)
