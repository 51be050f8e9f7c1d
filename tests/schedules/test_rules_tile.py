"""The sketches that the tiling rule derives: their structure, and their code at sizes that nothing divides."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from emission.loops import HOST, run
from lowering.truth import check_case, exact_inputs

from tilesmith.codegen.lower import lower
from tilesmith.schedules.auto import derive
from tilesmith.schedules.loops import LoopKind, LoopTree
from tilesmith.schedules.sketch import Sketch, valid
from tilesmith.schedules.space import Value, config
from tilesmith.schedules.task import normalised
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.reference import evaluate
from tilesmith.tensor.text import canonical

NARROW = parse_target("x86:avx512;vector=128")


def body_of(program: Program) -> Program:
    return normalised(canonical(program))


def vector_times_constant(n: int, k: int) -> Program:
    return ops.matmul(1, n, k, constants=("B",))


def vector_times_constant_with_epilogue(n: int, k: int) -> Program:
    return ops.matmul_bias_relu(1, n, k, constants=("B",))


FLAT = {"alone": vector_times_constant, "epilogue": vector_times_constant_with_epilogue}


def trees(program: Program, sketch: Sketch, count: int) -> list[dict[str, Value]]:
    """Some valid configs of a sketch on the host."""
    arm = sketch.arm(program, HOST)
    generator = np.random.default_rng(3)
    choices = np.stack([generator.integers(0, len(p.values), 256, dtype=np.int32) for p in arm.parameters], axis=1)
    good = np.flatnonzero(valid(sketch.apply_population(program, HOST, arm, choices), len(choices)))
    return [config(arm, choices[row]) for row in good[:count]]


def assert_runs(program: Program, tree: LoopTree, seed: int) -> None:
    """Compiled, with one thread and with two, arrays at the ends of pages that nobody may touch beyond."""
    loops = lower(tree, HOST)
    inputs = exact_inputs(program, seed)
    by_name = {declared.tensor.name: array for declared, array in zip(program.inputs, inputs, strict=True)}
    given = [by_name[buffer.name] for buffer in loops.arguments if buffer.name in by_name]
    wanted, scales = evaluate(program, inputs), evaluate(program, inputs, absolute=True)
    for threads in (1, 2):
        outputs = run(loops, given, threads, at_end=bool(seed % 2))
        for output, want, scale in zip(outputs, wanted, scales, strict=True):
            assert np.all(np.abs(output.reshape(want.shape) - want) <= 1e-5 * scale + 1e-30)


@pytest.mark.parametrize("name", sorted(FLAT))
def test_a_vector_times_a_constant_matrix_reads_it_once_and_in_order(name: str) -> None:
    program = body_of(FLAT[name](4096, 4096))
    (sketch,) = [s for s in derive(program) if "block depth=true" not in s.title][1:]
    arm = sketch.arm(program, HOST)
    tree = sketch.apply(program, HOST, config(arm, arm.default))
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
        for values in trees(program, sketch, 2):
            assert_runs(program, sketch.apply(program, HOST, values), number)


def test_without_a_constant_there_is_nothing_to_pack_for() -> None:
    for sketch in derive(body_of(ops.matmul(1, 64, 64))):
        assert "copy" not in sketch.text
