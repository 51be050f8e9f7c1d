"""The work of a stage on a matrix unit (targets/matrix_instructions.py): sums of products of tiles of words.

The last loops of such a stage are rows, columns and words of one tile; unrolled loops around them are more tiles, whose
sums stay in tile registers over all reduction loops inside. One trip of the loops around makes for each of these sums the
products of all pairs of parts that the body names, pair after pair; tiles of operands are loaded as the registers that are
left allow.

An instruction loads the rows of a tile, a line each, so a tile costs what as many vectors cost. Products that add to one sum
follow each other without a gap, so chains cost nothing: 6 products for each of 1, 4 or 6 sums take 19.4, 19.4 and 19.7 cycles
each on a Sapphire Rapids with all tiles loaded from the first cache, 16 on registers alone.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from ...schedules import regions
from ...schedules.loops import Loop, LoopKind
from ...schedules.plan.storage import CROWDED, PAGE
from ...targets.matrix_instructions import MATRIX_INSTRUCTIONS, WORD_BITS, MatrixInstruction
from ...targets.matrix_registers import loads_of
from ...targets.target import Target
from ...tensor.matrix_pairs import matrix_pairs
from ..footprint import Value, real
from ..levels import Levels, StageLevels
from .counts import InstructionCounts
from .work import StageWork

TILE_LOOPS = 3  # rows, columns, words
CROWDED_LOADS = 5.0  # of a tile whose rows are not in the first cache, beside the one that is counted


class MatrixWork(StageWork):
    """Counts the instructions of one tensorized stage."""

    def __init__(self, counted: Levels, stage: StageLevels, target: Target, unit: MatrixInstruction) -> None:
        super().__init__(counted, stage, target)
        self.unit = unit
        around = stage.straight[:-TILE_LOOPS]
        axes = [loop.axis for loop in stage.loops.loops[-TILE_LOOPS:-1]]
        self.rows, self.columns = (_extent(around, axis) for axis in axes)
        self.sums = _extent(around, *dict.fromkeys(loop.axis for loop in around))
        self.part: Value = 1.0  # of the tiles that exist in a step on average: at an edge there are fewer
        for axis, side, most in zip(axes, (self.unit.m, self.unit.n), (self.rows, self.columns), strict=True):
            self.part = self.part * self._tiles(axis, side) / most
        found = matrix_pairs(stage.definition.bodies[0], *axes)
        self.pairs = () if found is None else found.pairs  # such a stage is refused where code is made
        self.row_words = None if found is None else found.rows[0]

    def work(self) -> InstructionCounts:
        """Works out all counts of the stage."""
        stage = self.stage
        steps = stage.trips[stage.body]
        held = min(stage.registers if stage.registers is not None else stage.body, stage.body)
        begun = stage.trips[held]  # times that the sums are set and stored
        count = float(len(self.pairs))
        products = steps * self.part * self.sums * count
        loads = steps * self.part * (self._tile_loads() + self._crowded_loads())
        stores = begun * self.part * self.sums * self.unit.m
        reloads = stores if any(stage.plan.loops.reduces[:held]) else 0.0
        used = np.minimum(self.sums + self.rows + self.columns, np.maximum(self.unit.registers, self.sums + 2.0))
        innermost, exits, unrolled = self._loops()
        return InstructionCounts(
            operations=0.0,
            loads=loads * self.unit.m + reloads,
            broadcasts=0.0,
            stores=stores,
            gathered=0.0,
            unaligned=0.0,
            crowded=0.0,
            loops=innermost,
            exits=exits,
            steps=0.0,
            chains=self.sums,
            length=1.0,
            registers=used * (self.target.vector_registers / self.unit.registers),
            code=(self.sums * count + self._tile_loads()) * unrolled,
            width=1.0,
            points=stage.trips[-1],
            products=products,
            product_cycles=self.unit.cycles,
            tile_loads=loads,
        )

    def _tiles(self, axis: str, side: int) -> Value:
        """Says how many tiles there are along an axis in one step, on average; `side`: of a tile."""
        start = regions.opening(self.tree, self.stage.loops)
        total: Value = 0.0
        for size, count in start.sizes[axis]:
            total = total + real(count) * np.ceil(real(size) / side)
        return total / real(regions.reached(self.tree, self.stage.loops, start, axis, self.stage.body))

    def _tile_loads(self) -> Value:
        """Tiles of operands that one step loads: a table of the few shapes that its sums can have, looked up."""
        held = self.unit.registers
        sums = [(r, c) for r in range(1, held - 1) for c in range(1, held - 1) if r * c + 2 <= held]
        places = np.array([float(r * held + c) for r, c in sums])
        counts = np.array([float(loads_of(r, c, self.pairs, held)) for r, c in sums])
        loads: Value = np.interp(self.rows * held + self.columns, places, counts)
        return loads

    def _crowded_loads(self) -> Value:
        """Tiles that one step loads again, as it were: rows that are loaded where they lie, at a pitch that leaves few sets
        of the first cache for them.

        2048 x 2048 x 2048 of bf16, two threads of a Granite Rapids: 6.4 ms from packed rows, 9 to 13 from rows 4 KB apart.
        """
        words = self.row_words
        if words is None or words.dtype.bits == WORD_BITS:
            return 0.0
        pitch = self.tree.program.tensors[words.tensor].shape[-1] * words.dtype.bytes
        if gcd(pitch, PAGE) <= CROWDED:
            return 0.0
        return CROWDED_LOADS * self.rows


def work_of(counted: Levels, stage: StageLevels, target: Target) -> InstructionCounts:
    """Works out the work of a stage, on a matrix unit or not."""
    unit = MATRIX_INSTRUCTIONS.get(stage.loops.tensorized or "")
    return (StageWork(counted, stage, target) if unit is None else MatrixWork(counted, stage, target, unit)).work()


def _extent(loops: tuple[Loop, ...], *axes: str) -> Value:
    """Trips of the unrolled loops of some axes together."""
    total: Value = 1.0
    for loop in loops:
        if loop.axis in axes and loop.kind is LoopKind.UNROLL:
            total = total * real(loop.extent)
    return total
