"""Copies of a store with long functions in them, written so that the functions of several copies run side by side.

They are one call on vectors as wide as all of them; LLVM cuts every instruction of it into one for each register, and so the
chains of instructions alternate (schedules/plan/long_functions.py). On an EPYC of Zen 3 gelu takes 3.9 ns a vector so, and
6.1 one copy after the other.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from ...common.cached import cached_property
from ...common.errors import InternalError
from ...schedules.plan.long_functions import ABREAST, LongFunction, long_functions
from ...tensor.expr import Const, reads
from ..ir.facts import fits_lanes
from ..ir.loop_ir import For, LoopKind, Store
from .branches import Branches
from .effects import Predicate
from .index import Index
from .types import Value


@dataclass(frozen=True, slots=True)
class StoreCopies:
    """A store in a vector loop in loops that are written out, of so many trips each. `functions`: the long ones of its value,
    inner ones first."""

    unrolled: tuple[For, ...]
    trips: tuple[int, ...]
    vector: For
    lanes: int
    functions: tuple[LongFunction, ...]


def copies_of(node: For) -> StoreCopies | None:
    """The copies of a loop that is written out, where all that it does is one store with long functions."""
    unrolled: list[For] = []
    inner = node
    while inner.kind is LoopKind.UNROLL and inner.valid is None and isinstance(inner.body, For):
        unrolled.append(inner)
        inner = inner.body
    store = inner.body
    if not unrolled or inner.kind is not LoopKind.VECTOR or inner.valid is not None or not isinstance(store, Store):
        return None
    extents = [loop.extent.value for loop in (*unrolled, inner) if isinstance(loop.extent, Const)]
    if len(extents) <= len(unrolled) or extents[-1] < 2 or not fits_lanes(inner):
        return None
    if any(read.tensor == store.buffer for read in reads(store.value)):
        return None  # a copy may read what the one before has written
    functions = long_functions(store.value)
    *trips, lanes = map(int, extents)
    return StoreCopies(tuple(unrolled), tuple(trips), inner, lanes, functions) if functions else None


def groups(trips: Sequence[int]) -> Iterator[list[tuple[int, ...]]]:
    """The numbers of all copies of nested loops, in order, as many at a time as run abreast."""
    copies = list(product(*map(range, trips)))
    while copies:
        count = next(size for size in (ABREAST, ABREAST // 2, 1) if size <= len(copies))
        yield copies[:count]
        copies = copies[count:]


class SideBySide(Branches, ABC):
    """Writes copies of stores into one function."""

    @cached_property
    def _known(self) -> dict[int, StoreCopies | None]:
        return {}

    def copies(self, node: For) -> StoreCopies | None:
        """`copies_of`, looked for once."""
        if id(node) not in self._known:
            self._known[id(node)] = copies_of(node)
        return self._known[id(node)]

    def abreast(self, copies: StoreCopies) -> None:
        """Writes all copies, a few at a time: first what their long functions give, then the stores that use it."""
        for group in groups(copies.trips):
            if len(group) > 1:
                for function in copies.functions:
                    given = [self._arguments(copies, numbers, function) for numbers in group]
                    self.arithmetic.apply_abreast(function.name, given)
            for numbers in group:
                self._in_copy(copies.unrolled, numbers, lambda: self.emit(copies.vector))
            self.arithmetic.abreast.clear()

    def _arguments(self, copies: StoreCopies, numbers: Sequence[int], function: LongFunction) -> tuple[Value, ...]:
        """The arguments of a function in one copy."""
        found: list[Value] = []

        def evaluate() -> None:
            found.extend(self.at.value(arg) for arg in function.args)

        self._in_copy(copies.unrolled, numbers, lambda: self.in_lanes(copies.vector, copies.lanes, evaluate))
        return tuple(found)

    def _in_copy(self, loops: Sequence[For], numbers: Sequence[int], body: Callable[[], None]) -> None:
        """Runs `body` with the variables of the loops bound to these numbers."""
        if not loops:
            body()
            return
        outer, *inner = loops
        self.bind(outer.var, Index(numbers[0]), None, lambda: self._in_copy(inner, numbers[1:], body))

    def in_lanes(self, node: For, lanes: int, body: Callable[[], None]) -> None:
        """Runs `body` with the variable of a vector loop bound to its lanes."""
        if lanes & (lanes - 1):
            raise InternalError(f"the vector loop {node.var!r} has {lanes} trips", expected="a power of two")
        self.indices.lanes = lanes
        mask, predicates = self.at.mask, self.predicates
        lane = Index(0, (), 1)
        if node.valid is not None:
            real = self.indices.compare("lt", lane, self.at.index(node.valid))
            if real.text != "true":
                self.at.mask = real
                self.require(real, node)
        self.bind(node.var, lane, None, body)
        self.at.mask, self.predicates = mask, predicates
        self.indices.lanes = 0

    def require(self, condition: Value, node: For) -> None:
        """Lets what is written from here on have an effect only where a condition on the variable of a loop holds."""
        assert node.valid is not None
        names = self.roots(node.valid) | {node.var}
        self.predicates = (*self.predicates, Predicate(condition, names))
