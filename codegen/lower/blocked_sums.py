"""Long sums in blocks: a chain of thousands of additions loses digits that sums of a few hundred terms each keep.

    for k { acc[t] += x[k] * y[k, t] }
->  sums[t] = 0;  for blocks of k { acc[t] = 0;  for k { acc[t] += x[k] * y[k, t] };  sums[t] += acc[t] }

With n terms in blocks of b the variance of the rounding errors grows with n (b + n / b) in place of n^2. `sums` lies on the
stack, where nothing touches it for the length of a block: one load, one addition and one store for each accumulator and 256
terms. Trips stay in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isqrt, prod
from typing import TYPE_CHECKING

from ...schedules.loops import Loop
from ...schedules.plan.storage import STACK_LIMIT
from ...tensor.exceptional import exceptional_condition
from ...tensor.expr import Expr, Read
from ...tensor.identity import identity
from ..ir.index import ceil_div, number, plus, smaller, times
from ..ir.loop_ir import Allocate, Block, Buffer, For, Let, Scope, Statement, Store, Update
from .loops import Next
from .view import AxisRange, View, fixed

if TYPE_CHECKING:
    from .nest import StageLowering

LONGEST = 1024  # terms that are summed in one chain
BLOCK = 256  # terms of a block, about: more where there are so many that blocks would be many


@dataclass(frozen=True, slots=True)
class Cut:
    """Says where blocks begin: each trip of the loop at `depth` is one, or each so many `trips` of it."""

    depth: int
    trips: int | None


def cut_of(lowering: StageLowering, start: int, held: Sequence[Loop]) -> Cut | None:
    """Says where the reduction loops from `start` on are cut; None for sums that are short enough.

    held: the loops whose trips have accumulators of their own.
    """
    definition, dtype = lowering.definition, lowering.definition.tensors[0].dtype
    if definition.combiner != "sum" or not dtype.is_float or exceptional_condition(definition) is not None:
        return None
    if lowering.nest.target.is_gpu or prod(fixed(x.extent) for x in held) * dtype.bytes > STACK_LIMIT:
        return None
    taken = {loop.name for loop in held}
    chain = [d for d, x in enumerate(lowering.loops) if d >= start and x.name not in taken]
    inside = [prod(fixed(lowering.loops[d].extent) for d in chain[n + 1 :]) for n in range(len(chain))]
    terms = _terms(lowering, [lowering.loops[d] for d in chain])
    block = max(BLOCK, isqrt(terms))
    if terms <= LONGEST or not chain:
        return None
    places = [n for n, d in enumerate(chain) if d == start or lowering.loops[d].axis != lowering.loops[d - 1].axis]
    place = next(
        (n for n in places if inside[n] <= block), places[-1]
    )  # a piece may be one loop with the one around it
    depth, loop = chain[place], lowering.loops[chain[place]]
    if any(d < depth for d, x in enumerate(lowering.loops) if d >= start and x.name in taken):
        return None  # a tile's loop runs around the cut: its sums are not all there between two blocks
    follows = chain[place + 1 :]
    own_piece = bool(follows) and lowering.loops[follows[0]].axis == loop.axis
    if 4 * inside[place] >= block and not own_piece:
        return Cut(depth, None)
    extent = fixed(loop.extent)
    pieces = max(1, round(extent * inside[place] / block))  # of equal length: none is a remainder of some terms
    return Cut(depth, -(-extent // pieces))


def _terms(lowering: StageLowering, loops: Sequence[Loop]) -> int:
    """Counts the terms of one sum, without those that loops over an axis run beyond its end."""
    trips = {loop.axis: 1 for loop in loops}
    for loop in loops:
        trips[loop.axis] *= fixed(loop.extent)
    extents = {axis.name: axis.extent for axis in lowering.definition.all_axes}
    return prod(min(trips[name], extents[name]) for name in trips)


def summed_apart(
    lowering: StageLowering,
    view: View,
    start: int,
    cut: Cut,
    held: Sequence[Loop],
    update: Callable[[Buffer], Next],
    finish: Callable[[Buffer], Statement],
) -> Statement:
    """The reduction loops from `start` on in blocks. `update`: what is inside of them, given the accumulators; `finish`: what
    is done with the sums."""
    tensor, names = lowering.definition.tensors[0], lowering.names
    shape, zero = tuple(fixed(x.extent) for x in held), identity("sum", tensor.dtype)
    sums = Buffer(names.fresh(f"{tensor.name}.sums"), tensor.dtype, shape, Scope.STACK)
    plain = replace(view, edge=False, tail=False)

    def element(v: View) -> tuple[Expr, ...]:
        return tuple(v.variables[x.name] for x in held)

    def each(v: View, leaf: Callable[[View], Statement]) -> Statement:
        return lowering.alone(replace(v, edge=False, tail=False), list(held), leaf)

    def block(v: View, terms: Callable[[Next], Statement]) -> Statement:
        acc = Buffer(names.fresh(f"{tensor.name}.acc"), tensor.dtype, shape, Scope.REGISTER, padded=True)
        steps = (
            each(v, lambda w: Store(acc.name, element(w), zero)),
            terms(update(acc)),
            each(v, lambda w: Update(sums.name, element(w), "sum", Read(acc.name, element(w), acc.dtype))),
        )
        return Allocate(acc, Block(steps))

    def descend(v: View, depth: int) -> Statement:
        if depth != cut.depth:
            return lowering.loop(v, depth, descend)
        if cut.trips is None:
            return lowering.loop(v, depth, lambda w, below: block(w, lambda inner: inner(w, below)))
        return _pieces(
            lowering, v, lowering.loops[depth], cut.trips,
            lambda w: block(w, lambda inner: lowering.loop(w, depth, inner)),
        )  # fmt: skip

    begin = lowering.alone(plain, list(held), lambda v: Store(sums.name, element(v), zero))
    return Allocate(sums, Block((begin, descend(view, start), finish(sums))))


def _pieces(
    lowering: StageLowering, view: View, loop: Loop, trips: int, inner: Callable[[View], Statement]
) -> Statement:
    """Runs so many trips of a loop at a time: what `inner` gives for each piece."""
    names, place = lowering.names, view.places[lowering.stage.stage, loop.axis]
    length = trips * fixed(loop.stride)
    variable = names.variable(f"{loop.name}.block", -(-fixed(loop.extent) // trips))
    size = names.variable(f"{loop.name}.size", length + 1)
    least = smaller(number(length), plus(place.size, times(variable, -length)))
    names.multiples[size.name] = names.multiple(least)
    position = plus(place.position, times(variable, length))
    body = inner(view.moved(lowering.stage.stage, loop.axis, AxisRange(position, size)))
    return For(variable.name, ceil_div(place.size, length, names.bounds), Let(size.name, least, body))
