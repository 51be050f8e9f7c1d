"""Elements written to places that are tensors, where several may meet: the last one stays, or they are combined.

Each place combines all that is written to it, in its order: two writes to one place are the same on each run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ...tensor import build
from ...tensor.build import compute, literal, reduce_axis, select
from ...tensor.dtype import accumulator, boolean, i64
from ...tensor.expr import Expr, const
from ...tensor.identity import identity
from ...tensor.ops.movement import clamped
from ...tensor.ops.window import all_of
from ...tensor.program import Tensor
from .function import NotCovered, axis_of, function
from .indexing import index_of
from .operands import at, broadcast_shape
from .shape import reshape, select_axis

LAST = "last"  # of several writes to one place
_REDUCE = {"sum": build.sum, "prod": build.prod, "max": build.max, "min": build.min, "mean": build.sum}
_JOIN: dict[str, Callable[[Expr, Expr], Expr]] = {
    "sum": lambda a, b: a + b, "prod": lambda a, b: a * b, "max": build.maximum, "min": build.minimum,
    "mean": lambda a, b: a + b,
}  # fmt: skip

Places = Sequence[Expr]


@dataclass(frozen=True, slots=True)
class _Writes:
    """Writes to places: one for each point of `over`. `bounds`: of the places of the result that may be written
    to at all, by axis; `meets` and `value` hold inside of them."""

    over: tuple[build.ReduceAxis, ...]
    meets: Callable[[Places, Places], Expr]  # whether a write (its point) goes to a place of the result
    value: Callable[[Places, Places], Expr]  # what it writes there
    bounds: Mapping[int, int] = field(default_factory=dict)

    def gathered(self, i: Places, value: Expr, nothing: Expr) -> Expr:
        """A term of a place: the value where a write goes there."""
        found = select(self.meets(i, self.over), value, nothing)
        inside = [i[axis] < size for axis, size in self.bounds.items()]
        return select(all_of(inside), found, nothing) if inside else found

    def written(self, i: Places, number: Expr) -> Expr:
        """Returns what the write with a number gives a place; anything where no write has it."""
        inside = [clamped(n, self.bounds[axis]) if axis in self.bounds else n for axis, n in enumerate(i)]
        return self.value(inside, self._point(number))

    @property
    def number(self) -> Expr:
        """The point of `over` as one number."""
        found: Expr = self.over[0] if self.over else literal(0, i64)
        for axis in self.over[1:]:
            found = found * axis.extent + axis
        return found

    def _point(self, number: Expr) -> list[Expr]:
        sizes = [axis.extent for axis in self.over]
        left, points = clamped(number, prod(sizes)), []
        for depth, size in enumerate(sizes):
            behind = prod(sizes[depth + 1 :])
            points.append(clamped(left // behind % size, size) if len(sizes) > 1 else left)
        return points


@function
def put_along_axis(
    x: Tensor, index: Tensor, source: Tensor | float, axis: int, combine: str = LAST, include: bool = True,
    negative: bool = False,
) -> Tensor:  # fmt: skip
    """x with x[..., index[..., k, ...], ...] combined with source[..., k, ...].

    combine: "last", "sum", "prod", "max", "min" or "mean". Without `include` what is written stands for the element, where
    there is some. `negative`: whether indices may count from the end.
    """
    if not x.shape:
        parts = [reshape(t, [1]) if isinstance(t, Tensor) else t for t in (x, index, source)]
        return reshape(put_along_axis(parts[0], parts[1], parts[2], 0, combine, include, negative), [])  # type: ignore[arg-type]
    place = axis_of(axis, len(x.shape))
    bounds = {a: own for a, own in enumerate(index.shape) if a != place and own < x.shape[a]}

    def own(i: Places, point: Places) -> tuple[Expr, ...]:
        return (*i[:place], *point, *i[place + 1 :])

    def meets(i: Places, point: Places) -> Expr:
        found = index[own(i, point)]
        return (index_of(found, x.shape[place]) if negative else found.cast(i64)).equal(i[place])

    def value(i: Places, point: Places) -> Expr:
        return source[own(i, point)] if isinstance(source, Tensor) else const(source, x.dtype)

    over = (reduce_axis(index.shape[place], "k"),)
    return _combined(x, _Writes(over, meets, value, bounds), combine, include)


@function
def put_points(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, combine: str = LAST) -> Tensor:
    """x with x[indices] combined with values, which broadcast: `combine` as in `put_along_axis`. None is a whole axis; the
    others are integers and broadcast, as in `take_points`. Negative ones count from the end."""
    places = [axis for axis, index in enumerate(indices) if index is not None]
    chosen = [index for index in indices if index is not None]
    if any(not index.dtype.is_integer for index in chosen):
        raise NotCovered("elements chosen by bool, whose number depends on data")
    points = broadcast_shape(*(index.shape for index in chosen))
    front = places[0] if places == list(range(places[0], places[-1] + 1)) else 0
    over = tuple(reduce_axis(size, f"k{number}") for number, size in enumerate(points))
    rest = [axis for axis in range(len(x.shape)) if axis not in places]

    def meets(i: Places, point: Places) -> Expr:
        return all_of([index_of(at(t, point), x.shape[a]).equal(i[a]) for a, t in zip(places, chosen, strict=True)])

    def value(i: Places, point: Places) -> Expr:
        whole = [i[axis] for axis in rest]
        return at(values, (*whole[:front], *point, *whole[front:]))

    return _combined(x, _Writes(over, meets, value), combine, True)


def put_rows(x: Tensor, index: Tensor, updates: Tensor, combine: str = LAST) -> Tensor:
    """x at points combined with updates; the last axis of the index has a number for each of the first axes of x."""
    count = index.shape[-1]
    points = [select_axis(index, -1, number) for number in range(count)]
    return put_points(x, [*points, *[None] * (len(x.shape) - count)], updates, combine)


def _combined(x: Tensor, writes: _Writes, combine: str, include: bool) -> Tensor:
    """Each place of x with all writes that meet it."""
    if combine == LAST:
        return _replaced(x, writes)
    wide = accumulator(x.dtype)
    if wide == boolean:
        raise NotCovered(f"{combine} of bool at places that are tensors")
    nothing = identity("sum" if combine == "mean" else combine, wide)

    def total_of(*i: Expr) -> build.Reduction:
        return _REDUCE[combine](writes.gathered(i, writes.value(i, writes.over).cast(wide), nothing), writes.over)

    met = compute(x.shape, total_of, name="met")
    if include and combine != "mean":
        return compute(x.shape, lambda *i: _JOIN[combine](x[i].cast(wide), met[i]).cast(x.dtype))
    one, zero = literal(1, i64), literal(0, i64)
    counts = compute(x.shape, lambda *i: build.sum(writes.gathered(i, one, zero), writes.over), name="counts")

    def element(*i: Expr) -> Expr:
        total = _JOIN[combine](x[i].cast(wide), met[i]) if include else met[i]
        if combine == "mean":
            count = build.maximum(counts[i] + int(include), 1).cast(wide)
            total = total / count if wide.is_float else total // count
        return (total if include else select(counts[i] > 0, total, x[i].cast(wide))).cast(x.dtype)

    return compute(x.shape, element)


def _replaced(x: Tensor, writes: _Writes) -> Tensor:
    """Each place of x with the last write that meets it."""
    nothing = identity("max", i64)
    last = compute(x.shape, lambda *i: build.max(writes.gathered(i, writes.number, nothing), writes.over), name="last")

    def element(*i: Expr) -> Expr:
        return select(last[i] >= 0, writes.written(i, last[i]).cast(x.dtype), x[i])

    return compute(x.shape, element)
