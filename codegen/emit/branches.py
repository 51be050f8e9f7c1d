"""Branches: conditions that are known, those on which lanes differ, and those that the code asks for."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..ir.loop_ir import If, Statement
from .effects import Effects, Predicate
from .memory import NONTEMPORAL
from .registers import Key
from .steps import APART
from .types import Value


class Branches(Effects, ABC):
    """Writes branches into one function."""

    @abstractmethod
    def emit(self, statement: Statement) -> None:
        """Writes any statement; what stands in a branch is one."""

    def branch(self, node: If) -> None:
        """Writes an If: the one branch that is known to be taken, masked statements, or a jump."""
        with self.at.apart():
            self._choose(node)

    def _choose(self, node: If) -> None:
        condition = self.at.value(node.condition)
        if condition.is_literal:
            chosen = node.then if condition.text == "true" else node.otherwise
            if chosen is not None:
                self.emit(chosen)
        elif condition.lanes:
            self._masked(condition, node.then)
            if node.otherwise is not None:
                self._masked(self.arithmetic.negation(condition), node.otherwise)
        else:
            self._branch(condition, node)

    def _masked(self, condition: Value, body: Statement) -> None:
        """A branch on which lanes differ: its effects and reads are masked."""
        predicates = self.predicates
        self.predicates = (*predicates, Predicate(condition, None))
        with self.at.guarded(condition):
            self.emit(body)
        self.predicates = predicates

    def _branch(self, condition: Value, node: If) -> None:
        text, registers = self.text, self.at.registers.values
        yes, no, after, entry = text.name("b"), text.name("b"), text.name("b"), text.block
        written = sorted(self.facts(node).writes & registers.keys())
        before = {name: dict(registers[name]) for name in written}
        target = after if node.otherwise is None else no
        text.open(
            f"br i1 {condition.text}, label %{yes}, label %{target}",
            yes,
            writes=self.facts(node.then).writes,
            branch=True,
        )
        self.emit(node.then)
        self._keep_streaming()
        arms = [(text.block, {name: dict(registers[name]) for name in written})]
        text.close(f"br label %{after}")
        for name in written:
            registers[name] = dict(before[name])
        if node.otherwise is None:
            arms.append((entry, before))
        else:
            text.open("", no, writes=self.facts(node.otherwise).writes, branch=True)
            self.emit(node.otherwise)
            self._keep_streaming()
            arms.append((text.block, {name: dict(registers[name]) for name in written}))
            text.close(f"br label %{after}")
        text.start_block(after)
        for name in written:
            self._join(name, arms)

    def _keep_streaming(self) -> None:
        """Ends an arm whose last store is a streaming one. Of two stores that end both arms LLVM makes one, which goes to the
        caches: a line that is written both ways is fetched in between (four times the time of a pyramid's first step)."""
        lines = self.text.scopes[-1].lines
        if lines and NONTEMPORAL in lines[-1]:
            self.text.line(APART)

    def _join(self, name: str, arms: list[tuple[str, dict[str, dict[Key, Value]]]]) -> None:
        """Register values after a branch; what one arm alone defines is undefined after the other."""
        (left_block, left), (right_block, right) = arms
        held = self.at.registers.values[name] = {}
        for key in {**left[name], **right[name]}:
            a, b = left[name].get(key), right[name].get(key)
            like = a or b
            assert like is not None
            if a == b:
                held[key] = like
                continue
            edges = [(a.text if a else "poison", left_block), (b.text if b else "poison", right_block)]
            held[key] = self.text.merge(like, edges)
