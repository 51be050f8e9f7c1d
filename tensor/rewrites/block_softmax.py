"""block_softmax: a weighted sum by softmax in one pass, block by block of the axis.

    bm[b] = max[j](x[b, j]);  p[b, j] = exp(x[b, j] - bm[b]);  bl[b] = sum[j](p[b, j]);  bo[b, d] = sum[j](p[b, j] v[b, j, d])
    fold[b]: m' = max(m, bm[b]);  l' = l exp(m - m') + bl[b] exp(bm[b] - m');  o' = o exp(m - m') + bo[b] exp(bm[b] - m')

As online_softmax, whose papers name the idea; but what each step takes in is a block, whose parts are plain reductions: they
can be tiled, go in vectors, and stay in a near cache from the first to the last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..dtype import boolean
from ..expr import Const, Expr, Local, Op, Read, binary, call, substitute
from ..indices.affine import Affine, affine, to_expr
from ..indices.bounds import bounds_of
from ..program import Axis, Fold, Program, Stage, Tensor
from ..stage_edits import find_stage, free_axis_name, free_name, product, refuse, result_of, shape_of
from .online_softmax import Total, Weighted, find_total, find_weighted, inlined, only, ordered, renamed


def block_softmax(program: Program, stage: str, block: int) -> Program:
    """A softmax, found from its maximum, and the weighted sum that follows go block by block.

    Args:
        stage: the stage m[outer] = max[j](x), as for online_softmax, with a weighted sum.
        block: points of a block; it divides the axis.

    The fold gives m, l and NAME_sum, and O = NAME_sum / l. Steps that a condition on axes leaves out keep the state as it is.
    Errors: ProgramError where there is no such softmax, or the block does not divide the axis.
    """
    top = find_stage(program, stage)
    if top.combiner != "max" or len(top.reduction) != 1 or not top.bodies[0].dtype.is_float:
        raise refuse(top, "this stage is no maximum over one axis of floats")
    total = find_total(program, top)
    weighted = find_weighted(program, top, total.stage)
    if weighted is None:
        raise refuse(top, "no weighted sum follows the softmax of this maximum")
    if block < 1 or weighted.axis.extent % block:
        raise refuse(top, "the block does not divide the axis", expected=f"a divisor of {weighted.axis.extent}")
    return _Blocks(program, top, total, weighted, block).program_of_blocks()


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The stages that a softmax by blocks is made of."""

    program: Program
    top: Stage
    total: Total
    weighted: Weighted
    block: int

    @property
    def rows(self) -> tuple[Axis, ...]:
        """The axes of the maximum, as the weighted sum calls them."""
        return self.weighted.stage.axes[: len(self.top.axes)]

    def program_of_blocks(self) -> Program:
        """The whole program, its stages in order."""
        stage, old = self.weighted.stage, self.weighted.axis
        number = Axis(free_axis_name(stage, f"{old.name}_block"), old.extent // self.block)
        inside = Axis(old.name, self.block)
        at = {old.name: number.var * self.block + inside.var}
        largest = self._largest(number, inside, at)
        powers = self._powers(number, inside, at, largest)
        sums = self._sums(number, inside, at, powers)
        folded, quotient = self._finished(number, largest, *sums)
        made = (largest, powers, *sums, folded)
        return ordered(self.program, made, {quotient.name: quotient}, {self.top.name, self.total.stage.name})

    def _x(self, at: dict[str, Expr]) -> Expr:
        keep = frozenset((self.top.name,))
        own = (*self.top.axes, *self.top.reduction)
        x = inlined(self.program, self.top.bodies[0], keep)
        return substitute(renamed(x, own, (*self.rows, self.weighted.axis)), at)

    def _seen(self, at: Mapping[str, Expr]) -> Expr | None:
        if self.total.seen is None:
            return None
        seen = renamed(self.total.seen, self.total.stage.all_axes, (*self.rows, self.weighted.axis))
        return substitute(seen, dict(at))

    def _tensor(self, name: str, axes: tuple[Axis, ...]) -> Tensor:
        dtype = self.top.bodies[0].dtype
        return Tensor(free_name(self.program, name), dtype, shape_of(axes))

    def _largest(self, number: Axis, inside: Axis, at: dict[str, Expr]) -> Stage:
        axes = (*self.rows, number)
        tensor = self._tensor(f"{self.top.name}_block", axes)
        return replace(self.top, tensors=(tensor,), axes=axes, bodies=(self._x(at),), reduction=(inside,))

    def _powers(self, number: Axis, inside: Axis, at: dict[str, Expr], largest: Stage) -> Stage:
        """The powers of a block. Where all x are -inf, -inf - -inf would be NaN where the definition adds exp(-inf - m) = 0."""
        axes, x = (*self.rows, number, inside), self._x(at)
        top = result_of(largest)
        finite = call("select", top.equal(-math.inf), Const(0.0, top.dtype), top)
        tensor = self._tensor(f"{self.top.name}_powers", axes)
        return Stage((tensor,), axes, (call("exp", x - finite),), origin=self.top.origin)

    def _sums(self, number: Axis, inside: Axis, at: dict[str, Expr], powers: Stage) -> tuple[Stage, Stage]:
        """The sum of a block, and its weighted sum."""
        total, stage = self.total.stage, self.weighted.stage
        axes = (*self.rows, number)
        plain = only(self._seen(at), result_of(powers))
        tensor = self._tensor(f"{total.name}_block", axes)
        first = replace(total, tensors=(tensor,), axes=axes, bodies=(plain,), reduction=(inside,))
        seen = None if self.weighted.seen is None else substitute(self.weighted.seen, at)
        term = only(seen, product([result_of(powers), *(substitute(part, at) for part in self.weighted.weight)]))
        axes = (*axes, *stage.axes[len(self.rows) :])
        tensor = self._tensor(f"{stage.name}_block", axes)
        return first, replace(stage, tensors=(tensor,), axes=axes, bodies=(term,), reduction=(inside,))

    def _finished(self, number: Axis, largest: Stage, plain: Stage, sums: Stage) -> tuple[Stage, Stage]:
        """The fold over the blocks, and the quotient."""
        top, total, stage = self.top, self.total.stage, self.weighted.stage
        own = self._tensor(f"{stage.name}_sum", stage.axes)
        rows = tuple(a.var for a in self.rows)
        old_max, old_sum = (Read(s.name, rows, s.bodies[0].dtype) for s in (top, total))
        before = Read(own.name, tuple(a.var for a in stage.axes), own.dtype)
        new, scale, weight = (Local(self._local(name), own.dtype) for name in ("largest", "scale", "weight"))
        nothing = new.equal(-math.inf)
        one, zero = Const(1.0, own.dtype), Const(0.0, own.dtype)
        values = (
            (new.name, call("max", old_max, result_of(largest))),
            (scale.name, call("select", nothing, one, call("exp", old_max - new))),
            (weight.name, call("select", nothing, zero, call("exp", result_of(largest) - new))),
        )
        bodies: list[Expr] = [
            new,
            old_sum * scale + result_of(plain) * weight,
            before * scale + result_of(sums) * weight,
        ]
        counts = self._counts(number)
        if counts is not None:
            bodies = [
                call("select", counts, b, state) for b, state in zip(bodies, (old_max, old_sum, before), strict=True)
            ]
        kept = (tuple(a.name for a in self.rows),) * 2 + (tuple(a.name for a in stage.axes),)
        fold = Fold(kept, (Const(-math.inf, own.dtype), zero, zero), values)
        tensors = (top.tensors[0], total.tensors[0], own)
        folded = Stage(tensors, stage.axes, tuple(bodies), (number,), "fold", fold, top.origin)
        quotient = replace(stage, bodies=(before / self.weighted.divisor,), reduction=(), combiner=None)
        return folded, quotient

    def _counts(self, number: Axis) -> Expr | None:
        """The condition that some point of a block counts; None where that is always so, or nobody knows."""
        name, found = self.weighted.axis.name, None
        seen = self._seen({})
        for form in () if seen is None else sorted(bounds_of(seen), key=str):
            coefficient = form.coefficients.get(name, 0)
            nearest = number.var * self.block + (0 if coefficient > 0 else self.block - 1)
            least = form.plus(affine(self.weighted.axis.var), -coefficient).plus(affine(nearest), coefficient)
            condition = binary("le", to_expr(least), to_expr(Affine((), 0)))
            found = condition if found is None else Op("and", (found, condition), boolean)
        return found

    def _local(self, name: str) -> str:
        taken = {a.name for a in self.weighted.stage.all_axes} | self.program.tensors.keys()
        while name in taken:
            name += "_"
        return name
