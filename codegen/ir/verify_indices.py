"""Whether indices lie inside of their buffers, looked at along some executions that are sure to happen.

An interval of an index says where it may come, not where it does: conditions keep most indices from the ends of their
intervals. So the nest is executed, in the corners of its iteration space alone: in each execution every loop runs one trip, its
first or its last one, by another pattern in each. What such an execution finds outside of a buffer is proven to be outside;
values that depend on memory are not known, and nothing is said of what depends on them. All executions run at once, as arrays.

Of copies that are not real (`valid`) only REGISTER buffers and reads of `padded` ones are indexed as in all the others; so
these are looked at with the trips of the whole extent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from ...schedules.loops import WRITTEN_OUT
from ...tensor.expr import Const, Expr, Op, Read, Var, children
from .facts import expressions
from .loop_ir import (
    BLOCK_INDEX,
    THREAD_INDEX,
    Allocate,
    Block,
    Buffer,
    For,
    If,
    Let,
    LoopProgram,
    MatrixMove,
    MatrixMultiply,
    Nest,
    Prefetch,
    Scope,
    Statement,
    Store,
    Update,
)
from .verify_report import VerifierReport

BITS = 5
CORNERS = 1 << BITS
PointValues = Union[NDArray[np.int64], None]  # of each execution; None: not known
Active = NDArray[np.bool_]
_CORNER = np.arange(CORNERS)
_LAST = [(_CORNER >> bit & 1).astype(np.int64) for bit in range(BITS)]  # whether a loop at a depth runs its last trip

_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "min": np.minimum, "max": np.maximum,
    "abs": np.abs, "floordiv": np.floor_divide, "mod": np.mod,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
}  # fmt: skip


class Corners:
    """Executes one nest in its corners."""

    def __init__(self, program: LoopProgram, nest: Nest, report: VerifierReport) -> None:
        self.report = report
        self.nest = nest
        self.buffers = {buffer.name: buffer for buffer in (*program.arguments, *program.globals)}
        self.real: dict[str, PointValues] = {}
        self.full: dict[str, PointValues] = {}  # with all trips of what is written out, real or not
        self.depth = 0
        self.reads: dict[int, tuple[Read | Op, ...]] = {}

    def run(self) -> None:
        """Executes the nest."""
        self.report.path.append(self.nest)
        for variable, count in ((BLOCK_INDEX, self.nest.blocks), (THREAD_INDEX, self.nest.threads)):
            trip = self._trip(np.full(CORNERS, count))
            self._bind(variable.name, trip, trip)
        self.statement(self.nest.body, np.full(CORNERS, True))
        self.report.path.pop()

    def statement(self, node: Statement, active: Active) -> None:
        """Executes a statement in the executions that come to it."""
        if not active.any():
            return
        self.report.path.append(node)
        match node:
            case Block(body=body):
                for child in body:
                    self.statement(child, active)
            case For():
                self._for(node, active)
            case Let(var=var, value=value, body=body):
                self._values(value, active)
                self._bind(var, self._value(value, self.real), self._value(value, self.full))
                self.statement(body, active)
            case If(condition=condition, then=then, otherwise=otherwise):
                self._values(condition, active)
                holds = self._value(condition, self.real)
                if holds is not None:
                    self.statement(then, active & holds.astype(bool))
                    if otherwise is not None:
                        self.statement(otherwise, active & ~holds.astype(bool))
            case Allocate(buffer=buffer, body=body):
                self.buffers[buffer.name] = buffer
                self.statement(body, active)
            case Store(buffer=name, indices=indices, value=value) | Update(buffer=name, indices=indices, value=value):
                self._access(name, indices, active, stored=True)
                for expr in (*indices, value):
                    self._values(expr, active)
            case MatrixMove() | MatrixMultiply():
                self._tiles(node, active)
            case Prefetch():
                pass  # of any address
        self.report.path.pop()

    # Loops

    def _for(self, node: For, active: Active) -> None:
        size = node.extent.value if isinstance(node.extent, Const) else 0
        if type(size) is int and size > 0 and node.valid is None and node.index is None:  # as of most loops
            real = full = _known_trip(size, self.depth % BITS)
        else:
            found = self._trips(node, active)
            if found is None:
                return
            real, full, active = found
        self._bind(node.var, real, full)
        self.depth += 1
        self.statement(node.body, active)
        self.depth -= 1

    def _trips(self, node: For, active: Active) -> tuple[NDArray[np.int64], NDArray[np.int64], Active] | None:
        """The trip of a loop in each execution, real or of all that are written out, and which executions run it."""
        extent = self._value(node.extent, self.real)
        valid = None if node.valid is None else self._value(node.valid, self.real)
        for expr in expressions(node):
            self._values(expr, active)
        if extent is None or (node.valid is not None and valid is None):
            return None
        if (extent[active] < 0).any():
            self.report.add(f"the loop {node.var!r} runs {extent[active].min()} trips")
        active = active & (extent > 0) & (True if valid is None else valid > 0)
        if node.index is None:
            real = self._trip(extent if valid is None else np.minimum(extent, np.maximum(valid, 1)))
            return real, self._trip(extent) if node.kind in WRITTEN_OUT else real, active
        trip = self._value(node.index, self.real)
        if trip is None:
            return None
        if (outside := active & ((trip < 0) | (trip >= extent))).any():
            self.report.add(f"the trip of the loop {node.var!r} is {trip[outside][0]} of {extent[outside][0]}")
        return trip, trip, active & (trip < (extent if valid is None else valid))

    def _trip(self, extent: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first trip or the last one."""
        return np.maximum(extent - 1, 0) * _LAST[self.depth % BITS]

    def _bind(self, var: str, real: PointValues, full: PointValues) -> None:
        self.real[var], self.full[var] = real, full

    # Accesses

    def _values(self, expr: Expr, active: Active) -> None:
        """Looks at the reads in an expression, and there at those whose value is asked for."""
        if isinstance(expr, (Var, Const)):  # as most indices and extents are
            return
        for node in self._parts(expr):
            if isinstance(node, Read):
                self._access(node.tensor, node.indices, active)
                for index in node.indices:
                    self._values(index, active)
            else:
                condition, yes, no = node.args
                self._values(condition, active)
                holds = self._value(condition, self.real)
                if holds is not None:
                    self._values(yes, active & holds.astype(bool))
                    self._values(no, active & ~holds.astype(bool))

    def _parts(self, expr: Expr) -> tuple[Read | Op, ...]:
        """The outermost reads and selects of an expression."""
        found = self.reads.get(id(expr))
        if found is None:
            parts: list[Read | Op] = []
            waiting = [expr]
            while waiting:
                node = waiting.pop()
                if isinstance(node, Read) or (isinstance(node, Op) and node.name == "select"):
                    parts.append(node)
                else:
                    waiting += children(node)
            found = self.reads[id(expr)] = tuple(parts)
        return found

    def _access(self, name: str, indices: tuple[Expr, ...], active: Active, stored: bool = False) -> None:
        buffer = self.buffers.get(name)
        if buffer is None or len(indices) != len(buffer.shape):
            return  # which is told elsewhere
        as_all = buffer.scope is Scope.REGISTER or (buffer.padded and not stored)
        names = self.full if as_all else self.real
        for dimension, (index, size) in enumerate(zip(indices, buffer.shape, strict=True)):
            place = self._value(index, names)
            if place is None:
                continue
            outside = place.astype(np.uint64) >= size  # so are numbers below zero then
            if outside.any() and (outside := outside & active).any():
                self.report.add(f"index {dimension} of {name!r} is {place[outside][0]}, of {size} elements")

    def _tiles(self, node: MatrixMove | MatrixMultiply, active: Active) -> None:
        """Whole tiles in memory."""
        if isinstance(node, MatrixMove):
            tiles = [(node.memory, node.pitch)]
        else:
            sides = zip((node.rows, node.columns), node.pitches, strict=True)
            tiles = [(read, pitch) for side, pitch in sides for reads in side for read in reads]
        for read, pitch in tiles:
            self._values(read, active)
            buffer = self.buffers.get(read.tensor)
            if buffer is not None and len(read.indices) == len(buffer.shape):
                self._tile(buffer, read, pitch, active)

    def _tile(self, buffer: Buffer, read: Read, pitch: int, active: Active) -> None:
        last: Any = 15 * pitch + 15
        for index, stride in zip(read.indices, buffer.strides, strict=True):
            place = self._value(index, self.real)
            if place is None:
                return
            last = last + place * stride
        if (outside := active & (last >= buffer.elements)).any():
            self.report.add(f"a tile ends at element {last[outside][0]} of {buffer.elements} of {buffer.name!r}")

    # Values

    def _value(self, expr: Expr, names: dict[str, PointValues]) -> PointValues:
        """The value of an index or of a condition on indices in each execution."""
        if isinstance(expr, Var):
            return names.get(expr.name)
        if isinstance(expr, Const):
            return None if isinstance(expr.value, float) else _everywhere(int(expr.value))
        if not isinstance(expr, Op):
            return None
        known = [self._value(arg, names) for arg in expr.args]
        args = [arg for arg in known if arg is not None]
        if len(args) < len(known):
            return None
        if expr.name in ("floordiv", "mod") and (args[1] == 0).any():
            return None
        if expr.name == "select":
            chosen: NDArray[np.int64] = np.where(args[0].astype(bool), args[1], args[2])
            return chosen
        operator = _OPERATORS.get(expr.name)
        result: PointValues = None if operator is None else operator(*args)
        return result


@lru_cache(maxsize=1 << 10)
def _everywhere(value: int) -> NDArray[np.int64]:
    """A number in each execution: nobody writes to it."""
    found = np.full(CORNERS, value)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=1 << 10)
def _known_trip(extent: int, bit: int) -> NDArray[np.int64]:
    """The first trip or the last one of a loop that runs, where its number of trips is known: nobody writes to it."""
    found: NDArray[np.int64] = (extent - 1) * _LAST[bit]
    found.flags.writeable = False
    return found
