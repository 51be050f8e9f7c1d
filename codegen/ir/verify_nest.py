"""Walks one nest for its verification: names in scope, where statements may stand, types. The invariants: verify.py."""

from __future__ import annotations

from ...schedules.loops import WRITTEN_OUT
from ...targets.matrix_instructions import MATRIX_INSTRUCTIONS
from ...tensor.dtype import DType, boolean, f32, i32, i64
from ...tensor.expr import Const, Read
from .loop_ir import (
    Allocate,
    Barrier,
    Block,
    Buffer,
    Commit,
    For,
    If,
    Let,
    LoopKind,
    MatrixClear,
    MatrixMove,
    MatrixMultiply,
    Prefetch,
    Scope,
    Shuffle,
    Statement,
    Store,
    Update,
    Wait,
    statements,
)
from .verify_names import Allocation, SymbolTable, Variable, buffer_faults

GIVEN = (Scope.INPUT, Scope.CONSTANT, Scope.HELD, Scope.OUTPUT)
SHARED = (Scope.PREPARED, Scope.WORKSPACE, Scope.TABLE)
MADE = (Scope.SCRATCH, Scope.STACK, Scope.REGISTER)
BOUND = (LoopKind.BLOCK, LoopKind.WARP, LoopKind.THREAD)
LANE_BITS = (1, 2, 4, 8, 16, 32)  # of the number of a lane in the widest warp that a backend has
COMBINERS = ("sum", "prod", "max", "min")


class NestVerifier(SymbolTable):
    """Verifies one nest; what is wrong goes to `report`."""

    def run(self) -> None:
        """Walks the nest."""
        self.report.path.append(self.nest)
        if (self.nest.blocks > 0) != self.gpu:
            self.report.add(f"a nest of {self.nest.blocks} blocks of {self.nest.threads} threads")
        self.statement(self.nest.body)
        self._roles()
        self.report.path.pop()

    def _roles(self) -> None:
        """Checks what only some nests may do."""
        nodes = list(statements(self.nest.body))
        written = {node.buffer for node in nodes if isinstance(node, (Store, Update))}
        written |= {node.memory.tensor for node in nodes if isinstance(node, MatrixMove) and node.stores}
        scopes = {self.buffers[name].scope for name in written if name in self.buffers}
        if scopes & {Scope.OUTPUT, Scope.WORKSPACE}:
            if Scope.PREPARED in scopes:
                self.report.add("a nest that prepares constants writes what belongs to a call")
            for name in (b.name for b in self.program.arguments if b.scope is Scope.CONSTANT and b.name in self.reads):
                self.report.add(f"a nest of a call reads the constant {name!r}")
        if any(isinstance(node, Store) and node.later for node in nodes):
            for kind in (Commit, Wait):
                if not any(isinstance(node, kind) for node in nodes):
                    self.report.add(f"asynchronous stores without a {kind.__name__.lower()}")

    # Statements

    def statement(self, node: Statement) -> None:
        """Verifies a statement, substatements included."""
        self.report.path.append(node)
        match node:
            case Block(body=body):
                for child in body:
                    self.statement(child)
            case For():
                self._for(node)
            case Let(var=var, value=value, body=body):
                self._expect(value, i64, "the value of a variable")
                with self._bound(var, Variable(self._is_static(value), self._differs(value))):
                    self.statement(body)
            case If():
                self._if(node)
            case Allocate(buffer=buffer, body=body):
                self._allocate(buffer, body)
            case Store():
                self._store(node)
            case Update(buffer=name, indices=indices, combiner=combiner, value=value):
                if combiner not in COMBINERS:
                    self.report.add(f"no combiner is called {combiner!r}")
                self._read(name)
                self._write(name, indices, value)
            case Prefetch(buffer=name, indices=indices, locality=locality):
                asked_for = self._place(name, indices)
                if asked_for is not None and asked_for.scope in (Scope.REGISTER, Scope.TILE):
                    self.report.add(f"{name!r} is no memory")
                if locality not in range(4):
                    self.report.add(f"the locality {locality} is none of 0 .. 3")
            case Barrier() | Shuffle() | Commit() | Wait():
                self._of_gpus(node)
            case MatrixClear() | MatrixMove() | MatrixMultiply():
                self._matrix(node)
            case _:
                self.report.add(f"unknown statement {type(node).__name__}")
        self.report.path.pop()

    def _if(self, node: If) -> None:
        self._expect(node.condition, boolean, "a condition")
        before, self.apart = self.apart, self.apart or self._differs(node.condition)
        self.guards += 1
        self.statement(node.then)
        if node.otherwise is not None:
            self.statement(node.otherwise)
        self.guards -= 1
        self.apart = before

    def _for(self, node: For) -> None:
        kind, size = node.kind, node.extent.value if isinstance(node.extent, Const) else None
        self._expect(node.extent, i64, "the extent of a loop")
        for expr, what in ((node.valid, "`valid`"), (node.index, "the index of a loop")):
            if expr is not None:
                self._expect(expr, i64, what)
        self._stands(kind)
        if kind in WRITTEN_OUT and size is None:
            self.report.add(f"the extent of the {kind} loop {node.var!r} is not known when the code is written")
        if kind is LoopKind.VECTOR and size is not None and (size < 1 or int(size) & (int(size) - 1)):
            self.report.add(f"the {size} trips of the vector loop {node.var!r} are no power of two")
        if size is not None and size < 0:
            self.report.add(f"the extent of the loop {node.var!r} is {size}")
        if node.valid is not None and kind not in (*WRITTEN_OUT, *BOUND):
            self.report.add(f"the {kind} loop {node.var!r} has copies that are not real")
        if node.unroll < 1 or (node.unroll > 1 and kind is not LoopKind.SERIAL):
            self.report.add(f"the {kind} loop {node.var!r} asks for {node.unroll} copies of its body")
        if (node.index is not None) != (kind in BOUND):
            self.report.add(f"the {kind} loop {node.var!r} has {'an' if node.index is not None else 'no'} index")
        static = kind in WRITTEN_OUT or (size is not None and size <= max(1, node.unroll))
        if node.index is not None:
            static = self._is_static(node.index)
        own = Variable(static, node.index is not None and self._differs(node.index))
        before, self.apart = self.apart, self.apart or (kind not in BOUND and self._differs(node.extent))
        self.kinds.append(LoopKind.UNROLL if kind is LoopKind.VECTOR and size == 1 else kind)  # one lane is no vector
        with self._bound(node.var, own):
            self.statement(node.body)
        self.kinds.pop()
        self.apart = before

    def _stands(self, kind: LoopKind) -> None:
        """Checks whether a loop of this kind may stand inside of the loops around."""
        if kind is LoopKind.PARALLEL and self.gpu:
            self.report.add("a parallel loop in a nest of a GPU")
        if kind in BOUND and not self.gpu:
            self.report.add(f"a {kind} loop in a nest of a processor")
        if kind in (LoopKind.PARALLEL, *BOUND) and LoopKind.VECTOR in self.kinds:
            self.report.add(f"a {kind} loop in a vector loop")
        if kind in BOUND and any(around in BOUND[BOUND.index(kind) + 1 :] for around in self.kinds):
            self.report.add(f"a {kind} loop in a {self.kinds[-1]} loop")

    def _allocate(self, buffer: Buffer, body: Statement) -> None:
        name = buffer.name
        buffer_faults(buffer, (*MADE, Scope.SHARED if self.gpu else Scope.TILE), self.report)
        if name in self.buffers:
            self.report.add(f"the buffer {name!r} is made where there is one of that name")
        if buffer.scope is Scope.TILE and any(self.buffers[other].scope is Scope.TILE for other in self.made):
            self.report.add("tiles are made while others hold the registers of the matrix unit")
        outer = self.buffers.get(name)
        self.buffers[name] = buffer
        made = self.made[name] = Allocation(self.kinds.count(LoopKind.PARALLEL), self.guards)
        self.statement(body)
        self.made.pop(name, None)
        if made.read and not made.written:
            self.report.add(f"{name!r} is read, and nothing is ever written to it")
        if outer is None:
            del self.buffers[name]
        else:
            self.buffers[name] = outer

    def _store(self, node: Store) -> None:
        buffer = self._write(node.buffer, node.indices, node.value)
        if buffer is None:
            return
        if node.ahead and (buffer.scope is not Scope.SHARED or buffer.slots < 2 or LoopKind.SERIAL not in self.kinds):
            self.report.add("a store ahead to what is no slot of a pipeline")
        if node.later and buffer.scope is not Scope.SHARED:
            self.report.add("an asynchronous store to memory that is not shared")

    def _of_gpus(self, node: Statement) -> None:
        if not self.gpu:
            self.report.add("threads that meet in a nest of a processor")
        if self.apart and not isinstance(node, Shuffle):
            self.report.add("not all threads of the block come here")
        match node:
            case Barrier(buffers=buffers):
                for name in sorted(buffers):
                    self._find(name)
            case Wait(groups=groups) if groups < 0:
                self.report.add(f"a wait for all but {groups} groups")
            case Shuffle(buffer=name, source=source, mask=mask):
                there, here = self._find(source), self._find(name)
                self._read(source)
                self._wrote(name)
                for buffer in filter(None, (here, there)):
                    if buffer.scope is not Scope.REGISTER or buffer.elements != 1:
                        self.report.add(f"{buffer.name!r} is no scalar in a register")
                if here is not None and there is not None and here.dtype != there.dtype:
                    self.report.add(f"a shuffle from {there.dtype} to {here.dtype}")
                if mask not in LANE_BITS:
                    self.report.add(f"the mask {mask} of a shuffle is no bit of the number of a lane")

    # The matrix unit

    def _matrix(self, node: MatrixClear | MatrixMove | MatrixMultiply) -> None:
        if self.gpu:
            self.report.add("a matrix statement of processors in a nest of a GPU")
        tiles = self._find(node.tiles)
        if tiles is not None and tiles.scope is not Scope.TILE:
            self.report.add(f"{node.tiles!r} is no buffer of tiles")
            return
        rows, columns = tiles.shape[:2] if tiles is not None and len(tiles.shape) == 4 else (0, 0)
        match node:
            case MatrixMove(tile=(row, column), memory=memory, stores=stores):
                if not (0 <= row < rows and 0 <= column < columns):
                    self.report.add(f"there is no tile [{row}, {column}]")
                buffer = self._tile(memory, f32 if tiles is None else tiles.dtype)
                if stores:
                    self._read(node.tiles)
                    self._wrote(memory.tensor)
                    if buffer is not None:
                        self._may_be_written(buffer)
                else:
                    self._read(memory.tensor)
                    self._wrote(node.tiles)
            case MatrixMultiply(rows=lefts, columns=rights, pairs=pairs):
                self._read(node.tiles)
                if len(lefts) > rows or len(rights) > columns:
                    self.report.add(f"products of {len(lefts)} by {len(rights)} tiles")
                known = MATRIX_INSTRUCTIONS.get(node.instruction)
                for sides, narrow in ((lefts, known and known.a), (rights, known and known.b)):
                    for read in (part for side in sides for part in side):
                        self._tile(read, read.dtype if read.dtype.name == narrow else i32)
                        self._read(read.tensor)
                if known is None or (tiles is not None and known.sum != tiles.dtype.name):
                    self.report.add(f"{node.instruction!r} adds to no tiles of {tiles.dtype if tiles else 'any type'}")
                for p, q in pairs:
                    if any(p >= len(left) for left in lefts) or any(q >= len(right) for right in rights):
                        self.report.add(f"there is no pair {p}*{q}")
            case MatrixClear():
                self._wrote(node.tiles)

    def _tile(self, memory: Read, dtype: DType) -> Buffer | None:
        """Says where a tile in memory begins."""
        buffer = self._place(memory.tensor, memory.indices)
        if buffer is not None and (buffer.dtype != dtype or buffer.scope in (Scope.REGISTER, Scope.TILE)):
            self.report.add(f"{memory.tensor!r} is no memory of {dtype}")
        return buffer
