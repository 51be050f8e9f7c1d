"""Statements of loop IR as code: an abstract interpretation that keeps what is known now (unrolled variables, register values,
loaded elements) in tables and writes only what is left for run time."""

from __future__ import annotations

from ...common.cached import cached_property
from ...common.errors import InternalError
from ...schedules.loops import WRITTEN_OUT
from ...tensor.dtype import i32, i64
from ..debug_info.metadata import FunctionDebug
from ..ir.facts import fits_lanes
from ..ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    For,
    If,
    Let,
    LoopKind,
    MatrixClear,
    MatrixMove,
    MatrixMultiply,
    Prefetch,
    Scope,
    Statement,
    Store,
    Update,
    statements,
)
from ..ir.memory_plan import place_scratch
from .index import Index
from .matrix.amx import MatrixText
from .memory import BufferPointer
from .registers import Key
from .side_by_side import SideBySide
from .steps import fill_registers, keep_apart, rows_added
from .text import InductionPointers
from .types import Value, memory_type

_WRITTEN_AS_LOOPS = (LoopKind.SERIAL, LoopKind.PARALLEL)


class Statements(SideBySide):
    """Writes statements into one function."""

    # whether steps of loops are hidden from LLVM's strength reduction, which takes time and makes none faster
    hides_steps = True
    count_groups = False  # whether unrolled loops count groups of copies: then copies know their remainders

    debug: FunctionDebug | None = None  # where the code of this function comes from, if somebody wants to see that

    def emit(self, statement: Statement) -> None:
        """Writes a statement. Raises InternalError for one that has no meaning on a CPU."""
        if self.debug is None:
            self.write(statement)
            return
        before = self.text.place
        self.text.place = self.debug.behind(statement) or before
        self.write(statement)
        self.text.place = before

    def write(self, statement: Statement) -> None:
        """Works as `emit`, all instructions of the place that is set."""
        match statement:
            case Block(body=body):
                for child in body:
                    self.emit(child)
            case For():
                self._for(statement)
            case Let():
                self._let(statement)
            case If():
                self.branch(statement)
            case Allocate():
                self._allocate(statement)
            case Store():
                self.store(statement)
            case Update():
                self.update(statement)
            case Prefetch(buffer=name, indices=indices, locality=locality):
                place = self.at.place(name)
                self.at.memory.prefetch(place, self.at.locate(indices, place.buffer), locality)
            case MatrixClear() | MatrixMove() | MatrixMultiply():
                self.matrix.emit(statement)
            case _:
                raise InternalError(f"no code for the statement {type(statement).__name__}")

    @cached_property
    def matrix(self) -> MatrixText:
        """The matrix unit's instructions of this function; there from its first one on."""
        return MatrixText(self.at)

    # Names and memory

    def _let(self, node: Let) -> None:
        real = self.at.index(node.value)
        self.at.exact, before = True, self.at.exact
        exact = self.at.index(node.value)
        self.at.exact = before
        self.derived[node.var] = roots = self.roots(node.value)
        written = self.at.written
        self.at.written = {name: trips for name, trips in written.items() if name not in roots}
        self.bind(node.var, exact, real, lambda: self.emit(node.body))
        self.at.written = written

    def _allocate(self, node: Allocate) -> None:
        buffer = node.buffer
        before, used = self.at.places.get(buffer.name), self.scratch_used
        private = self.at.private
        if buffer.scope is Scope.TILE:
            if any(place.buffer.scope is Scope.TILE for place in self.at.places.values()):
                raise InternalError(f"the tiles {buffer.name!r} are made while others hold the matrix unit's registers")
            self.at.places[buffer.name] = BufferPointer(buffer, "")
            self.emit(node.body)
        elif buffer.scope is Scope.REGISTER:
            held = self.at.registers.values.get(buffer.name)
            self.at.registers.values[buffer.name] = {}
            self.births[buffer.name] = len(self.at.bindings)
            self.at.places[buffer.name] = BufferPointer(buffer, "")
            if self.indices.lanes:
                self.at.private = private | {buffer.name}
            self.emit(node.body)
            del self.at.registers.values[buffer.name]
            if held is not None:
                self.at.registers.values[buffer.name] = held
        else:
            self.text.forget(buffer.name)
            self.at.places[buffer.name] = self.placed(buffer)
            self.emit(node.body)
        self.at.private = private
        self.scratch_used = used
        if before is None:
            del self.at.places[buffer.name]
        else:
            self.at.places[buffer.name] = before

    def placed(self, buffer: Buffer) -> BufferPointer:
        """A buffer in memory of this thread."""
        return BufferPointer(buffer, self.base(buffer))

    def base(self, buffer: Buffer) -> str:
        """Allocates a buffer in memory of this thread and returns the pointer to it."""
        if buffer.scope is Scope.STACK:
            return self.text.alloca(f"[{max(1, buffer.elements)} x {memory_type(buffer.dtype)}]", 64)
        if buffer.scope is Scope.SCRATCH:
            start, self.scratch_used = place_scratch(self.scratch_used, buffer)
            self.scratch_offsets[buffer.name] = start
            return self.scratch_pointer(start)
        raise InternalError(f"a {buffer.scope} buffer ({buffer.name!r}) cannot be allocated in CPU code")

    def scratch_pointer(self, offset: int) -> str:
        """An address in this thread's part of the workspace."""
        return self.text.pure(f"getelementptr i8, ptr {self.scratch}, i64 {offset}", self.scratch)

    # Loops

    def _for(self, node: For) -> None:
        extent = self.at.index(node.extent)
        if node.kind is LoopKind.VECTOR and not self.indices.lanes and extent.constant > 1 and self._fits(node):
            self.in_lanes(node, self._constant(extent, node), lambda: self.emit(node.body))
        elif node.kind in WRITTEN_OUT:
            self._unroll(node, extent)
        elif node.kind is LoopKind.SERIAL:
            self.range(node.var, Index(), extent, node.body, node.unroll)
        elif node.kind is LoopKind.PARALLEL:
            self.parallel(node)
        else:
            raise InternalError(f"a {node.kind} loop ({node.var!r}) has no meaning in CPU code")

    def _fits(self, node: For) -> bool:
        fits = self._fitting.get(id(node))
        if fits is None:
            fits = self._fitting[id(node)] = fits_lanes(node)
        return fits

    def parallel(self, node: For) -> None:
        """Trips in order; a function that starts threads does otherwise."""
        self.range(node.var, Index(), self.at.index(node.extent), node.body)

    def _constant(self, extent: Index, node: For) -> int:
        if not extent.is_constant:
            raise InternalError(
                f"the extent of the {node.kind} loop {node.var!r} is not known when the code is written"
            )
        return extent.constant

    def _unroll(self, node: For, extent: Index) -> None:
        copies = None if self.indices.lanes or self.at.target.is_gpu else self.copies(node)
        if copies is not None:
            self.abreast(copies)
            return
        trips = self._constant(extent, node)
        if node.valid is None:
            for trip in range(trips):
                self._apart(trip, node.var, node.body)
                self.bind(node.var, Index(trip), None, lambda: self.emit(node.body))
            return
        valid = self.at.index(node.valid)
        last = valid.shifted(-1)
        predicates = self.predicates
        for trip in range(min(trips, valid.constant) if valid.is_constant else trips):
            if trip and not valid.is_constant:
                self.require(self.indices.compare("lt", Index(trip), valid), node)
            real = self.indices.bound("min", Index(trip), last) if trip else Index()
            self._apart(trip, node.var, node.body)
            self.bind(node.var, Index(trip), real, lambda: self.emit(node.body))
            self.predicates = predicates

    def _apart(self, copy: int, var: str, body: Statement) -> None:
        """Keeps the copies of a body apart that add to the same values, where these fill the registers."""
        if not copy or self.at.target.is_gpu:
            return
        registers = self.at.registers.values
        held = [registers[name] for name in self.facts(body).writes & registers.keys()]
        rows = rows_added(var, body)
        if rows and fill_registers(held, rows, self.at.target):
            keep_apart(self.text, held, self.at.target)

    def range(self, var: str, start: Index, stop: Index, body: Statement, unroll: int = 1) -> None:
        """A loop over start .. stop - 1, with a main loop of `unroll` copies and a remainder."""
        trips = self.indices.minus(stop, start)
        if trips.is_constant and trips.constant <= max(1, unroll):
            before = self.at.written
            self.at.written = {**before, var: trips.constant} if start == Index() else before
            self._copies(var, start, trips.constant, body)
            self.at.written = before
            return
        if unroll <= 1:
            self._loop(var, start, stop, 1, body)
            return
        groups = self.indices.divide("floordiv", trips, unroll)
        middle = self.indices.total(((start, 1), (groups, unroll)))
        if groups.is_constant and groups.constant == 1:
            # LLVM sees that a loop of one trip ends, and moves what the remainder takes of it behind all of its loads
            self._copies(var, start, unroll, body)
        elif self.count_groups:
            self._loop(var, Index(), groups, unroll, body, start)
        else:
            self._loop(var, start, middle, unroll, body)
        rest = self.indices.minus(stop, middle)
        if rest.is_constant and rest.constant <= 1:
            if rest.constant:
                self._apart(1, var, body)
                self.bind(var, middle, None, lambda: self.emit(body))
        else:
            self._loop(var, middle, stop, 1, body)

    def _copies(self, var: str, start: Index, count: int, body: Statement) -> None:
        """Writes so many copies of the body, from `start` on."""
        for trip in range(count):
            self._apart(trip, var, body)
            self.bind(var, start.shifted(trip), None, lambda: self.emit(body))

    def _loop(self, var: str, start: Index, stop: Index, step: int, body: Statement, base: Index | None = None) -> None:
        """`step` copies of the body for start, start + step, ... < stop. Register values run through phis.

        base: the loop counts groups of copies from 0 on; the variable begins there.

        Values that the body defines first have to exist in front of the loop too: when there are such, the loop is written
        once more with undefined ones there.
        """
        written = sorted(self.facts(body).writes & self.at.registers.values.keys())
        mark = self.text.mark()
        before = {name: dict(self.at.registers.values[name]) for name in written}
        while True:
            for name in written:
                self.at.registers.values[name] = dict(before[name])
            self._write_loop(var, start, stop, step, body, before, base)
            fresh = [
                (name, key, value)
                for name in written
                for key, value in self.at.registers.values[name].items()
                if key not in before[name]
            ]
            if not fresh:
                return
            self.text.reset(mark)
            for name, key, value in fresh:
                before[name][key] = Value("poison", value.dtype, value.lanes)

    def _write_loop(
        self,
        var: str,
        start: Index,
        stop: Index,
        step: int,
        body: Statement,
        before: dict[str, dict[Key, Value]],
        base: Index | None,
    ) -> None:
        text, registers = self.text, self.at.registers.values
        first, limit = self.indices.scalar(start), self.indices.scalar(stop)
        trips = self.indices.minus(stop, start)
        surely = trips.is_constant and trips.constant > 0
        head, after, entry = text.name("b"), text.name("b"), text.block
        if surely:
            terminator = f"br label %{head}"
        else:
            some = self.indices.compare("lt", start, stop)
            terminator = f"br i1 {some.text}, label %{head}, label %{after}"
        top = text.open(terminator, head, writes=self.facts(body).writes, certain=surely)
        counter = text.reserve()
        if self.hides_steps and not any(before.values()) and self._innermost(body):
            text.induction[counter] = InductionPointers(first, step, text.levels[counter])
        self.indices.natural.add(counter)  # loops begin at 0 or where another ends
        if base is None and start.is_constant and start.constant % step == 0:
            self.indices.multiples[counter] = step
        carried = self._carry(before)
        for copy in range(step):
            trip = Index(copy, ((counter, 1),))
            if base is not None:
                trip = self.indices.total(((base, 1), (Index(0, ((counter, step),)), 1)), copy)
            self._apart(copy, var, body)
            self.bind(var, trip, None, lambda: self.emit(body))
        following = text.effect(f"add nuw nsw {self.indices.kind} {counter}, {step if base is None else 1}")
        if self.hides_steps:
            most = max(int(limit), step) + step if limit[0] != "%" else 1 << 62
            following = text.step_induction(counter, f"range(i64 {step}, {most}) i64", following, top, entry)
        again = text.effect(f"icmp slt {self.indices.kind} {following}, {limit}")
        latch = text.block
        text.phi(top, i64 if self.indices.kind == "i64" else i32, 0, [(first, entry), (following, latch)], counter)
        last = [(name, key, value, self._final(name, key)) for name, key, value, _ in carried]
        for (*_, value, inner), (*_, final) in zip(carried, last, strict=True):
            text.phi(top, value.dtype, value.lanes, [(value.text, entry), (final.text, latch)], inner.text)
        text.close(f"br i1 {again}, label %{head}, label %{after}{self.latch(body)}")
        text.start_block(after)
        for name, key, value, final in last:
            if surely:
                text.adopt(final.text)
            else:
                registers[name][key] = text.merge(value, [(value.text, entry), (final.text, latch)])

    def _carry(self, before: dict[str, dict[Key, Value]]) -> list[tuple[str, Key, Value, Value]]:
        """Gives registers that a loop changes a name inside of it: buffer, place, value before the loop, value in a trip."""
        carried = []
        for name, held in before.items():
            for key, value in held.items():
                inner = Value(self.text.reserve(), value.dtype, value.lanes)
                self.at.registers.values[name][key] = inner
                carried.append((name, key, value, inner))
        return carried

    def _final(self, name: str, key: Key) -> Value:
        """The value of a register at the end of a trip."""
        final = self.at.registers.values[name].get(key)
        if final is None:  # taken apart inside of the loop
            final = self.at.registers.get(self.at.place(name).buffer, key)
            self.at.registers.set(self.at.place(name).buffer, key, final)
        return final

    def latch(self, body: Statement) -> str:
        """Returns what stands behind the branch that ends a trip of a loop with this body."""
        return ""

    def _innermost(self, body: Statement) -> bool:
        """Says whether no loop of the code stands in the body."""
        if id(body) not in self._innermosts:
            loops = (node for node in statements(body) if isinstance(node, For))
            self._innermosts[id(body)] = not any(loop.kind in _WRITTEN_AS_LOOPS for loop in loops)
        return self._innermosts[id(body)]
