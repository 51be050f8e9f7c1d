"""Products of bfloat16 parts, scheduled for the matrix unit in the simplest way, for tests of the cost model."""

from __future__ import annotations

from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import Sketch
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.tiles.bf16_parts import bf16_products
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

MATRIX_TARGET = parse_target("x86:avx512+amx;cores=2;l1=48K/64/1;l2=2M/64/1;l3=96M/64/2")


def products(m: int, n: int, k: int) -> Program:
    """C = A B by six products of parts, of the stages t0_rows and t0_columns."""
    program = canonical(
        parse(
            f"""
            input A: f32[{m}, {k}]
            input B: f32[{k}, {n}]
            C[i: {m}, j: {n}] = sum[k: {k}](A[i, k] * B[k, j])
            return C"""
        )
    )
    (stage,) = program.stages
    return bf16_products(program, stage.name, *(axis.name for axis in stage.all_axes))


def main_stage(program: Program) -> str:
    """The stage that multiplies the parts: the result itself where it is whole tiles."""
    (reader,) = program.consumers["t0_rows"]
    return reader.name


def on_tiles(s: Schedule) -> None:
    """Blocks of columns, depth, tiles: `rows` x `columns` tiles of sums; the operands are packed with all parts at once."""
    stage = s.stage(main_stage(s.program))
    i, j, block, word = stage.loops
    outer, tiles, side = s.split(i, s.factor("rows", at_most=3, default=2), 16)
    outer_j, tiles_j, side_j = s.split(j, s.factor("columns", at_most=6, default=2), 16)
    s.reorder(outer, outer_j, block, tiles, tiles_j, side, side_j, word)
    s.unroll(tiles, tiles_j, side, word)
    s.vectorize(side_j)
    s.tensorize(stage.name, "amx_bf16")
    for name in ("t0_rows", "t0_columns"):
        pack(s, name)


def pack(s: Schedule, name: str, unrolled: bool = True) -> None:
    """An operand: its parts inside, words along vectors."""
    stage = s.stage(name)
    *outer, part, row, word = stage.loops
    s.reorder(*outer, row, part, word)
    if unrolled:
        s.unroll(part)
    s.vectorize(s.split(word, 16)[1])


def tiles_sketch(program: Program) -> Sketch:
    """The only sketch of `on_tiles`."""
    (found,) = trace(on_tiles, program)
    return found
