"""Joins that cost nothing: what a stage puts side by side is written there by those that compute it.

A join is a pointwise stage that takes each element from one of several tensors, in the order of memory: a concat along the
outermost axis that has more than one point. Its parts lie in its memory from the beginning. Where a join is the beginning of
a larger one, as those of dense blocks are, it lies there too, and nothing is copied at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ...tensor.expr import Expr, Op, Read, Var
from ...tensor.indices.affine import affine
from ...tensor.program import Axis, Program, Stage
from .places import distance

ALIGNMENT = 64  # bytes: where else a part begins, vectors would lie across lines of memory
Place = tuple[str, int]  # a tensor, and a byte in it


def parts_of_join(program: Program, stage: Stage) -> list[tuple[str, int]] | None:
    """The tensors that a stage puts side by side, and the element at which each begins; None where it does anything else."""
    if stage.combiner is not None or len(stage.tensors) != 1:
        return None
    outer = next((axis for axis in stage.axes if axis.extent > 1), None)
    if outer is None:
        return None
    found: list[tuple[str, int]] = []
    step = prod(axis.extent for axis in stage.axes) // outer.extent
    for start, end, value in _pieces(stage.bodies[0], outer, 0, outer.extent):
        if not isinstance(value, Read) or value.dtype != stage.tensors[0].dtype:
            return None
        if prod(program.tensors[value.tensor].shape) != (end - start) * step:
            return None
        one = {outer.name: start} if end - start == 1 else None  # what is one row need not move with the axis
        if distance(program, stage, value, one) != -start * step:
            return None
        found.append((value.tensor, start * step))
    names = {name for name, _ in found}
    return found if len(found) > 1 and len(names) == len(found) else None


def _pieces(value: Expr, axis: Axis, start: int, end: int) -> Iterator[tuple[int, int, Expr]]:
    """Splits the range of an axis where a `select` on that axis does: (first point, end, the value between them)."""
    if isinstance(value, Op) and value.name == "select":
        condition, below, above = value.args
        if isinstance(condition, Op) and condition.name in ("lt", "ge"):
            form = affine(condition.args[0]).minus(affine(condition.args[1]))
            if form.terms == ((Var(axis.name), 1),):
                border = min(max(-form.constant, start), end)
                if condition.name == "ge":
                    below, above = above, below
                yield from _pieces(below, axis, start, border) if border > start else ()
                yield from _pieces(above, axis, border, end) if border < end else ()
                return
    yield start, end, value


@dataclass(frozen=True)
class Joins:
    """Says which tensors lie inside of others. `inside`: tensor -> the one that it lies in, and the byte at which it begins.
    `laid`: joins that no kernel needs to make, as all their parts lie in them."""

    inside: Mapping[str, Place]
    laid: frozenset[str]


def joins_of(program: Program, root: Callable[[str], str], is_stored: Callable[[str], bool]) -> Joins:
    """Tells where tensors lie, the largest joins first.

    Args:
        root: the tensor whose memory another one has as a whole.
        is_stored: tells of a tensor that is no join whether a kernel of this program writes it to memory in any case.
    """
    found = {stage.name: parts for stage in program.stages if (parts := parts_of_join(program, stage))}
    inner = {name: parts for name, parts in found.items() if name not in program.outputs}
    inside: dict[str, Place] = {}
    laid: set[str] = set()
    for join in sorted(inner, key=lambda name: -prod(program.tensors[name].shape)):
        size = program.tensors[join].dtype.bytes
        parts = [(root(name), start * size) for name, start in inner[join]]
        known = [inside.get(name) for name, _ in parts]
        whole, begin = inside.get(join) or _around(known, parts) or (join, 0)
        wanted = {name: (whole, begin + start) for name, start in parts}
        missing = [name for name in wanted if name not in inside]
        if len(wanted) < len(parts) or any(inside.get(name, place) != place for name, place in wanted.items()):
            continue  # a part lies elsewhere
        if not all((name in inner or is_stored(name)) and wanted[name][1] % ALIGNMENT == 0 for name in missing):
            continue
        if whole != join:
            inside[join] = whole, begin
        inside |= wanted
        laid.add(join)
    return Joins(inside, frozenset(laid))


def _around(known: Sequence[Place | None], parts: Sequence[tuple[str, int]]) -> Place | None:
    """Tells where a join lies if all its parts lie somewhere already and the first is at its beginning."""
    first = known[0]
    return (first[0], first[1] - parts[0][1]) if first is not None and all(known) else None
