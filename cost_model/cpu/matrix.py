"""The work of a stage on the matrix unit of x86 (AMX): sums of products of tiles of 16 x 16 from words of two bfloat16.

The last loops of such a stage are rows, columns and words of one tile; unrolled loops around them are more tiles, whose
sums stay in tile registers over all reduction loops inside. One trip of the loops around makes for each of these sums the
products of all pairs of parts that the body names, pair after pair; tiles of operands are loaded as the registers that are
left allow.

An instruction loads 16 rows of one line each, so a tile costs what 16 vectors cost. Products that add to one sum follow each
other without a gap, so chains cost nothing: 6 products for each of 1, 4 or 6 sums take 19.4, 19.4 and 19.7 cycles each on a
Sapphire Rapids with all tiles loaded from the first cache, 16 on registers alone.
"""

from __future__ import annotations

import numpy as np

from ...schedules import regions
from ...schedules.loops import Loop, LoopKind
from ...targets.matrix_registers import loads_of
from ...targets.matrix_unit import SIDE, TILES
from ...targets.target import Target
from ...tensor.matrix_pairs import matrix_pairs
from ..footprint import Value, real
from ..levels import Levels, StageLevels
from .work import InstructionCounts, StageWork

TILE_LOOPS = 3  # rows, columns, words


class MatrixWork(StageWork):
    """Counts the instructions of one tensorized stage."""

    def __init__(self, counted: Levels, stage: StageLevels, target: Target) -> None:
        super().__init__(counted, stage, target)
        around = stage.straight[:-TILE_LOOPS]
        axes = [loop.axis for loop in stage.loops.loops[-TILE_LOOPS:-1]]
        self.rows, self.columns = (_extent(around, axis) for axis in axes)
        self.sums = _extent(around, *dict.fromkeys(loop.axis for loop in around))
        self.part: Value = 1.0  # of the tiles that exist in a step on average: at an edge there are fewer
        for axis, most in zip(axes, (self.rows, self.columns), strict=True):
            self.part = self.part * self._tiles(axis) / most
        found = matrix_pairs(stage.definition.bodies[0], *axes)
        self.pairs = () if found is None else found.pairs  # such a stage is refused where code is made

    def work(self) -> InstructionCounts:
        """Works out all counts of the stage."""
        stage = self.stage
        steps = stage.trips[stage.body]
        held = min(stage.registers if stage.registers is not None else stage.body, stage.body)
        begun = stage.trips[held]  # times that the sums are set and stored
        count = float(len(self.pairs))
        products = steps * self.part * self.sums * count
        loads = steps * self.part * self._tile_loads()
        stores = begun * self.part * self.sums * SIDE
        reloads = stores if any(stage.plan.loops.reduces[:held]) else 0.0
        used = np.minimum(self.sums + self.rows + self.columns, np.maximum(TILES, self.sums + 2.0))
        innermost, exits, unrolled = self._loops()
        return InstructionCounts(
            operations=0.0,
            loads=loads * SIDE + reloads,
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
            registers=used * (self.target.vector_registers / TILES),
            code=(self.sums * count + self._tile_loads()) * unrolled,
            width=1.0,
            points=stage.trips[-1],
            products=products,
            tile_loads=loads,
        )

    def _tiles(self, axis: str) -> Value:
        """How many tiles there are along an axis in one step, on average."""
        start = regions.opening(self.tree, self.stage.loops)
        total: Value = 0.0
        for size, count in start.sizes[axis]:
            total = total + real(count) * np.ceil(real(size) / SIDE)
        return total / real(regions.reached(self.tree, self.stage.loops, start, axis, self.stage.body))

    def _tile_loads(self) -> Value:
        """Tiles of operands that one step loads: a table of the few shapes that its sums can have, looked up."""
        sums = [(r, c) for r in range(1, TILES - 1) for c in range(1, TILES - 1) if r * c + 2 <= TILES]
        places = np.array([float(r * TILES + c) for r, c in sums])
        counts = np.array([float(loads_of(r, c, self.pairs)) for r, c in sums])
        loads: Value = np.interp(self.rows * TILES + self.columns, places, counts)
        return loads


def work_of(counted: Levels, stage: StageLevels, target: Target) -> InstructionCounts:
    """Works out the work of a stage, on a matrix unit or not."""
    kind = StageWork if stage.loops.tensorized is None else MatrixWork
    return kind(counted, stage, target).work()


def _extent(loops: tuple[Loop, ...], *axes: str) -> Value:
    """Trips of the unrolled loops of some axes together."""
    total: Value = 1.0
    for loop in loops:
        if loop.axis in axes and loop.kind is LoopKind.UNROLL:
            total = total * real(loop.extent)
    return total
