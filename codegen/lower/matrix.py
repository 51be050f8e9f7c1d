"""A tensorized stage: sums of products of words on a matrix unit, here one of tiles of 16 rows and columns.

    for k: 32 { unroll r < 2, c < 2 { unroll m < 16, vector n < 16, unroll l < 16 { acc += low * low + high * high } } }
    ->  tiles = 0;  for k: 32 { multiply tiles };  store tiles

The loops of the stage end in (rows in tiles, columns in tiles, rows of a tile, columns of a tile, words of the depth); the
reduction loops around them run over the accumulators, which stay in the unit. Outside of those the result is loaded again and
added to. At an edge there are fewer tiles: for each number of them there is a body, which is short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from ...common.errors import ScheduleError
from ...schedules.loops import Loop, LoopKind, LoopTree, StageLoops
from ...schedules.regions import opening
from ...schedules.steps.checks import wrong
from ...targets.matrix_instructions import MATRIX_INSTRUCTIONS, WORD_BITS, InstructionScope, MatrixInstruction
from ...targets.target import Target
from ...tensor.expr import Expr, Read
from ...tensor.indices.affine import affine, simplify
from ...tensor.matrix_pairs import matrix_pairs
from ..ir.index import both, known, less, minus, number, plus, times
from ..ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    If,
    MatrixClear,
    MatrixMove,
    MatrixMultiply,
    Scope,
    Statement,
    with_substatements,
)
from .prefetch_next import prefetch_next
from .view import AxisRange, View, fixed

if TYPE_CHECKING:
    from .nest import StageLowering

INTRINSICS = {name: row for name, row in MATRIX_INSTRUCTIONS.items() if row.scope is InstructionScope.TILES}


@dataclass(frozen=True, slots=True)
class TileLoops:
    """The five innermost loops of a tensorized stage."""

    rows: Loop
    columns: Loop
    row: Loop
    column: Loop
    word: Loop


def tile_loops(tree: LoopTree, stage: StageLoops) -> TileLoops:
    """The loops, if they are as the head of this file says. ScheduleError otherwise."""
    kinds = [LoopKind.UNROLL, LoopKind.UNROLL, LoopKind.UNROLL, LoopKind.VECTOR, LoopKind.UNROLL]
    unit, found = INTRINSICS[stage.tensorized or ""], stage.loops[-5:]
    fits = [loop.kind for loop in found] == kinds
    fits = fits and tuple(fixed(loop.extent) for loop in found[2:]) == (unit.m, unit.n, unit.words)
    reductions = {a.name for a in tree.definition(stage.stage).reduction}
    if fits:
        loops = TileLoops(*found)
        rows, columns = loops.rows.axis, loops.columns.axis
        fits = (rows, columns) == (loops.row.axis, loops.column.axis) and rows != columns
        fits = fits and loops.word.axis in reductions and not {rows, columns} & reductions
        fits = fits and len(stage.pieces(loops.word.axis)) == 1
        fits = fits and len(stage.loops) > 5 and stage.loops[-6].axis in reductions  # what a tile accumulates over
    if not fits:
        raise wrong(
            tree, stage.stage, f"the loops of {stage.stage} are not those of {stage.tensorized}",
            expected="innermost: a loop of the reduction, unroll rows in tiles, unroll columns in tiles, "
            f"unroll {unit.m} rows, vectorize {unit.n} columns, unroll an axis of {unit.words} words",
        )  # fmt: skip
    return loops


class MatrixTile:
    """Writes the accumulation of one tensorized stage."""

    def __init__(self, lowering: StageLowering, depth: int) -> None:
        self.lowering = lowering
        self.stage = lowering.stage
        self.tree = lowering.nest.tree
        self.depth = depth
        self.inner = len(lowering.loops) - 5
        self.loops = tile_loops(self.tree, self.stage)
        self.unit: MatrixInstruction = INTRINSICS[self.stage.tensorized or ""]
        definition = lowering.definition
        pairs = matrix_pairs(definition.bodies[0], self.loops.row.axis, self.loops.column.axis)
        if pairs is None or (pairs.a, pairs.b) != (self.unit.a, self.unit.b):
            raise wrong(
                self.tree, self.stage.stage, f"{self.stage.stage} is no sum that {self.stage.tensorized} computes",
                expected=f"a sum of products of words of {self.unit.a} and {self.unit.b}",
            )  # fmt: skip
        self.pairs = pairs
        self.strides = {s.buffer.name: s.buffer.strides for s in lowering.nest.storage.values()}

    def statement(self, view: View) -> Statement:
        """The whole accumulation, with a body for each number of tiles that there can be."""
        rows = self._counts(view, self.loops.rows, self.unit.m)
        columns = self._counts(view, self.loops.columns, self.unit.n)
        statement: Statement | None = None
        whole = self._body(view, rows[0], columns[0])
        for height, width in reversed(list(product(rows, columns))):
            body = whole
            if (height, width) != (rows[0], columns[0]):
                body = first_tiles(whole, self.lowering.names.fresh(f"{self.stage.stage}.tiles"), height, width)
            if statement is None:
                statement = body
                continue
            condition: Expr | None = None
            sides = (self.loops.rows, height, rows, self.unit.m), (self.loops.columns, width, columns, self.unit.n)
            for loop, count, counts, side in sides:
                if count != counts[-1]:
                    fewer = counts[counts.index(count) + 1]
                    size = view.places[self.stage.stage, loop.axis].size
                    condition = both(condition, less(number(fewer * side), size))
            assert condition is not None
            statement = If(condition, body, statement)
        assert statement is not None
        return statement

    def _counts(self, view: View, loop: Loop, side: int) -> list[int]:
        """Says how many tiles of a side there can be along the axis of a loop over tiles, in descending order."""
        most = fixed(loop.extent)
        size = known(view.places[self.stage.stage, loop.axis].size)
        if size is not None:
            return [min(most, -(-size // side))]
        found = {most}
        for points, count in opening(self.tree, self.stage).sizes[loop.axis]:
            rest = fixed(points) % (most * side)
            if fixed(count) and rest:
                found.add(-(-rest // side))
        return sorted(found, reverse=True)

    def _body(self, view: View, height: int, width: int) -> Statement:
        name = self.lowering.names.fresh(f"{self.stage.stage}.tiles")
        dtype = self.lowering.definition.tensors[0].dtype
        tiles = Buffer(name, dtype, (height, width, self.unit.m, self.unit.n), Scope.TILE)
        moves = self._moves(view, name, height, width)
        start: Statement = MatrixClear(name)
        first = self.lowering.first_trip(view)
        if first is not None:
            start = If(first, start, Block(tuple(move(False) for move in moves)))

        def step(v: View, d: int, around: View) -> Statement:
            if d < self.inner:
                return self.lowering.loop(v, d, lambda w, e: step(w, e, v))
            return Block((*self._hints(v, around), self._multiply(v, name, height, width)))

        return Allocate(tiles, Block((start, step(view, self.depth, view), *(move(True) for move in moves))))

    def _hints(self, view: View, around: View) -> list[Statement]:
        """Brings what later trips of loops around will read to the second cache: the first is full of this trip's tiles."""
        lowering, loop = self.lowering, self.lowering.loops[self.inner - 1]
        variable = view.variables[loop.name]
        return list(prefetch_next(lowering.nest.body, lowering.names, self.stage, loop, 1, around, variable))

    def _at(self, view: View, moves: dict[Loop, int]) -> View:
        """The view at the given trips of the tile's loops, the others at their first."""
        places, point = dict(view.places), number(1)
        for loop in (self.loops.rows, self.loops.columns, self.loops.row, self.loops.column, self.loops.word):
            position = places[self.stage.stage, loop.axis].position
            if moves.get(loop):
                position = plus(position, number(moves[loop] * fixed(loop.stride)))
            places[self.stage.stage, loop.axis] = AxisRange(position, point)
        return replace(view, places=places)

    def _moves(self, view: View, tiles: str, height: int, width: int) -> list[Callable[[bool], Statement]]:
        """Returns what loads (False) and stores (True) each tile."""

        def element(r: int, c: int, row: int = 0, column: int = 0) -> Read:
            moves = {self.loops.rows: r, self.loops.columns: c, self.loops.row: row, self.loops.column: column}
            buffer, indices = self.lowering.nest.body.place(self.stage, 0, self._at(view, moves))
            return Read(buffer.name, indices, buffer.dtype)

        def move(r: int, c: int) -> Callable[[bool], Statement]:
            memory = element(r, c)
            return lambda stores: MatrixMove(tiles, (r, c), memory, pitch, stores)

        pitch = self._pitch(element(0, 0), element(0, 0, row=1), element(0, 0, column=1))
        return [move(r, c) for r in range(height) for c in range(width)]

    def _multiply(self, view: View, tiles: str, height: int, width: int) -> Statement:
        def reads(parts: Sequence[Read], moves: dict[Loop, int]) -> tuple[Read, ...]:
            at = self._at(view, moves)
            return tuple(read(part, at) for part in parts)

        def read(expr: Read, at: View) -> Read:
            found = self.lowering.nest.body.at(self.stage, expr, at)
            assert isinstance(found, Read)
            return replace(found, indices=tuple(simplify(i, self.lowering.names.bounds) for i in found.indices))

        def pitch(part: Read, below: Loop, beside: Loop) -> int:
            return self._pitch(*(reads((part,), moves)[0] for moves in ({}, {below: 1}, {beside: 1})))

        x, y, loops = self.pairs.rows, self.pairs.columns, self.loops
        pitches = pitch(x[0], loops.row, loops.word), pitch(y[0], loops.word, loops.column)
        rows = tuple(reads(x, {loops.rows: r}) for r in range(height))
        columns = tuple(reads(y, {loops.columns: c}) for c in range(width))
        return MatrixMultiply(tiles, rows, columns, pitches, self.pairs.pairs, self.unit.name)

    def _pitch(self, first: Read, below: Read, beside: Read) -> int:
        """Elements from row to row of a tile in memory, whose rows must be contiguous. ScheduleError otherwise."""
        strides, word = self.strides[first.tensor], WORD_BITS // first.dtype.bits  # elements
        pitch, step = (self._distance(strides, first, other) for other in (below, beside))
        if pitch is None or step != word:
            raise wrong(
                self.tree, self.stage.stage,
                f"a tile of {first.tensor} is no {self.unit.m} rows of {self.unit.row_bytes} bytes in memory",
                expected="elements side by side along a row, rows at equal distances",
            )  # fmt: skip
        return pitch

    def _distance(self, strides: tuple[int, ...], first: Read, other: Read) -> int | None:
        total: Expr = number(0)
        for stride, a, b in zip(strides, first.indices, other.indices, strict=True):
            total = plus(total, times(minus(b, a), stride))
        form = affine(simplify(total, self.lowering.names.bounds))
        return form.constant if not form.terms else None


def first_tiles(body: Statement, name: str, height: int, width: int) -> Statement:
    """The accumulation of the first tiles alone, in tiles of another name: to derive it costs less than to write it anew."""

    def stands(node: Statement) -> bool:
        return not isinstance(node, MatrixMove) or (node.tile[0] < height and node.tile[1] < width)

    def cut(node: Statement) -> Statement:
        match node:
            case Allocate(buffer=buffer, body=inner) if buffer.scope is Scope.TILE:
                shape = (height, width, *buffer.shape[2:])
                return Allocate(replace(buffer, name=name, shape=shape), cut(inner))
            case Block(body=parts):
                return Block(tuple(cut(part) for part in parts if stands(part)))
            case MatrixClear() | MatrixMove():
                return replace(node, tiles=name)
            case MatrixMultiply(rows=rows, columns=columns):
                return replace(node, tiles=name, rows=rows[:height], columns=columns[:width])
        return with_substatements(node, cut)

    return cut(body)


def check_intrinsic(tree: LoopTree, stage: StageLoops, target: Target) -> ScheduleError | None:
    """Returns what is wrong with a tensorized stage, as far as its loops and the target tell."""
    if stage.tensorized not in INTRINSICS:
        return wrong(
            tree, stage.stage, f"there is no code generator for the instruction {stage.tensorized}",
            expected=", ".join(sorted(INTRINSICS)),
        )  # fmt: skip
    row = INTRINSICS[stage.tensorized]
    if row not in target.matrix_instructions:
        return wrong(
            tree, stage.stage, f"{stage.stage} needs the instruction {stage.tensorized}, which the target does not have",
            expected=f"a target with {', '.join(sorted(row.features))} and vectors of {row.vector_bits} bits, as {row.example}",
        )  # fmt: skip
    try:
        tile_loops(tree, stage)
    except ScheduleError as error:
        return error
    return None
