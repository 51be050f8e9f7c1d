"""fold_lanes: the search for a best element, in lanes.

    better = x[i, k] > best[i];  best = select(better, x[i, k], best[i]);  place = select(better, k, place[i])

walks k step by step. Every lane can look for the best of its own elements, k = q * lanes + lane, and a second fold takes the
best of the lanes. Of equal elements the one found first wins, as before: the lane with the smaller place. So the results are
the same to the last bit, NaN, infinities and signed zeros included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isnan

from ..dtype import i64
from ..expr import Expr, Local, Op, Read, binary, call, substitute, walk
from ..indices.affine import affine, simplify
from ..program import Axis, Fold, Program, Stage, Tensor
from ..scan import without_locals
from ..stage_edits import find_stage, free_axis_name, free_name, refuse, with_stages

_TURNED = {"gt": "lt", "lt": "gt"}


@dataclass(frozen=True, slots=True)
class _Search:
    """`best`, `place`: numbers of the tensors with the best value and with where it was. `comparison`: gt or lt.

    `values`: what each tensor becomes where an element is better; `nan`: whether a NaN is better than any number.
    """

    best: int
    place: int
    comparison: str
    nan: bool
    values: tuple[Expr, ...]


def fold_lanes(program: Program, stage: str, lanes: int) -> Program:
    """A search along the ordered axis of a fold is done by `lanes` lanes, whose findings a second fold compares.

    Args:
        stage: a fold all of whose tensors keep all axes and become select(better, value, old), with one `better` for all:
            value > best or value < best, perhaps `or value != value and best == best`. One tensor must be the place: an i64
            value that grows with the ordered axis.
        lanes: how many, at least 2.

    The first fold NAME_lanes has the lanes as its innermost axis. Errors: ProgramError for any other stage.
    """
    old = find_stage(program, stage)
    found = _search(old)
    if found is None or lanes < 2:
        raise refuse(old, "this stage does not search for a best element", expected="a fold such as argmax, lanes >= 2")
    (axis,) = old.reduction
    lane = Axis(free_axis_name(old, f"{axis.name}_lane"), lanes)
    first = _in_lanes(program, old, found, lane)
    return with_stages(program, {old.name: (first, _of_lanes(old, found, lane, first))})


def _search(stage: Stage) -> _Search | None:
    """Returns what a fold searches for; None for a fold that does something else."""
    axes = tuple(axis.name for axis in stage.axes)
    if stage.fold is None or any(kept != axes for kept in stage.fold.tensor_axes):
        return None
    own = _own_reads(stage)
    values: list[Expr] = []
    conditions: list[Expr] = []
    for body, state in zip(without_locals(stage), own, strict=True):
        if not isinstance(body, Op) or body.name != "select" or body.args[2] != state:
            return None
        conditions.append(body.args[0])
        values.append(body.args[1])
    if len(set(conditions)) != 1 or any(node in own for value in values for node in walk(value)):
        return None
    (ordered,) = stage.reduction
    places = [n for n, value in enumerate(values) if value.dtype == i64 and affine(value).coefficient(ordered.var) > 0]
    for n, value in enumerate(values):
        better = _better(conditions[0], value, own[n])
        first = stage.fold.initial[n].value
        plain = [p for p in places if p != n and affine(values[p]).is_linear]
        if better is not None and plain and not isnan(first):
            return _Search(n, plain[0], *better, tuple(values))
    return None


def _own_reads(stage: Stage) -> list[Read]:
    return [Read(t.name, tuple(a.var for a in stage.axes_of(n)), t.dtype) for n, t in enumerate(stage.tensors)]


def _better(condition: Expr, value: Expr, best: Expr) -> tuple[str, bool] | None:
    """(comparison, whether NaN wins) of a condition that says that `value` is better."""
    if isinstance(condition, Op) and condition.name == "or":
        for strict, other in (condition.args, condition.args[::-1]):
            found = _better(strict, value, best)
            if found is not None and not found[1] and _is_new_nan(other, value, best):
                return found[0], True
        return None
    if isinstance(condition, Op) and condition.name in _TURNED:
        if condition.args == (value, best):
            return condition.name, False
        if condition.args == (best, value):
            return _TURNED[condition.name], False
    return None


def _is_new_nan(condition: Expr, value: Expr, best: Expr) -> bool:
    """value != value and best == best"""
    parts = set(condition.args) if isinstance(condition, Op) and condition.name == "and" else set()
    return parts == {binary("ne", value, value), binary("eq", best, best)}


def _condition(found: _Search, value: Expr, best: Expr) -> Expr:
    better = binary(found.comparison, value, best)
    return better | (binary("ne", value, value) & binary("eq", best, best)) if found.nan else better


def _in_lanes(program: Program, old: Stage, found: _Search, lane: Axis) -> Stage:
    """The fold of each lane: elements beyond the end are no better than what it starts from."""
    assert old.fold is not None
    (axis,) = old.reduction
    blocks = Axis(axis.name, -(-axis.extent // lane.extent))
    at = axis.var * lane.extent + lane.var
    axes = (*old.axes, lane)
    values = [simplify(substitute(value, {axis.name: at})) for value in found.values]
    if blocks.extent * lane.extent > axis.extent:
        there = binary("lt", at, axis.extent)
        firsts = old.fold.initial
        values = [
            value if n == found.place else call("select", there, value, first)
            for n, (value, first) in enumerate(zip(values, firsts, strict=True))
        ]
    names = [free_name(program, f"{t.name}_lanes") for t in old.tensors]
    tensors = tuple(Tensor(name, t.dtype, (*t.shape, lane.extent)) for name, t in zip(names, old.tensors, strict=True))
    states = [Read(t.name, tuple(a.var for a in axes), t.dtype) for t in tensors]
    better = _condition(found, values[found.best], states[found.best])
    return _fold(replace(old, tensors=tensors, axes=axes, reduction=(blocks,)), better, values, states)


def _of_lanes(old: Stage, found: _Search, lane: Axis, first: Stage) -> Stage:
    """The best of the lanes; of equal ones that which was found first."""
    place = tuple(a.var for a in (*old.axes, lane))
    values: list[Expr] = [Read(t.name, place, t.dtype) for t in first.tensors]
    states = _own_reads(old)
    value, best = values[found.best], states[found.best]
    equal: Expr = binary("eq", value, best)
    if found.nan:
        equal = equal | (binary("ne", value, value) & binary("ne", best, best))
    better = _condition(found, value, best) | (equal & binary("lt", values[found.place], states[found.place]))
    return _fold(replace(old, reduction=(lane,)), better, values, states)


def _fold(stage: Stage, better: Expr, values: list[Expr], states: list[Read]) -> Stage:
    """The stage with select(better, value, old value) for each tensor."""
    assert stage.fold is not None
    name = "better"
    while name in {a.name for a in stage.all_axes} | {t.name for t in stage.tensors}:
        name += "_"
    chosen = Local(name, better.dtype)
    bodies = tuple(call("select", chosen, value, state) for value, state in zip(values, states, strict=True))
    kept = tuple(tuple(a.name for a in stage.axes) for _ in stage.tensors)
    fold = Fold(kept, stage.fold.initial, ((name, better),))
    return replace(stage, bodies=bodies, fold=fold)
