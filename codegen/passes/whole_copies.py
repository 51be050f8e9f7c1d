"""Copies run without conditions that hold in all trips of a loop.

What fills the overhang of a copy with zeros stands under conditions on indices, which hold but for the last rows and columns:

    for i < 64 { for j < 16 { vector l < 16 { x[i, j, l] = select(16 i + l < 1009, y[j, 16 i + l], 0) } } }
    ->  for i < 64
          if 16 i + 15 < 1009 { for j < 16 { vector l < 16 { x[i, j, l] = y[j, 16 i + l] } } }
          else                { ... as it was }

In the innermost code they cost comparisons, masks and branches with every vector. What branches and masks around a condition
imply is dropped everywhere. Innermost loops that only store have two versions then, where conditions bound their indices from
above and differ from lane to lane. (A reduction's loops are cut in two instead, passes/whole_ranges.py.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...tensor.dtype import boolean, i64
from ...tensor.expr import Expr, Op, Var, variables, walk
from ...tensor.indices.affine import Affine, affine, decide, interval_of_form, to_expr
from ...tensor.indices.bounds import bound_of, conjuncts
from ...tensor.indices.intervals import Known
from ...tensor.language import COMPARISONS
from ..ir.index import Bounds, both, known, number
from ..ir.loop_ir import (
    Allocate,
    Block,
    For,
    If,
    Let,
    LoopKind,
    LoopProgram,
    Statement,
    Store,
    Update,
    statements,
    substatements,
)
from .whole_ranges import without


def whole_copies(program: LoopProgram) -> LoopProgram:
    """Drops conditions of copies that always hold; results stay the same, bit for bit."""
    return program.with_bodies(_settled)


def _settled(body: Statement) -> Statement:
    concerned: set[int] = set()
    _find_concerned(body, concerned)
    return _Settling(concerned).statement(body, Known({})) if concerned else body


def _find_concerned(node: Statement, concerned: set[int]) -> bool:
    """Collects the identities of the statements with conditions inside: in much unrolled code they are few."""
    found = any(True for _ in _conditions(node))
    for part in substatements(node):
        found |= _find_concerned(part, concerned)
    if found:
        concerned.add(id(node))
    return found


def _conditions(statement: Statement) -> Iterator[Expr]:
    """Yields what selects among the values that a statement stores test, part by part: comparisons of indices."""
    if isinstance(statement, (Store, Update)):
        for node in walk(statement.value):
            if isinstance(node, Op) and node.name == "select":
                yield from filter(_on_indices, conjuncts(node.args[0]))


def _on_indices(condition: Expr) -> bool:
    return isinstance(condition, Op) and condition.name in COMPARISONS and condition.args[0].dtype == i64


class _Settling:
    """Rewrites statements under what is known where they stand."""

    def __init__(self, concerned: set[int]) -> None:
        self.concerned = concerned  # all else stays as it is
        self.smaller: dict[str, tuple[Affine, Affine]] = {}  # named minima: of which forms

    def statement(self, node: Statement, here: Known) -> Statement:
        """The statement without the conditions that hold, loops in two versions."""
        if id(node) not in self.concerned:
            return node
        match node:
            case Block(body=body):
                return Block(tuple(self.statement(part, here) for part in body))
            case Allocate(body=body):
                return replace(node, body=self.statement(body, here))
            case Let(var=var, value=value, body=body):
                self.smaller.pop(var, None)
                if isinstance(value, Op) and value.name == "min":
                    self.smaller[var] = affine(value.args[0]), affine(value.args[1])
                bounds = {**here.bounds, var: here.interval(value)}
                return replace(node, body=self.statement(body, replace(here, bounds=bounds)))
            case If(condition=condition, then=then, otherwise=otherwise):
                other = None
                if otherwise is not None:
                    other = self.statement(otherwise, here.assume(condition, False) or here)
                return replace(node, then=self.statement(then, self._where(here, condition)), otherwise=other)
            case For():
                return self._in_two(replace(node, body=self.statement(node.body, self._inside(node, here))))
            case Store() | Update():
                return self._chosen(self._decided(node, here), here)
        return node

    def _decided(self, node: Store | Update, here: Known) -> Store | Update:
        """A store of a value without the conditions that hold."""
        true = frozenset(c for c in _conditions(node) if decide(c, here.bounds, here.facts))
        decided = without(node, true) if true else node
        assert isinstance(decided, (Store, Update))
        return decided

    def _chosen(self, node: Store | Update, here: Known) -> Store | Update:
        """A store of what is chosen under a condition: what this implies is not asked again."""
        match node.value:
            case Op(name="select", args=(condition, value, otherwise), dtype=dtype):
                inner = self._decided(replace(node, value=value), self._where(here, condition))
                return (
                    node
                    if inner.value is value
                    else replace(node, value=Op("select", (condition, inner.value, otherwise), dtype))
                )
        return node

    def _inside(self, loop: For, here: Known) -> Known:
        """Returns what is known in the trips of a loop that are real."""
        self.smaller.pop(loop.var, None)
        last = here.interval(loop.extent)[1] - 1
        here = replace(here, bounds={**here.bounds, loop.var: (0, max(0, last))})
        for most in (loop.extent, loop.valid):
            if most is not None and known(most) is None:
                here = self._where(here, Op("lt", (Var(loop.var), most), boolean))
        return here

    def _where(self, here: Known, condition: Expr) -> Known:
        """Returns what is known where a condition holds; what is less than a minimum is less than both of its parts."""
        for part in conjuncts(condition):
            here = here.assume(part) or here
            form = bound_of(part)
            for plain in self._plain(form) if form is not None else ():
                here = here.assume(Op("le", (to_expr(plain), number(0)), boolean)) or here
        return here

    def _plain(self, bound: Affine) -> Iterator[Affine]:
        """Bounds without named minima that hold where this one does."""
        for name, coefficient in bound.coefficients.items():
            if coefficient < 0 and name in self.smaller:
                rest = bound.plus(Affine(((Var(name), 1),), 0), -coefficient)
                for part in self.smaller[name]:
                    yield from self._plain(rest.plus(part, coefficient))
                return
        yield bound

    def _in_two(self, loop: For) -> Statement:
        """An innermost loop that only stores, and the same without conditions that bound its indices from above."""
        inside = list(statements(loop.body))
        if loop.kind is not LoopKind.SERIAL or any(isinstance(s, Update) for s in inside):
            return loop
        loops = [loop, *(s for s in inside if isinstance(s, For))]
        if known(loop.extent) == 1 or any(s.kind is LoopKind.SERIAL and known(s.extent) != 1 for s in loops[1:]):
            return loop
        spans: Bounds = {s.var: (0, size - 1) for s in loops if (size := known(s.extent)) is not None}
        hidden = {s.var for s in (loop, *inside) if isinstance(s, (For, Let))} - spans.keys()
        copies = {s.var for s in loops if s.kind is LoopKind.UNROLL}
        whole: dict[Expr, Expr] = {}
        for condition in dict.fromkeys(c for s in inside for c in _conditions(s)):
            if variables(condition) <= copies:
                continue  # known in each copy
            form = bound_of(condition)
            if form is None or any(c < 0 for c in form.coefficients.values()):
                return loop
            if form.coefficients.keys() - spans.keys() and not form.coefficients.keys() & hidden:
                whole[condition] = _throughout(form, spans)
        lanes = {s.var for s in loops if s.kind is LoopKind.VECTOR}
        if not any(variables(condition) & lanes for condition in whole):
            return loop  # branches that a processor foresees: they are not worth the code
        test: Expr | None = None
        for one in dict.fromkeys(whole.values()):
            test = both(test, one)
        assert test is not None
        return If(test, without(loop, frozenset(whole)), loop)


def _throughout(bound: Affine, spans: Bounds) -> Expr:
    """A condition: a bound holds for all values of the variables in `spans`."""
    inner = Affine(tuple((atom, c) for atom, c in bound.terms if isinstance(atom, Var) and atom.name in spans), 0)
    outer = bound.minus(inner).plus(Affine((), interval_of_form(inner, spans)[1]))
    limit = -outer.constant
    return Op("le", (to_expr(Affine(outer.terms, 0)), number(limit)), boolean)
