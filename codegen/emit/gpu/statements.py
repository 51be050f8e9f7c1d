"""Statements of GPU nests as code. Every thread runs the whole body: thread loops only bind a variable."""

from __future__ import annotations

from ....common.errors import InternalError
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
from ..module_text import ModuleText
from ..statements import Statements
from ..text import FunctionText
from ..types import Value, memory_type, value_type

SHARED = "@shared"
SHARED_TEXT = f"{SHARED} = external addrspace(3) global [0 x i8], align {SHARED_ALIGNMENT}"
EVERY_LANE = -1
_WHOLE = "!0"  # of loops


class GpuStatements(Statements):
    """Writes the body of one kernel. `shared_bytes` grows as SHARED buffers are allocated."""

    count_groups = True
    hides_steps = False

    def __init__(self, text: FunctionText, module: ModuleText, target: Target) -> None:
        super().__init__(text, module, target, "")
        self.module = module
        self.shared: dict[str, int] = {}
        self.shared_bytes = 0
        self._written_out = False  # whether the schedule says how much of this loop is

    def start(self, nest: Nest, narrow: bool) -> None:
        """Binds the numbers of the block and of the thread. narrow: indices fit in 32 bits, which is half the work."""
        assert isinstance(self.at.memory, GpuMemory)
        self.at.memory.written = self.facts(nest.body).writes
        self.indices.kind = "i32" if narrow else "i64"
        self._number(BLOCK_INDEX, "ctaid", nest.blocks)
        self._number(THREAD_INDEX, "tid", nest.threads)

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

    def _number(self, var: Var, register: str, count: int) -> None:
        index = Index()
        if count > 1:
            call = self.module.intrinsic(f"llvm.nvvm.read.ptx.sreg.{register}.x", "i32")
            name = self.text.pure(f"{call}()")
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
                self.text.line(f"{self.module.intrinsic('llvm.nvvm.barrier0', 'void')}()")
            case Shuffle(buffer=name, source=source, mask=mask):
                self._shuffle(self.at.place(name).buffer, self.at.place(source).buffer, mask)
            case Commit():
                self.text.line(f"{self.module.intrinsic('llvm.nvvm.cp.async.commit.group', 'void')}()")
            case Wait(groups=groups):
                self.text.line(f"{self.module.intrinsic('llvm.nvvm.cp.async.wait.group', 'void', 'i32')}(i32 {groups})")
            case For(kind=LoopKind.THREAD):
                self._thread(statement)
            case For(kind=LoopKind.VECTOR) if statement.valid is not None and not self._in_registers(statement):
                self._unroll(statement, self.at.index(statement.extent))
            case Store(later=True):
                self._store_later(statement)
            case _:
                super().emit(statement)

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

    def base(self, buffer: Buffer) -> str:
        """Memory of the block or of this thread."""
        if buffer.scope is Scope.SHARED:
            if buffer.name not in self.shared:
                self.shared[buffer.name] = self.shared_bytes
                self.shared_bytes += -(-max(1, buffer.bytes) // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
            self.module.globals[SHARED] = SHARED_TEXT
            start = self.text.pure(f"addrspacecast ptr addrspace(3) {SHARED} to ptr")
            offset = self.shared[buffer.name]
            return self.text.pure(f"getelementptr i8, ptr {start}, i64 {offset}", start) if offset else start
        if buffer.scope in (Scope.STACK, Scope.SCRATCH):
            return self.text.alloca(f"[{max(1, buffer.elements)} x {memory_type(buffer.dtype)}]", 16)
        raise InternalError(f"a {buffer.scope} buffer ({buffer.name!r}) cannot be allocated in a GPU nest")

    # Lanes of a warp

    def _shuffle(self, buffer: Buffer, source: Buffer, mask: int) -> None:
        value = self.at.registers.get(source, (0, 0, 0))
        self.at.registers.set(buffer, (0, 0, 0), self._exchanged(value, mask))

    def _exchanged(self, value: Value, mask: int) -> Value:
        """The value of another lane, moved in pieces of 32 bits."""
        dtype, bits = value.dtype, _bits(value.dtype)
        if value.type == "float":
            return Value(self._exchange("f32", "float", value.text, mask), dtype)
        whole = f"i{bits}"
        raw = value.text
        if value.type != whole:
            raw = self.text.compute(f"bitcast {value.typed} to {whole}", raw)
        if bits < 32:
            raw = self.text.compute(f"zext {whole} {raw} to i32", raw)
        if bits <= 32:
            raw = self._exchange("i32", "i32", raw, mask)
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
        low, high = self._exchange("i32", "i32", low, mask), self._exchange("i32", "i32", high, mask)
        low = self.text.compute(f"zext i32 {low} to i64", low)
        high = self.text.compute(f"zext i32 {high} to i64", high)
        high = self.text.compute(f"shl i64 {high}, 32", high)
        return self.text.compute(f"or i64 {low}, {high}", low, high)

    def _exchange(self, suffix: str, kind: str, raw: str, mask: int) -> str:
        name = f"llvm.nvvm.shfl.sync.bfly.{suffix}"
        call = self.module.intrinsic(name, kind, "i32", kind, "i32", "i32")
        return self.text.effect(f"{call}(i32 {EVERY_LANE}, {kind} {raw}, i32 {mask}, i32 31)")


def _bits(dtype: DType) -> int:
    kind = value_type(dtype)
    return {"double": 64, "float": 32, "half": 16}.get(kind) or int(kind[1:])


def _is_written_out(node: Statement) -> bool:
    """Says whether a schedule asks for copies of what stands in a loop."""
    return isinstance(node, For) and (node.unroll > 1 or (node.kind is LoopKind.UNROLL and node.extent != number(1)))
