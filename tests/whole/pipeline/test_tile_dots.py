"""Products of bytes and of bfloat16 on a matrix unit, at sizes that no tile divides, against the oracle and NumPy.

Where this processor has no such unit, code runs on an emulated one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from helpers.bochs.matrix_unit import RUN, SAPPHIRE, TARGET
from helpers.pipeline.candidates import complaint, random_config
from helpers.pipeline.narrow_products import PROGRAMS, product
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.matrix_instructions import MATRIX_INSTRUCTIONS, InstructionScope
from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.apply.tiers import analytic_pick

BYTES = ("u8 i8", "i8 u8", "i8 i8", "u8 u8")
IN_WORDS = ("colours", "four bits in groups")  # a depth that is short, or in groups, makes no tiles
ON_UNIT = [name for name in PROGRAMS if "s16" not in name and name not in IN_WORDS]
Array = np.ndarray


def on_the_unit(task: Task) -> list[Sketch]:
    return [sketch for sketch in task.sketches if "tensorize(" in sketch.text]


@pytest.mark.parametrize("name", ON_UNIT)
def test_sketches_are_right(name: str) -> None:
    rng = np.random.default_rng(0)
    for threads in (1, 2):
        task = Task.of(parse(PROGRAMS[name]), TARGET, threads)
        found = [sketch for sketch in on_the_unit(task) if "tile_dots" in sketch.text]
        assert found
        for sketch in found[threads - 1 :][:1] or found[:1]:
            values = random_config(task, sketch, rng)
            assert values is not None, sketch.title
            wrong = complaint(task, sketch, values, 1, at_end=bool(rng.integers(2)), runner=RUN)
            assert wrong is None, f"{sketch.title} {values}: {wrong}"


@settings(deadline=None, max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(8, 50), st.integers(16, 90), st.integers(32, 150), st.sampled_from((*BYTES, "bf16 bf16")),
    st.booleans(), st.integers(0, 2**32),
)  # fmt: skip
def test_products_of_any_size_are_right(m: int, n: int, k: int, kinds: str, constant: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = parse(product(*kinds.split(), m=m, n=n, k=k, kind="constant" if constant else "input"))
    task = Task.of(program, TARGET, int(rng.integers(1, 3)))
    found = on_the_unit(task)
    assume(found)
    sketch = found[rng.integers(len(found))]
    values = random_config(task, sketch, rng)
    assert values is not None, sketch.title
    note(f"{sketch.title} {values}, {task.threads} threads")
    assert complaint(task, sketch, values, seed % 1000, at_end=bool(rng.integers(2)), runner=RUN) is None


@pytest.mark.parametrize("kinds", [*BYTES, "bf16 bf16"])
@pytest.mark.parametrize(("m", "k"), [(32, 128), (48, 192)])
def test_rows_are_read_where_they_lie(kinds: str, m: int, k: int) -> None:
    """Tiles of rows that divide an input are loaded from there: no stage makes words of them, nothing beyond is read."""
    rng = np.random.default_rng(m)
    task = Task.of(parse(product(*kinds.split(), m=m, n=40, k=k, kind="constant")), TARGET, 2)
    found = [sketch for sketch in on_the_unit(task) if ("rows in place", True) in sketch.variants]
    assert found and len(found) < len(on_the_unit(task))
    for sketch in found[:2]:
        values = random_config(task, sketch, rng)
        assert values is not None
        for at_end in (False, True):
            assert complaint(task, sketch, values, 7, at_end=at_end, runner=RUN) is None


@pytest.mark.parametrize("kinds", [*BYTES, "bf16 bf16"])
@pytest.mark.parametrize(("n", "k"), [(40, 128), (300, 100)])
def test_columns_that_lie_along_the_depth_are_turned_in_registers(kinds: str, n: int, k: int) -> None:
    text = product(*kinds.split(), m=20, n=n, k=k).replace(f"[{k}, {n}]", f"[{n}, {k}]").replace("B[k, j]", "B[j, k]")
    task = Task.of(parse(text), TARGET, 2)
    for seed, sketch in enumerate(on_the_unit(task)[:2]):
        assert "turned=True" in sketch.text and "register" in sketch.text
        values = random_config(task, sketch, np.random.default_rng(seed))
        assert values is not None
        assert complaint(task, sketch, values, 7, at_end=bool(seed), runner=RUN) is None


@pytest.mark.parametrize(("m", "k"), [(40, 128), (32, 100)])
def test_rows_that_tiles_do_not_divide_are_packed(m: int, k: int) -> None:
    task = Task.of(parse(product("u8", "i8", m=m, n=40, k=k, kind="constant")), TARGET, 1)
    assert not [sketch for sketch in task.sketches if "rows in place" in dict(sketch.variants)]


MERGED = (
    """
    input X: u8[7, 9, 40]
    constant W: i8[3, 3, 40, 33]
    constant z: f32[33]
    input R: u8[7, 9, 33]
    S[p: 7, q: 9, o: 33] = sum[r: 3, s: 3, c: 40](i32(select(p + r >= 1 and p + r < 8 and q + s >= 1 and q + s < 10,
        X[p + r - 1, q + s - 1, c], 0)) * i32(W[r, s, c, o]))
    Y[p: 7, q: 9, o: 33] = u8(min(max(round(f32(S[p, q, o]) * z[o]) + f32(R[p, q, o]), 0), 255))
    return Y
    """,
    """
    input X: bf16[7, 18, 64]
    constant W: bf16[64, 48]
    S[p: 4, q: 9, o: 48] = sum[c: 64](f32(X[2 * p, 2 * q, c]) * f32(W[c, o]))
    Y[p: 4, q: 9, o: 48] = bf16(max(S[p, q, o], 0))
    return Y
    """,
    """
    input X: u8[12, 7, 45]
    constant W: i8[3, 2, 45, 20]
    S[p: 10, q: 4, o: 20] = sum[c: 45, r: 3, s: 2](i32(X[p + r, q + 2 * s, c]) * i32(W[r, s, c, o]))
    return S
    """,
)


@pytest.mark.parametrize("text", MERGED, ids=["window", "stride", "no border"])
def test_rows_of_an_image_fill_tiles_together(text: str) -> None:
    """Rows and columns are one axis of the product, and of all that finishes it: the result is the same memory."""
    task = Task.of(parse(text), TARGET, 2)
    found = [sketch for sketch in task.sketches if ("rows merged", True) in sketch.variants]
    assert found
    for seed, sketch in enumerate(found[:2]):
        values = random_config(task, sketch, np.random.default_rng(seed))
        assert values is not None
        assert complaint(task, sketch, values, 3, at_end=bool(seed), runner=RUN) is None


SLIDING = (
    MERGED[0],
    """
    input X: bf16[2, 9, 5, 32]
    constant W: bf16[2, 3, 32, 40]
    S[n: 2, p: 8, q: 3, o: 40] = sum[c: 32, r: 2, s: 3](f32(X[n, p + r, q + s, c]) * f32(W[r, s, c, o]))
    return S
    """,
    """
    input X: u8[12, 15, 64]
    constant W: i8[3, 2, 64, 16]
    S[p: 8, q: 13, o: 16] = sum[c: 64, r: 3, s: 2](i32(X[p + 2 * r, q + 2 * s, c]) * i32(W[r, s, c, o]))
    return S
    """,
)


@pytest.mark.parametrize("text", SLIDING, ids=["border", "images", "dilated"])
def test_windows_slide_along_all_rows_of_an_image(text: str) -> None:
    task = Task.of(parse(text), TARGET, 2)
    found = [sketch for sketch in task.sketches if ("windows slide", True) in sketch.variants]
    assert len(found) >= 2
    for seed, sketch in enumerate(found):
        for draw in range(2):
            values = random_config(task, sketch, np.random.default_rng(10 * seed + draw))
            assert values is not None
            assert complaint(task, sketch, values, 3, at_end=bool(draw), runner=RUN) is None


def test_windows_that_leave_points_out_do_not_slide() -> None:
    text = SLIDING[2].replace("p + 2 * r, q + 2 * s", "p + 2 * r, 2 * q + s").replace("q: 13", "q: 7")
    task = Task.of(parse(text), TARGET, 1)
    assert on_the_unit(task) and not [sketch for sketch in task.sketches if "windows slide" in dict(sketch.variants)]


def test_rows_that_fill_tiles_are_not_merged() -> None:
    """16 columns are a tile in each row of the image already."""
    text = MERGED[0].replace("9", "16").replace("q + s < 10", "q + s < 17")
    task = Task.of(parse(text), TARGET, 1)
    assert on_the_unit(task) and not [sketch for sketch in task.sketches if "rows merged" in dict(sketch.variants)]


def outputs(text: str, *inputs: Array) -> Array:
    """What the first sketch for the unit gives."""
    task = Task.of(parse(text), TARGET, 1)
    sketch = on_the_unit(task)[0]
    values = random_config(task, sketch, np.random.default_rng(3))
    assert values is not None
    (found,) = RUN(build(task.program, sketch, values, TARGET, 1), task, inputs, True)
    return found


@pytest.mark.parametrize("kinds", BYTES)
def test_every_product_of_two_bytes_is_exact(kinds: str) -> None:
    """Row i has one byte in all places, column j another one: all 65,536 pairs meet, in sums of 33."""
    a, b = (np.arange(256).astype(np.uint8).view(DTYPES[kind].numpy) for kind in kinds.split())
    left, right = np.repeat(a[:, None], 33, axis=1), np.repeat(b[None, :], 33, axis=0)
    found = outputs(product(*kinds.split(), 256, 256, 33), left, right)
    np.testing.assert_array_equal(found, left.astype(np.int64) @ right.astype(np.int64))


@pytest.mark.parametrize("kinds", BYTES)
def test_nothing_saturates_at_the_ends_of_a_type(kinds: str) -> None:
    ends = [[np.iinfo(DTYPES[kind].numpy).min, np.iinfo(DTYPES[kind].numpy).max] for kind in kinds.split()]
    rng = np.random.default_rng(0)
    shapes = (17, 130), (130, 48)
    left, right = (
        rng.choice(e, s).astype(DTYPES[k].numpy) for e, s, k in zip(ends, shapes, kinds.split(), strict=True)
    )
    left[0], right[:, 0], left[1], right[:, 1] = ends[0][0], ends[1][0], ends[0][1], ends[1][1]
    found = outputs(product(*kinds.split(), 17, 48, 130), left, right)
    np.testing.assert_array_equal(found, left.astype(np.int64) @ right.astype(np.int64))


@pytest.mark.parametrize("kind", ["u8", "i8"])
def test_requantised_results_end_where_their_type_does(kind: str) -> None:
    """Sums that reach the ends, pass them by one, and lie half between two numbers: rounded to even, cut at the ends."""
    numpy = DTYPES[kind].numpy
    low, high = int(np.iinfo(numpy).min), int(np.iinfo(numpy).max)
    text = f"""
        input A: u8[16, 32]
        constant B: i8[32, 48]
        C[i: 16, j: 48] = sum[k: 32](i32(A[i, k]) * i32(B[k, j]))
        D[i: 16, j: 48] = {kind}(min(max(round(f32(C[i, j]) * 0.5) + 3, {low}), {high}))
        return D
        """
    a, b = np.zeros((16, 32), np.uint8), np.zeros((32, 48), np.int8)
    a[:, 0], a[:8, 1], a[8:, 2] = 1, range(8), range(8)
    b[0], b[1], b[2] = np.arange(48) - 24, 127, -128  # all sums around those of the ends
    sums = a.astype(np.int64) @ b.astype(np.int64)
    expected = np.clip(np.round(sums * 0.5) + 3, low, high).astype(numpy)
    assert {low, low + 1, high - 1, high} <= {*expected.reshape(-1).tolist()}
    np.testing.assert_array_equal(outputs(text, a, b), expected)


@pytest.mark.parametrize("kind", ["infinities", "nan", "zeros", "large"])
def test_bfloat16_that_is_no_ordinary_number(kind: str) -> None:
    rng = np.random.default_rng(1)
    left, right = (rng.standard_normal(shape).astype(np.float32) for shape in ((20, 40), (40, 33)))
    match kind:
        case "infinities":
            left[0, 0], left[3, 5], right[7, 7] = np.inf, -np.inf, np.inf
        case "nan":
            left[2, 3], right[39, 32] = np.nan, np.nan
        case "zeros":
            left[0], left[1], right[:, 3] = -0.0, 0.0, -0.0
        case "large":
            left[5], right[:, 5] = 3e38, 3e38
    halves = [(array.view(np.uint32) >> 16).astype(np.uint16) for array in (left, right)]
    numpy = DTYPES["bf16"].numpy
    found = outputs(product("bf16", "bf16", 20, 33, 40), *(half.view(numpy) for half in halves))
    with np.errstate(all="ignore"):
        exact = [(half.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for half in halves]
        expected, scale = (exact[0] @ exact[1]).astype(np.float32), (abs(exact[0]) @ abs(exact[1])).astype(np.float32)
    sure = np.isfinite(scale) | (kind in ("infinities", "nan"))  # else it depends on the order of the terms
    assert sure.sum() > 600
    np.testing.assert_allclose(found[sure], expected[sure], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", ["u8 s8", "s8 s8", "bf16, constant", "requantised", "window"])
def test_what_the_model_picks_is_right(name: str) -> None:
    task = Task.of(parse(PROGRAMS[name]), TARGET, 1)
    pick = analytic_pick(task)
    assert complaint(task, pick.sketch, dict(pick.config), 5, runner=RUN) is None


@pytest.mark.parametrize("kinds", [*BYTES, "bf16 bf16"])
def test_large_products_are_given_to_the_unit(kinds: str, whole_drafts: None) -> None:
    pick = analytic_pick(Task.of(parse(product(*kinds.split(), 512, 512, 512, kind="constant")), SAPPHIRE, 2))
    (name,) = [row.name for row in MATRIX_INSTRUCTIONS.values() if f", {row.name})" in pick.sketch.text]
    row = MATRIX_INSTRUCTIONS[name]
    assert row.scope is InstructionScope.TILES and [row.a, row.b] == kinds.split()


def test_sums_of_bytes_are_exact_and_so_strict() -> None:
    """Those of bfloat16 take subnormal numbers as zero."""
    for kinds, there in (("u8 i8", True), ("bf16 bf16", False)):
        task = Task.of(parse(product(*kinds.split(), 64, 64, 64)), SAPPHIRE, 1, accuracy="strict")
        assert bool(on_the_unit(task)) is there
