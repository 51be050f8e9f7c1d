"""Products of products on a matrix unit by blocks of rows, at sizes that no tile divides, against the oracle and NumPy.

Where this processor has no such unit, code runs on an emulated one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from helpers.bochs.matrix_unit import RUN, SAPPHIRE, TARGET
from helpers.pipeline.candidates import complaint, random_config
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.tensor.dtype import DTYPES, bf16
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.apply.tiers import analytic_pick


def attention(heads: int, queries: int, keys: int, depth: int, width: int, rounded: bool) -> str:
    last = "bf16(R[h, i, d])\nreturn O\n" if rounded else "R[h, i, d]\nreturn O\n"
    return f"""
input Q: bf16[{heads}, {queries}, {depth}]
input K: bf16[{heads}, {keys}, {depth}]
input V: bf16[{heads}, {keys}, {width}]
S[h: {heads}, i: {queries}, j: {keys}] = sum[d: {depth}](f32(Q[h, i, d]) * f32(K[h, j, d]))
T[h: {heads}, i: {queries}, j: {keys}] = S[h, i, j] * 0.25
m[h: {heads}, i: {queries}] = max[j: {keys}](T[h, i, j])
E[h: {heads}, i: {queries}, j: {keys}] = exp(T[h, i, j] - m[h, i])
l[h: {heads}, i: {queries}] = sum[j: {keys}](E[h, i, j])
P[h: {heads}, i: {queries}, j: {keys}] = bf16(E[h, i, j] / l[h, i])
R[h: {heads}, i: {queries}, d: {width}] = sum[j: {keys}](f32(P[h, i, j]) * f32(V[h, j, d]))
O[h: {heads}, i: {queries}, d: {width}] = {last}"""


def by_rows(task: Task) -> list[Sketch]:
    """The sketches whose products on the unit run one after the other for a block of rows."""
    return [sketch for sketch in task.sketches if sketch.text.count("tensorize(") == 2 and "flat=[rows]" in sketch.text]


@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(1, 2), st.integers(8, 50), st.integers(33, 70), st.integers(32, 70), st.integers(16, 40), st.booleans(),
    st.integers(0, 2**32),
)  # fmt: skip
def test_attention_of_any_size_is_right(
    heads: int, queries: int, keys: int, depth: int, width: int, rounded: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    task = Task.of(
        parse(attention(heads, queries, keys, depth, width, rounded)), TARGET, threads=int(rng.integers(1, 3))
    )
    found = by_rows(task)
    sketch = found[rng.integers(len(found))]
    values = random_config(task, sketch, rng)
    assert values is not None, sketch.title
    note(f"{sketch.title} {values}, {task.threads} threads")
    assert complaint(task, sketch, values, seed % 1000, at_end=bool(rng.integers(2)), runner=RUN) is None


@pytest.mark.parametrize("rounded", [True, False])
def test_keys_that_are_not_seen_may_be_anything(rounded: bool) -> None:
    """Zero times an infinity is NaN on the unit: what is not finite there is computed as it stood."""
    text = attention(2, 40, 40, 32, 33, rounded).replace(
        "(f32(P[h, i, j]) * f32(V[h, j, d]))", "(select(j <= i, f32(P[h, i, j]) * f32(V[h, j, d]), 0))"
    )
    text = text.replace("S[h, i, j] * 0.25", "select(j <= i, S[h, i, j] * 0.25, -inf)")
    task = Task.of(parse(text), TARGET, 1)
    sketch = by_rows(task)[0]
    values = random_config(task, sketch, np.random.default_rng(5))
    assert values is not None and complaint(task, sketch, values, 4, runner=RUN) is None
    rng = np.random.default_rng(6)
    shapes = (2, 40, 32), (2, 40, 32), (2, 40, 33)
    q, k, v = (rng.standard_normal(shape, np.float32).view(np.uint32) >> 16 for shape in shapes)
    v[0, 30], v[1, 39, 3] = 0x7F80, 0x7FC0  # infinite, and NaN: the rows before do not see them
    inputs = [x.astype(np.uint16).view(DTYPES["bf16"].numpy) for x in (q, k, v)]
    (found,) = RUN(build(task.program, sketch, values, TARGET, 1), task, inputs, True)
    exact = [(x.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for x in (q, k, v)]
    scores = np.where(np.tri(40) > 0, np.einsum("hid,hjd->hij", exact[0], exact[1]) * 0.25, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    terms = np.zeros((2, 40, 40, 33))
    seen = np.broadcast_to(np.tri(40)[None, :, :, None] > 0, terms.shape)
    np.multiply(weights[..., None], exact[2][:, None], out=terms, where=seen)
    wanted = terms.sum(2)
    if rounded:
        found = (np.asarray(found).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    finite = np.isfinite(wanted)
    assert 0 < (~finite).sum() < finite.sum() and np.array_equal(np.isnan(found), np.isnan(wanted))
    assert np.array_equal(np.isinf(found), np.isinf(wanted))
    np.testing.assert_allclose(found[finite], wanted[finite], rtol=0.02, atol=0.02)


def test_products_of_products_of_bytes_are_exact() -> None:
    """A product, requantised, times another one: no softmax, no floats."""
    text = """
        input A: u8[40, 70]
        constant B: i8[70, 90]
        constant C: i8[90, 33]
        S[i: 40, j: 90] = sum[k: 70](i32(A[i, k]) * i32(B[k, j]))
        m[i: 40] = max[j: 90](S[i, j])
        D[i: 40, j: 90] = u8(min(max((S[i, j] - m[i]) // 512 + 255, 0), 255))
        R[i: 40, j: 33] = sum[k: 90](i32(D[i, k]) * i32(C[k, j]))
        return R
        """
    task = Task.of(parse(text), TARGET, 1)
    sketch = by_rows(task)[0]
    rng = np.random.default_rng(7)
    values = random_config(task, sketch, rng)
    assert values is not None
    a, b, c = (
        rng.integers(*ends, shape)
        for ends, shape in (((0, 256), (40, 70)), ((-128, 128), (70, 90)), ((-128, 128), (90, 33)))
    )
    sums = a @ b
    middle = np.clip((sums - sums.max(1, keepdims=True)) // 512 + 255, 0, 255)
    inputs = a.astype(np.uint8), b.astype(np.int8), c.astype(np.int8)
    (found,) = RUN(build(task.program, sketch, values, TARGET, 1), task, inputs, True)
    np.testing.assert_array_equal(found, middle @ c)


def test_the_model_runs_attention_by_rows(whole_drafts: None) -> None:
    """Matrices of scores that would go through memory stay in a near cache."""
    task = Task.of(parse(attention(4, 256, 512, 64, 64, rounded=True)), SAPPHIRE, 2)
    pick = analytic_pick(task)
    assert pick.sketch.text in [sketch.text for sketch in by_rows(task)]
    assert task.program.tensors[task.program.outputs[0]].dtype == bf16
