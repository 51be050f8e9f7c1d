"""Steps of a sum that are written out one after another, where the sum takes nearly all registers.

LLVM puts up to four loads that lie near one another side by side (X86InstrInfo::shouldScheduleLoadsNear), those of later steps
too. Where accumulators leave no room for that, one of them then goes through memory in each trip: 512 x 512 x 512 on an EPYC of
Zen 3, with 6 x 2 accumulators in 16 registers and two steps a trip, ran at 62 GFLOP/s, and at 92 with steps kept apart.

Where a step adds words before it multiplies them, it reads twice as many rows, and each has loads of later steps beside it:
4 x 2 sums of crossed words had three of them in memory.

Where only loads are, it does all steps of one accumulator in a row: each waits for the one before, and all operands go through
memory meanwhile. So the accumulators cannot pass either (7 x 7 windows of 3 channels, 6 x 2 accumulators, steps of six columns:
2.8 ms without, 1.24 with).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ...schedules.loops import LoopKind
from ...schedules.plan.registers import NEAR_LOADS, rows_of
from ...targets.target import Target
from ...tensor.expr import variables
from ..ir.loop_ir import For, Statement, Update, statements
from .registers import Key
from .text import FunctionText
from .types import Value

APART = 'call void asm sideeffect "", ""()'  # no instruction; loads and stores do not pass it


def rows_added(var: str, body: Statement) -> int:
    """Counts the rows of vectors that a trip of a loop reads for the sums that it adds to; 0 where other elements change.
    Sums that walk together read rows of their own."""
    updates = [one for one in statements(body) if isinstance(one, Update)]
    if any(var in names for one in updates for names in map(variables, one.indices)):
        return 0
    vectors = {one.var for one in statements(body) if isinstance(one, For) and one.kind is LoopKind.VECTOR}
    rows: dict[str, int] = defaultdict(int)
    for one in updates:
        rows[one.buffer] = max(rows[one.buffer], rows_of((one.value,), vectors))
    return sum(rows.values())


def fill_registers(held: Iterable[Mapping[Key, Value]], rows: int, target: Target) -> bool:
    """Says whether values that stay in registers leave no room for loads of later steps beside what one step needs. `rows`:
    those of vectors that it reads."""
    bits = sum(value.lanes * value.dtype.bits for values in held for value in values.values())
    return -(-bits // target.vector_bits) + NEAR_LOADS * rows + 1 > target.vector_registers


def keep_apart(text: FunctionText, held: Sequence[dict[Key, Value]], target: Target) -> None:
    """Writes what neither loads pass nor operations on the values that stay in registers. It is no instruction of the machine.

    The values become results of it, which LLVM has in the same registers. Where they leave no room, what was loaded before is
    loaded again where it is needed: a register that is written to memory and read again costs more.
    """
    if fill_registers(held, 1, target):
        text.load_anew()
    kind = target.backend.vector_constraint
    places = [(values, key) for values in held for key, value in values.items() if kind and _is_register(value, target)]
    if not 0 < len(places) < target.vector_registers:  # LLVM gives up where it has not as many
        text.line(APART)
        return
    before = [values[key] for values, key in places]
    wanted = ",".join([*(f"={kind}" for _ in before), *(str(number) for number in range(len(before)))])
    types = [value.type for value in before]
    result = types[0] if len(types) == 1 else f"{{ {', '.join(types)} }}"
    operands = ", ".join(value.typed for value in before)
    after = text.effect(f'call {result} asm sideeffect "", "{wanted}"({operands})')
    for number, (values, key) in enumerate(places):
        name = after if len(types) == 1 else text.pure(f"extractvalue {result} {after}, {number}", after)
        values[key] = values[key]._replace(text=name)


def _is_register(value: Value, target: Target) -> bool:
    """Says whether a value takes one vector register, which LLVM has to keep."""
    bits = value.lanes * value.dtype.bits
    return not value.is_literal and bits in (128, 256, 512) and bits <= target.vector_bits
