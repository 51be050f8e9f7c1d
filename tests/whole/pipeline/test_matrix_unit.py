"""Programs on the matrix unit: all their sketches for it, at sizes that no tile divides, against the oracle.

Where this processor has no such unit, code runs on an emulated one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from helpers.bochs.kernels import run as emulated
from helpers.lowering.interpreter import Interpreter
from helpers.pipeline.candidates import complaint, random_config, run
from tilesmith.codegen.pipeline import build, loop_ir
from tilesmith.common.errors import ScheduleError
from tilesmith.cost_model.cpu.analysis import analyse
from tilesmith.schedules.auto import derive
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import broken_conditions
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.exceptional import exceptional_condition
from tilesmith.tensor.ops import matmul
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

HOST = parse_target("host")
WITH_UNIT = parse_target("x86:avx512+amx")
LONG = [] if HOST.has_matrix_unit else [pytest.mark.slow]  # thousands of products of tiles
MOST = 10 if HOST.has_matrix_unit else 1  # sketches of a program that are tried
TARGET = HOST if HOST.has_matrix_unit else WITH_UNIT
RUN = run if HOST.has_matrix_unit else emulated

PROGRAMS = {
    "ragged": """
        input A: f32[45, 70]
        input B: f32[70, 83]
        C[i: 45, j: 83] = sum[k: 70](A[i, k] * B[k, j])
        return C
        """,
    "whole tiles": """
        input A: f32[64, 96]
        constant B: f32[96, 48]
        C[i: 64, j: 48] = sum[k: 96](A[i, k] * B[k, j])
        return C
        """,
    "transposed": """
        input A: f32[64, 45]
        input B: f32[37, 64]
        C[i: 45, j: 37] = sum[k: 64](A[k, i] * B[j, k])
        return C
        """,
    "batch": """
        input A: f32[3, 20, 40]
        input B: f32[3, 40, 33]
        C[b: 3, i: 20, j: 33] = sum[k: 40](A[b, i, k] * B[b, k, j])
        return C
        """,
    "with an epilogue": """
        input A: f32[33, 64]
        input B: f32[64, 50]
        input bias: f32[50]
        input R: f32[33, 50]
        C[i: 33, j: 50] = sum[k: 64](A[i, k] * B[k, j])
        D[i: 33, j: 50] = max(C[i, j] + bias[j], 0) + R[i, j]
        return D
        """,
    "window": """
        input X: f32[9, 21, 40]
        constant W: f32[3, 3, 40, 24]
        Y[p: 9, q: 21, o: 24] = sum[r: 3, s: 3, c: 40](
            select(p + r >= 1 and p + r < 10 and q + s >= 1 and q + s < 22, X[p + r - 1, q + s - 1, c], 0) * W[r, s, c, o])
        return Y
        """,
    "window in steps": """
        input X: f32[32, 9, 37]
        constant W: f32[24, 32, 3, 3]
        Y[o: 24, p: 4, q: 18] = sum[c: 32, r: 3, s: 3](X[c, 2 * p + r, 2 * q + s] * W[o, c, r, s])
        return Y
        """,
    "twice": """
        input A: f32[20, 40]
        input B: f32[40, 48]
        input C: f32[48, 18]
        D[i: 20, j: 48] = sum[k: 40](A[i, k] * B[k, j])
        E[i: 20, j: 48] = exp(min(D[i, j], 0))
        F[i: 20, l: 18] = sum[j: 48](E[i, j] * C[j, l])
        return F
        """,
}


def on_the_unit(task: Task) -> list[tuple[int, str]]:
    return [(n, sketch.title) for n, sketch in enumerate(task.sketches) if "tensorize(" in sketch.text]


@pytest.mark.parametrize("name", PROGRAMS)
def test_its_sketches_are_right(name: str) -> None:
    rng = np.random.default_rng(0)
    for threads in (1, 2):
        task = Task.of(parse(PROGRAMS[name]), TARGET, threads)
        found = on_the_unit(task)
        assert found
        few = found if len(found) <= MOST else [found[n] for n in rng.permutation(len(found))[:MOST]]
        for number, title in few:
            values = random_config(task, task.sketches[number], rng)
            assert values is not None, title
            wrong = complaint(task, task.sketches[number], values, number, at_end=bool(rng.integers(2)), runner=RUN)
            assert wrong is None, f"{title} {values}: {wrong}"


@pytest.mark.parametrize("name", ["ragged", "whole tiles", "batch", "with an epilogue", "window"])
def test_words_that_are_made_on_first_use_are_right(name: str) -> None:
    rng = np.random.default_rng(2)
    for threads in (1, 2):
        task = Task.of(parse(PROGRAMS[name]), TARGET, threads)
        found = [n for n, _ in on_the_unit(task) if "on_first_use(" in task.sketches[n].text]
        for number in rng.permutation(found)[: MOST // 2 + 1]:
            sketch = task.sketches[number]
            values = random_config(task, sketch, rng)
            assert values is not None, sketch.title
            wrong = complaint(task, sketch, values, 7, at_end=bool(rng.integers(2)), runner=RUN)
            assert wrong is None, f"{sketch.title} {values}: {wrong}"


@settings(deadline=None, max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(8, 70), st.integers(16, 90), st.integers(32, 100), st.booleans(), st.integers(0, 2**32))
def test_products_of_any_size_are_right(m: int, n: int, k: int, constant: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    task = Task.of(matmul(m, n, k, constants=("B",) if constant else ()), TARGET, int(rng.integers(1, 3)))
    found = on_the_unit(task)
    assume(found)
    number, title = found[rng.integers(len(found))]
    values = random_config(task, task.sketches[number], rng)
    assert values is not None, title
    note(f"{title} {values}, {task.threads} threads")
    assert complaint(task, task.sketches[number], values, seed % 1000, at_end=bool(rng.integers(2)), runner=RUN) is None


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_target_without_the_unit_has_no_such_sketches(name: str) -> None:
    task = Task.of(parse(PROGRAMS[name]), parse_target("x86:avx512"), 1)
    assert not on_the_unit(task)


def test_a_sketch_for_the_unit_is_refused_elsewhere() -> None:
    task = Task.of(parse(PROGRAMS["ragged"]), WITH_UNIT, 1)
    sketch = task.sketches[on_the_unit(task)[0][0]]
    other = parse_target("x86:avx512")
    values = random_config(task, sketch, np.random.default_rng(0))
    assert values is not None
    tree = sketch.apply(task.body, other, values)
    assert "the target has a matrix unit" in broken_conditions(tree), "so `compile` passes such a record over"
    with pytest.raises(ScheduleError, match="which the target does not have") as caught:
        loop_ir(tree, other)
    assert "x86:avx512+amx" in caught.value.expected


def test_loops_that_are_no_tile_are_refused() -> None:
    program = canonical(matmul(32, 32, 32))

    def template(s: Schedule) -> None:
        s.tensorize("t0", "amx_bf16")

    (sketch,) = trace(template, program)
    with pytest.raises(ScheduleError, match="the loops of t0 are not those of amx_bf16") as caught:
        loop_ir(sketch.apply(program, WITH_UNIT, {}), WITH_UNIT)
    assert "unroll 16 rows" in caught.value.expected


def in_tiles(s: Schedule, outside: int) -> None:
    """The loops of a tile; `outside`: how many reduction loops stand right around it, the others stand outermost."""
    i, j, *depth, word = s.stage("t0").loops
    rows, columns = s.split(i, 1, 16), s.split(j, 1, 16)
    around = depth[:outside]
    s.reorder(*depth[outside:], rows[0], columns[0], *around, rows[1], columns[1], rows[2], columns[2], word)
    s.unroll(rows[1], columns[1], rows[2], word)
    s.vectorize(columns[2])
    s.tensorize("t0", "amx_bf16")


@pytest.mark.parametrize(
    ("outside", "message"),
    [(1, "t0 is no sum that amx_bf16 computes"), (0, "the loops of t0 are not those of amx_bf16")],
)
def test_sums_of_other_things_and_tiles_that_accumulate_nothing_are_refused(outside: int, message: str) -> None:
    text = "input x: f32[32, 3, 16]\ninput y: f32[3, 16, 32]\n"
    text += "z[i: 32, j: 32] = sum[b: 3, w: 16](x[i, b, w] * y[b, w, j])\nreturn z\n"
    program = canonical(parse(text))
    (sketch,) = trace(lambda s: in_tiles(s, outside), program)
    with pytest.raises(ScheduleError, match=message):
        loop_ir(sketch.apply(program, WITH_UNIT, {}), WITH_UNIT)


# What is no ordinary number: as NumPy has it


def special(name: str, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Ordinary numbers, some of which are not."""
    array = rng.standard_normal(shape).astype(np.float32)
    flat = array.reshape(-1)
    some = rng.choice(flat.size, 3, replace=False)
    match name:
        case "infinities":
            flat[some] = [np.inf, -np.inf, np.inf]
        case "nan":
            flat[some[:2]] = [np.nan, np.inf]
        case "subnormal":
            flat[some] = [1e-40, -1e-45, 1e-38]
            array[..., 0, :] = 1e-40
        case "large":
            flat[some] = [1e38, -2e38, 3.402e38]
        case "small results":
            array *= np.float32(1e-20)
        case "large results":
            array *= np.float32(3e17)
    return array


def plain(program: Program, inputs: list[np.ndarray], absolute: bool = False) -> np.ndarray:
    """The result by float64, rounded: an infinity where float32 has none."""
    with np.errstate(all="ignore"):
        (result,) = evaluate(program, [np.abs(x) for x in inputs] if absolute else inputs)
        return result.astype(np.float32)


SPECIAL = ("infinities", "nan", "subnormal", "large", "small results", "large results")


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *[(name, "") for name in ("ragged", "whole tiles", "transposed", "batch")],
        *[pytest.param(name, "", marks=LONG) for name in ("window", "window in steps")],
        *[pytest.param(name, "on_first_use(", marks=LONG) for name in ("ragged", "whole tiles")],
    ],
)
def test_what_is_no_ordinary_number_is_as_in_float32(name: str, how: str) -> None:
    rng = np.random.default_rng(1)
    task = Task.of(parse(PROGRAMS[name]), TARGET, 2)
    sketch = next(task.sketches[n] for n, _ in on_the_unit(task) if how in task.sketches[n].text)
    values = random_config(task, sketch, rng)
    assert values is not None
    artifact = build(task.program, sketch, values, TARGET, 2)
    for kind in SPECIAL:
        for place in range(2):
            inputs = [special(kind, rng, d.tensor.shape) for d in task.program.inputs]
            if "results" not in kind:
                inputs[place] = rng.standard_normal(inputs[place].shape).astype(np.float32)
            (found,) = RUN(artifact, task, inputs, True)
            expected, scale = plain(task.program, inputs), plain(task.program, inputs, absolute=True)
            # where terms overflow, what float32 gives depends on their order
            sure = np.isfinite(scale) | (kind in ("infinities", "nan"))
            for test in (np.isnan, np.isinf):
                np.testing.assert_array_equal(test(found)[sure], test(expected)[sure], f"{kind} {place}")
            fine = np.isfinite(expected) & np.isfinite(scale)
            assert np.any(fine)
            wrong = np.abs(found[fine].astype(np.float64) - expected[fine])
            assert np.all(wrong <= 1e-5 * scale[fine].astype(np.float64) + 2.0**-147), f"{kind} {place}"
            if kind == "small results":
                assert np.abs(found).max() > 0


def test_ordinary_data_ask_for_no_other_sums() -> None:
    """The sums that stand in for products that are not finite run for the vectors of results that need them, and no others."""
    task = Task.of(matmul(16, 48, 32), WITH_UNIT, 1)
    sketch = task.sketches[on_the_unit(task)[0][0]]
    values = random_config(task, sketch, np.random.default_rng(0))
    assert values is not None
    tree = sketch.apply(task.body, WITH_UNIT, values)
    (exact,) = [s for s in tree.stages if exceptional_condition(tree.definition(s.stage)) is not None]
    assert exact.at is not None
    (depth,) = [loop.name for loop in exact.loops if loop.extent == 32]
    a, b = random_inputs(task.program, 0)
    for bad, vectors in ((0, 0), (1, 3), (2, 6)):
        a = a.copy()
        a[:bad, 5] = np.inf
        interpreter = Interpreter(loop_ir(tree, WITH_UNIT))
        (shape,) = [task.program.tensors[name].shape for name in task.program.outputs]
        result = np.zeros(shape, np.float32)
        interpreter.run([a, b, result])
        assert interpreter.trips[depth] == 32 * vectors
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(result, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_sums_stand_beside_what_needs_them_and_cost_nothing(name: str) -> None:
    task = Task.of(parse(PROGRAMS[name]), WITH_UNIT, 2)
    for number, title in on_the_unit(task):
        sketch = task.sketches[number]
        values = random_config(task, sketch, np.random.default_rng(0))
        assert values is not None, title
        tree = sketch.apply(task.body, WITH_UNIT, values)
        sums = [s for s in tree.stages if exceptional_condition(tree.definition(s.stage)) is not None]
        assert sums
        counted = {s.name for nest in analyse(tree, WITH_UNIT, 2).nests for s, _ in nest.work}
        assert len(counted) >= 2
        for stage in sums:
            assert stage.at is not None, title
            assert stage.stage not in counted
            assert not any(f"{stage.stage}." in tunable.name for tunable in sketch.tunables)


def test_small_products_stay_with_vectors() -> None:
    for size in ((4, 64, 64), (64, 4, 64), (64, 64, 16)):
        sketches = derive(canonical(matmul(*size)), WITH_UNIT)
        assert not any("tensorize(" in sketch.text for sketch in sketches)
