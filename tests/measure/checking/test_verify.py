"""The checker on outputs that are right, nearly right and wrong, computed by NumPy in place of a kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tilesmith.measure.checking import verify
from tilesmith.measure.checking.points import draw_points
from tilesmith.measure.checking.poison import first_unwritten, poison
from tilesmith.measure.checking.verify import Checker
from tilesmith.tensor.dtype import DTYPES, DType, bf16, boolean, f16, f32, f64, i8, i32, u8
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

SMALL = "input A: f32[20, 30]\ninput B: f32[30, 25]\nC[i: 20, j: 25] = sum[k: 30](A[i, k] * B[k, j])\nreturn C\n"
LARGE = "input A: f32[300, 70]\ninput B: f32[70, 410]\nC[i: 300, j: 410] = sum[k: 70](A[i, k] * B[k, j])\nreturn C\n"
POINTWISE = "input A: f32[700000]\nB[i: 700000] = A[i] * 2.0\nreturn B\n"


class Case:
    """A program, its inputs, a right output in the output's dtype and a checker."""

    def __init__(self, text: str, right: Callable[..., NDArray] = np.matmul) -> None:
        self.program: Program = parse(text)
        self.inputs = random_inputs(self.program, 0)
        self.dtype: DType = self.program.tensors[self.program.outputs[0]].dtype
        self.right = np.ascontiguousarray(right(*self.inputs))
        self.checker = Checker(self.program, self.inputs)

    def check(self, output: NDArray) -> str | None:
        return self.checker.check([output])


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program is so small that trials are checked at all points."""
    monkeypatch.setattr(verify, "WHOLE_WORK", 0)


@pytest.mark.parametrize("text", [SMALL, LARGE])
def test_rounding_passes_and_a_wrong_element_does_not(text: str) -> None:
    case = Case(text)
    assert case.check(case.right) is None
    in_other_order = sum(np.outer(case.inputs[0][:, k], case.inputs[1][k]) for k in range(case.inputs[0].shape[1]))
    assert case.check(in_other_order.astype(np.float32)) is None
    for place in [(0, 0), (-1, -1), (7, 11)]:
        wrong = case.right.copy()
        wrong[place] += 1e-3
        message = case.check(wrong)
        index = [p % n for p, n in zip(place, wrong.shape, strict=True)]
        assert message is not None and message.startswith(f"C[{index[0]}, {index[1]}]: expected ")
        assert f"found {wrong[place]:.9g}" in message and "tolerance" in message and "1 of" in message


def test_a_wrong_element_between_the_points_is_found_by_comparison(sampled: None) -> None:
    case = Case(LARGE)
    assert case.check(case.right) is None
    checked = set(draw_points(case.right.shape, verify.POINTS, np.random.default_rng(0)))
    unchecked = next(i for i in range(case.right.size) if i not in checked)
    wrong = case.right.copy()
    wrong.reshape(-1)[unchecked] *= 1.01
    assert Checker(case.program, case.inputs).check([wrong]) is None, "no point there, and nothing to compare with"
    message = case.check(wrong)
    assert message is not None and "1 of 1 checked" in message


def test_the_oracle_settles_who_is_right(sampled: None) -> None:
    case = Case(LARGE)
    checked = set(draw_points(case.right.shape, verify.POINTS, np.random.default_rng(0)))
    unchecked = next(i for i in range(case.right.size) if i not in checked)
    wrong = case.right.copy()
    wrong.reshape(-1)[unchecked] *= 1.01
    assert case.check(wrong) is None, "a first kernel that is wrong where nobody looks"
    assert case.check(case.right) is None, "must not make the right one fail"
    assert case.check(wrong) is not None, "and is found out by it"


def test_what_was_never_written_is_said_so() -> None:
    case = Case(LARGE)
    output = np.empty_like(case.right)
    poison(output, f32)
    output.reshape(-1)[:-1] = case.right.reshape(-1)[:-1]
    assert case.check(output) == "C[299, 409] was never written"


def test_nan_is_not_never_written() -> None:
    case = Case(SMALL)
    case.right[3, 4] = np.nan
    assert "C[3, 4]: expected" in str(case.check(case.right)) and "found nan" in str(case.check(case.right))


def test_many_disagreements_with_a_loose_first_kernel_are_settled() -> None:
    case = Case(POINTWISE, lambda a: a * np.float32(2))
    loose = case.right * np.float32(1 + 3 * f32.eps)
    assert case.check(loose) is None
    assert case.check(case.right * np.float32(1 - 3 * f32.eps)) is None
    assert case.check(case.right * np.float32(1 + 40 * f32.eps)) is not None


def test_where_right_kernels_differ_at_many_points_the_truth_is_worked_out_once(
    sampled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Differences of large sums: small values whose tolerance is large, of which the sampled points tell too little."""
    text = (
        "input A: f32[300, 70]\ninput B: f32[70, 410]\nC[i: 300, j: 410] = sum[k: 70](A[i, k] * B[k, j])\n"
        "D[i: 300, j: 410] = select(j < 2, C[i, j] * 0.0001, C[i, j])\nreturn D\n"
    )

    def scaled(product: NDArray) -> NDArray:
        return (product * np.where(np.arange(410) < 2, 0.0001, 1.0)).astype(np.float32)

    evaluations: list[Program] = []
    bounded = verify.bounded
    monkeypatch.setattr(verify, "bounded", lambda p, i: (evaluations.append(p), bounded(p, i))[1])
    case = Case(text, lambda a, b: scaled(a @ b))
    assert case.check(case.right) is None and not evaluations
    a, b = case.inputs
    for cut in (10, 30, 50):
        other = scaled(a[:, :cut] @ b[:cut] + a[:, cut:] @ b[cut:])
        assert case.check(other) is None
    assert evaluations == [case.program]
    other[17, 33] += 1e-3
    message = case.check(other)
    assert message is not None and message.startswith("D[17, 33]")


def test_nan_and_infinity_as_in_numpy() -> None:
    text = "input A: f32[4]\nB[i: 4] = 1.0 / A[i]\nreturn B\n"
    program = parse(text)
    inputs = (np.array([0.0, -0.0, np.nan, 2.0], np.float32),)
    right = np.array([np.inf, -np.inf, np.nan, 0.5], np.float32)
    checker = Checker(program, inputs)
    assert checker.check([right]) is None
    for place, value in [(0, -np.inf), (0, 1e38), (1, np.inf), (2, 0.0), (2, np.inf), (3, np.inf), (3, np.nan)]:
        wrong = right.copy()
        wrong[place] = value
        assert str(checker.check([wrong])).startswith(f"B[{place}]")


def test_overflow_of_the_dtype() -> None:
    program = parse("input A: f32[3]\nB[i: 3] = A[i] * A[i]\nreturn B\n")
    checker = Checker(program, (np.array([1e30, -1e30, 1.0], np.float32),))
    assert checker.check([np.array([np.inf, np.inf, 1.0], np.float32)]) is None
    assert checker.check([np.array([np.inf, -np.inf, 1.0], np.float32)]) is not None
    assert checker.check([np.array([np.inf, np.inf, np.inf], np.float32)]) is not None


def test_integers_are_exact() -> None:
    case = Case(SMALL.replace("f32", "i32"))
    assert case.check(case.right) is None
    case.right[5, 5] += 1
    assert str(case.check(case.right)).startswith("C[5, 5]: expected ")


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("B[i: 4] = A[i] * A[i] > 0.3", [True, False]),
        ("B[i: 4] = not (A[i] * A[i] > 0.3) and i >= 0", [True, False]),
        ("B[i: 4] = i32((A[i] * A[i] - 0.3) * 100.0 + 7.0)", [6, 7]),
        ("B[i: 4] = select(A[i] * A[i] > 0.3, i32(70), i32(9)) + 1", [71, 10]),
        ("B[i: 4] = select(floor(A[i] * A[i] - 0.3) < 0.0, f32(3.0), f32(-1.0))", [3.0, -1.0]),
    ],
)
def test_what_a_rounding_tips_may_come_out_either_way(text: str, others: list[float]) -> None:
    program = parse(f"input A: f32[4]\n{text}\nreturn B\n")
    dtype = program.tensors["B"].dtype
    a = np.array([0.9, np.sqrt(0.3), 0.1, 0.9], np.float32)
    right = evaluate(program, (a,))[0].astype(dtype.numpy)
    checker = Checker(program, (a,))
    for place, passes in enumerate((False, True, False, False)):
        for value in others:
            output = right.copy()
            output[place] = value
            assert (checker.check([output]) is None) == (passes or value == right[place])


def test_what_is_exact_does_not_tip() -> None:
    program = parse("input A: f32[3]\nB[i: 3] = A[i] > 0.25\nC[i: 3] = i32(A[i])\nreturn B, C\n")
    checker = Checker(program, (np.array([0.25, 1.0, -2.0], np.float32),))
    right = [np.array([False, True, False]), np.array([0, 1, -2], np.int32)]
    assert checker.check(right) is None
    assert checker.check([np.array([True, True, False]), right[1]]) is not None
    assert checker.check([right[0], np.array([0, 0, -2], np.int32)]) is not None


def test_bfloat16() -> None:
    case = Case("input A: bf16[5000]\nB[i: 5000] = A[i] * A[i]\nreturn B\n", lambda a: a)
    wide = (case.inputs[0].astype(np.uint32) << 16).view(np.float32) ** 2
    rounded = ((wide.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)
    assert case.dtype is bf16 and case.check(rounded) is None
    rounded[11] += 40
    assert case.check(rounded) is not None


def test_several_outputs_are_all_checked() -> None:
    text = "input A: f32[8]\nB[i: 8] = A[i] * 2.0\nC[i: 8] = A[i] * 3.0\nreturn B, C\n"
    program = parse(text)
    (a,) = random_inputs(program, 0)
    checker = Checker(program, (a,))
    assert checker.check([a * 2, a * 3]) is None
    assert str(checker.check([a * 2, a * 2])).startswith("C[")


def test_a_scalar() -> None:
    program = parse("input A: f32[50]\nS[] = sum[i: 50](A[i])\nreturn S\n")
    inputs = random_inputs(program, 0)
    checker = Checker(program, inputs)
    assert checker.check([np.array(inputs[0].sum())]) is None
    assert str(checker.check([np.array(inputs[0].sum() + 1)])).startswith("S[]")


def test_the_points_are_spread_and_love_edges() -> None:
    shape = (1000, 37, 500)
    points = draw_points(shape, 4096, np.random.default_rng(1))
    assert points[0] == 0 and points[-1] == np.prod(shape) - 1 and len(points) > 3500
    index = np.stack(np.unravel_index(points, shape))
    for axis, size in enumerate(shape):
        assert (index[axis] == size - 1).sum() > 100
        assert len(np.unique(index[axis])) > min(size, 500) * 0.9


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_poison(dtype: DType) -> None:
    array = np.empty(100, dtype.numpy)
    poison(array, dtype)
    if dtype.is_float or dtype is boolean:
        assert first_unwritten(array, dtype) == 0
        array[:40] = array[50:] = 0
        assert first_unwritten(array, dtype) == 40
        array[:] = 0
    assert first_unwritten(array, dtype) is None
    if dtype in (f16, f32, f64):
        poison(array, dtype)
        assert np.isnan(array).all()
    if dtype in (i8, u8, i32):
        poison(array, dtype)
        assert (array != 0).all()
