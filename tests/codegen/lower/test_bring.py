"""Bringing near: while a block is worked on, every line of the next one is asked for, a little at a time."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from helpers.emission.loops import HOST, run
from helpers.lowering.interpreter import Interpreter
from helpers.lowering.truth import exact_inputs
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.ir.loop_ir import LoopProgram, Prefetch, Statement, statements
from tilesmith.codegen.pipeline import assembled, loop_ir
from tilesmith.common.errors import TemplateError
from tilesmith.schedules.auto import derive
from tilesmith.schedules.rules.cpu import window
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import broken_conditions
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.expr import reads
from tilesmith.tensor.ops import conv2d, matmul, matmul_bias_relu
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

AVX512 = parse_target("x86:avx512")
AVX2 = parse_target("x86:avx2")
LINE = 16


def tiled(columns: bool) -> Callable[[Schedule], None]:
    """Tiles of 4 x 2 vectors; the next panel of B (or the next rows of A) is brought near around the tiles in a block."""

    def template(s: Schedule) -> None:
        i, j, k = s.stage("t0").loops
        i0, i1 = s.split(i, 4)
        j0, j1, j2 = s.split(j, 2, 16)
        k0, k1 = s.split(k, 4)
        outer, inner, tensor = (j0, i0, "x1") if columns else (i0, j0, "x0")
        s.reorder(outer, inner, k0, k1, i1, j1, j2)
        s.unroll(k1, i1, j1)
        s.vectorize(j2)
        s.bring("t0", tensor, outer)

    return template


def lowered(program: Program, columns: bool) -> LoopProgram:
    (sketch,) = trace(tiled(columns), program)
    return loop_ir(sketch.apply(program, AVX512, {}), AVX512)


def lines(loops: LoopProgram, program: Program, tensor: str) -> set[int]:
    """Numbers of the lines (of arrays that begin at one) that are asked for; what lies outside of the tensor is left out."""
    interpreter = Interpreter(loops)
    inputs = exact_inputs(program, 0)
    interpreter.run(
        [*inputs, np.zeros((program.stages[0].axes[0].extent, program.stages[0].axes[1].extent), np.float32)]
    )
    assert {name for name, _ in interpreter.hints} == {tensor}
    shape = program.tensors[tensor].shape
    asked = {row * shape[1] + column for _, (row, column) in interpreter.hints if row < shape[0] and column < shape[1]}
    return {element // LINE for element in asked}


@pytest.mark.parametrize("depth", [16, 20, 32])
def test_every_line_of_the_next_panel_of_columns(depth: int) -> None:
    program = canonical(matmul(12, 96, depth))
    panels = [row * 6 + vector for row in range(depth) for vector in range(2, 6)]  # all but the first panel's
    assert set(panels) <= lines(lowered(program, True), program, "x1")


@pytest.mark.parametrize("depth", [16, 32, 48])
def test_every_line_of_the_next_rows(depth: int) -> None:
    program = canonical(matmul(12, 96, depth))
    first = 4 * depth // LINE
    assert set(range(first, 12 * depth // LINE)) <= lines(lowered(program, False), program, "x0")


def packed(constant: str, unroll: int) -> tuple[LoopProgram, Artifact]:
    """A product of which one operand is packed once, for tiles of 4 x 24 points, and brought near."""
    program = canonical(matmul(24, 96, 40, constants=(constant,)))
    inner = "true" if constant == "B" else "false"
    words = (f"rows innermost = {inner}", "columns outside = true")
    sketch = next(
        one for one in derive(program) if "bring(t0, copy0, " in one.text and all(w in one.text for w in words)
    )
    config = {t.name: 1 for t in sketch.tunables}
    config |= {"t0.rows": 4, "t0.vectors": 3, "t0.unroll": unroll, "t0.bring": 1}
    loops = loop_ir(sketch.apply(program, AVX2, config), AVX2)
    return loops, assembled(loops, AVX2, 1, texts=True)


@pytest.mark.parametrize("unroll", [1, 3, 4])
@pytest.mark.parametrize(("constant", "panels", "width"), [("B", 4, 24), ("A", 6, 4)])
def test_every_line_of_what_is_packed_once_and_few_beyond(constant: str, panels: int, width: int, unroll: int) -> None:
    """A panel lies in one piece, so its lines are asked for in order, whatever the tile's width is."""
    loops, _ = packed(constant, unroll)
    interpreter = Interpreter(loops)
    interpreter.run([np.zeros(buffer.shape, np.float32) for buffer in loops.arguments])
    (shape,) = {b.shape for b in loops.globals if b.name == "copy0"}
    panel = shape[1] * shape[2] // LINE
    assert shape == (panels, shape[1], width)
    assert {name for name, _ in interpreter.hints} == {"copy0"}
    asked = [np.dot(at, strides_of(shape)) / LINE for _, at in interpreter.hints]
    wanted = set(range(panel, panels * panel))
    assert wanted <= set(asked)
    assert max(asked) <= (panels + 1) * panel + panel // 10


@pytest.mark.parametrize("depth", [16, 120])  # 1080 terms are summed in blocks
def test_windows_between_the_loops_are_gone_through_from_their_first_point(depth: int) -> None:
    """Each trip of the window's loops asks for its share of the whole panel, not of its own part again."""
    program = canonical(
        parse(f"""
        input x: f32[6, 4, {depth}]
        input w: f32[3, 3, {depth}, 96]
        y[p: 4, q: 2, o: 96] = sum[r: 3, s: 3, c: {depth}](x[p + r, q + s, c] * w[r, s, c, o])
        return y
        """)
    )

    def template(s: Schedule) -> None:
        p, q, o, r, w, c = s.stage("t0").loops
        o0, o1, o2 = s.split(o, 2, 16)
        c0, c1 = s.split(c, 2)
        s.reorder(o0, p, r, w, c0, c1, q, o1, o2)
        s.unroll(c1, q, o1)
        s.vectorize(o2)
        s.bring("t0", "x1", o0)

    (sketch,) = trace(template, program)
    interpreter = Interpreter(loop_ir(sketch.apply(program, AVX512, {}), AVX512))
    interpreter.run([*exact_inputs(program, 0), np.zeros((4, 2, 96), np.float32)])
    asked = {(r, s, c, o // LINE) for _, (r, s, c, o) in interpreter.hints if o < 96}
    assert asked == {(r, s, c, v) for r in range(3) for s in range(3) for c in range(depth) for v in range(2, 6)}


@pytest.mark.parametrize("depth", [16, 120])
@pytest.mark.parametrize("innermost", [True, False])
def test_weights_of_windows_are_brought_in_the_order_in_which_they_lie(
    monkeypatch: pytest.MonkeyPatch, innermost: bool, depth: int
) -> None:
    """A panel of them goes over all points of the window, and over all tiles of a block of columns."""
    monkeypatch.setattr(window, "BEYOND", 1)
    program = canonical(conv2d(1, depth, 4, 4, 96, layout="nhwc", constants=("W",)))
    words = (f"windows innermost = {str(innermost).lower()}", "lines outside = false", "bring(t0, copy0, ")
    sketch = next(one for one in derive(program) if all(word in one.text for word in words))
    config = {t.name: 1 for t in sketch.tunables}
    config |= {"t0.rows": 2, "t0.vectors": 2, "t0.column_tiles": 2, "t0.bring": 1}
    loops = loop_ir(sketch.apply(program, AVX2, config), AVX2)
    interpreter = Interpreter(loops)
    interpreter.run([np.zeros(buffer.shape, np.float32) for buffer in loops.arguments])
    (shape,) = {b.shape for b in loops.globals if b.name == "copy0"}
    panel = 2 * 9 * depth
    assert {name for name, _ in interpreter.hints} == {"copy0"}
    asked = [np.dot(at, strides_of(shape)) / LINE for _, at in interpreter.hints]
    assert set(range(panel, 3 * panel)) <= set(asked)
    assert panel <= min(asked) and max(asked) < 4 * panel + panel // 10


def strides_of(shape: tuple[int, ...]) -> list[int]:
    """Elements from one place to the next, along each dimension."""
    return [int(np.prod(shape[n + 1 :])) for n in range(len(shape))]


def test_a_block_of_weights_is_brought_where_two_have_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the second cache: what is asked for would drive out what is in use."""
    monkeypatch.setattr(window, "BEYOND", 1)
    program = canonical(conv2d(1, 128, 4, 4, 2048, layout="nhwc", constants=("W",)))
    sketch = next(one for one in derive(program) if "bring(t0, copy0, " in one.text)
    defaults = {t.name: 1 for t in sketch.tunables}
    block = 9 * 128 * 4 * AVX2.vector_bits // 32
    for tiles in (1, 8):
        fits = 2 * block * 2 * tiles <= AVX2.caches[1].bytes
        config = defaults | {"t0.vectors": 2, "t0.rows": 2, "t0.column_tiles": tiles, "t0.bring": 1}
        assert (not broken_conditions(sketch.apply(program, AVX2, config))) is fits
        assert not broken_conditions(sketch.apply(program, AVX2, config | {"t0.bring": 0}))


def test_a_place_in_what_is_packed_takes_few_instructions() -> None:
    """In steps of one point there is a hint every six cycles: two quotients and a remainder in each cost a quarter of a
    product's time."""
    _, artifact = packed("B", 1)
    (loop,) = (text for text in re.split(r"\n\.LBB", artifact.texts["asm"]) if "prefetch" in text)
    assert loop.count("vfmadd") == 12
    assert len(re.findall(r"\n\t[a-z]", loop.split("\tprefetch")[0])) <= 5


def test_a_loop_of_one_trip_asks_for_nothing() -> None:
    """All of it would lie beyond the tensor, in pages that have to be looked up."""
    assert not any(isinstance(s, Prefetch) for s in _all(lowered(canonical(matmul(12, 32, 32)), True)))
    assert any(isinstance(s, Prefetch) for s in _all(lowered(canonical(matmul(12, 64, 32)), True)))


def _all(loops: LoopProgram) -> list[Statement]:
    return [one for nest in loops.nests for one in statements(nest.body)]


@pytest.mark.parametrize(("m", "n", "k"), [(12, 96, 32), (13, 100, 33), (3, 5, 1), (9, 64, 7)])
@pytest.mark.parametrize("columns", [True, False])
def test_values_are_the_same(m: int, n: int, k: int, columns: bool) -> None:
    program = canonical(matmul(m, n, k))
    inputs = exact_inputs(program, m)
    (want,) = evaluate(program, inputs)
    if HOST.vector_bits != 512:
        pytest.skip("written for vectors of 16 floats")
    (output,) = run(lowered(program, columns), inputs, 1)
    assert np.array_equal(output.reshape(want.shape), want)


def test_addresses_of_hints_cost_no_signed_division() -> None:
    """None is negative; what a signed quotient costs on top made 512x512x512 with 8 lanes slower by a third."""
    for columns in (False, True):
        artifact = assembled(lowered(canonical(matmul(12, 100, 33)), columns), AVX512, 1, texts=True)
        assert "llvm.prefetch" in artifact.texts["llvm"]
        assert "sdiv" not in artifact.texts["llvm"]


def test_hints_stand_once_in_an_unrolled_trip() -> None:
    program = canonical(matmul(12, 96, 32))
    text = assembled(lowered(program, True), AVX512, 1, texts=True).texts["asm"]
    # 64 lines of a panel in 24 trips: 3 each
    assert len(re.findall(r"\tprefetcht0", text)) == 3


def test_rules_offer_it_for_the_operand_that_moves_and_for_epilogues() -> None:
    for program in (matmul(64, 64, 64), matmul_bias_relu(64, 64, 64)):
        texts = [sketch.text for sketch in derive(canonical(program))]
        for operand in ("x0", "x1"):
            assert any(f"bring(t0, {operand}, " in text for text in texts)


@pytest.mark.parametrize("operand", ["x0", "x1"])
def test_a_stage_inside_of_its_epilogue_counts_the_trips_around_it(operand: str) -> None:
    program = canonical(matmul_bias_relu(20, 70, 33))
    inputs = exact_inputs(program, 1)
    (want,) = evaluate(program, inputs)
    ran = 0
    for sketch in derive(program):
        if f"bring(t0, {operand}, " not in sketch.text:
            continue
        config = {t.name: 1 if t.name.endswith("bring") else t.default for t in sketch.tunables}
        (output,) = run(loop_ir(sketch.apply(program, HOST, config), HOST), inputs, 1)
        assert np.array_equal(output.reshape(want.shape), want)
        ran += 1
    assert ran


def test_a_tensor_that_is_not_read_is_refused() -> None:
    def template(s: Schedule) -> None:
        s.bring("t0", "t0", s.stage("t0").loops[0])

    with pytest.raises(TemplateError, match="t0 does not read t0"):
        trace(template, canonical(matmul(4, 4, 4)))


def test_what_places_depend_on_data_is_not_asked_for() -> None:
    """Finding out where those are is a read, and it may go astray where a hint may."""
    program = canonical(
        parse("""
        input x: f32[5, 35]
        input c: i64[16]
        input w: f32[16, 7]
        t[i: 5, j: 33] = max[r: 3](x[i, j + r])
        u[i: 5, j: 7] = sum[k: 16](t[i, min(max(c[k], 0), 32)] * w[k, j])
        return u
        """)
    )
    brought = 0
    for sketch in derive(program):
        config_space = sketch.config_space(program, AVX512)
        values = {p.name: 1 if p.name.endswith(".bring") else p.values[p.default] for p in config_space.parameters}
        brought += any(step.op == "bring" and step.arguments[1] == "t0" for step in sketch.steps)
        nests = loop_ir(sketch.apply(program, AVX512, values), AVX512).nests
        hints = [s for nest in nests for s in statements(nest.body) if isinstance(s, Prefetch)]
        assert not any(reads(index) for hint in hints for index in hint.indices)
    assert brought


@pytest.mark.parametrize(("columns", "blocks"), [(128, 1), (128, 4), (96, 2)])
def test_every_line_of_numbers_of_which_tiles_are_made(columns: int, blocks: int) -> None:
    """A product on a matrix unit reads words; what is asked for are the constant numbers that they are made of in its nest."""
    unit = parse_target("x86:avx512+amx")
    task = Task.of(matmul(32, columns, 64, constants=("B",)), unit, 1)
    words = ("on_first_use(", "rows packed inside = true", "columns outside = true")
    sketch = next(one for one in task.sketches if all(word in one.text for word in words))
    named = {"rows": 2, "columns": 2, "column_blocks": blocks}
    config = {t.name: named.get(t.name.rpartition(".")[2], 1) for t in sketch.tunables}
    loops = loop_ir(sketch.apply(task.body, unit, config), unit)
    interpreter = Interpreter(loops)
    interpreter.run([np.zeros(buffer.shape, np.float32) for buffer in loops.arguments])
    (numbers,) = {buffer.name for buffer in loops.globals if len(buffer.shape) == 3}
    assert {name for name, _ in interpreter.hints} == {numbers}
    asked = {np.dot(at, strides_of((columns // 16, 64, 16))) // LINE for _, at in interpreter.hints}
    tile, end = 2 * 64, columns // 16 * 64  # lines of a register tile of columns, and of all
    assert set(range(tile, end)) <= asked
    assert max(asked) < end + tile
