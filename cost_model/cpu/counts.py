"""Instruction counts of a stage, by kind, over a whole run and all threads."""

from __future__ import annotations

from dataclasses import dataclass

from ..footprint import Value

LOOP_INSTRUCTIONS = 3.0  # increment, comparison and jump


@dataclass(frozen=True, slots=True)
class InstructionCounts:
    """The instructions of a stage, as totals of a run.

    operations: cycles of one arithmetic port, a whole vector at a time. loads: all of them; broadcasts: those of one element
    for all lanes; gathered: accesses to single lanes of vectors;
    unaligned, masked, crowded: loads across two cache lines, of which a mask leaves out lanes, and from tensors whose rows
    lie at strides near a page.
    loops, exits: iterations of the loops in the code, and how often one ends.
    steps: trips of the straight code, each of which lengthens the chains of accumulators by one addition; 0 without chains.
    chains: independent accumulators; length: steps from setting the accumulators to storing them.
    registers: vector registers needed at one time; code: instructions in the text of the innermost loop.
    width: the part of a vector register that is used; points: evaluations of the stage's body.
    products, tile_loads: of whole tiles on a matrix unit (matrix.py), whose loads are among `loads`, a line each;
    product_cycles: what the unit takes for one product.
    apart: broadcasts from rows of which neighbours lie at strides near a page, and not packed next to each other.
    """

    operations: Value
    loads: Value
    broadcasts: Value
    stores: Value
    gathered: Value
    unaligned: Value
    crowded: Value
    loops: Value
    exits: Value
    steps: Value
    chains: Value
    length: Value
    registers: Value
    code: Value
    width: Value
    points: Value
    masked: Value = 0.0
    products: Value = 0.0
    product_cycles: float = 0.0
    tile_loads: Value = 0.0
    apart: Value = 0.0

    @property
    def arithmetic(self) -> Value:
        """Cycles of one port or of the matrix unit."""
        return self.operations + self.product_cycles * self.products

    @property
    def on_matrix(self) -> bool:
        """Says whether a matrix unit does it."""
        return not (isinstance(self.products, float) and self.products == 0.0)

    @property
    def instructions(self) -> Value:
        """Adds up the instructions of all kinds."""
        return self.operations + self.loads + self.stores + LOOP_INSTRUCTIONS * self.loops + self.products


@dataclass(slots=True)
class Reads:
    """Loads of operands; `operands`: registers that they take in the straight code; `kept`: registers for what a later point
    of the straight code uses again; `parts`: those of whole vectors whose lanes are picked, but the first, and of their masks
    where these are vectors; `shuffles`: what turns vectors in registers to lie along another axis."""

    loads: Value = 0.0
    broadcasts: Value = 0.0
    gathered: Value = 0.0
    unaligned: Value = 0.0
    crowded: Value = 0.0
    masked: Value = 0.0
    operands: Value = 1.0
    kept: Value = 0.0
    parts: float = 0.0
    shuffles: Value = 0.0
    apart: Value = 0.0
