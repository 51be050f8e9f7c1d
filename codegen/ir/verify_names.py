"""Names in scope, and expressions over them: the ground of the verification of a nest (verify_nest.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ...targets.matrix_instructions import MATRIX_INSTRUCTIONS, InstructionScope
from ...tensor.dtype import DType, f32, i64
from ...tensor.expr import Expr, Op, Read, Var, children
from .facts import differs
from .loop_ir import BLOCK_INDEX, THREAD_INDEX, Buffer, LoopKind, LoopProgram, Nest, Scope
from .verify_operands import type_fault
from .verify_report import VerifierReport

READ_ONLY = (Scope.INPUT, Scope.CONSTANT, Scope.HELD, Scope.TABLE)
TILES = {(row.m, row.n) for row in MATRIX_INSTRUCTIONS.values() if row.scope is InstructionScope.TILES}  # shapes


@dataclass(frozen=True, slots=True)
class Variable:
    """`static`: known when the code is written. `differs`: from thread to thread."""

    static: bool
    differs: bool


@dataclass(slots=True)
class Allocation:
    """An allocated buffer: how many PARALLEL loops and conditions were around, whether something has been written to it, and is
    read at all."""

    parallel: int
    guards: int
    written: bool = False
    read: bool = False


class SymbolTable:
    """Holds what is in scope at one place of a nest."""

    def __init__(self, program: LoopProgram, nest: Nest, report: VerifierReport) -> None:
        self.program = program
        self.nest = nest
        self.report = report
        self.gpu = nest.threads > 0
        self.buffers = {buffer.name: buffer for buffer in (*program.arguments, *program.globals)}
        self.variables = {v.name: Variable(False, v is THREAD_INDEX) for v in (BLOCK_INDEX, THREAD_INDEX) if self.gpu}
        self.made: dict[str, Allocation] = {}
        self.reads: set[str] = set()
        self.kinds: list[LoopKind] = []  # of the loops around
        self.apart = False  # whether only some threads come here
        self.guards = 0  # conditions around
        self.typed: set[int] = set()  # expressions whose types have been looked at

    @contextmanager
    def _bound(self, var: str, variable: Variable) -> Iterator[None]:
        before = self.variables.get(var)
        if before is not None:
            self.report.add(f"the variable {var!r} is bound already")
        self.variables[var] = variable
        yield
        if before is None:
            del self.variables[var]
        else:
            self.variables[var] = before

    def _find(self, name: str) -> Buffer | None:
        """A buffer that is in scope."""
        buffer = self.buffers.get(name)
        if buffer is None:
            self.report.add(f"no buffer {name!r} is in scope")
        elif buffer.scope is Scope.REGISTER and self._parallel_inside(name):
            self.report.add(f"the register {name!r} is used across a parallel loop")
        return buffer

    def _place(self, name: str, indices: tuple[Expr, ...]) -> Buffer | None:
        """A buffer in scope, indexed as it is to be."""
        buffer = self._find(name)
        for index in indices:
            self._expect(index, i64, "an index")
        if buffer is None:
            return None
        if len(indices) != len(buffer.shape):
            self.report.add(f"{len(indices)} indices of {name!r}, which has {len(buffer.shape)} dimensions")
        if buffer.scope is Scope.REGISTER and not all(map(self._is_static, indices)):
            self.report.add(f"the register {name!r} is indexed by what is not known when the code is written")
        return buffer

    def _parallel_inside(self, name: str) -> bool:
        """Says whether a parallel loop stands between here and where a buffer is made."""
        return name in self.made and self.made[name].parallel < self.kinds.count(LoopKind.PARALLEL)

    def _read(self, name: str, guarded: bool = False) -> None:
        """Checks that nothing is read before it is written: what is allocated holds nothing before it is written; under a
        condition, an earlier trip may have done that."""
        self.reads.add(name)
        made = self.made.get(name)
        if made is None:
            return
        if not made.written and not made.read and not guarded and self.guards == made.guards:
            self.report.add(f"{name!r} is read before anything is written to it")
        made.read = True

    def _wrote(self, name: str) -> None:
        if name in self.made:
            self.made[name].written = True

    def _write(self, name: str, indices: tuple[Expr, ...], value: Expr) -> Buffer | None:
        buffer = self._place(name, indices)
        self.typed_expression(value)
        self._wrote(name)
        if buffer is None:
            return None
        wide = buffer.scope is Scope.REGISTER and buffer.dtype.is_float and buffer.dtype.bits == 16
        if value.dtype != buffer.dtype and not (wide and value.dtype == f32):
            self.report.add(f"{value.dtype} is stored to {name!r}, which holds {buffer.dtype}")
        if buffer.scope is Scope.TILE:
            self.report.add(f"the tiles {name!r} are no memory")
        self._may_be_written(buffer)
        return buffer

    def _may_be_written(self, buffer: Buffer) -> None:
        if buffer.scope in READ_ONLY:
            self.report.add(f"{buffer.name!r} ({buffer.scope}) is written")

    # Expressions

    def _expect(self, expr: Expr, dtype: DType, what: str) -> None:
        self.typed_expression(expr)
        if expr.dtype != dtype:
            self.report.add(f"{what} is {expr.dtype}, not {dtype}")

    def typed_expression(self, expr: Expr) -> None:
        """Verifies the names and the types in an expression."""
        waiting = [(expr, False)]  # and whether it is evaluated under a condition only
        while waiting:
            node, guarded = waiting.pop()
            if isinstance(node, Var):
                if node.name not in self.variables:
                    self.report.add(f"no variable {node.name!r} is bound here")
                continue
            if isinstance(node, Read):
                self._element(node, guarded)  # and its indices
                continue
            if id(node) not in self.typed:
                fault = type_fault(node)
                if fault:
                    self.report.add(fault)
                self.typed.add(id(node))
            parts, chosen = children(node), isinstance(node, Op) and node.name == "select"
            waiting += [(part, guarded or (chosen and place > 0)) for place, part in enumerate(parts)]

    def _element(self, node: Read, guarded: bool) -> None:
        buffer = self._place(node.tensor, node.indices)
        if buffer is None:
            return
        if node.dtype != buffer.dtype:
            self.report.add(f"{node.tensor!r}, which holds {buffer.dtype}, is read as {node.dtype}")
        if buffer.scope is Scope.TILE:
            self.report.add(f"the tiles {node.tensor!r} are no memory")
        self._read(node.tensor, guarded)

    def _is_static(self, expr: Expr) -> bool:
        """Says whether an index is known when the code is written."""
        if isinstance(expr, Var):
            variable = self.variables.get(expr.name)
            return variable is None or variable.static
        return not isinstance(expr, Read) and all(map(self._is_static, children(expr)))

    def _differs(self, expr: Expr) -> bool:
        """Says whether threads of a block may disagree on a value."""
        return self.gpu and differs(expr, frozenset(name for name, v in self.variables.items() if v.differs))


def buffer_faults(buffer: Buffer, scopes: tuple[Scope, ...], report: VerifierReport) -> None:
    """Tells what is wrong with a buffer that is to be in one of some scopes."""
    if buffer.scope not in scopes:
        report.add(f"the buffer {buffer.name!r} is in {buffer.scope} memory, not in {' or '.join(scopes)}")
    if any(size < 0 for size in buffer.shape):
        report.add(f"the buffer {buffer.name!r} has the shape {buffer.shape}")
    if len(buffer.values) != (buffer.elements if buffer.scope is Scope.TABLE else 0):
        report.add(f"the buffer {buffer.name!r} has {len(buffer.values)} values")
    if buffer.scope is not Scope.SHARED and (buffer.swizzle or buffer.slots > 1):
        report.add(f"the buffer {buffer.name!r} is laid out as only shared memory is")
    if buffer.rows is not None and not (buffer.scope in (Scope.INPUT, Scope.OUTPUT) and buffer.rows.fit(buffer.shape)):
        report.add(f"the buffer {buffer.name!r} does not lie in {buffer.rows}")
    if buffer.scope is Scope.TILE and buffer.shape[2:] not in TILES:
        report.add(f"the tiles {buffer.name!r} are {buffer.shape}")
