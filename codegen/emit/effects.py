"""Statements with an effect: stores, updates, and when they count.

A store in a copy of a loop body that is no real trip has no effect. In memory that is a mask; in registers nothing is done
about it where no real trip can meet what it leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...targets.target import Target
from ...tensor.dots import dot_of
from ...tensor.dtype import DType
from ...tensor.expr import Const, Expr, Op, variables, walk
from ..ir.facts import Facts, FactsKept
from ..ir.loop_ir import Buffer, Scope, Statement, Store, Update
from .expressions import Binding, Expressions
from .index import Index
from .matrix.dots import add_dot
from .memory import BufferPointer
from .module_text import ModuleText
from .registers import held_type
from .text import FunctionText
from .types import Value, identity


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition for what is being written to have an effect. `variables`: what it depends on; None: on anything."""

    condition: Value
    variables: frozenset[str] | None


class Effects:
    """Writes stores and updates into one function."""

    def __init__(self, text: FunctionText, module: ModuleText, target: Target, scratch: str) -> None:
        self.text = text
        self.at = Expressions(text, module, target)
        self.arithmetic = self.at.arithmetic
        self.indices = self.at.indices
        self.scratch = scratch  # pointer to this thread's part of the workspace
        self.scratch_used = 0
        self.scratch_offsets: dict[str, int] = {}
        self.predicates: tuple[Predicate, ...] = ()
        self.inside: dict[str, int] = {}  # variable -> how many were bound before it
        self.births: dict[str, int] = {}  # REGISTER buffer -> how many variables were bound around it
        self.derived: dict[str, frozenset[str]] = {}  # variable of a Let -> loop variables in its value
        self.streaming = False  # whether streaming stores are taken at their word
        self.known = FactsKept()
        self._fitting: dict[int, bool] = {}
        self._innermosts: dict[int, bool] = {}
        self._roots: dict[int, frozenset[str]] = {}

    def facts(self, statement: Statement) -> Facts:
        """The facts of a statement, collected once."""
        return self.known.of(statement)

    def roots(self, expr: Expr) -> frozenset[str]:
        """The loop variables that an expression depends on."""
        known = self._roots.get(id(expr))
        if known is None:
            sets = [self.derived.get(name, frozenset((name,))) for name in variables(expr)]
            known = self._roots[id(expr)] = frozenset[str]().union(*sets)
        return known

    def _condition(self, lanes: bool) -> Value | None:
        """Says when what is written has an effect; without `lanes`, of the scalar conditions only."""
        total: Value | None = None
        for predicate in self.predicates:
            if lanes or not predicate.condition.lanes:
                total = self.arithmetic.both(total, predicate.condition)
        return total

    def bind(self, var: str, exact: Index, real: Index | None, body: Callable[[], None]) -> None:
        """Runs `body` with the variable bound."""
        before, depth = self.at.bindings.get(var), self.inside.get(var)
        self.at.bindings[var] = Binding(exact, exact if real is None else real)
        self.inside[var] = len(self.at.bindings)
        body()
        if before is None or depth is None:
            del self.at.bindings[var], self.inside[var]
        else:
            self.at.bindings[var], self.inside[var] = before, depth

    def store(self, node: Store) -> None:
        """Writes a store."""
        place = self.at.place(node.buffer)
        value = self.at.value(node.value)
        if place.buffer.scope is Scope.REGISTER:
            self._set_register(place.buffer, node.indices, value)
            return
        index = self.at.locate_exact(node.indices, place.buffer)
        condition = self._condition(True)
        if index.is_scalar and self.indices.lanes:
            self._store_last(place, index, value, condition)
            return
        self.at.memory.store(place, index, value, condition, node.streaming and self.streaming)

    def _store_last(self, place: BufferPointer, index: Index, value: Value, condition: Value | None) -> None:
        """All lanes store to one element: the last real one counts."""
        lanes = self.indices.lanes
        if condition is not None and condition.lanes:
            picked, some = self.arithmetic.last_lane(value, condition)
            self.at.memory.store(place, index, picked, some)
        else:
            self.at.memory.store(place, index, self.arithmetic.lane(value, lanes - 1), condition)

    def update(self, node: Update) -> None:
        """Writes an update; one whose target is the same for all lanes combines the lanes first."""
        place = self.at.place(node.buffer)
        if place.buffer.scope is Scope.REGISTER:
            self._update_register(node, place.buffer)
            return
        index = self.at.locate_exact(node.indices, place.buffer)
        condition = self._condition(True)
        if self.indices.lanes and index.is_scalar:
            new = self._reduced(node, place.buffer.dtype, condition if condition and condition.lanes else None)
            condition = self._condition(False)
            old = self.at.memory.load(place, index, condition, None)
            self.at.memory.store(place, index, self.arithmetic.combine(node.combiner, old, new), condition)
        elif index.vector:
            self._update_one_by_one(node, place, index, condition)
        else:
            old = self.at.memory.load(place, index, condition, None)
            self.at.memory.store(place, index, self._accumulated(node, old), condition)

    def _update_register(self, node: Update, buffer: Buffer) -> None:
        key = self.at.register_key(buffer, node.indices)
        old = self.at.registers.get(buffer, key)
        if self.indices.lanes and not key[2]:
            mask = self._register_condition(buffer, node.indices, lanes=True)
            new = self.arithmetic.combine(node.combiner, old, self._reduced(node, old.dtype, mask))
            self._set_register(buffer, node.indices, new, lanes=False)
        else:
            self._set_register(buffer, node.indices, self._accumulated(node, old))

    def _accumulated(self, node: Update, old: Value) -> Value:
        """combiner(old, value); a sum of products is fused."""
        value = node.value
        if node.combiner == "sum" and (added := self._with_dot(value, old)) is not None:
            return added
        if node.combiner == "sum" and isinstance(value, Op) and value.name == "mul" and value.dtype.is_float:
            if self.at.is_no_term(value):
                return old
            left, right = (self.at.value(arg) for arg in value.args)
            return self.arithmetic.multiply_add(left, right, old)
        return self.arithmetic.combine(node.combiner, old, self.arithmetic.cast(self.at.value(value), old.dtype))

    def _with_dot(self, value: Expr, old: Value) -> Value | None:
        """old + a dot, or a choice of dots or nothing; None for any other value."""
        match value:
            case Const(value=0):
                return old
            case Op(name="select", args=(condition, yes, no)) if any(dot_of(node) for node in walk(value)):
                chosen = self.at.value(condition)
                if chosen.is_literal:
                    return self._with_dot(yes if chosen.text == "true" else no, old)
                with self.at.guarded(chosen):
                    one = self._with_dot(yes, old)
                with self.at.guarded(self.arithmetic.negation(chosen)):
                    other = self._with_dot(no, old)
                return None if one is None or other is None else self.arithmetic.select(chosen, one, other)
            case Op() if (dot := dot_of(value)) is not None:
                return add_dot(self.arithmetic, dot, old, *(self.at.value(arg) for arg in value.args))
        return None

    def _reduced(self, node: Update, dtype: DType, mask: Value | None) -> Value:
        """The value of an update whose target is the same for all lanes, combined over them."""
        value = self.arithmetic.cast(self.at.value(node.value), dtype)
        value = self.arithmetic.spread(value, self.indices.lanes)
        if mask is not None:
            value = self.arithmetic.select(mask, value, Value(identity(node.combiner, dtype), dtype))
        return self.arithmetic.reduce(node.combiner, value)

    def _update_one_by_one(self, node: Update, place: BufferPointer, index: Index, condition: Value | None) -> None:
        """Lanes may meet in one element, so they take turns."""
        lanes = self.indices.lanes
        value = self.at.value(node.value)
        where = self.indices.value(index)
        self.indices.lanes = 0
        for lane in range(lanes):
            element = self.indices.from_value(self.arithmetic.lane(where, lane))
            real = None if condition is None else self.arithmetic.lane(condition, lane)
            old = self.at.memory.load(place, element, real, None)
            new = self.arithmetic.combine(node.combiner, old, self.arithmetic.lane(value, lane))
            self.at.memory.store(place, element, new, real)
        self.indices.lanes = lanes

    def _set_register(self, buffer: Buffer, indices: tuple[Expr, ...], value: Value, lanes: bool = True) -> None:
        key = self.at.register_key(buffer, indices)
        value = self.arithmetic.cast(value, held_type(buffer))
        condition = self._register_condition(buffer, indices, lanes=lanes)
        if self.indices.lanes and not key[2] and value.lanes:
            mask = condition if condition is not None and condition.lanes else None
            if mask is not None:
                value = self.arithmetic.last_lane(value, mask)[0]
            value = self.arithmetic.lane(value, self.indices.lanes - 1)
            condition = self._register_condition(buffer, indices, lanes=False)
        old = self.at.registers.find(buffer, key) if condition is not None else None
        value = self.arithmetic.spread(value, key[2])
        if condition is not None and old is not None:
            value = self.arithmetic.select(condition, value, old)
        self.at.registers.set(buffer, key, value)

    def _register_condition(self, buffer: Buffer, indices: tuple[Expr, ...], lanes: bool) -> Value | None:
        """Says which trips may change a register: where all trips of an element are real or none is, it does not matter."""
        if not self.predicates:
            return None
        born = self.births[buffer.name]
        target = frozenset[str]().union(*map(self.roots, indices))
        total: Value | None = None
        for predicate in self.predicates:
            if predicate.condition.lanes and not lanes:
                continue
            names = predicate.variables
            if names is None or any(self.inside.get(name, 0) > born and name not in target for name in names):
                total = self.arithmetic.both(total, predicate.condition)
        return total
