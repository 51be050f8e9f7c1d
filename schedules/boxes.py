"""Boxes: which points a stage covers that runs inside of a loop of another one.

A stage attached inside a loop of T covers a box: along each of its axes the points

    low + sum(coefficient * position)  ..  high + sum(coefficient * (position + size - 1))

where position and size say which points of an axis of T the loop's current trip covers (`BoxAxis`); or both divided by a
number, rounding down, as x // 2 is in a pyramid. Then the positions of T are multiples of that number (`aligned_with`), so that
how many points there are depends on the sizes alone. Where this cannot be, the box has all points of the axis.

What is read at x // 4 * 56 + y, where y stays below 56, is rows of 56 points in one axis. Its box is whole rows: as many points
for each place of x // 4 (`times`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..common.errors import ScheduleError
from ..tensor.expr import Const, Expr, Op, Var
from ..tensor.indices.affine import affine, interval
from ..tensor.indices.forms import to_expr
from ..tensor.program import Stage
from .extents import Extent
from .loops import LoopTree, StageLoops


@dataclass(frozen=True, slots=True)
class BoxAxis:
    """The points of one axis that an instance covers, as a function of the axes of the stage it is attached to."""

    terms: tuple[tuple[str, int], ...]  # (axis of the outer stage, coefficient >= 1), sorted
    low: int
    high: int
    divisor: int = 1  # the points are (low + ..) // divisor .. (high + ..) // divisor
    times: int = 1  # and each of them stands for so many in a row, from its multiple of this number on

    @property
    def is_plain(self) -> bool:
        """Says whether points move as those of the outer axes do, by whole numbers and one at a time."""
        return self.divisor == 1 and self.times == 1

    def step(self, axis: str) -> int:
        """Says how far the points move when those of an outer axis move by one."""
        return next((coefficient for outer, coefficient in self.terms if outer == axis), 0)

    def extent(self, sizes: dict[str, Extent]) -> Extent:
        """Says how many points, from how many points of each outer axis are covered."""
        first = 0 if self.divisor > 1 else self.low
        total: Extent = self.high - first + 1 - sum(coefficient for _, coefficient in self.terms)
        for axis, coefficient in self.terms:
            size = sizes[axis] if coefficient == 1 else coefficient * sizes[axis]
            total = size if isinstance(total, int) and total == 0 else size + total
        if self.divisor > 1:
            total = (total - 1) // self.divisor + (1 - self.low // self.divisor)
        return total if self.times == 1 else total * self.times

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last point for one point of each outer axis at its beginning."""
        return self.low // self.divisor * self.times, (self.high // self.divisor + 1) * self.times - 1


def whole_axis(extent: int) -> BoxAxis:
    """All points of an axis."""
    return BoxAxis((), 0, extent - 1)


def consumers_inside(tree: LoopTree, stage: str, at: tuple[str, str]) -> tuple[str, ...]:
    """The stages that read `stage`, all of which must run inside of the loop `at`; ScheduleError if one does not."""
    names = [t.name for t in tree.definition(stage).tensors]
    found = []
    for name in dict.fromkeys(c.name for t in names for c in tree.program.consumers[t]):
        if name != at[0] and not _runs_inside(tree, name, at):
            raise ScheduleError(
                f"{stage} cannot be attached inside of {at[1]}: {name} reads it too and does not run there",
                expected=f"a loop inside of which everything runs that reads {stage}",
                advice=f"attach {name} inside of {at[1]} first, or attach {stage} further out",
            )
        found.append(name)
    if not found:
        raise ScheduleError(f"{stage} cannot be attached: nothing reads it", expected="a stage that others read")
    return tuple(found)


def _runs_inside(tree: LoopTree, stage: str, at: tuple[str, str]) -> bool:
    depth = tree.by_stage[at[0]].position(at[1]) + 1
    return any(outer.stage == at[0] and around >= depth for outer, around in tree.chain(stage))


def axis_forms(tree: LoopTree, stage: str, outer: str) -> dict[str, BoxAxis]:
    """Returns what one opening of `stage` covers along each of its axes, as a function of the axes of `outer` around it."""
    definition = tree.definition(stage)
    if stage == outer:
        return identity_forms(definition)
    at = tree.by_stage[stage].at
    if at is None:
        raise ScheduleError(f"{stage} does not run inside of {outer}")
    forms = axis_forms(tree, at[0], outer)
    extents = {a.name: a.extent for a in definition.all_axes}
    composed = {axis: _compose(box, forms) for axis, box in box_axes(tree, stage, at).items()}
    return {axis: whole_axis(extents[axis]) if box is None else box for axis, box in composed.items()}


def identity_forms(stage: Stage) -> dict[str, BoxAxis]:
    """Returns what a stage covers of itself."""
    return {a.name: BoxAxis(((a.name, 1),), 0, 0) for a in stage.all_axes}


def _compose(box: BoxAxis, forms: dict[str, BoxAxis]) -> BoxAxis | None:
    """The box in terms of the axes that those of its own terms move with; None where that is no box."""
    if box.times > 1 or any(forms[axis].times > 1 for axis, _ in box.terms):
        return _compose_rows(box, forms)
    if any(forms[axis].divisor > 1 for axis, _ in box.terms):
        return _compose_divided(box, forms)
    terms: dict[str, int] = {}
    low, high = box.low, box.high
    for axis, coefficient in box.terms:
        inner = forms[axis]
        low += coefficient * inner.low
        high += coefficient * inner.high
        for outer_axis, factor in inner.terms:
            terms[outer_axis] = terms.get(outer_axis, 0) + coefficient * factor
    return BoxAxis(tuple(sorted(terms.items())), low, high, box.divisor)


def _compose_rows(box: BoxAxis, forms: dict[str, BoxAxis]) -> BoxAxis | None:
    """The same of rows of points: those of an axis point by point, or rows of what moves with an axis that is none."""
    if box.times > 1:
        found = _compose(replace(box, times=1), forms)
        return None if found is None or found.times > 1 else replace(found, times=box.times)
    ((axis, coefficient), *others) = box.terms
    identical = not others and coefficient == 1 and box.low == box.high == 0 and box.divisor == 1
    return forms[axis] if identical else None


def _compose_divided(box: BoxAxis, forms: dict[str, BoxAxis]) -> BoxAxis | None:
    """The same over an axis that moves with a part of an outer one: up after up, or down after up."""
    if len(box.terms) != 1:
        return None
    ((axis, times),) = box.terms
    inner = forms[axis]
    if times == 1:
        low, high = (end + inner.divisor * own for end, own in ((inner.low, box.low), (inner.high, box.high)))
        return BoxAxis(inner.terms, low, high, inner.divisor * box.divisor)
    if box.divisor > 1:
        return None
    first = times * (inner.low // inner.divisor) + box.low  # where positions are multiples of the divisor
    if inner.divisor % times == 0:
        left = inner.divisor // times
        return BoxAxis(inner.terms, left * first, inner.high + left * box.high, left)
    if times % inner.divisor:
        return None
    terms = tuple((outer, factor * times // inner.divisor) for outer, factor in inner.terms)
    return BoxAxis(terms, first, times // inner.divisor * inner.high + box.high)


def index_form(index: Expr, forms: dict[str, BoxAxis], definition: Stage) -> BoxAxis:
    """The values of an index expression of a stage, given those of its axes."""
    clamped = _clamped_form(index, forms, definition)
    if clamped is not None:
        return clamped
    form = affine(index)
    found = None
    if all(isinstance(atom, Var) and coefficient > 0 for atom, coefficient in form.terms):
        terms = tuple((atom.name, c) for atom, c in form.terms if isinstance(atom, Var))
        found = _compose(BoxAxis(terms, form.constant, form.constant), forms)
    elif len(form.terms) == 1 and form.terms[0][1] == 1:
        found = _quotient(form.terms[0][0], form.constant, forms, definition)
    found = _rows(index, forms, definition) if found is None else found
    if found is not None:
        return found
    low, high = interval(index, {a.name: (0, a.extent - 1) for a in definition.all_axes})
    return BoxAxis((), low, high)


def _quotient(atom: Expr, more: int, forms: dict[str, BoxAxis], definition: Stage) -> BoxAxis | None:
    """The values of `e // number + more`; None for any other expression, and where e does not move with one outer axis."""
    match atom:
        case Op(name="floordiv", args=(inner, Const(value=number))) if number > 0:
            of = index_form(inner, forms, definition)
            if len(of.terms) == 1 and of.times == 1:
                step = of.divisor * int(number)
                return BoxAxis(of.terms, of.low + step * more, of.high + step * more, step)
    return None


def _rows(index: Expr, forms: dict[str, BoxAxis], definition: Stage) -> BoxAxis | None:
    """The values of `e * number + rest`, where the rest never reaches the number; None for any other expression."""
    form = affine(index)
    if len(form.terms) < 2:
        return None
    row, points = max(form.terms, key=lambda term: term[1])
    low, high = interval(
        to_expr(form.plus(affine(row), -points)), {a.name: (0, a.extent - 1) for a in definition.all_axes}
    )
    if low < 0 or high >= points:
        return None
    of = index_form(row, forms, definition)
    return replace(of, times=points) if of.terms and of.times == 1 else None


def _clamped_form(index: Expr, forms: dict[str, BoxAxis], definition: Stage) -> BoxAxis | None:
    """The values of `min(e, number)` or `max(e, number)`: those of e, and as much more as the clamp moves any of them."""
    match index:
        case Op(name="min" | "max" as name, args=(Const(value=limit), inner) | (inner, Const(value=limit))):
            form = index_form(inner, forms, definition)
            low, high = interval(inner, {a.name: (0, a.extent - 1) for a in definition.all_axes})
            if not form.terms or form.times > 1:
                return None
            if name == "max":
                return replace(form, high=form.high + form.divisor * max(0, int(limit) - low))
            return replace(form, low=form.low - form.divisor * max(0, high - int(limit)))
    return None


def box_axes(tree: LoopTree, stage: str, at: tuple[str, str]) -> dict[str, BoxAxis]:
    """The box that `stage` covers when attached at a loop: what its consumers inside read of it; reductions are whole.

    An axis of the stage around moves one axis of the box at most: what reads a diagonal gets whole rows of it.
    """
    known: dict[str, BoxAxis] | None = tree.boxes.get((stage, at))
    if known is None:
        known = tree.boxes[stage, at] = _box_axes(tree, stage, at)
    return known


def _box_axes(tree: LoopTree, stage: str, at: tuple[str, str]) -> dict[str, BoxAxis]:
    readers = [(tree.definition(name), axis_forms(tree, name, at[0])) for name in consumers_inside(tree, stage, at)]
    boxes = needed_boxes(tree.definition(stage), readers)
    extents = {a.name: a.extent for a in tree.definition(stage).all_axes}
    return {
        axis: box if box.divisor == 1 or _may_align(tree, box, at) else whole_axis(extents[axis])
        for axis, box in boxes.items()
    }


def _may_align(tree: LoopTree, box: BoxAxis, at: tuple[str, str]) -> bool:
    """Says whether positions can be multiples of what they are divided by: those of a root that come in steps of several."""
    outer = tree.by_stage[at[0]]
    around = outer.loops[: outer.position(at[1]) + 1]
    return outer.at is None and not any(
        loop is outer.pieces(loop.axis)[-1] for loop in around if loop.axis in {axis for axis, _ in box.terms}
    )


def aligned_with(tree: LoopTree, stage: str, at: tuple[str, str]) -> list[tuple[Extent, int]]:
    """Steps of the loops around a stage, each with the number of which it has to be a multiple for its boxes to be right."""
    outer = tree.by_stage[at[0]]
    around = outer.loops[: outer.position(at[1]) + 1]
    found = []
    for box in box_axes(tree, stage, at).values():
        for axis, _ in box.terms if box.divisor > 1 else ():
            strides = [loop.stride for loop in around if loop.axis == axis]
            found += [(strides[-1], box.divisor)] if strides else []
    return found


def needed_boxes(definition: Stage, readers: Sequence[tuple[Stage, dict[str, BoxAxis]]]) -> dict[str, BoxAxis]:
    """Returns what readers need of a stage, given what they cover themselves; reductions are whole."""
    needed: dict[str, BoxAxis] = {}
    for reader, forms in readers:
        for number, tensor in enumerate(definition.tensors):
            for read in reader.reads():
                if read.tensor != tensor.name:
                    continue
                for axis, index in zip(definition.axes_of(number), read.indices, strict=True):
                    form = index_form(index, forms, reader)
                    old = needed.get(axis.name)
                    needed[axis.name] = form if old is None else _hull(old, form, axis.extent)
    result = {}
    for axis in definition.axes:
        form = needed.get(axis.name, whole_axis(axis.extent))
        result[axis.name] = form if form.terms else BoxAxis((), max(form.low, 0), min(form.high, axis.extent - 1))
    _separate(result, {a.name: a.extent for a in definition.axes})
    for axis in definition.reduction:
        result[axis.name] = whole_axis(axis.extent)
    return result


def _separate(boxes: dict[str, BoxAxis], extents: dict[str, int]) -> None:
    """Makes axes whole until no two of them move with one axis of the stage around, because counting takes them for
    independent (see the head of this file). Those that move with the fewest axes keep them."""
    taken: set[str] = set()
    for axis in sorted(boxes, key=lambda name: len(boxes[name].terms)):
        moving = {outer for outer, _ in boxes[axis].terms}
        if moving & taken:
            boxes[axis] = whole_axis(extents[axis])
        else:
            taken |= moving


def _hull(a: BoxAxis, b: BoxAxis, extent: int) -> BoxAxis:
    if a.terms == b.terms and a.divisor == b.divisor and a.times == b.times:
        return replace(a, low=min(a.low, b.low), high=max(a.high, b.high))
    return whole_axis(extent)


def kept_points(tree: LoopTree, stage: StageLoops) -> dict[str, int]:
    """Axis -> how many points of the box of the trip before are still needed, of a stage whose storage lives on.

    Such a box moves by whole trips of the loop that the stage is attached to, so all that it needs beside them was computed
    in trips before.
    """
    if stage.at is None or stage.stored is None:
        return {}
    moving = tree.by_stage[stage.at[0]].loop(stage.at[1]).axis
    whole = {a.name: a.extent for a in tree.definition(stage.at[0]).reduction}
    found = {}
    for axis, box in box_axes(tree, stage.stage, stage.at).items():
        others = [(outer, step) for outer, step in box.terms if outer != moving]
        if box.step(moving) and box.is_plain and all(outer in whole for outer, _ in others):
            width = box.high - box.low + 1 + sum(step * (whole[outer] - 1) for outer, step in others)
            found[axis] = width - box.step(moving)
    return found
