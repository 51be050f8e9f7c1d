"""Which tile register of a matrix unit holds which operand: all uses are known, so what is needed again last makes room.

Belady, A study of replacement algorithms for a virtual-storage computer, IBM Systems Journal 1966.
"""

from __future__ import annotations

from collections.abc import Sequence

Operand = tuple[int, int, int]  # 0 for rows, 1 for columns; which of its tiles; which part


class OperandRegisters:
    """Says which operand each register holds; `uses` is the order in which operands will be taken."""

    def __init__(self, registers: Sequence[int], uses: Sequence[Operand]) -> None:
        self.free = list(registers)
        self.uses = list(uses)
        self.holds: dict[Operand, int] = {}

    def take(self, operand: Operand, keep: Sequence[Operand]) -> tuple[int, bool]:
        """The register of the next operand, and whether it has to be loaded. `keep`: what is in use at the same time."""
        self.uses.pop(0)
        if operand in self.holds:
            return self.holds[operand], False
        if not self.free:
            spare = [other for other in self.holds if other not in keep]
            victim = max(spare, key=lambda o: self.uses.index(o) if o in self.uses else len(self.uses))
            self.free.append(self.holds.pop(victim))
        register = self.holds[operand] = self.free.pop(0)
        return register, True


def products(rows: int, columns: int, pairs: Sequence[tuple[int, int]]) -> list[tuple[Operand, Operand]]:
    """All products of tiles in the order in which they are done: as far from each other as can be where they add to the same
    tile, because each takes longer than it is until the next may begin (`latency` and `cycles` of the instruction)."""
    return [((0, r, p), (1, c, q)) for p, q in pairs for r in range(rows) for c in range(columns)]


def loads_of(rows: int, columns: int, pairs: Sequence[tuple[int, int]], registers: int) -> int:
    """Tiles loaded for the products of one step, on a unit of so many registers."""
    uses = products(rows, columns, pairs)
    held = OperandRegisters(range(rows * columns, registers), [operand for use in uses for operand in use])
    return sum(held.take(operand, keep=use)[1] for use in uses for operand in use)
