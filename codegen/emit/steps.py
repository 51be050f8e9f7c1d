"""Steps of a sum that are written out one after another, where the sum takes nearly all registers.

LLVM puts up to four loads that lie near one another side by side (X86InstrInfo::shouldScheduleLoadsNear), those of later steps
too. Where accumulators leave no room for that, one of them then goes through memory in each trip: 512 x 512 x 512 on an EPYC of
Zen 3, with 6 x 2 accumulators in 16 registers and two steps a trip, ran at 62 GFLOP/s, and at 92 with steps kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...targets.target import Target
from ...tensor.expr import variables
from ..ir.loop_ir import Statement, Update, statements
from .registers import Key
from .types import Value

APART = 'call void asm sideeffect "", ""()'  # no instruction; loads do not pass it
NEAR = 4  # vectors that LLVM loads side by side


def sums_of(var: str, body: Statement) -> int:
    """Counts the sums that the trips of a loop add to, each into the same elements; 0 where other elements change."""
    updates = [one for one in statements(body) if isinstance(one, Update)]
    if any(var in names for one in updates for names in map(variables, one.indices)):
        return 0
    return len({one.buffer for one in updates})


def fill_registers(held: Iterable[Mapping[Key, Value]], sums: int, target: Target) -> bool:
    """Says whether values that stay in registers leave no room for loads of later steps beside what one step needs. `sums`:
    how many walk together, each of which reads rows of its own."""
    bits = sum(value.lanes * value.dtype.bits for values in held for value in values.values())
    return -(-bits // target.vector_bits) + NEAR * sums + 1 > target.vector_registers
