"""Statements of GPU nests as code. Every thread runs the whole body: thread loops only bind a variable."""

from __future__ import annotations

from ....common.errors import InternalError
from ....targets.emission import IntrinsicCall
from ....targets.target import Target
from ....tensor.dtype import DType
from ....tensor.expr import Op, Read, Var, const, walk
from ...ir.index import number
from ...ir.loop_ir import (
    BLOCK_INDEX,
    THREAD_INDEX,
    Barrier,
    Buffer,
    Commit,
    For,
    LoopKind,
    Nest,
    Scope,
    Shuffle,
    Statement,
    Store,
    Update,
    Wait,
    statements,
)
from ...ir.memory_plan import SHARED_ALIGNMENT
from ..effects import Predicate
from ..expressions import Binding
from ..gpu_memory import GpuMemory
from ..index import Index
from ..memory import BufferPointer
from ..module_text import ModuleText
from ..statements import Statements
from ..text import FunctionText
from ..types import Value, memory_type, value_type

SHARED = "@shared"
_WHOLE = "!0"  # of loops


class GpuStatements(Statements):
    """Writes the body of one kernel. `shared_bytes` grows as SHARED buffers are allocated."""

    count_groups = True
    hides_steps = False

    def __init__(self, text: FunctionText, module: ModuleText, target: Target) -> None:
        super().__init__(text, module, target, "")
        self.module, self.emission = module, target.emission
        self.shared: dict[str, int] = {}
        self.shared_bytes = 0
        self._written_out = False  # whether the schedule says how much of this loop is

    def start(self, nest: Nest, narrow: bool) -> None:
        """Binds the numbers of the block and of the thread. narrow: indices fit in 32 bits, which is half the work."""
        assert isinstance(self.at.memory, GpuMemory)
        self.at.memory.written = self.facts(nest.body).writes
        self.indices.kind = "i32" if narrow else "i64"
        self._number(BLOCK_INDEX, self.emission.block_index, nest.blocks)
        self._number(THREAD_INDEX, self.emission.thread_index, nest.threads)

    def range(self, var: str, start: Index, stop: Index, body: Statement, unroll: int = 1) -> None:
        """See Statements."""
        outer, self._written_out = self._written_out, unroll > 1
        super().range(var, start, stop, body, unroll)
        self._written_out = outer

    def latch(self, body: Statement) -> str:
        """Adds a hint: where the schedule says how much of a loop is written out, ptxas does not unroll it further: the
        registers that it takes for that are as many as they are erratic (a sum of rows by warps: 204 or 66, for 32 or 24
        elements a trip)."""
        if not (self._written_out or any(map(_is_written_out, statements(body)))):
            return ""
        self.module.definitions.setdefault(
            _WHOLE, f'{_WHOLE} = distinct !{{{_WHOLE}, !{{!"llvm.loop.unroll.disable"}}}}'
        )
        return f", !llvm.loop {_WHOLE}"

    def _number(self, var: Var, intrinsic: str, count: int) -> None:
        index = Index()
        if count > 1:
            name = self.text.pure(f"{self.module.intrinsic(intrinsic, 'i32')}()")
            if self.indices.kind == "i64":
                name = self.text.pure(f"zext i32 {name} to i64", name)
            index = Index(0, ((name, 1),))
            self.indices.natural.add(name)
        self.at.bindings[var.name] = Binding(index, index)

    def emit(self, statement: Statement) -> None:
        """Writes a statement."""
        match statement:
            case Barrier(buffers=buffers):
                for name in sorted(buffers):
                    self.text.forget(name)
                for step in self.emission.barrier:
                    self.text.line(step if isinstance(step, str) else called(self.module, step))
            case Shuffle(buffer=name, source=source, mask=mask):
                self._shuffle(self.at.place(name).buffer, self.at.place(source).buffer, mask)
            case Commit():
                self._of_copies("commit")
            case Wait(groups=groups):
                self._of_copies("wait", groups=groups)
            case For(kind=LoopKind.THREAD):
                self._thread(statement)
            case For(kind=LoopKind.VECTOR) if statement.valid is not None and not self._in_registers(statement):
                self._unroll(statement, self.at.index(statement.extent))
            case Store(later=True):
                self._store_later(statement)
            case _:
                super().emit(statement)

    def _of_copies(self, what: str, **values: object) -> None:
        """Writes which asynchronous copies are meant; nothing, where there are none: ordinary ones are done."""
        if self.emission.copies is not None:
            self.text.line(called(self.module, getattr(self.emission.copies, what), **values))

    def _thread(self, node: For) -> None:
        """This thread's trip; where it is not a real one, the last real one is read and nothing is stored."""
        if node.index is None:
            raise InternalError(f"the thread loop {node.var!r} does not say which trip a thread runs")
        index, predicates = self.at.index(node.index), self.predicates
        self.derived[node.var] = self.roots(node.index)
        real = None
        if node.valid is not None:
            valid = self.at.index(node.valid)
            real = self.indices.bound("min", index, valid.shifted(-1))
            condition = self.indices.compare("lt", index, valid)
            if condition.text != "true":
                self.predicates = (*predicates, Predicate(condition, self.roots(node.valid)))
        self.bind(node.var, index, real, lambda: self.emit(node.body))
        self.predicates = predicates

    def _in_registers(self, node: For) -> bool:
        """Says whether a loop stores to registers alone."""
        return all(
            name not in self.at.places or self.at.places[name].buffer.scope is Scope.REGISTER
            for name in self.facts(node).writes
        )

    # Memory

    def update(self, node: Update) -> None:
        """Updates as everywhere; a thread without a real trip reads nothing, since another one may be at any element."""
        assert isinstance(self.at.memory, GpuMemory)
        self.at.memory.updated = node.buffer
        super().update(node)
        self.at.memory.updated = ""

    def _store_later(self, node: Store) -> None:
        """An asynchronous copy where there is an instruction for it, else an ordinary one: that is there in time, too."""
        place = self.at.place(node.buffer)
        read, condition = node.value, self._condition(True)
        while isinstance(read, Op) and read.name == "select" and read.args[2] == const(0, read.dtype):
            condition = self.arithmetic.both(condition, self.at.value(read.args[0]))
            read = read.args[1]
        if not isinstance(read, Read) or any(isinstance(part, Read) for index in read.indices for part in walk(index)):
            super().store(node)
            return
        source = self.at.place(read.tensor)
        assert isinstance(self.at.memory, GpuMemory)
        start = self.at.locate(read.indices, source.buffer)
        target = self.at.locate_exact(node.indices, place.buffer)
        predicates = self.predicates
        if predicates or not self.at.memory.copy_later(place, target, source, start, condition):
            super().store(node)

    def placed(self, buffer: Buffer) -> BufferPointer:
        """A buffer in memory of the block or of this thread."""
        if buffer.scope is Scope.SHARED:
            if buffer.name not in self.shared:
                self.shared[buffer.name] = self.shared_bytes
                self.shared_bytes += -(-max(1, buffer.bytes) // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
            space, pointer = self.emission.space("shared"), self.emission.pointer("shared")
            self.module.globals[SHARED] = f"{SHARED} = external {space}global [0 x i8], align {SHARED_ALIGNMENT}"
            start = self.text.cast(f"ptr {space}".rstrip(), SHARED, pointer)
            offset = self.shared[buffer.name]
            base = self.text.pure(f"getelementptr i8, {pointer} {start}, i64 {offset}", start) if offset else start
            return BufferPointer(buffer, base, pointer)
        if buffer.scope in (Scope.STACK, Scope.SCRATCH):
            kind, space = f"[{max(1, buffer.elements)} x {memory_type(buffer.dtype)}]", self.emission.space("private")
            return BufferPointer(buffer, self.text.alloca(kind, 16, space.rstrip()), self.emission.pointer("private"))
        raise InternalError(f"a {buffer.scope} buffer ({buffer.name!r}) cannot be allocated in a GPU nest")

    # Lanes of a warp

    def _shuffle(self, buffer: Buffer, source: Buffer, mask: int) -> None:
        value = self.at.registers.get(source, (0, 0, 0))
        self.at.registers.set(buffer, (0, 0, 0), self._exchanged(value, mask))

    def _exchanged(self, value: Value, mask: int) -> Value:
        """The value of another lane, moved in pieces of 32 bits."""
        dtype, bits = value.dtype, _bits(value.dtype)
        if value.type in self.emission.shuffle.calls:
            return Value(self._exchange(value.type, value.text, mask), dtype)
        whole = f"i{bits}"
        raw = value.text
        if value.type != whole:
            raw = self.text.compute(f"bitcast {value.typed} to {whole}", raw)
        if bits < 32:
            raw = self.text.compute(f"zext {whole} {raw} to i32", raw)
        if bits <= 32:
            raw = self._exchange("i32", raw, mask)
            if bits < 32:
                raw = self.text.compute(f"trunc i32 {raw} to {whole}", raw)
        else:
            raw = self._exchange_halves(raw, mask)
        if value.type != whole:
            raw = self.text.compute(f"bitcast {whole} {raw} to {value.type}", raw)
        return Value(raw, dtype)

    def _exchange_halves(self, raw: str, mask: int) -> str:
        low = self.text.compute(f"trunc i64 {raw} to i32", raw)
        high = self.text.compute(f"lshr i64 {raw}, 32", raw)
        high = self.text.compute(f"trunc i64 {high} to i32", high)
        low, high = self._exchange("i32", low, mask), self._exchange("i32", high, mask)
        low = self.text.compute(f"zext i32 {low} to i64", low)
        high = self.text.compute(f"zext i32 {high} to i64", high)
        high = self.text.compute(f"shl i64 {high}, 32", high)
        return self.text.compute(f"or i64 {low}, {high}", low, high)

    def _exchange(self, kind: str, raw: str, mask: int) -> str:
        shuffle = self.emission.shuffle
        made: list[str] = []
        if shuffle.before:
            thread = self.text.pure(f"{self.module.intrinsic(self.emission.thread_index, 'i32')}()")
            for step in shuffle.before:
                made.append(self.text.pure(step.format(*made, thread=thread, mask=mask), thread, *made))
        return self.text.effect(called(self.module, shuffle.calls[kind], *made, value=raw, mask=mask))


def called(module: ModuleText, call: IntrinsicCall, *made: str, **values: object) -> str:
    """The text of a call, its intrinsic declared."""
    arguments = (argument.format(*made, **values) for argument in call.arguments)
    return f"{module.intrinsic(call.name, call.result, *call.types)}({', '.join(arguments)})"


def _bits(dtype: DType) -> int:
    kind = value_type(dtype)
    return {"double": 64, "float": 32, "half": 16}.get(kind) or int(kind[1:])


def _is_written_out(node: Statement) -> bool:
    """Says whether a schedule asks for copies of what stands in a loop."""
    return isinstance(node, For) and (node.unroll > 1 or (node.kind is LoopKind.UNROLL and node.extent != number(1)))
