"""How much a candidate writes out, and how much memory it asks for, counted on its loop IR before any code is made.

A config comes from a search, a log or a person. A register tile of a million rows is a legal schedule; its code would never be
done. Numbers of the drafts of all operators stay below a third of these limits.
"""

from __future__ import annotations

from ..common.errors import ScheduleError
from ..tensor.expr import Const, Expr, size
from .ir.loop_ir import (
    Allocate,
    For,
    If,
    Let,
    LoopKind,
    LoopProgram,
    MatrixMultiply,
    Scope,
    Statement,
    Store,
    Update,
    statements,
    substatements,
)
from .ir.memory_plan import plan_memory

OPERATIONS = 1 << 18  # operators and operands in all copies of unrolled and vectorized bodies of a nest
LANES = 16  # elements of a vector loop that count as one operation
STACK = 1 << 20  # bytes of a nest on a thread's stack
MEMORY = 1 << 42  # bytes of workspace and prepared constants


def check_size(program: LoopProgram, threads: int) -> None:
    """ScheduleError for a candidate whose code or memory would be larger than any machine has a use for."""
    for nest in (*program.prepare, *program.nests):
        _check(f"the unrolled code of {nest.name}", operations(nest.body), OPERATIONS, "operations")
        _check(f"the arrays of {nest.name} on the stack", stack_bytes(nest.body), STACK, "bytes")
    plan = plan_memory(program, threads)
    _check(
        "the memory of the kernel", plan.workspace_bytes + plan.prepared_bytes + plan.preparing_bytes, MEMORY, "bytes"
    )


def _check(what: str, size: int, most: int, unit: str) -> None:
    if size > most:
        raise ScheduleError(
            f"{what} would be too large", expected=f"at most {most} {unit}", found=str(size),
            advice="smaller factors for unrolled and vectorized loops, and for what is copied",
        )  # fmt: skip


def operations(statement: Statement) -> int:
    """Operators and operands in the code of a statement, every copy of an unrolled body counted."""
    inside = sum(operations(child) for child in substatements(statement))
    match statement:
        case For(extent=extent, kind=LoopKind.UNROLL):
            return _number(extent) * inside
        case For(extent=extent, kind=LoopKind.VECTOR):
            return -(-_number(extent) // LANES) * inside
        case For(unroll=unroll):
            return unroll * inside
        case Store(indices=indices, value=value) | Update(indices=indices, value=value):
            return _nodes(value, *indices)
        case Let(value=value) | If(condition=value):
            return _nodes(value) + inside
        case MatrixMultiply(rows=rows, columns=columns, pairs=pairs):
            return len(rows) * len(columns) * len(pairs)
    return inside + 1


def stack_bytes(statement: Statement) -> int:
    """Bytes of all arrays that a statement puts on the stack; those of copies of a body are at one place."""
    buffers = (node.buffer for node in statements(statement) if isinstance(node, Allocate))
    return sum(buffer.bytes for buffer in buffers if buffer.scope is Scope.STACK)


def _number(extent: Expr) -> int:
    return int(extent.value) if isinstance(extent, Const) else 1


def _nodes(*expressions: Expr) -> int:
    return sum(size(expression)[0] for expression in expressions)
