"""What a rule is, and how an ordered list of rules schedules a program. The lists themselves are cpu/table.py and gpu/table.py.

A program is scheduled in two passes. First each rule that prepares does so, in the order of `Rules.preparing`: it rewrites the
program, or decides something that later rules go by. Then each stage that no root has taken in yet, from the outputs back,
becomes a root: the first rule of `Rules.roots` that matches it schedules it, together with the stages that it takes in.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from typing import TypeVar

from ...common.errors import InternalError
from ...targets.matrix_instructions import MatrixInstruction
from ...tensor.program import Program, Stage
from ..schedule import Schedule

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decided:
    """Holds what was decided before a root is matched. Rules see it and never change it: one that decides returns another
    one."""

    instructions: tuple[MatrixInstruction, ...] = ()  # those of the target that multiply matrices
    fast: bool = True  # whether convolutions may be done with fewer products
    few: bool = False  # whether several stages multiply, so that only the usual structures of each are tried
    kept: frozenset[str] = frozenset()  # stages that are not written where they are read
    nests: frozenset[str] = frozenset()  # those of them that no row of another stage takes in either
    alone: frozenset[str] = frozenset()  # stages that become roots of their own rule: no other root takes them in
    taken: frozenset[str] = frozenset()  # stages that are scheduled, and those that stand in `alone`
    facts: tuple[object, ...] = ()  # what one rule alone knows: an object of a class of its own

    def fact(self, kind: type[T]) -> T | None:
        """Returns what a rule has noted down in an object of this class; None if it has not."""
        return next((fact for fact in self.facts if isinstance(fact, kind)), None)

    def noting(self, fact: object) -> Decided:
        """Returns the same with one more fact."""
        return replace(self, facts=(*self.facts, fact))

    def keeping(self, stages: frozenset[str]) -> Decided:
        """Returns the same with more stages that are not written where they are read."""
        return replace(self, kept=self.kept | stages)

    def with_nests(self, stages: frozenset[str]) -> Decided:
        """Returns the same with more stages that stay nests of their own."""
        return replace(self, kept=self.kept | stages, nests=self.nests | stages)


Preparation = Callable[[Schedule, Decided], Decided]
Matches = Callable[[Program, Stage, Decided], str | None]
Apply = Callable[[Schedule, str, str, Decided], set[str]]


def _prepares_nothing(s: Schedule, decided: Decided) -> Decided:
    return decided


def _matches_nothing(program: Program, stage: Stage, decided: Decided) -> str | None:
    return None


def _applies_nothing(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    raise InternalError(f"a rule that matches no stage was applied to {root!r}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One idea of how to schedule something. No rule reads the name or the origin of an operator.

    `prepare` rewrites the program, draws variants, and returns what is decided then. It runs before the first root.
    `matches` tells whether the rule schedules a stage as a root: it returns the stage that the rule is about, which is the root
    itself or a producer that the root finishes (its anchor), or None.
    `apply` schedules a root, given its name and that of its anchor, and returns the names of all stages that it has taken.
    """

    name: str
    prepare: Preparation = _prepares_nothing
    matches: Matches = _matches_nothing
    apply: Apply = _applies_nothing


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a kind of target. One order for both passes would not do: what is rewritten last is matched first."""

    preparing: tuple[Rule, ...]
    roots: tuple[Rule, ...]

    def run(self, s: Schedule, decided: Decided) -> tuple[tuple[str, str], ...]:
        """Schedules the whole program; returns (root, name of its rule) in the order in which roots were found."""
        for rule in self.preparing:
            decided = rule.prepare(s, decided)
        taken, found = set(decided.taken), []
        for stage in reversed(s.program.stages):
            if stage.name in taken:
                continue
            now = replace(decided, taken=decided.alone | taken)
            rule, anchor = self.first(s.program, stage, now)
            taken |= rule.apply(s, stage.name, anchor, now)
            found.append((stage.name, rule.name))
        return tuple(found)

    def first(self, program: Program, stage: Stage, decided: Decided) -> tuple[Rule, str]:
        """Returns the first rule that schedules a stage as a root, and the stage that it is about."""
        for rule in self.roots:
            anchor = rule.matches(program, stage, decided)
            if anchor is not None:
                return rule, anchor
        raise InternalError(f"no rule schedules the stage {stage.name!r}; the last one of a list has to take any stage")


def rewriting(rewrite: Callable[[Schedule], None]) -> Preparation:
    """Makes a preparation that only rewrites the program."""

    def prepare(s: Schedule, decided: Decided) -> Decided:
        rewrite(s)
        return decided

    return prepare


def keeping(kept: Callable[[Program], frozenset[str]]) -> Preparation:
    """Makes a preparation that keeps stages from being written where they are read."""

    def prepare(s: Schedule, decided: Decided) -> Decided:
        return decided.keeping(kept(s.program))

    return prepare


def nests_of_their_own(nests: Callable[[Program], frozenset[str]]) -> Preparation:
    """Makes a preparation that keeps stages as nests of their own."""

    def prepare(s: Schedule, decided: Decided) -> Decided:
        return decided.with_nests(nests(s.program))

    return prepare


def finishing(
    finishes: Callable[[Program, Stage, Set[str]], Stage | None], parts_of: Callable[[Program, Stage], object | None]
) -> Matches:
    """Makes a match of a stage that finishes a producer, which the rule is then about, or else of one that has parts itself."""

    def matches(program: Program, stage: Stage, decided: Decided) -> str | None:
        anchor = finishes(program, stage, decided.taken)
        if anchor is not None:
            return anchor.name
        return stage.name if parts_of(program, stage) is not None else None

    return matches


def scheduling(
    parts_of: Callable[[Program, Stage], T | None], scheduled: Callable[[Schedule, str, str, T], set[str]]
) -> Apply:
    """Makes a step that schedules a root and its anchor, given the parts of the anchor."""

    def apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
        parts = parts_of(s.program, s.program.stage(anchor))
        assert parts is not None
        return scheduled(s, root, anchor, parts)

    return apply
