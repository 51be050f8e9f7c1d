"""The sketches that the tiling rule derives: their structure, and their code at sizes that nothing divides."""

from __future__ import annotations

from random import Random

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.truth import check_case
from tilesmith.schedules.auto import derive
from tilesmith.schedules.loops import LoopKind
from tilesmith.schedules.space import config
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

NARROW = parse_target("x86:avx512;vector=128")


def vector_times_constant(n: int, k: int) -> Program:
    return ops.matmul(1, n, k, constants=("B",))


def vector_times_constant_with_epilogue(n: int, k: int) -> Program:
    return ops.matmul_bias_relu(1, n, k, constants=("B",))


FLAT = {"alone": vector_times_constant, "epilogue": vector_times_constant_with_epilogue}


@pytest.mark.parametrize("name", sorted(FLAT))
def test_a_vector_times_a_constant_matrix_reads_it_once_and_in_order(name: str) -> None:
    program = body_of(FLAT[name](4096, 4096))
    (sketch,) = [s for s in derive(program) if "block depth=true" not in s.title][1:]
    config_space = sketch.config_space(program, HOST)
    tree = sketch.apply(program, HOST, config(config_space, config_space.default))
    (copy,) = [stage for stage in tree.stages if stage.copies is not None]
    (reader,) = tree.program.consumers[tree.definition(copy.stage).name]
    reads = tree.by_stage[reader.name]
    assert copy.at is None, "a constant is packed when the kernel is made"
    assert [loop.kind for loop in copy.loops] == [LoopKind.SERIAL, LoopKind.SERIAL, LoopKind.UNROLL, LoopKind.VECTOR]
    tile = [loop.extent for loop in reads.loops if loop.kind in (LoopKind.UNROLL, LoopKind.VECTOR)]
    assert tile[-2:] == [loop.extent for loop in copy.loops[-2:]]
    assert any(loop.kind is LoopKind.PARALLEL for loop in tree.stages[-1].loops)


@pytest.mark.parametrize("name", sorted(FLAT))
@pytest.mark.parametrize(("n", "k"), [(37, 11), (5, 3), (130, 1), (64, 16)])
def test_tiles_of_one_row_are_counted_and_run(name: str, n: int, k: int) -> None:
    program = body_of(FLAT[name](n, k))
    for number, sketch in enumerate(derive(program)[1:]):
        assert any(check_case(program, sketch, NARROW, Random(seed), 8000) for seed in range(4)), sketch.title
        for values in some_configs(program, sketch, 2):
            assert_runs(program, sketch.apply(program, HOST, values), number)


@pytest.mark.parametrize("m", [2, 4, 8, 16])
def test_tiles_of_few_rows_times_a_constant_are_counted_and_run(m: int) -> None:
    program = body_of(ops.matmul(m, 21, 7, constants=("B",)))
    for number, sketch in enumerate(derive(program)[1:]):
        assert any(check_case(program, sketch, NARROW, Random(seed), 8000) for seed in range(4)), sketch.title
        (values,) = some_configs(program, sketch, 1)
        tree = sketch.apply(program, HOST, values)
        columns = [
            s for s in tree.stages if s.copies is not None and program.tensors[s.copies] in program.constant_inputs
        ]
        assert len(columns) == 1 and columns[0].at is None, "a constant is packed when the kernel is made"
        if number % 3 == 0:
            assert_runs(program, tree, number)


def test_without_a_constant_there_is_nothing_to_pack_for() -> None:
    for sketch in derive(body_of(ops.matmul(1, 64, 64))):
        assert "copy" not in sketch.text


@pytest.mark.parametrize(
    ("program", "asked"),
    [
        (ops.matmul(1, 512, 256, constants=("B",)), True),
        (ops.matmul(16, 512, 256, constants=("B",)), True),
        (ops.matmul_bias_relu(8, 512, 256, constants=("B",)), True),
        (ops.matmul(17, 512, 256, constants=("B",)), False),  # worth the time of its memory
        (ops.matmul(16, 512, 64, constants=("B",)), False),  # held by near caches
    ],
    ids=["vector", "16 rows", "epilogue", "17 rows", "small"],
)
def test_a_large_operand_that_is_used_a_few_times_is_asked_for_ahead(program: Program, asked: bool) -> None:
    body = body_of(program)
    tiled = [s for s in derive(body) if any(t.name.endswith(".vectors") for t in s.tunables)]
    tiled = [s for s in tiled if "matrix unit=true" not in s.title and "block depth=true" not in s.title]
    assert tiled
    for sketch in tiled:
        assert any(t.name.endswith(".ahead") for t in sketch.tunables) is asked, sketch.title


def test_what_streams_is_read_from_front_to_back_whatever_the_blocks_are() -> None:
    """The panel of columns stands still while the depth goes on; the rows are packed once, before everything else."""
    program = body_of(ops.matmul(16, 512, 256, constants=("B",)))
    (packed,) = [s for s in derive(program) if "pack rows=true" in s.title]
    config_space = packed.config_space(program, HOST)
    usual = config(config_space, config_space.default)
    tree = packed.apply(program, HOST, {**usual, "t0.column_blocks": 2, "t0.depth_blocks": 4})
    order = [loop.axis for loop in tree.by_stage["t0"].loops]
    assert order == ["a1", "a0", "a1", "a2", "a0", "a2", "a2", "a0", "a1", "a1"]
    (rows,) = [s for s in tree.stages if s.copies == "x0"]
    assert rows.at is None and rows.loops[0].kind is LoopKind.PARALLEL


@pytest.mark.parametrize("m", [1, 3, 16])
def test_kernels_that_ask_ahead_run(m: int) -> None:
    program = body_of(ops.matmul(m, 263, 251, constants=("B",)))
    (first, *_) = [s for s in derive(program) if any(t.name.endswith(".ahead") for t in s.tunables)]
    config_space = first.config_space(program, HOST)
    usual = config(config_space, config_space.default)
    for ahead in (0, 1024, 8192):
        tree = first.apply(program, HOST, {**usual, "t0.ahead": ahead})
        assert_runs(program, tree, ahead)
